"""Loops that fill a triangle, and its mirror image, are found."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
from passes.programs import agree, before_after

from weft.fun import nodes as fun
from weft.fun.builder import Names
from weft.fun.check import check
from weft.fun.parse import parse
from weft.passes.knowledge import Knowledge
from weft.passes.triangles import triangle

MIRRORED = """program p(a: f64[m, n], c: f64[n, n]) sizes n, m
  fact n - 1 >= 0
{
  let y: f64[n, n] = loop (x: f64[n, n] = c) for k from 0 to n - 1 {
    let v: f64[n - k - 1] = reduce (j < n - k - 1; l < m) from -0.0 {
      let e: f64 = a[l, k]
      let f: f64 = a[l, j + k + 1]
      let g: f64 = multiply(e, f)
      in g
    } with (p: f64, q: f64) { let s: f64 = add(p, q) in s }
    let z: f64[n, n] = update x[k, k + 1 for n - k - 1] = v
    let w: f64[n, n] = update z[k + 1 for n - k - 1, k] = v
    in w
  }
  in y
}"""


def filled(program: fun.Program) -> fun.Program:
    """The program whose first statement, such a loop, is two kernels; itself where it is none."""
    (let,) = program.body.statements
    names = Names.of(program)
    found = triangle(let, names, Knowledge.of(program))
    if found is None:
        return program
    statements = (found.square, found.filled(let.pattern[0], names, let.place))
    return replace(program, body=replace(program.body, statements=statements))


def test_golden(golden: Callable[[str], None]) -> None:
    golden(before_after(MIRRORED, filled))


def test_values() -> None:
    before = parse(MIRRORED)
    after = filled(before)
    check(after)
    random = np.random.default_rng(1)
    agree(before, after, [random.random((3, 5)), random.random((5, 5))])


def test_a_loop_that_fills_less_is_none() -> None:
    program = parse(MIRRORED.replace("for k from 0 to n - 1", "for k from 0 to n - 2"))
    check(program)
    assert filled(program) is program
