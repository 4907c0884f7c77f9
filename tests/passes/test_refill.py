"""What is filled with one value, and overwritten in an inner body, is filled there."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from passes.programs import agree, before_after

from weft.compiler import with_memory
from weft.fun import nodes as fun
from weft.fun import walk
from weft.fun.check import check
from weft.fun.parse import parse
from weft.fun.show import show
from weft.passes.refill import refill
from weft.passes.remove_dead import remove_dead

CHANGES = {
    "loop": """let w: f64[m] = loop (q: f64[m] = z) for k from 1 to m {
      let e: f64 = x[i, k]
      let u: f64[m] = update q[e_0] = e
      in u }""",
    "update": "let w: f64[m] = update z[e_0] = a",
    "update at an LMAD": "let w: f64[m] = update_lmad z[e_0; (1 : 1)] = row",
    "scatter": "let w: f64[m] = scatter z over (j < 1) { in e_0, a }",
}


def filled(change: str, fill: str = "broadcast 2_f64 (m)") -> fun.Program:
    """Rows that begin as an array of one value."""
    return parse(f"""program p(x: f64[n, m], at: i64[n]) sizes n, m {{
  let z: f64[m] = {fill}
  let r: f64[n, m] = kernel (i < n) {{
    let e_0: i64 = at[i]
    let a: f64 = x[i, 0]
    let row: f64[1] = slice x[i, 0 for 1]
    {change}
    in w
  }}
  in r
}}""")


def run(before: fun.Program) -> fun.Program:
    after = remove_dead(refill(before))
    check(after)
    agree(before, after, [np.arange(1.0, 13.0).reshape(3, 4), np.array([0, 2, 1])])
    return after


@pytest.mark.parametrize("change", CHANGES)
def test_what_is_overwritten_is_filled_there(change: str) -> None:
    before = filled(CHANGES[change])
    after = run(before)
    assert isinstance(before.body.statements[0].expr, fun.Broadcast)
    (kernel,) = (let.expr for let in after.body.statements)  # the fill outside is gone
    (body,) = walk.bodies(kernel)
    assert any(isinstance(let.expr, fun.Broadcast) for let in walk.statements(body))
    copies = [
        sum(isinstance(let.expr, fun.Copy) for let in walk.statements(made.program.body))
        for made in (with_memory(before, {}), with_memory(after, {}))
    ]
    assert copies[1] == copies[0] - 1


def test_what_is_only_read_stays_outside() -> None:
    before = filled("let w: f64[m] = kernel (j < m) { let d: f64 = z[j] in d }")
    assert refill(before) is before


def test_what_is_no_fill_is_copied() -> None:
    before = filled(CHANGES["update"], "slice x[0, 0 for m]")
    assert refill(before) is before


def test_a_fill_of_the_same_body_is_changed_itself() -> None:
    before = parse("""program p(a: f64, i: i64) sizes m {
  let z: f64[m] = broadcast 0_f64 (m)
  let w: f64[m] = update z[m - 1] = a
  in w
}""")
    assert refill(before) is before


def test_golden(golden: Callable[[str], None]) -> None:
    golden(before_after(show(filled(CHANGES["loop"])), refill, remove_dead))
