"""Each typing rule of figure 4.6 has a program that it accepts and one that it rejects.

All are one program, in which one thing is wrong.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from weft.errors import InternalError
from weft.fun import nodes as fun
from weft.mem.check import check
from weft.mem.nodes import MemArray
from weft.mem.parse import parse

TEXT = """program test(a: f64[n, m] @ a[0; (n : m); (m : 1)], s: f64)
  sizes n, m
  block mem_made 8*m
  block mem_chosen 8*m
  block mem_inner 8*m per thread
  result f64[n, m] @ result_0[0; (n : m); (m : 1)]
  result f64
{
  let last: i64 = size n - 1
  let corner: f64 = a[last, 0]
  let small: bool = less(s, corner)
  let turned: f64[m, n] @ a[0; (m : 1); (n : m)] = permute a (1, 0)
  let row: f64[m] @ a[last*m; (m : 1)] = slice turned[0 for m, last]
  let made: f64[m] @ mem_made[0; (m : 1)] = kernel (i < m) {
    let x: f64 = row[i]
    in x
  }
  let chosen: f64[m] @ mem_chosen[0; (m : 1)] = if small {
    let yes: f64[m] @ mem_chosen[0; (m : 1)] = kernel (j < m) {
      let y: f64 = made[j]
      in y
    }
    in yes
  } else {
    let no: f64[m] @ mem_chosen[0; (m : 1)] = copy row
    in no
  }
  let res: f64[n, m] @ result_0[0; (n : m); (m : 1)] = kernel (k < n) {
    let inner: f64[m] @ mem_inner[0; (m : 1)] = kernel (p < m) {
      let z: f64 = chosen[p]
      in z
    }
    let outer: f64[m] @ result_0[k*m; (m : 1)] = kernel (q < m) {
      let w: f64 = inner[q]
      in w
    }
    in outer
  }
  in res, corner
}
"""


def test_the_program_is_accepted() -> None:
    check(parse(TEXT))


def rejected(found: str, *changes: tuple[str, str]) -> None:
    """After the changes, of text that is there, the checker says what it `found`."""
    text = TEXT
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    program = parse(text)
    with pytest.raises(InternalError, match=found):
        check(program)


def test_t_mem_scalar() -> None:
    """The operands of a scalar expression are scalars in scope."""
    rejected("nowhere", ("size n - 1", "size nowhere - 1"))


def test_t_mem_alloc() -> None:
    """The size of a block is known where it is allocated: before the program starts."""
    rejected("last.* unknown", ("block mem_made 8*m", "block mem_made 8*last"))


def test_t_mem_alloc_twice() -> None:
    rejected("two blocks of one name", ("block mem_chosen 8*m", "block mem_made 8*m"))


def test_t_mem_index() -> None:
    """An element is at one index for each dimension."""
    rejected("row", ("let x: f64 = row[i]", "let x: f64 = row[i, i]"))


def test_t_mem_index_elsewhere() -> None:
    """An array is read where it was made."""
    program = parse(TEXT)
    lets = list(program.program.body.statements)
    copied = lets[4].pattern[0]
    assert isinstance(copied.type, MemArray)
    moved = fun.Var(copied.name, replace(copied.type, block="mem_made"))
    kernel = lets[5].expr
    assert isinstance(kernel, fun.Kernel)
    read = kernel.body.statements[0]
    assert isinstance(read.expr, fun.Index)
    bent = replace(read, expr=replace(read.expr, array=moved))
    lets[5] = replace(lets[5], expr=replace(kernel, body=replace(kernel.body, statements=(bent,))))
    body = replace(program.program.body, statements=tuple(lets))
    broken = replace(program, program=replace(program.program, body=body))
    with pytest.raises(InternalError, match="row is used with other memory"):
        check(broken)


def test_t_mem_if() -> None:
    """The results of both branches are where the pattern is."""
    for branch, old in (("yes", "kernel (j < m)"), ("no", "copy row")):
        rejected(
            "a result is not in its place, mem_chosen",
            (
                f"let {branch}: f64[m] @ mem_chosen[0; (m : 1)] = {old}",
                f"let {branch}: f64[m] @ mem_made[0; (m : 1)] = {old}",
            ),
        )


def test_t_mem_if_scope() -> None:
    """What one branch knows, neither the other nor the pattern does."""
    rejected(
        "no at .* inside unknown",
        ("@ mem_chosen[0;", "@ mem_chosen[inside;"),
        ("= if small {", "= if small {\n    let inside: i64 = size 0"),
    )


def test_t_mem_transpose() -> None:
    """A permuted array has its array's strides, permuted."""
    rejected("a view is not in its place", ("@ a[0; (m : 1); (n : m)]", "@ a[0; (m : n); (n : 1)]"))


def test_t_mem_slice() -> None:
    """A slice begins where its starts say."""
    rejected("a view is not in its place", ("row: f64[m] @ a[last*m;", "row: f64[m] @ a[last;"))


def test_t_mem_slice_block() -> None:
    """A slice is in its array's memory."""
    rejected(
        "a view is not in its place",
        ("row: f64[m] @ a[last*m;", "row: f64[m] @ mem_made[last*m;"),
    )


def test_t_mem_kernel() -> None:
    """An iteration's result is the kernel's own at the iteration's index."""
    rejected(
        "a result is not in its place",
        ("outer: f64[m] @ result_0[k*m;", "outer: f64[m] @ result_0[k;"),
    )


def test_t_mem_kernel_private() -> None:
    """What an iteration makes for itself is not in memory that all share."""
    rejected("inner is made in mem_inner, which all threads share", (" per thread", ""))


def test_t_mem_kernel_outside() -> None:
    """A thread's memory is of no use outside of kernels."""
    rejected("made is in a thread's block", ("@ mem_made[0;", "@ mem_inner[0;"))


def test_t_mem_lmad() -> None:
    """An index function holds only what is in scope."""
    rejected(
        "made at .* later unknown",
        ("made: f64[m] @ mem_made[0;", "made: f64[m] @ mem_made[later;"),
        ("  let res:", "  let later: i64 = size 0\n  let res:"),
    )


def test_t_mem_lmad_of_an_ended_scope() -> None:
    """An index of a kernel that has ended is not in scope."""
    rejected("inner at .* i unknown", ("@ mem_inner[0;", "@ mem_inner[i;"))


def test_t_mem_lmad_shape() -> None:
    """An index function has the array's shape."""
    rejected(
        "made is not of its memory's shape", ("@ mem_made[0; (m : 1)]", "@ mem_made[0; (n : 1)]")
    )


def test_t_mem_int() -> None:
    """A scalar is of the type that its expression has, wherever memory is."""
    rejected("corner", ("let corner: f64", "let corner: f32"))


def test_t_mem_arr() -> None:
    """An array is in a block that there is, and has memory."""
    rejected("made is in an unknown block", ("@ mem_made[0;", "@ mem_gone[0;"))
    rejected("made has no memory", (" @ mem_made[0; (m : 1)]", ""))


def test_t_mem_prog_result() -> None:
    """A result is in its destination."""
    rejected(
        "a result is not in its place",
        (
            "  in res, corner",
            "  let other: f64[n, m] @ a[0; (n : m); (m : 1)] = slice a[0 for n, 0 for m]\n"
            "  in other, corner",
        ),
    )


def test_t_mem_prog_destination() -> None:
    """The destination of a result is of its shape, in the block of its number."""
    rejected(
        "the destination .* is not of result_0",
        (
            "result f64[n, m] @ result_0[0; (n : m); (m : 1)]",
            "result f64[n, m] @ result_1[0; (n : m); (m : 1)]",
        ),
    )


def test_t_mem_prog_parameter() -> None:
    rejected("parameter a is elsewhere", ("(a: f64[n, m] @ a[0;", "(a: f64[n, m] @ mem_made[0;"))
