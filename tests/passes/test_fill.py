"""Empty arrays are zeros, but for those of a kernel's own."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from passes.programs import agree, before_after

from weft.fun.check import check
from weft.fun.parse import parse
from weft.fun.show import show
from weft.passes.fill import fill

PROGRAM = """program p(x: i32[n]) sizes n {
  let e: i32[n] = empty i32 (n)
  let w: i32[n] = update e[0 for n] = x
  let r: i32[n] = loop (v: i32[n] = w) for k from 0 to n {
    let f: i32[n] = empty i32 (n)
    let u: i32[n] = update f[0 for n] = v
    in u
  }
  in r
}"""

ROWS = """program p(x: i32[n]) sizes n {
  let r: i32[n, 2] = kernel (i < n) {
    let e: i32[2] = empty i32 (2)
    let a: i32[1] = slice x[i for 1]
    let v: i32[2] = update e[0 for 1] = a
    let w: i32[2] = update v[1 for 1] = a
    in w
  }
  in r
}"""


def test_at_the_top_and_in_loops() -> None:
    program = parse(PROGRAM)
    filled = fill(program)
    check(filled)
    assert show(filled).count("broadcast 0_i32 (n)") == 2
    assert "empty" not in show(filled)
    agree(program, filled, [np.arange(5, dtype=np.int32)], n=5)


def test_those_of_kernels_stay() -> None:
    program = parse(ROWS)
    assert fill(program) is program


def test_golden(golden: Callable[[str], None]) -> None:
    golden(before_after(PROGRAM, fill))
