"""A loop reads the state of the round before where it is kept."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from passes.programs import agree, before_after

from weft.fun import nodes as fun
from weft.fun import walk
from weft.fun.check import check
from weft.fun.parse import parse
from weft.fun.show import show
from weft.passes.chain_rows import chain_rows
from weft.passes.defer import defer


def states(
    read: str = "v1[m - 1 - i : edge(0, m)]", row: str = "k", inside: str = "", lower: str = "0",
    results: str = "e, d", start: str = "broadcast 0_f64 (n, m)",
) -> fun.Program:  # fmt: skip
    """Every state of a row, each from the last one; and what follows from them."""
    return parse(f"""program p(a: f64[m], n_: i64) sizes n, m {{
  let zero: f64[n, m] = {start}
  let v: f64[m], y: f64[n, m] =
    loop (v1: f64[m] = a, y1: f64[n, m] = zero) for k from {lower} to n {{
    {inside}
    let v2: f64[m] = kernel (i < m) {{
      let b: f64 = {read}
      let c: f64 = v1[i]
      let f: f64 = add(b, c) in f }}
    let y2: f64[n, m] = update y1[{row}, 0 for m] = v2
    in v2, y2 }}
  let e: f64[n, m] = kernel (i_1 < n, j_1 < m) {{
    let g: f64 = y[n - 1 - i_1, j_1] let h: f64 = negative(g) in h }}
  let d: f64 = y[n - 1, 0]
  in {results}
}}""")


def chained(before: fun.Program) -> bool:
    after = chain_rows(defer(before))
    check(after)
    agree(before, after, [np.arange(1.0, 6.0), np.int64(0)], n=4)
    loops = [s.expr for s in walk.statements(after.body) if isinstance(s.expr, fun.Loop)]
    return all(len(loop.params) == 1 for loop in loops)


def test_a_state_is_read_where_it_is_kept() -> None:
    assert chained(states())


def test_a_state_that_is_kept_is_not_carried_as_well() -> None:
    assert chained(states(inside="let w: f64 = v1[0]"))


@pytest.mark.parametrize(
    "changed",
    [
        {"results": "e, y"},
        {"results": "e, v"},
        {"inside": "let w: f64[m] = copy v1"},
        {"inside": "let w: f64 = y1[0, 0]"},
        {"lower": "1", "row": "k - 1"},
        {"row": "n - 1 - k"},
    ],
    ids=["rows are a result", "the last state is needed", "a state is used as a whole",
         "rows are read", "a row is there before", "rows backwards"],
)  # fmt: skip
def test_other_loops_stay(changed: dict[str, str]) -> None:
    assert not chained(states(**changed))


def test_golden(golden: Callable[[str], None]) -> None:
    golden(before_after(show(defer(states())), chain_rows))
