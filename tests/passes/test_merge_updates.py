"""Of two updates of the same elements, the later one does what both did."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from passes.programs import agree, before_after

import weft as wf
from weft.fun import nodes as fun
from weft.fun import walk
from weft.fun.check import check
from weft.fun.parse import parse
from weft.passes.merge_updates import merge_updates

COLUMN = """program p(a: f64[n, m]) sizes n, m
  fact n - 3 >= 0
  fact m - 2 >= 0
{
  let v: f64[n - 1] = kernel (i < n - 1) {
    let e: f64 = a[i + 1, 1]
    let f: f64 = multiply(e, 3_f64)
    in f
  }
  let y: f64[n, m] = update a[1 for n - 1, 1] = v
  let c: f64 = y[0, 1]
  let w: f64[n - 1] = kernel (j < n - 1) {
    let g: f64 = y[j + 1, 1]
    let h: f64 = y[j + 1, 0]
    let q: f64 = subtract(g, h)
    let r: f64 = divide(q, c)
    in r
  }
  let z: f64[n, m] = update y[1 for n - 1, 1] = w
  in z
}"""
OWN = "let g: f64 = y[j + 1, 1]"
IN_LOOP = """program p(a: f64[n, n]) sizes n {
  let r: f64[n, n] = loop (b: f64[n, n] = a) for k from 0 to n {
    let y: f64[n, n] = update b[k + 1 for n - k - 1, k] = 2_f64
    let c: f64 = y[k, k]
    let w: f64[n - k - 1] = kernel (j < n - k - 1) {
      let g: f64 = y[k, j + k + 1]
      let q: f64 = subtract(g, c)
      in q
    }
    let z: f64[n, n] = update y[k + 1 for n - k - 1, k] = w
    in z
  }
  in r
}"""
STRIDED = """program p(a: f64[2*n, m]) sizes n, m
  fact n - 1 >= 0
  fact m - 2 >= 0
{
  let v: f64[n] = kernel (i < n) { let e: f64 = a[2*i, 0] in e }
  let y: f64[2*n, m] = update a[0 for n by 2, 1] = v
  let w: f64[n] = kernel (j < n) {
    let g: f64 = y[2*j + 1, 1]
    in g
  }
  let z: f64[2*n, m] = update y[0 for n by 2, 1] = w
  in z
}"""

MERGED = {
    "read at own elements, and at others": COLUMN,
    "never read": COLUMN.replace(OWN, "let g: f64 = y[j, 0]"),
    "a value, in a loop": IN_LOOP,
    "rows between those that it writes": STRIDED,
    "another column than it writes": STRIDED.replace("2*j + 1, 1", "2*j, 0"),
    "after both": COLUMN.replace(
        "  in z\n", "  let d: f64 = y[0, 0]\n  let t: f64[n, m] = update z[0, 0] = d\n  in t\n"
    ),
}
STAYS = {
    "a neighbour": COLUMN.replace(OWN, "let g: f64 = y[j, 1]"),
    "another element that it writes": COLUMN.replace("y[0, 1]", "y[1, 1]"),
    "by a boundary's rule": COLUMN.replace(OWN, "let g: f64 = y[j : edge (0, n), 1 : edge (0, m)]"),
    "every other row": STRIDED.replace("2*j + 1, 1", "2*j, 1"),
    "other elements": COLUMN.replace("update a[1 for n - 1, 1]", "update a[1 for n - 1, 0]"),
    "of which one is a view": COLUMN.replace(
        "let c: f64 = y[0, 1]", "let s: f64[m] = slice y[0, 0 for m]\n  let c: f64 = s[1]"
    ),
    "the first is a result": COLUMN.replace("  in z\n", "  in z, y\n"),
    "a column that may be the same": COLUMN.replace("y[j + 1, 0]", "y[j + 1, m - 1]"),
}  # fmt: skip


def count(program: fun.Program) -> int:
    """How many updates there are."""
    return sum(isinstance(let.expr, fun.Update) for let in walk.statements(program.body))


@pytest.mark.parametrize("name", MERGED)
def test_merged(name: str) -> None:
    before = parse(MERGED[name])
    after = merge_updates(before)
    check(after)
    assert count(after) == count(before) - 1
    assert merge_updates(after) is after
    for n in (3, 4, 7):
        rows = 2 * n if "2*n" in MERGED[name] else n
        agree(before, after, [1 + np.random.default_rng(n).random((rows, n))], n=n)


@pytest.mark.parametrize("name", STAYS)
def test_stays(name: str) -> None:
    before = parse(STAYS[name])
    check(before)
    assert count(merge_updates(before)) == count(before)


def cholesky(a: Any) -> None:
    for j in range(a.shape[0]):
        a[j, j] = np.sqrt(a[j, j] - np.dot(a[j, :j], a[j, :j]))
        a[j + 1 :, j] -= a[j + 1 :, :j] @ a[j, :j]
        a[j + 1 :, j] /= a[j, j]


def scaled(a: Any) -> None:
    for t in range(3):
        a[1:-1, 1:-1] *= 0.5
        a[1:-1, 1:-1] += a[0, 0] + t
        a[1:-1, 1:-1] -= a[2:, 1:-1]


def strided(a: Any) -> None:
    a[::2] *= 3.0
    a[::2] -= a[1, 0]
    a[::2] /= 7.0


@pytest.mark.parametrize("function", [cholesky, scaled, strided])
@pytest.mark.parametrize("n", [3, 8, 65, 130])
def test_numpy_programs(function: Callable[[Any], None], n: int) -> None:
    a = np.random.default_rng(n).random((n, n)) + n * np.eye(n)
    expected = a.copy()
    function(expected)
    wf.kernel(function)(a)
    np.testing.assert_allclose(a, expected, rtol=1e-12)


def test_golden(golden: Callable[[str], None]) -> None:
    golden(before_after(COLUMN, merge_updates))
