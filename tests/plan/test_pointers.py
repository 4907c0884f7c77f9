"""Pointers: what boxes read between integers in memory, as the rows of a sparse matrix."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import pytest
from devices.harness import device
from hypothesis import given, settings
from hypothesis import strategies as some

import weft as wf
from weft import prange
from weft.fun.parse import parse
from weft.plan.footprint import pointer_params
from weft.plan.pointers import Pointers, digest
from weft.plan.statements import Analysis


@settings(max_examples=100, deadline=None)
@given(some.data(), some.booleans())
def test_between(data: Any, increasing: bool) -> None:
    """Never less than there is; exactly that where no element is less than the one before."""
    count = data.draw(some.integers(1, 300))
    array = np.random.default_rng(count).integers(-99, 99, count)
    array = np.sort(array) if increasing else array
    places = data.draw(some.lists(
        some.tuples(some.integers(-2, count), some.integers(0, count)), min_size=1, max_size=5,
    ))  # fmt: skip
    first = np.array([low for low, _ in places])
    last = first + [more for _, more in places]
    found = Pointers(array).between(first, last)
    assert found is not None
    for number, (low, high) in enumerate(zip(first, last, strict=True)):
        part = array[np.clip(low, 0, count - 1) : np.clip(high, 0, count - 1) + 1]
        if increasing:
            assert (found[0][number], found[1][number]) == (part.min(), part.max())
        else:
            assert array.min() <= found[0][number] <= part.min()
            assert part.max() <= found[1][number] <= array.max()


def test_of_none() -> None:
    assert Pointers(np.zeros(0, np.int64)).between(0, 1) is None


ROWS = """program p(start: i64[m], value: f64[k], column: i64[k], x: f64[n], other: i64[n])
  sizes m, k, n {
  let y: f64[m - 1] = kernel (i < m - 1) {
    let a: i64 = start[i]
    let b: i64 = start[i + 1]
    let s: f64 = loop (t: f64 = 0.0) for j from a to b {
      let v: f64 = value[j]
      let c: i64 = column[j]
      let w: f64 = x[c]
      let o: i64 = other[i]
      let z: f64 = x[o]
      let u: f64 = multiply(v, w)
      let r: f64 = add(t, u)
      in r
    }
    in s
  }
  in y
}"""


def test_footprints() -> None:
    """Between pointers there is a part; what other integers choose may be anywhere."""
    program = parse(ROWS)
    assert pointer_params(program) == {"start"}
    pointers = {"start": Pointers(np.array([0, 3, 3, 7, 12]))}
    sizes = {"m": 5, "k": 12, "n": 9}
    analysis = Analysis(program, sizes, pointers=pointers)
    (statement,) = analysis.statements
    found = {
        access.array: [(int(low[b]), int(high[b])) for (low, high) in bounds for b in range(2)]
        for access, bounds in analysis.footprints(statement, 0, np.array([0, 2]), np.array([2, 4]))
    }
    assert found["value"] == found["column"] == [(0, 3), (3, 12)]
    assert found["x"] == [(0, 9), (0, 9)]
    unknown = Analysis(program, sizes)
    (statement,) = unknown.statements
    (bounds,) = (
        bounds
        for access, bounds in unknown.footprints(statement, 0, np.array([0]), np.array([1]))
        if access.array == "value"
    )  # fmt: skip
    assert [(int(low[0]), int(high[0])) for low, high in bounds] == [(0, 12)]


SLICES = """program p(start: i64[m], value: f64[k]) sizes m, k {
  let y: f64[m - 1] = kernel (i < m - 1) {
    let a: i64 = start[i]
    let b: i64 = start[i + 1]
    let d: i64 = size b - a
    let n: i64 = maximum(d, 0)
    let s: f64 = reduce (; j < n) from 0.0 {
      let v: f64 = value[j + a]
      in v
    } with (p: f64, q: f64) { let r: f64 = add(p, q) in r }
    in s
  }
  in y
}"""


def test_a_slice_ends_where_it_does() -> None:
    """Not as far after the last of several beginnings as all are long together."""
    pointers = {"start": Pointers(np.array([0, 3, 3, 7, 12]))}
    analysis = Analysis(parse(SLICES), {"m": 5, "k": 99}, pointers=pointers)
    (statement,) = analysis.statements
    found = [
        (low.tolist(), high.tolist())
        for access, ((low, high),) in analysis.footprints(
            statement, 0, np.array([0, 1, 2]), np.array([2, 2, 4])
        )
        if access.array == "value"
    ]
    assert found == [([0, 3, 3], [3, 3, 12])]


def test_plans_of_other_pointers_are_others() -> None:
    a = {"start": np.array([0, 3, 3])}
    assert digest(a) == digest({"start": np.array([0, 3, 3])})
    assert digest(a) != digest({"start": np.array([0, 2, 3])})


def row_sums(start, column, value, x, y):
    for i in prange(y.shape[0]):
        total = 0.0
        for k in range(start[i], start[i + 1]):
            total += value[k] * x[column[k]]
        y[i] = total


def products(start, column, value, x):
    y = np.zeros(start.size - 1)
    for row in range(y.size):
        own = slice(start[row], start[row + 1])
        y[row] = value[own] @ x[column[own]]
    return y


def matrix(rows: int, seed: int, dtype: Any = np.int64) -> tuple[Any, ...]:
    """A sparse matrix of as many elements for every seed."""
    random = np.random.default_rng(seed)
    own = random.permutation(np.arange(rows) % 8)
    start = np.concatenate([[0], np.cumsum(own)]).astype(dtype)
    column = random.integers(0, rows, start[-1])
    return start, column, random.normal(size=start[-1]), random.normal(size=rows)


@pytest.mark.parametrize("dtype", [np.int64, np.int32])
def test_sparse_rows_in_boxes(dtype: Any) -> None:
    """Under a cap of half of what there is; one plan is kept for each set of pointers."""
    on = device()
    kernel = wf.kernel(row_sums)
    for seed in (1, 2, 1):
        arguments = matrix(300, seed, dtype)
        cap = sum(a.nbytes for a in arguments) // 2
        whole, found = np.zeros(300), np.zeros(300)
        with wf.config(devices=on.name):
            kernel(*arguments, whole)
        before = copy.copy(on.statistics)
        on.trim()
        on.statistics.peak_bytes = 0
        with wf.config(devices=on.name, memory_limit={on.name: cap}):
            kernel(*arguments, found)
        np.testing.assert_array_equal(found, whole)
        assert on.statistics.launches - before.launches > 1
        assert on.statistics.peak_bytes <= cap
        expected = np.zeros(300)
        row_sums(*arguments, expected)
        np.testing.assert_array_equal(found, expected)


def test_products_of_sparse_rows_in_boxes() -> None:
    on = device()
    arguments = matrix(300, 3)
    cap = sum(a.nbytes for a in arguments) // 2
    kernel = wf.kernel(products)
    with wf.config(devices=on.name, interpret_below=0):
        whole = kernel(*arguments)
    before = on.statistics.launches
    with wf.config(devices=on.name, interpret_below=0, memory_limit={on.name: cap}):
        found = kernel(*arguments)
    assert on.statistics.launches - before > 1
    np.testing.assert_array_equal(found, whole)
    np.testing.assert_allclose(found, products(*arguments), rtol=1e-12, atol=1e-12)


def test_pointers_in_any_order() -> None:
    """Rows that lie in another order, and overlap: more is read, but nothing less."""
    on = device()
    start, column, value, x = matrix(300, 4)
    start = start.copy()
    start[[7, 90]] = start[[90, 7]]
    expected, found = np.zeros(300), np.zeros(300)
    row_sums(start, column, value, x, expected)
    with wf.config(devices=on.name, memory_limit={on.name: 14 << 10}):
        wf.kernel(row_sums)(start, column, value, x, found)
    np.testing.assert_array_equal(found, expected)


def test_pointers_outside_are_refused() -> None:
    on = device()
    start, column, value, x = matrix(300, 5)
    start = start.copy()
    start[-1] += 9
    with (
        wf.config(devices=on.name, memory_limit={on.name: 14 << 10}),
        pytest.raises(wf.WeftError, match=r"axis 0"),
    ):
        wf.kernel(row_sums)(start, column, value, x, np.zeros(300))
