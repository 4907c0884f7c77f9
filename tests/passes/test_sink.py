"""Rows that one iteration of a kernel alone uses are computed in it."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from passes.programs import agree, before_after

from weft.fun import nodes as fun
from weft.fun.check import check
from weft.fun.parse import parse
from weft.passes.sink import sink

ROWS = """program p(x: f64[n, m], z: f64[m]) sizes n, m {
  let y: f64[n, m] = kernel (a < n, b < m) { let t: f64 = x[a, b] let u: f64 = exp(t) in u }
  let r: f64[n, m] = kernel (i < n) {
    let s: f64[m] = slice y[i, 0 for m]
    let e: f64 = y[i, 0]
    let w: f64[m] = update s[m - 1] = e
    in w
  }
  in r
}"""

COLUMNS = """program p(x: f64[n, m], z: f64[m]) sizes n, m {
  let y: f64[n, m] = kernel (a < n, b < m) { let t: f64 = x[a, b] let u: f64 = exp(t) in u }
  let v: f64[m, n] = permute y (1, 0)
  let r: f64[m, n] = kernel (i < m) {
    let s: f64[n] = slice v[i, 0 for n]
    let e: f64 = y[0, i]
    let w: f64[n] = update s[n - 1] = e
    in w
  }
  in r
}"""


@pytest.mark.parametrize("text", [ROWS, COLUMNS], ids=["rows", "columns of a permutation"])
def test_a_row_is_made_where_it_is_used(text: str) -> None:
    before = parse(text)
    after = sink(before)
    check(after)
    agree(before, after, [np.random.default_rng(0).random((4, 3)), np.zeros(3)])
    (let,) = after.body.statements
    assert isinstance(let.expr, fun.Kernel)
    first = let.expr.body.statements[0]
    assert isinstance(first.expr, fun.Kernel)
    assert len(first.expr.space) == 1
    assert sink(after) is after


STAYING = {
    "a row of another iteration": ("y[i, 0]", "y[0, 0]"),
    "elements alone": ("slice y[i, 0 for m]", "copy z"),
    "part of the result": ("in r\n", "in r, y\n"),
    "the whole": ("let e: f64 = y[i, 0]", "let c: f64[n, m] = copy y let e: f64 = c[i, 0]"),
    "rows of two kernels": (
        "in r\n",
        "let q: f64[n] = kernel (j < n) { let f: f64 = y[j, 0] in f } in r, q\n",
    ),
    "an index space of two dimensions": (
        ROWS[ROWS.index("  let r") : ROWS.index("  in r")],
        """let r: f64[n, m, m] = kernel (i < n, j < m) {
             let s: f64[m] = slice y[i, 0 for m] let w: f64[m] = update s[j] = 0.0 in w }""",
    ),
    "in a loop over rows": (
        "slice y[i, 0 for m]",
        "loop (c: f64[m] = z) for k from 0 to i { let d: f64[m] = slice y[k, 0 for m] in d }",
    ),
}


@pytest.mark.parametrize("change", STAYING.values(), ids=STAYING)
def test_stays(change: tuple[str, str]) -> None:
    assert change[0] in ROWS
    program = parse(ROWS.replace(*change))
    check(program)
    assert sink(program) is program


def test_golden(golden: Callable[[str], None]) -> None:
    golden(before_after(ROWS, sink))
