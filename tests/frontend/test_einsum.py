"""Einstein's summation beside NumPy's."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import weft as wf
from weft.fun import nodes as fun
from weft.fun import walk

RNG = np.random.default_rng(5)
LENGTHS = {"i": 3, "j": 4, "k": 5, "l": 2, "b": 2, "m": 1}


def operands(subscripts: str) -> list[Any]:
    given = subscripts.replace(" ", "").split("->")[0].split(",")
    return [RNG.standard_normal([LENGTHS[x] for x in part.replace(".", "")]) for part in given]


def agree(subscripts: str, *arrays: Any) -> None:
    found = wf.einsum(subscripts, *map(wf.asarray, arrays))
    wanted = np.einsum(subscripts, *arrays)
    assert found.shape == wanted.shape
    np.testing.assert_allclose(np.asarray(found), wanted, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize(
    "subscripts",
    [
        "i", "i->", "ij->ji", "ij->j", "ijk", "kji", "ba",  # one operand
        "ij,jk->ik", "ij,jk", "ij, jk -> ki", "ij,ij->", "ij,ij->i", "ij,j->i", "i,j->ij", "i,i",
        "bij,bjk->bik", "bij,bkj->ikb", "ij,kl->ijkl", "ij,kl->", "ijk,jkl->il", "ij,kl->ik",
        "im,mj->ij", "ij,->ij",
        "ij,jk,kl->il", "i,ij,j->", "ij,jk,ki->", "ij,ik,il->jkl",
    ],
)  # fmt: skip
def test_it_is_numpys(subscripts: str) -> None:
    if subscripts == "ba":
        agree(subscripts, RNG.standard_normal((2, 3)))
    else:
        agree(subscripts, *operands(subscripts))


def test_diagonals_and_axes_that_broadcast() -> None:
    square, cube = RNG.standard_normal((4, 4)), RNG.standard_normal((4, 4, 4))
    for subscripts in ("ii", "ii->i"):
        agree(subscripts, square)
    for subscripts in ("iii", "iij->ij", "iji->j", "jii->ij", "iii->i"):
        agree(subscripts, cube)
    x, y = RNG.standard_normal((7, 1, 3, 4)), RNG.standard_normal((5, 4, 2))
    agree("...ij,...jk->...ik", x, y)
    agree("...ij,...jk", x, y)
    agree("...ij,jk->ik...", x, y[0])
    agree("i...->...", x)
    agree("...", x)


@given(st.data())
@settings(max_examples=150, deadline=None)
def test_random_subscripts(data: st.DataObject) -> None:
    parts = data.draw(st.lists(st.text("ijklbm", min_size=1, max_size=4), min_size=1, max_size=4))
    parts = ["".join(dict.fromkeys(part)) for part in parts]
    letters = sorted(set("".join(parts)))
    chosen = data.draw(st.permutations(letters))[: data.draw(st.integers(0, len(letters)))]
    subscripts = ",".join(parts) + "->" + "".join(chosen)
    agree(subscripts, *operands(subscripts))


@pytest.mark.parametrize("dtype", ["int32", "float32", "complex64"])
def test_dtypes(dtype: str) -> None:
    x = (RNG.standard_normal((3, 4)) * 9).astype(dtype)
    found = wf.einsum("ij,kj->ik", wf.asarray(x), wf.asarray(x))
    assert found.dtype == np.dtype(dtype)
    np.testing.assert_allclose(np.asarray(found), np.einsum("ij,kj->ik", x, x), rtol=1e-5)


def calls(function: Any, *arrays: Any) -> int:
    program = wf.jit(function).lower(*arrays).program
    return sum(isinstance(let.expr, fun.Call) for let in walk.statements(program.body))


def test_products_of_matrices_are_blas_and_others_one_pass() -> None:
    x = np.ones((4, 5))
    assert calls(lambda a, b: wf.einsum("ij,kj->ik", a, b), x, x) == 1
    assert calls(lambda a, b: wf.einsum("ij,ij->i", a, b), x, x) == 0
    assert calls(lambda a, b: wf.einsum("ij,j->i", a, b), x, x[0]) == 0


def test_numpys_is_this_one_on_lazy_arrays_and_in_kernels() -> None:
    x = RNG.standard_normal((3, 4))
    found = np.einsum("ij,kj->ik", wf.asarray(x), x, optimize=True)
    assert isinstance(found, wf.Array)
    np.testing.assert_allclose(np.asarray(found), x @ x.T)
    listed = np.einsum(wf.asarray(x), [0, 1], [1, 0])  # a form that Weft has not: NumPy's
    np.testing.assert_array_equal(listed, x.T)
    np.testing.assert_allclose(wf.kernel(traced)(x), np.einsum("ij,ij->i", x, x))


def traced(x: Any) -> Any:
    return np.einsum("ij,ij->i", x, x)


@pytest.mark.parametrize(
    ("subscripts", "shapes", "error", "message"),
    [
        ("ij,jk->ik", [(3, 4)], wf.errors.ArgumentError, "2 operands"),
        ("ij->i", [(3,)], wf.errors.ArgumentError, "'ij' for 1 axes"),
        ("i->i", [(3, 4)], wf.errors.ArgumentError, "'i' for 2 axes"),
        ("ij->k", [(3, 4)], wf.errors.ArgumentError, "'k' in the result"),
        ("ij->ii", [(3, 4)], wf.errors.ArgumentError, "'i' in the result"),
        ("i1->i", [(3, 4)], wf.errors.ArgumentError, "'1'"),
        ("...i->i", [(3, 4)], wf.errors.ArgumentError, "... that the result lacks"),
        ("ij,jk->ik", [(3, 4), (5, 6)], wf.errors.ShapeError, "axes j of lengths 4 and 5"),
        ("ii", [(3, 4)], wf.errors.ShapeError, "axes i of lengths 3 and 4"),
    ],
)
def test_bad_subscripts_are_refused(
    subscripts: str, shapes: Any, error: type, message: str
) -> None:
    with pytest.raises(error, match=message):
        wf.einsum(subscripts, *map(np.ones, shapes))
