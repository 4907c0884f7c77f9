"""Reads of an array stand before its update, where they do not depend on it."""

from __future__ import annotations

import numpy as np
from passes.programs import agree

from weft.fun import nodes as fun
from weft.fun.check import check
from weft.fun.parse import parse
from weft.mem.introduce import introduce
from weft.passes.read_first import read_first


def order(text: str) -> tuple[list[str], fun.Program]:
    """The names that the body's statements bind, in order, after the pass."""
    program = read_first(parse(text))
    check(program)
    return [let.pattern[0].name for let in program.body.statements], program


READ = """program p(a: f64[n], v: f64) sizes n {
  let x: f64[n] = kernel (i < n) { let t: f64 = a[i] let u: f64 = add(t, v) in u }
  let y: f64[n] = update x[0] = v
  let r: f64 = x[1]
  in y, r
}"""


def test_a_read_moves_before_the_update_which_is_then_in_place() -> None:
    names, program = order(READ)
    assert names == ["x", "r", "y"]
    agree(parse(READ), program, [np.arange(3.0), np.float64(7)])
    assert len(introduce(program).blocks) < len(introduce(parse(READ)).blocks)


def test_what_depends_on_the_update_stays() -> None:
    text = READ.replace(
        "x[1]\n", "y[1]\n let s: f64 = add(r, v)\n let z: f64[n] = update x[1] = s\n"
    )
    text = text.replace("in y, r", "in z, r")
    names, program = order(text)
    assert names == ["x", "y", "r", "s", "z"]
    agree(parse(text), program, [np.arange(3.0), np.float64(7)])


def test_reads_through_views_move_as_well() -> None:
    text = """program p(a: f64[n, m], v: f64) sizes n, m {
      let x: f64[n, m] = copy a
      let w: f64[m, n] = permute x (1, 0)
      let y: f64[n, m] = update x[0, 0] = v
      let s: f64[m] = slice x[1, 0 for m]
      let r: f64 = s[0]
      let q: f64 = w[0, 0]
      in y, r, q
    }"""
    names, program = order(text)
    assert names == ["x", "w", "s", "r", "q", "y"]
    agree(parse(text), program, [np.arange(6.0).reshape(2, 3), np.float64(7)])


def test_bodies_of_loops() -> None:
    text = """program p(a: f64[n]) sizes n {
      let r: f64[n], s: f64 = loop (x: f64[n] = a, t: f64 = 0.0) for k from 0 to n {
        let y: f64[n] = update x[k] = t
        let u: f64 = x[k]
        in y, u
      }
      in r, s
    }"""
    program = read_first(parse(text))
    loop = program.body.statements[0].expr
    assert isinstance(loop, fun.Loop)
    assert [let.pattern[0].name for let in loop.body.statements] == ["u", "y"]
    agree(parse(text), program, [np.arange(4.0)])
    assert read_first(program) is program
