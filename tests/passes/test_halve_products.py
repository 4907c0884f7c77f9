"""Products of a matrix and its own transpose: half of them by the library, in NumPy's bits."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from passes.programs import agree, before_after

import weft as wf
from weft.fun import nodes as fun
from weft.fun.check import check
from weft.fun.parse import parse
from weft.ops import blas
from weft.passes.halve_products import halve_products

RANDOM = np.random.default_rng(8)
HEAD = "program test(a: DT[n, m], b: DT[m, n]) sizes n, m {\n"
HALVED = {
    "right": "let t: DT[m, n] = permute a (1, 0)\n let s: DT[n, n] = call matmul(a, t)\n in s }",
    "left": "let t: DT[m, n] = permute a (1, 0)\n let s: DT[m, m] = call matmul(t, a)\n in s }",
    "used": "let t: DT[m, n] = permute a (1, 0)\n let s: DT[n, n] = call matmul(a, t)\n"
    " let y: DT[n, n] = kernel (i < n, j < n) { let p: DT = s[i, j]\n let q: DT = s[j, i]\n"
    " let d: DT = divide(p, q)\n in d }\n in y, s }",
}
KEPT = {
    "of two matrices": "let s: DT[n, n] = call matmul(a, b)\n in s }",
    "of a matrix, not its transpose": "let t: DT[m, n] = permute a (1, 0)\n"
    " let u: DT[n, m] = permute t (1, 0)\n let v: DT[n, m] = permute b (1, 0)\n"
    " let s: DT[n, n] = call matmul(u, b)\n in s, v }",
    "of other columns": "let u: DT[n, m - 1] = slice a[0 for n, 1 for m - 1]\n"
    " let w: DT[n, m - 1] = slice a[0 for n, 0 for m - 1]\n"
    " let t: DT[m - 1, n] = permute w (1, 0)\n let s: DT[n, n] = call matmul(u, t)\n in s }",
}


def program(body: str, dtype: str = "f64") -> fun.Program:
    made = parse((HEAD + body).replace("DT", dtype))
    check(made)
    return made


def test_golden(golden: Callable[[str], None]) -> None:
    texts = [
        f"{name}\n\n{before_after((HEAD + body).replace('DT', 'f64'), halve_products)}"
        for name, body in HALVED.items()
    ]
    golden("\n".join(texts))


@pytest.mark.parametrize("dtype", ["f32", "f64"])
@pytest.mark.parametrize("name", HALVED)
def test_halved(name: str, dtype: str) -> None:
    before = program(HALVED[name], dtype)
    after = halve_products(before)
    check(after)
    calls = [let.expr for let in after.body.statements if isinstance(let.expr, fun.Call)]
    assert [call.routine for call in calls] == ["update"]
    kind = before.params[0].type.dtype.numpy
    agree(before, after, [RANDOM.random((6, 4)).astype(kind), RANDOM.random((4, 6)).astype(kind)],
          n=6, m=4, rtol=1e-5)  # fmt: skip


@pytest.mark.parametrize("name", KEPT)
def test_kept(name: str) -> None:
    before = program(KEPT[name])
    assert halve_products(before) == before


@pytest.mark.parametrize("dtype", ["i64", "c64"])
def test_what_the_library_has_no_half_of(dtype: str) -> None:
    before = program(HALVED["right"], dtype)
    assert halve_products(before) == before


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("order", ["C", "F"])
def test_the_bits_are_numpy_s(dtype: Any, order: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whichever way the matrix lies; what becomes of the product is computed with its copying."""
    function = wf.jit(lambda x: (x.T @ x / 3, (x @ x.T).sum(axis=0), x.T @ x))
    parts: list[str] = []
    bound = blas.bound

    def noted(target: Any, left: Any, right: Any, part: str, twice: bool) -> Any:
        parts.append(part)
        return bound(target, left, right, part, twice)

    monkeypatch.setattr(blas, "bound", noted)
    with wf.config(interpret_below=0):
        for shape in ((40, 30), (30, 41), (1, 9), (9, 1), (3, 0)):
            x = np.asarray(RANDOM.random(shape), dtype, order=order)
            with np.errstate(all="ignore"):
                expected = x.T @ x / dtype(3), (x @ x.T).sum(axis=0), x.T @ x
            for one, other in zip(function(x), expected, strict=True):
                np.testing.assert_allclose(one, other, rtol=1e-5 if dtype is np.float32 else 1e-12)
            if min(shape) > 1:
                np.testing.assert_array_equal(function(x)[2], expected[2])
                assert parts[-1] == "upper"
