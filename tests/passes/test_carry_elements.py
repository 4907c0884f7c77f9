"""What a round writes, and the next one reads, is carried as a scalar: inside of kernels."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from passes.programs import agree, before_after

from weft.fun import nodes as fun
from weft.fun import walk
from weft.fun.check import check
from weft.fun.parse import parse
from weft.passes.carry_elements import carry_elements

SOLVE = """program p(a: f64[n, m], c: f64[n, m]) sizes n, m {
  let r: f64[n, m] = kernel (i < n) {
    let x: f64[m] = slice a[i, 0 for m]
    let o: f64 = c[i, 0]
    let y: f64[m] = update x[0] = o
    let z: f64[m] = loop (v: f64[m] = y) for k from 1 to m {
      let d: f64 = v[k]
      let e: f64 = v[k - 1]
      let f: f64 = c[i, k]
      let g: f64 = multiply(e, f)
      let h: f64 = add(d, g)
      let w: f64[m] = update v[k] = h
      in w
    }
    let s: f64[m] = loop (u: f64[m] = z) for q from 0 to m - 1 {
      let b: f64 = u[m - 2 - q]
      let l: f64 = u[m - 1 - q]
      let t: f64 = subtract(b, l)
      let j: f64[m] = update u[m - 2 - q] = t
      in j
    }
    in s
  }
  in r
}"""
FIRST = SOLVE[: SOLVE.index("    let s:")] + "    in z\n  }\n  in r\n}"
UNKNOWN = FIRST.replace("k from 1", "k from 4")
ONE_OR_MORE = UNKNOWN.replace("sizes n, m {", "sizes n, m\n  fact m - 5 >= 0\n{")

CARRIED = {
    "solved forth and back": (SOLVE, 2),
    "in slices of one element": (FIRST.replace("update v[k]", "update v[k for 1]"), 1),
    "read before a loop that has a round": (ONE_OR_MORE, 1),
    "what is written is what was read": (FIRST.replace("update v[k] = h", "update v[k] = e"), 1),
}
STAYS = {
    "maybe no round": UNKNOWN,
    "outside of kernels": """program p(a: f64[n, m], c: f64[n, m]) sizes n, m {
      let x: f64[m] = slice a[0, 0 for m]
      let y: f64[m] = update x[0] = 1_f64
      let z: f64[m] = loop (v: f64[m] = y) for k from 1 to m {
        let e: f64 = v[k - 1]
        let w: f64[m] = update v[k] = e
        in w
      }
      in z
    }""",
    "two rounds before": FIRST.replace("v[k - 1]", "v[max_0]").replace(
        "sizes n, m {", "sizes n, m\n  derived max_0 = max(m - 2, 0)\n{"
    ),
    "a row": FIRST.replace("let w: f64[m] = update v[k] = h",
                           "let w: f64[m] = update v[k - 1 for 2] = h"),
    "where data say": FIRST.replace("let w: f64[m] = update v[k] = h",
                                    "let no: i64 = i64(f) let w: f64[m] = update v[no] = h"),
    "written twice": FIRST.replace(
        "let w: f64[m] = update v[k] = h",
        "let no: f64[m] = update v[k] = h let w: f64[m] = update no[k - 1] = h",
    ),
    "by a boundary's rule": FIRST.replace("v[k - 1]", "v[k - 1 : edge (0, m)]"),
}  # fmt: skip


def loops(program: fun.Program) -> list[fun.Loop]:
    """Those inside of the kernel, outermost first."""
    found = (let.expr for let in walk.statements(program.body))
    return [expr for expr in found if isinstance(expr, fun.Loop)]


def reads(program: fun.Program) -> int:
    """How many reads there are in loops."""
    return sum(
        isinstance(let.expr, fun.Index)
        for loop in loops(program) for let in loop.body.statements
    )  # fmt: skip


@pytest.mark.parametrize("name", CARRIED)
def test_carried(name: str) -> None:
    text, count = CARRIED[name]
    before = parse(text)
    after = carry_elements(before)
    check(after)
    assert reads(after) == reads(before) - count
    assert sum(len(loop.params) for loop in loops(after)) == len(loops(before)) + count
    rng = np.random.default_rng(0)
    for shape in ((3, 5), (0, 7), (1, 2)):
        if shape[1] >= 5 or "5" not in text:
            agree(before, after, rng.random((2, *shape)))


def test_it_is_done_once() -> None:
    after = carry_elements(parse(SOLVE))
    assert carry_elements(after) is after


@pytest.mark.parametrize("name", STAYS)
def test_what_stays(name: str) -> None:
    before = parse(STAYS[name])
    assert carry_elements(before) is before


def test_golden(golden: Callable[[str], None]) -> None:
    golden(before_after(SOLVE, carry_elements))
