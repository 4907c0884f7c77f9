"""Rounds that put arrays together from pieces, as the planner takes them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from passes.programs import before_after
from passes.test_join_pieces import RNG, flipped, gaps, line, plate, program, walls, waves

import weft as wf
from weft.fun import nodes as fun
from weft.fun.check import check
from weft.fun.interpret import interpret
from weft.fun.stencils import stencil_of
from weft.passes.join_rounds import join_rounds
from weft.passes.pipeline import optimise


def inner(x: Any) -> Any:
    return x.at[1:-1].set(x[2:] - x[:-2])


def turns(x: Any, n: int) -> Any:
    """Two arrays that take turns, each written where the other is read."""
    return wf.fori_loop(0, n, lambda _, s: (s[1].at[1:-1].set(s[0][2:] - s[0][:-2]), s[0]), (x, x))


def loop_of(program: fun.Program) -> fun.Loop:
    (loop,) = [let.expr for let in program.body.statements if isinstance(let.expr, fun.Loop)]
    return loop


@pytest.mark.parametrize(
    ("function", "shape", "kernels"),
    [(program(line), (20,), 1), (program(plate), (9, 11), 1), (program(inner), (20, 3), 1),
     (turns, (20,), 1)],
)  # fmt: skip
def test_they_become_kernels(function: Any, shape: tuple[int, ...], kernels: int) -> None:
    x = RNG.random(shape)
    fused = optimise(wf.jit(function).lower(x, 5).program)
    made = join_rounds(fused)
    check(made, after="join_rounds")
    assert stencil_of(loop_of(fused)) is None
    assert stencil_of(loop_of(made)) is not None
    assert sum(isinstance(let.expr, fun.Kernel) for let in loop_of(made).body.statements) == kernels
    sizes = dict(zip(made.sizes, [5, *shape] if len(made.sizes) > len(shape) else shape,
                     strict=True))  # fmt: skip
    for found, expected in zip(
        interpret(made, [x], sizes), interpret(fused, [x], sizes), strict=True
    ):
        np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize(("function", "arrays", "kernels"), [(waves, 2, 3), (walls, 1, 3)])
def test_assignments_to_parts_become_kernels(function: Any, arrays: int, kernels: int) -> None:
    arguments = [*(RNG.random((9, 8)) for _ in range(arrays)), RNG.random(5)]
    made = join_rounds(optimise(wf.kernel(function).trace(*arguments)))
    check(made, after="join_rounds")
    assert stencil_of(loop_of(made)) is not None
    found = sum(isinstance(let.expr, fun.Kernel) for let in loop_of(made).body.statements)
    assert found == kernels


def test_what_is_no_stencil_even_so_stays() -> None:
    for fused in (
        optimise(wf.jit(program(flipped)).lower(RNG.random(20), 5).program),
        optimise(wf.kernel(gaps).trace(RNG.random((9, 8)), RNG.random(5))),
    ):
        assert join_rounds(fused) == fused


PIECES = """program p(x: f64[n + 2], t: i64) sizes n, t {
  let r: f64[n + 2] = loop (v: f64[n + 2] = x) for k from 0 to t {
    let a: f64[n] = kernel (i < n) {
      let b: f64 = v[i]
      let c: f64 = v[i + 2]
      let d: f64 = add(b, c)
      in d
    }
    let y: f64[n + 2] = update v[1 for n] = a
    in y
  }
  in r
}"""


def test_golden(golden: Callable[[str], None]) -> None:
    golden(before_after(PIECES, join_rounds))
