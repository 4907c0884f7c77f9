"""Short rows of a known length are straight-line code, with the same bits however they are cut."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from slow import some_slow

import weft as wf
from weft import execute
from weft.fun import nodes as fun
from weft.fun import walk as fun_walk
from weft.fun.check import check
from weft.fun.parse import parse
from weft.plan.short_extents import constants, reduced_extents, with_constants

RANDOM = np.random.default_rng(3)
ROWS = 20_000


def dot(x: Any) -> Any:
    return x @ x[0]


def lengths(x: Any) -> Any:
    return x / np.sqrt((x * x).sum(axis=1, keepdims=True))


def logarithms(x: Any) -> Any:
    return np.log(np.exp(x - x.max(axis=1, keepdims=True)).sum(axis=1))


def nearest(x: Any) -> Any:
    return ((x[:, None, :] - x[None, :4, :]) ** 2).sum(axis=2).argmin(axis=1)


def means(x: Any) -> Any:
    return x.T.mean(axis=0)


@pytest.mark.parametrize("columns", [2, 3, 5, 16, 17])
@pytest.mark.parametrize("function", [dot, lengths, logarithms, nearest, means])
def test_results_are_numpys(function: Callable[[Any], Any], columns: int) -> None:
    x = RANDOM.random((ROWS, columns))
    np.testing.assert_allclose(wf.jit(function)(x), function(x), rtol=1e-12)


@pytest.mark.parametrize("function", [dot, lengths, logarithms])
def test_bits_do_not_depend_on_boxes(function: Callable[[Any], Any], tmp_path: Path) -> None:
    x = RANDOM.random((200_000, 3))
    np.save(tmp_path / "x.npy", x)
    whole = wf.jit(function)(x)
    with wf.config(memory_limit="26 MiB"):
        wf.store(function(wf.open(tmp_path / "x.npy")), tmp_path / "y.npy")
    np.testing.assert_array_equal(np.load(tmp_path / "y.npy"), whole)


PAIRS: dict[str, Callable[[Any], Any]] = {
    "lengths": lambda d: np.sqrt(d).sum(axis=1), "least": lambda d: d.min(axis=0),
    "density": lambda d: np.exp(-d).sum(axis=1), "nearest": lambda d: d.argmin(axis=1),
    "close": lambda d: (d < 0.1).sum(axis=0), "mean": lambda d: np.sqrt(d).mean(),
}  # fmt: skip


def of_pairs(name: str) -> Callable[[Any], Any]:
    """What becomes of the squared distances of all pairs."""
    return lambda x: PAIRS[name](((x[:, None, :] - x[None, ::2, :]) ** 2).sum(axis=2))


@pytest.mark.parametrize(("columns", "dtype"), [(1, "f8"), (3, "f4"), (16, "f8"), (17, "f4")])
@pytest.mark.parametrize("name", PAIRS)
def test_distances_of_pairs(name: str, columns: int, dtype: str) -> None:
    x = RANDOM.random((401, columns)).astype(dtype)
    expected = of_pairs(name)(x.astype(np.float64))
    found = wf.jit(of_pairs(name))(x)
    np.testing.assert_allclose(found, expected, rtol=1e-12 if dtype == "f8" else 1e-4)


@pytest.mark.parametrize("name", PAIRS)
def test_distances_of_pairs_are_nowhere_in_memory(name: str) -> None:
    """Nor do bits depend on boxes, which have lanes of others."""
    x = RANDOM.random((2001, 3))
    program = wf.jit(of_pairs(name))
    whole = np.asarray(program(x))
    for limit in ("120 MiB", "24660 KiB"):
        with wf.config(memory_limit=limit):
            assert wf.explain(program, x).plan.peak_bytes < 26 << 20
            np.testing.assert_array_equal(program(x), whole)


def pulls(x: Any) -> Any:
    """Of points on each other."""
    apart = x[None, :, :] - x[:, None, :]
    squared = (apart * apart).sum(axis=2) + 0.01
    return (apart * (1 / (squared * np.sqrt(squared)))[:, :, None]).sum(axis=1)


@pytest.mark.parametrize(("columns", "dtype"), [(2, "f8"), (3, "f4"), (4, "f8"), (5, "f4")])
def test_what_pairs_give_each_coordinate(columns: int, dtype: str) -> None:
    """Of up to four in one pass over all pairs, whose distances are nowhere in memory."""
    x = RANDOM.random((2001, columns)).astype(dtype)
    program, expected = wf.jit(pulls), pulls(x.astype(np.float64))
    whole = np.asarray(program(x))
    tolerance = np.abs(expected).max() * (1e-5 if dtype == "f4" else 1e-13)
    np.testing.assert_allclose(whole, expected, rtol=0, atol=tolerance)
    plan = wf.explain(program, x).plan
    assert (plan.peak_bytes < 26 << 20) == (columns < 5)
    if columns < 5:
        with wf.config(memory_limit="24700 KiB"):
            np.testing.assert_array_equal(program(x), whole)


@pytest.mark.parametrize("dtype", ["f4", "f8"])
@pytest.mark.parametrize("columns", [4, 10])
def test_vector_math_has_the_bits_of_every_element(columns: int, dtype: str) -> None:
    x = RANDOM.standard_normal((ROWS + 11, columns)).astype(dtype)

    def function(x: Any) -> Any:
        return np.exp(np.sin(x) * 2)

    expected = np.asarray(wf.jit(function)(x)).max(axis=1)
    np.testing.assert_array_equal(wf.jit(lambda x: function(x).max(axis=1))(x), expected)
    np.testing.assert_array_equal(wf.jit(lambda x: function(x.T).max(axis=0))(x), expected)


def written(function: Callable[[Any], Any], *shape: int) -> list[int]:
    """What a launch writes into the program of a function of an array of that shape."""
    computation, walk = execute.computation_of([function(wf.asarray(np.ones(shape)))._node])
    program = computation.program
    found = constants(program, computation._reduced_extents, walk.values)
    check(with_constants(program, found))
    return list(found.values())


PRODUCTS: dict[str, Callable[[Any, Any], Any]] = {
    "product": lambda x, y: x @ y,
    "einsum": lambda x, y: np.einsum("nij,njk->nik", x, y),
    "transposed": lambda x, y: np.swapaxes(x @ y, 1, 2) @ x,
    "vectors": lambda x, y: (x @ y[:, 0, :, None])[..., 0],
    "chain": lambda x, y: ((x @ y - 1) ** 2).sum(axis=(1, 2)),
    "one for all": lambda x, y: x[0] @ y @ x[1],
    "broadcast": lambda x, y: x.reshape(100, -1, *x.shape[1:]) @ y[:100, None],
    "sums": lambda x, y: (x[:, :, :, None] * y[:, None, :, :]).sum(axis=2),
}


def calls(program: Any, *arrays: Any) -> int:
    """How many routines of a library a launch calls."""
    computation, walk = execute.computation_of([program(*map(wf.asarray, arrays))._node])
    fused = computation.artifacts_for("cpu", walk.values).fused
    return sum(isinstance(let.expr, fun.Call) for let in fun_walk.statements(fused.body))


@pytest.mark.parametrize(
    "dtype", some_slow(["f4", "f8", "c8", "c16", "i2", "i8"], ["f4", "c16", "i8"])
)
@pytest.mark.parametrize("name", PRODUCTS)
def test_batches_of_small_products(name: str, dtype: str) -> None:
    x, y = (RANDOM.integers(-9, 9, (8000, 3, 3)).astype(dtype) for _ in "xy")
    program = PRODUCTS[name]
    expected = program(x, y)
    found = np.asarray(wf.jit(program)(x, y))
    assert found.dtype == expected.dtype
    np.testing.assert_allclose(found, expected, rtol=1e-5 if dtype in ("f4", "c8") else 1e-12)
    assert not calls(program, x, y)


@pytest.mark.parametrize(
    ("left", "right", "number"),
    [((6000, 4, 4), (6000, 4, 4), 0), ((6000, 2, 5), (5, 3), 0), ((600, 8, 8), (600, 8, 8), 1)],
)
def test_libraries_multiply_what_is_larger(
    left: tuple[int, ...], right: tuple[int, ...], number: int
) -> None:
    x, y = RANDOM.random(left), RANDOM.random(right)
    assert calls(lambda x, y: x @ y, x, y) == number
    np.testing.assert_allclose(wf.jit(lambda x, y: x @ y)(x, y), x @ y, rtol=1e-12)


def test_bits_of_small_products_do_not_depend_on_boxes(tmp_path: Path) -> None:
    x = RANDOM.random((70_000, 3, 3))
    np.save(tmp_path / "x.npy", x)
    whole = wf.jit(lambda x: x @ x + 1)(x)
    x = wf.open(tmp_path / "x.npy")
    with wf.config(memory_limit="26 MiB"):
        wf.store(x @ x + 1, tmp_path / "y.npy")
    np.testing.assert_array_equal(np.load(tmp_path / "y.npy"), whole)


def products(a: Any, b: Any, c: Any) -> None:
    for t in wf.prange(a.shape[0]):
        c[t] = a[t] @ b[t]


def test_small_products_of_a_nest() -> None:
    x, y = RANDOM.random((2, 6000, 3, 3))
    found = np.empty_like(x)
    wf.kernel(products)(x, y, found)
    np.testing.assert_allclose(found, x @ y, rtol=1e-12)


def test_what_is_worth_code_of_its_own() -> None:
    assert written(dot, ROWS, 3) == [3]
    assert written(dot, ROWS, 10) == [10]
    assert written(dot, ROWS, 17) == []  # too many to write out
    assert written(dot, 100, 3) == []  # too few rows
    assert written(lambda x: x @ x, ROWS, 3, 3) == [3]
    assert written(lambda x: x @ x, ROWS, 5, 5) == []  # 125 multiplications
    assert written(logarithms, ROWS, 3) == [3]
    assert written(lambda x: x.sum(), ROWS, 3) == []  # all is reduced: rows are one sequence


MATH = """program p(x: f64[n, m], w: f64[m], p: i64[m]) sizes n, m {
  let r: f64[n] = reduce (i < n; k < m) from 0.0 {
    let a: f64 = x[i, k]
    let b: f64 = w[k]
    let c: f64 = multiply(a, b)
    let d: f64 = exp(c)
    let e: f64 = multiply(d, b)
    in e
  } with (l: f64, h: f64) { let t: f64 = add(l, h) in t }
  in r
}"""


def test_functions_of_numbers_that_lanes_have_in_common_are_left() -> None:
    """They have other bits; so they may have where reads are known by what is read."""
    assert reduced_extents(parse(MATH))
    assert not reduced_extents(parse(MATH.replace("exp(c)", "exp(b)")))
    gathered = MATH.replace("let a: f64 = x[i, k]", "let q: i64 = p[k] let a: f64 = x[i, q]")
    assert not reduced_extents(parse(gathered))
    assert not reduced_extents(parse(MATH.replace("add(l, h)", "logaddexp(l, h)")))
