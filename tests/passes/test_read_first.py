"""Reads of an array stand before its update, where they do not depend on it."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from passes.programs import agree, before_after

from weft.fun import nodes as fun
from weft.fun import walk
from weft.fun.check import check
from weft.fun.parse import parse
from weft.mem.introduce import introduce
from weft.passes.read_first import read_first, replace_last


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


SWAP = """program p(a: f64[n, m], j: i64) sizes n, m {
  let l: f64[n, m] = loop (x: f64[n, m] = a) for k from 0 to n {
    let s: f64[m] = slice x[k, 0 for m]
    let t: f64[m] = slice x[j, 0 for m]
    let y: f64[n, m] = update x[k, 0 for m] = t
    let z: f64[n, m] = update y[j, 0 for m] = s
    in z }
  in l
}"""


def copies(program: fun.Program) -> list[str]:
    lets = walk.statements(program.body)
    return [let.pattern[0].name for let in lets if isinstance(let.expr, fun.Copy)]


def temporary(program: fun.Program) -> int:
    """Bytes of temporary memory for 40 rows of 10."""
    return sum(b.bytes.evaluate({"n": 40, "m": 10}) for b in introduce(program).blocks)


def test_rows_that_are_exchanged_are_copied_instead_of_the_array() -> None:
    program = read_first(parse(SWAP))
    check(program)
    assert copies(program) == ["s", "t"]
    agree(parse(SWAP), program, [np.arange(12.0).reshape(4, 3), np.int64(2)])
    assert temporary(program) == 8 * (40 * 10 + 2 * 10)
    assert temporary(parse(SWAP)) >= 2 * 8 * 40 * 10


def test_where_the_array_is_copied_anyway_no_slice_is() -> None:
    """It is read after its update, is not the body's own, or is seen as a whole."""
    kept = SWAP.replace("in z }", "let w: f64[n, m] = update z[0, 0 for m] = s\n in x }")
    outside = SWAP.replace("slice x", "slice a").replace("update x", "update a")
    turned = SWAP.replace("slice x[k, 0 for m]", "slice v[0 for m, k]").replace(
        "    let s", "    let v: f64[m, n] = permute x (1, 0)\n    let s"
    ).replace("in z }", "let e: f64[m, n] = update v[0, 0] = 1.0\n in z }")
    for text in (kept, outside, turned):
        program = read_first(parse(text))
        check(program)
        agree(parse(text), program, [np.arange(9.0).reshape(3, 3), np.int64(1)])
        if text is not turned:
            assert copies(program) == []


def test_a_slice_of_what_only_running_the_program_bounds_stays() -> None:
    text = SWAP.replace("f64[m] = slice", "f64[q] = slice").replace("0 for m]", "0 for q]")
    text = text.replace("    let s", "    let q: i64 = minimum(j, 2)\n    let s")
    assert copies(read_first(parse(text))) == []


REPLACED = """program p(a: f64[n], b: f64[n]) sizes n {
  let x: f64[n] = kernel (i < n) { let t: f64 = a[i] let u: f64 = b[i]
   let s: f64 = add(t, u) in s }
  let m: f64 = reduce (; k < n) from 0.0 { let t_1: f64 = a[k] in t_1 }
   with (l: f64, r: f64) { let j: f64 = maximum(l, r) in j }
  let y: f64[n] = kernel (i_1 < n) { let t_2: f64 = x[i_1] let u_2: f64 = add(t_2, m) in u_2 }
  in x, m, y
}"""


def replaced(text: str, donated: dict[str, int]) -> list[str]:
    program = replace_last(parse(text), donated)
    check(program)
    agree(parse(text), program, [np.arange(3.0), np.ones(3)])
    return [let.pattern[0].name for let in program.body.statements]


def test_what_replaces_a_parameter_comes_after_its_reads() -> None:
    assert replaced(REPLACED, {"a": 0}) == ["m", "x", "y"]
    assert replaced(REPLACED, {"b": 0}) == ["x", "m", "y"]  # read by nothing else
    assert replaced(REPLACED, {}) == ["x", "m", "y"]
    assert replaced(REPLACED, {"a": 2}) == ["x", "m", "y"]


def test_reads_that_depend_on_what_replaces_it_stay() -> None:
    text = REPLACED.replace("t_1: f64 = a[k]", "t_0: f64 = a[k] let t_1: f64 = x[k]")
    assert replaced(text, {"a": 0}) == ["x", "m", "y"]


def test_a_reshaped_result_and_reads_through_views() -> None:
    text = """program p(a: f64[n, m], b: f64[n, m]) sizes n, m {
      let w: f64[n*m] = reshape a (n*m)
      let x: f64[n*m] = kernel (i < n*m) { let t: f64 = w[i] let s: f64 = add(t, 1.0) in s }
      let y: f64[n, m] = reshape x (n, m)
      let v: f64[m, n] = permute a (1, 0)
      let r: f64 = v[0, 1]
      in y, r
    }"""
    program = replace_last(parse(text), {"a": 0})
    check(program)
    names = [let.pattern[0].name for let in program.body.statements]
    assert names.index("r") < names.index("x")
    agree(parse(text), program, [np.arange(6.0).reshape(3, 2), np.ones((3, 2))])


def test_golden(golden: Callable[[str], None]) -> None:
    golden(before_after(SWAP, read_first))
