"""Short-circuiting: what each safety condition accepts, and what it rejects.

Every program is run by value and by heap, before and after the pass.
"""

from __future__ import annotations

import json
import time
from typing import Any

import numpy as np
import pytest
from mem.test_introduce import agree

import weft as wf
from weft.compiler import compile_segment as compile_with_memory
from weft.fun import nodes as fun
from weft.fun import walk
from weft.fun.interpret import interpret as by_value
from weft.fun.parse import parse
from weft.lower.segment import compile_segment
from weft.mem.check import check
from weft.mem.costs import costs
from weft.mem.hoist import hoist
from weft.mem.interpret import interpret as by_heap
from weft.mem.introduce import introduce
from weft.mem.merge_blocks import merge_blocks
from weft.mem.nodes import Program
from weft.mem.short_circuit import short_circuit, versions
from weft.plan.archive import dumps, segment_from_json, segment_to_json
from weft.printers.c import print_program
from weft.runtime import incore

Y = np.arange(20.0).reshape(5, 4)
X = np.array([3.0, 1.0, 4.0, 1.0])

HEAD = "program test(a: f64[n, m], v: f64[m], s: i64)\n sizes n, m\n{\n"
START = "let y: f64[n, m] = copy a\n"


def row(name: str, element: str = "v[I]", extent: str = "m") -> str:
    """A statement that makes twice some elements; I stands for the index."""
    index = f"i_{name}"
    return (
        f"let {name}: f64[{extent}] = kernel ({index} < {extent}) {{\n"
        f"  let e_{name}: f64 = {element.replace('I', index)}\n"
        f"  let f_{name}: f64 = add(e_{name}, e_{name})\n"
        f"  in f_{name} }}\n"
    )


def passed(text: str, *arguments: Any, **sizes: int) -> Program:
    """The program after the pass, which has changed no meaning."""
    source = parse(text)
    wanted = by_value(source, arguments, sizes)
    before = hoist(introduce(source))
    after = short_circuit(before)
    check(after, "short_circuit")
    merged = merge_blocks(after)
    check(merged, "merge_blocks")
    for program in (before, after, merged):
        agree(by_heap(program, arguments, sizes), wanted)
    assert costs(after, arguments, sizes).copies <= costs(before, arguments, sizes).copies
    return after


def rows(body: str, results: str = "z") -> Program:
    return passed(f"{HEAD}{body} in {results}\n}}", Y, X, np.int64(2))


def left(program: Program) -> dict[str, str]:
    """What is still copied, and the condition that failed (inputs have to be)."""
    return {
        remark.what: remark.condition
        for remark in program.remarks
        if remark.what.startswith("copy") and "argument" not in remark.found
    }


def in_place(program: Program) -> bool:
    """Whether no update or concatenation, and no copy but of an input, copies anything."""
    return not left(program)


PUT = "let z: f64[n, m] = update y[1, 0 for m] = x\n"

# ---------------------------------------------------------------- points


def test_an_update_is_made_in_place() -> None:
    program = rows(START + row("x") + PUT)
    assert in_place(program)
    assert not program.blocks


def test_an_update_at_an_lmad_is_made_in_place() -> None:
    flat = "let y: f64[m*n] = reshape w (m*n)\n"
    body = START.replace("y:", "w:") + flat + row("x", "v[0]", "2")
    program = rows(body + "let z: f64[m*n] = update_lmad y[1; (2 : m)] = x\n")
    assert in_place(program)
    assert not program.blocks


def test_a_concatenation_is_made_in_place() -> None:
    program = rows(row("x") + row("w", "v[-I + m - 1]") + "let z: f64[2*m] = concat 0 (x, w)\n")
    assert in_place(program)
    assert not program.blocks


def test_the_result_of_an_iteration_is_made_in_place() -> None:
    body = (
        "let z: f64[n, m] = kernel (k < n) {\n"
        + row("x", "a[k, I]")
        + row("w", "x[-I + m - 1]")
        + "in w }\n"
    )
    program = rows(body)
    assert in_place(program)
    assert [block.per_thread for block in program.blocks] == [True]  # x, which w reads elsewhere


def test_the_results_of_branches_are_made_in_place() -> None:
    body = (
        "let c: bool = less(s, 1)\n"
        f"let z: f64[m] = if c {{ {row('x')} in x }} else {{ {row('w', 'v[0]')} in w }}\n"
    )
    program = rows(body)
    assert in_place(program)
    assert not program.blocks


def test_what_a_loop_makes_is_made_in_place() -> None:
    """A reduction's result in the loop's, as in NN (section 6.8.7)."""
    body = (
        "let o: f64[n] = broadcast 0_f64 (n)\n"
        "let z: f64[n] = loop (p: f64[n] = o) for t from 0 to n {\n"
        "  let x: f64[1] = kernel (i < 1) {\n"
        "    let total: f64 = reduce (; j < m) from 0_f64 { let e: f64 = a[t, j] in e }\n"
        "      with (l: f64, r: f64) { let q: f64 = add(l, r) in q }\n"
        "    in total }\n"
        "  let w: f64[n] = update p[t for 1] = x\n"
        "  in w }\n"
    )
    program = rows(body)
    assert in_place(program)
    assert not program.blocks


# ---------------------------------------------------------------- creation


def test_creation_accepts_what_the_body_makes() -> None:
    body = (
        START
        + "let z: f64[n, m] = loop (p: f64[n, m] = y) for t from 0 to n {\n"
        + row("x")
        + "let w: f64[n, m] = update p[t, 0 for m] = x\n in w }\n"
    )
    assert in_place(rows(body))


def test_creation_rejects_what_is_made_outside_of_the_loop() -> None:
    body = (
        START
        + row("x")
        + "let z: f64[n, m] = loop (p: f64[n, m] = y) for t from 0 to n {\n"
        + "let w: f64[n, m] = update p[t, 0 for m] = x\n in w }\n"
    )
    assert left(rows(body)) == {"copy of x into a part of w": "creation"}


def test_creation_rejects_an_argument() -> None:
    program = rows(START + "let z: f64[n, m] = update y[1, 0 for m] = v\n")
    assert [str(r.condition) for r in program.remarks] == ["creation", "creation"]


# ---------------------------------------------------------------- layout


SQUARE = (
    "let x: f64[m, m] = kernel (i < m, j < m) {\n"
    " let e: f64 = v[i] let g: f64 = v[j] let f: f64 = subtract(e, g) in f }\n"
    "let y: f64[2, m, m] = broadcast 0_f64 (2, m, m)\n"
)


def squares(view: str) -> Program:
    """A square that is put, in another layout, where it was not created."""
    before, after = SQUARE.split("let y")
    body = f"let y{after}{before}{view}let z: f64[2, m, m] = update y[1, 0 for m, 0 for m] = w\n"
    return rows(body)


@pytest.mark.parametrize(
    "view",
    [
        "let w: f64[m, m] = permute x (1, 0)\n",
        "let w: f64[m, m] = slice x[m - 1 for m by -1, 0 for m]\n",
        "let r: f64[m*m] = reshape x (m*m)\nlet w: f64[m, m] = reshape r (m, m)\n",
        "let r: f64[m, m] = permute x (1, 0)\n"
        "let w: f64[m, m] = slice r[0 for m, m - 1 for m by -1]\n",
    ],
    ids=["transpose", "backwards", "reshape", "two"],
)
def test_layout_accepts_what_can_be_undone(view: str) -> None:
    program = squares(view)
    assert in_place(program)
    assert not program.blocks


def test_layout_carries_aliases_along() -> None:
    view = "let w: f64[m, m] = permute x (1, 0)\nlet c: f64[m] = slice x[1, 0 for m]\n" + row(
        "d", "c[-I + m - 1]"
    )
    before, after = SQUARE.split("let y")
    body = f"let y{after}{before}{view}let z: f64[2, m, m] = update y[1, 0 for m, 0 for m] = w\n"
    program = rows(body, "z, d")
    assert in_place(program)
    assert not program.blocks


def test_layout_rejects_a_slice() -> None:
    body = START + row("x", "v[0]", "2*m") + "let w: f64[m] = slice x[1 for m]\n"
    program = rows(body + "let z: f64[n, m] = update y[1, 0 for m] = w\n")
    assert left(program) == {"copy of w into a part of z": "layout"}


def test_layout_rejects_a_repeated_element() -> None:
    body = START + row("x", "v[0]", "1") + "let w: f64[m] = broadcast x (m)\n"
    program = rows(body + "let z: f64[n, m] = update y[1, 0 for m] = w\n")
    assert left(program) == {"copy of w into a part of z": "layout"}


def test_layout_rejects_two_buffers() -> None:
    step = row("w", "p[-I + m - 1]")
    body = START + f"let x: f64[m] = loop (p: f64[m] = v) for t from 0 to n {{ {step} in w }}\n"
    program = rows(body + PUT)
    assert left(program) == {"copy of x into a part of z": "layout"}


# ---------------------------------------------------------------- scope


def test_scope_accepts_a_scalar_that_can_be_moved_up() -> None:
    later = "let k: i64 = minimum(s, 3)\nlet i: i64 = maximum(k, 1)\n"
    put = "let z: f64[n, m] = update y[i, 0 for m] = x\n"
    assert in_place(rows(START + row("x") + later + put))


def test_scope_accepts_a_scalar_read_from_another_array() -> None:
    later = "let c: f64 = a[0, 1]\nlet i: i64 = i64(c)\n"
    put = "let z: f64[n, m] = update y[i, 0 for m] = x\n"
    assert in_place(rows(START + row("x") + later + put))


def test_scope_rejects_a_scalar_read_from_the_source() -> None:
    later = "let c: f64 = x[1]\nlet i: i64 = i64(c)\n"
    program = rows(START + row("x") + later + "let z: f64[n, m] = update y[i, 0 for m] = x\n")
    assert left(program) == {"copy of x into a part of z": "scope"}


# ---------------------------------------------------------------- overlap, straight on


def test_overlap_accepts_a_read_of_another_row() -> None:
    program = rows(START + row("x") + "let c: f64 = y[2, 0]\n" + PUT, "z, c")
    assert in_place(program)


def test_overlap_rejects_a_read_of_the_row() -> None:
    program = rows(START + row("x") + "let c: f64 = y[1, 0]\n" + PUT, "z, c")
    assert left(program) == {"copy of x into a part of z": "overlap"}


def test_overlap_accepts_a_read_before_the_source_is_made() -> None:
    program = rows(START + "let c: f64 = y[1, 0]\n" + row("x") + PUT, "z, c")
    assert in_place(program)


def test_overlap_rejects_a_read_of_an_alias() -> None:
    body = START + "let b: f64[m, n] = permute y (1, 0)\n" + row("x")
    program = rows(body + "let c: f64 = b[0, 1]\n" + PUT, "z, c")
    assert left(program) == {"copy of x into a part of z": "overlap"}


def test_overlap_rejects_an_element_that_only_data_tell() -> None:
    body = START + row("x") + "let k: i64 = i64(x[1])\n".replace("x[1]", "g")
    body = body.replace("let k", "let g: f64 = v[1]\nlet k") + "let c: f64 = y[k, 0]\n"
    program = rows(body + PUT, "z, c")
    assert left(program) == {"copy of x into a part of z": "overlap"}


def test_overlap_rejects_a_write_to_the_row() -> None:
    """The row is overwritten after the source is made: what is put there must come last."""
    other = "let y: f64[n, m] = update u[1, 0] = 7_f64\n"
    body = "let u: f64[n, m] = copy a\n" + row("x") + other
    assert left(rows(body + PUT)) == {"copy of x into a part of z": "overlap"}
    elsewhere = body.replace("u[1, 0]", "u[2, 0]")
    assert in_place(rows(elsewhere + PUT))


def test_a_destination_is_filled_before_the_source() -> None:
    """As `a.at[1].set(f(a))` is traced: the copy of `a` stands after what is put into it."""
    assert in_place(rows(row("x", "a[1, I]") + START + PUT))
    zeros = "let y: f64[n, m] = broadcast 0_f64 (n, m)\n"
    assert in_place(rows(row("x") + zeros + PUT))
    from_source = "let e: f64 = x[0]\nlet y: f64[n, m] = broadcast e (n, m)\n"
    assert left(rows(row("x") + from_source + PUT)) == {"copy of x into a part of z": "overlap"}


@pytest.mark.parametrize(("at", "accepted"), [("2", True), ("1", False)])
@pytest.mark.parametrize(
    "use",
    [
        "let c: f64 = reduce (; j < m) from 0_f64 { let g: f64 = y[AT, j] in g }\n"
        " with (l: f64, r: f64) { let q: f64 = add(l, r) in q }\n",
        "let d: f64[m] = scan (j < m) from 0_f64 { let g: f64 = y[AT, j] in g }\n"
        " with (l: f64, r: f64) { let q: f64 = add(l, r) in q }\nlet c: f64 = d[1]\n",
        "let o: f64[m] = broadcast 0_f64 (m)\n"
        "let d: f64[m] = scatter o over (j < m) { let g: f64 = y[AT, j] let k: i64 = size j"
        " in k, g }\nlet c: f64 = d[1]\n",
        "let b: bool = less(s, 9)\n"
        "let c: f64 = if b { let g: f64 = y[AT, 1] in g } else { in 0_f64 }\n",
        "let c: f64 = loop (l: f64 = 0_f64) for t from 0 to m {"
        " let g: f64 = y[AT, t] let h: f64 = add(l, g) in h }\n",
        "let d: f64[2, m] = kernel (k < 2) { let b: f64[m] = slice y[AT, 0 for m]\n"
        + row("o", "b[-I + m - 1]")
        + "in o }\nlet c: f64 = d[0, 1]\n",
        "let w: f64[m] = slice y[AT, 0 for m]\nlet d: f64[2*m] = concat 0 (w, w)\n"
        "let c: f64 = d[1]\n",
        "let c: f64 = y[AT, s : edge(0, m)]\n",
    ],
    ids=["reduce", "scan", "scatter", "if", "loop", "nested", "concat", "boundary"],
)
def test_overlap_sees_every_kind_of_read(use: str, at: str, accepted: bool) -> None:
    program = rows(START + row("x") + use.replace("AT", at) + PUT, "z, c")
    found = left(program).get("copy of x into a part of z")
    assert found == (None if accepted else "overlap")


# ---------------------------------------------------------------- overlap, iterations


def antidiagonal(read: str) -> Program:
    """Listing 6.2: the antidiagonal of a square, from what `read` gives of it."""
    return passed(
        "program test(a: f64[100])\n{\n let y: f64[100] = copy a\n"
        " let d: f64[10] = lmad y[9; (10 : 9)]\n"
        " let x: f64[10] = kernel (i < 10) {"
        f" let e: f64 = {read} let f: f64 = add(e, 1_f64) in f }}\n"
        " let z: f64[100] = update_lmad y[9; (10 : 9)] = x in z }",
        np.arange(100.0),
    )


@pytest.mark.parametrize("read", ["d[i]", "y[9*i + 9]", "y[10*i + 7]", "y[0]", "y[9*i + 8]"])
def test_overlap_accepts_a_kernel_that_reads_elsewhere_or_its_own(read: str) -> None:
    assert in_place(antidiagonal(read))


@pytest.mark.parametrize("read", ["d[-i + 9]", "y[18]", "y[99]", "y[i]"])
def test_overlap_rejects_a_kernel_that_reads_what_another_iteration_writes(read: str) -> None:
    if read == "y[99]":  # not of the antidiagonal, the others are
        assert in_place(antidiagonal(read))
        return
    assert left(antidiagonal(read)) == {"copy of x into a part of z": "overlap"}


def looped(read: str) -> Program:
    """Rows are put one after another, each from what `read` gives of the array."""
    return rows(
        START
        + "let z: f64[n, m] = loop (p: f64[n, m] = y) for t from 1 to n {\n"
        + row("x", read)
        + "let w: f64[n, m] = update p[t, 0 for m] = x\n in w }\n"
    )


def test_overlap_accepts_a_round_that_reads_the_last_one() -> None:
    assert in_place(looped("p[t - 1, I]"))
    assert in_place(looped("p[t - 1, -I + m - 1]"))
    assert in_place(looped("p[t, I]"))


def test_overlap_rejects_a_round_that_reads_its_own_row_crosswise() -> None:
    assert left(looped("p[t, -I + m - 1]")) == {"copy of x into a part of w": "overlap"}


def chosen(read: str) -> Program:
    """A row that data choose, from what `read` gives of rows that data choose."""
    return rows(
        "let d: i64[n] = kernel (i_3 < n) { let e_3: i64 = size i_3 in e_3 }\n"
        "let p: i64 = d[n - 1]\nlet q: i64 = d[0]\n"
        + START
        + row("x", read)
        + "let z: f64[n, m] = update y[p, 0 for m] = x\n"
    )


def test_overlap_accepts_own_elements_of_rows_that_data_choose() -> None:
    assert not left(chosen("y[q, I]"))


def test_overlap_rejects_other_elements_of_rows_that_data_choose() -> None:
    assert left(chosen("y[q, -I + m - 1]")) == {"copy of x into a part of z": "overlap"}


def source_loop(read: str) -> Program:
    """A source that a loop fills, while it reads the destination."""
    return rows(
        START
        + "let o: f64[m] = broadcast 0_f64 (m)\n"
        + "let x: f64[m] = loop (p: f64[m] = o) for t from 0 to m {\n"
        + f" let e: f64 = {read}\n let w: f64[m] = update p[t] = e\n in w }}\n"
        + PUT
    )


def test_overlap_accepts_a_loop_that_reads_another_row() -> None:
    assert in_place(source_loop("y[0, t]"))


def test_overlap_rejects_a_loop_whose_later_rounds_read_what_is_written() -> None:
    assert left(source_loop("y[1, t]")) == {"copy of x into a part of z": "overlap"}
    assert left(source_loop("y[1, -t + m - 1]")) == {"copy of x into a part of z": "overlap"}


def test_overlap_counts_every_result_of_a_kernel() -> None:
    """Two results of one kernel, of which one goes where the other is read from."""
    body = (
        START
        + "let x: f64[m], w: f64[m] = kernel (i < m) {\n"
        + " let e: f64 = y[1, i] let g: f64 = y[2, -i + m - 1] in e, g }\n"
        + "let u: f64[n, m] = update y[2, 0 for m] = x\n"
        + "let z: f64[n, m] = update u[1, 0 for m] = w\n"
    )
    program = rows(body)
    assert left(program) == {"copy of x into a part of u": "overlap"}


# ---------------------------------------------------------------- sources that are still read


def test_overlap_accepts_a_source_that_is_read_later() -> None:
    program = rows(START + row("x") + PUT + "let c: f64 = x[2]\n" + row("d", "x[I]"), "z, d, c")
    assert in_place(program)
    assert not program.blocks


def test_overlap_rejects_a_source_that_is_read_when_its_place_is_overwritten() -> None:
    again = "let u: f64[n, m] = update z[1, 0] = 0_f64\n"
    program = rows(START + row("x") + PUT + again + "let c: f64 = x[0]\n", "u, c")
    assert left(program) == {"copy of x into a part of z": "overlap"}
    elsewhere = again.replace("z[1, 0]", "z[2, 0]")
    assert in_place(rows(START + row("x") + PUT + elsewhere + "let c: f64 = x[0]\n", "u, c"))


def test_overlap_rejects_a_source_that_is_overwritten_later() -> None:
    again = "let u: f64[m] = update x[0] = 0_f64\nlet c: f64 = u[0]\n"
    program = rows(START + row("x") + PUT + again, "z, c")
    assert left(program) == {"copy of x into a part of z": "overlap"}


def test_one_place_is_enough_for_one_array() -> None:
    two = "let w: f64[n, m] = update z[2, 0 for m] = x\n"
    program = rows(START + row("x") + PUT + two, "w")
    assert len(left(program)) == 1


# ---------------------------------------------------------------- scalar maps in place


def mapped(read: str, more: str = "", results: str = "z") -> Program:
    return rows(row("x") + row("z", read) + more, results)


def test_a_map_writes_over_what_dies() -> None:
    assert not mapped("x[I]").blocks


@pytest.mark.parametrize(
    ("read", "more", "results"),
    [
        ("x[-I + m - 1]", "", "z"),
        ("x[I]", "let c: f64 = x[0]\n", "z, c"),
        ("x[I : edge(0, m)]", "", "z"),
    ],
    ids=["elsewhere", "used again", "boundary"],
)
def test_a_map_does_not_write_over(read: str, more: str, results: str) -> None:
    assert len(mapped(read, more, results).blocks) == 1


def test_two_results_do_not_write_over_one_array() -> None:
    body = row("x") + (
        "let z: f64[m], w: f64[m] = kernel (i < m) {\n"
        " let e: f64 = x[i] let g: f64 = add(e, e) in e, g }\n"
    )
    assert not rows(body, "z, w").blocks


# ---------------------------------------------------------------- updates that may be refused


def at_lmad(index: str, inside: str) -> Program:
    """After an update of two elements at an LMAD, in what `inside` puts around it."""
    head = HEAD.replace("sizes n, m\n", "sizes n, m\n fact n - 2 >= 0\n fact m - 2 >= 0\n")
    start = "let d: i64 = add(s, s)\n" + START + "let f: f64[m*n] = reshape y (m*n)\n"
    update = row("x", "v[0]", "2") + f"let z: f64[m*n] = update_lmad p[{index}] = x\n"
    text = f"{head}{start}{inside.replace('UPDATE', update)} in q }}"
    return passed(text, Y[:4], X, np.int64(1))


LOOP = "let q: f64[m*n] = loop (p: f64[m*n] = f) for k from 0 to n { UPDATE in z }\n"
BRANCH = (
    "let c: bool = less(s, 2)\n"
    "let q: f64[m*n] = if c { let p: f64[m*n] = copy f UPDATE in z } else { in f }\n"
)


@pytest.mark.parametrize(
    ("index", "inside"),
    [("k; (2 : m)", LOOP), ("0; (2 : 1)", BRANCH)],
    ids=["at launch", "proved in a branch"],
)
def test_an_update_is_known_to_be_inside(index: str, inside: str) -> None:
    """What the launch checks, or what is proved, is known before anything is written."""
    assert "copy of x into a part of z" not in left(at_lmad(index, inside))


@pytest.mark.parametrize(
    ("index", "inside"),
    [("n; (2 : m)", BRANCH), ("d; (2 : 1)", LOOP), ("0; (2 : n - m + 1)", LOOP)],
    ids=["checked in a branch", "at data", "a stride of unknown sign"],
)
def test_an_update_that_is_checked_late_is_a_copy(index: str, inside: str) -> None:
    """A check at the update comes too late for a source that has been made there."""
    program = at_lmad(index, inside)
    assert left(program)["copy of x into a part of z"] == "scope"
    assert any("checked at the update only" in remark.found for remark in program.remarks)


# ---------------------------------------------------------------- whole programs

NW = """
program nw(a: f64[n*n])
  sizes n, q, b
  fact n - b*q - 1 == 0
{
  let y: f64[n*n] = copy a
  let z: f64[n*n] = loop (p: f64[n*n] = y) for k from 0 to q {
    let west: f64[k + 1, b + 1] = lmad p[k*b; (k + 1 : n*b - b), (b + 1 : n)]
    let north: f64[k + 1, b] = lmad p[k*b + 1; (k + 1 : n*b - b), (b : 1)]
    let x: f64[k + 1, b, b] = kernel (i < k + 1, r < b, c < b) {
      let e: f64 = west[i, r + 1]
      let f: f64 = north[i, c]
      let g: f64 = west[i, 0]
      let h: f64 = add(e, f)
      let o: f64 = add(h, g)
      in o
    }
    let w: f64[n*n] = update_lmad p[k*b + n + 1; (k + 1 : n*b - b), (b : n), (b : 1)] = x
    in w
  }
  in z
}
"""


def test_needleman_wunsch_is_done_in_place() -> None:
    """Section 6.1: blocks of an antidiagonal, for all sizes, in less than 0.1 s."""
    text = NW.replace("), (", "); (")
    q, b = 3, 4
    n = q * b + 1
    program = passed(text, np.random.default_rng(0).normal(size=n * n), n=n, q=q, b=b)
    assert in_place(program)
    assert not program.blocks
    before = introduce(parse(text))
    seconds = []
    for _ in range(5):
        start = time.perf_counter()
        short_circuit(before)
        seconds.append(time.perf_counter() - start)
    assert min(seconds) < 0.1


def test_without_points_nothing_is_done() -> None:
    source = "program test(a: f64[n])\n sizes n\n{ let c: f64 = a[0] in c }"
    before = introduce(parse(source))
    assert short_circuit(before) is before


def test_a_copy_that_is_none_is_removed() -> None:
    program = rows(row("x") + "let z: f64[m] = copy x\n")
    assert not any(isinstance(s.expr, fun.Copy) for s in walk.statements(program.program.body))


# ---------------------------------------------------------------- what is said


def test_remarks_survive_the_archive() -> None:
    program = rows(START + row("x") + "let c: f64 = y[1, 0]\n" + PUT, "z, c")
    segment = compile_segment(program, "weft_entry", print_program)
    assert segment_from_json(json.loads(dumps(segment_to_json(segment)))) == segment
    (copied,) = (remark for remark in segment.remarks if remark.startswith("copy of x"))
    assert copied.startswith("copy of x into a part of z: overlap: y is read after x would be")
    assert any(line.startswith("8*m bytes of x: overlap") for line in segment.remarks)


def test_explain_names_the_line_and_the_condition() -> None:
    @wf.jit
    def turned(a: Any) -> Any:
        return wf.fori_loop(0, 3, lambda t, x: x.at[t].set(1.0), a)

    text = str(wf.explain(turned, wf.asarray(np.arange(8.0))))
    (line,) = [line for line in text.splitlines() if "copy of" in line and "argument" in line]
    assert "test_short_circuit.py:" in line
    assert "creation" in line


def test_nothing_is_moved_where_it_is_switched_off() -> None:
    @wf.jit
    def joined(a: Any) -> Any:
        return wf.concat([a + 1.0, a * 2.0])

    a = np.arange(5.0)
    on = joined.lower(a).funmem
    with wf.config(optimise="no-short-circuit"):
        off = joined.lower(a).funmem
        np.testing.assert_array_equal(joined(a), np.concatenate([a + 1, a * 2]))
    np.testing.assert_array_equal(joined(a), np.concatenate([a + 1, a * 2]))
    assert "block" not in on
    assert "copy" in off


# ---------------------------------------------------------------- two versions

ROWS = """
program test(a: f64[n, m])
  sizes n, m, k, j
{
  let y: f64[n, m] = copy a
  let x: f64[m] = kernel (i < m) { let e: f64 = y[j, -i + m - 1] let f: f64 = add(e, e) in f }
  let z: f64[n, m] = update y[k, 0 for m] = x
  in z
}
"""


def test_what_only_sizes_tell_is_decided_at_launch() -> None:
    source = parse(ROWS)
    sure, better = versions(hoist(introduce(source)))
    assert left(sure) == {"copy of x into a part of z": "overlap"}
    assert in_place(better)
    ((writes, reads),) = better.conditions
    assert {str(writes), str(reads)} == {
        "k*m + {(m : 1)}",
        "j*m + m - 1 + {(m : -1)}",
    }
    for k, j in ((1, 3), (2, 2), (4, 0)):
        sizes = {"k": k, "j": j}
        wanted = by_value(source, (Y,), sizes)
        agree(by_heap(sure, (Y,), sizes), wanted)
        if k != j:
            agree(by_heap(better, (Y,), sizes), wanted)


def test_the_launch_chooses(monkeypatch: pytest.MonkeyPatch) -> None:
    @wf.jit
    def mirrored(a: Any, k: int, j: int) -> Any:
        y = wf.cumulative_sum(a, axis=1)
        return y.at[k].set(2.0 * y[j][::-1])

    a = np.arange(600.0).reshape(6, 100)
    chosen = []
    launch = incore.run_launch

    def noted(step: incore.Launch, *rest: Any) -> Any:
        chosen.append(step.step.better is None)  # the better version has no better one
        return launch(step, *rest)

    monkeypatch.setattr(incore, "run_launch", noted)
    for k, j in ((2, 3), (3, 3), (5, 4), (4, 1)):
        wanted = np.cumsum(a, axis=1)
        wanted[k] = 2.0 * wanted[j][::-1]
        np.testing.assert_array_equal(mirrored(a, k, j), wanted)
    assert chosen == [True, False, True, True]


def test_versions_are_chosen_by_sizes_and_survive_the_archive() -> None:
    segment = compile_with_memory(parse(ROWS), {})
    assert segment.better is not None
    assert segment_from_json(json.loads(dumps(segment_to_json(segment)))) == segment
    told = {remark.endswith("; not for sizes that keep them apart") for remark in segment.remarks}
    assert told == {True, False}  # the copy of the row, and that of the argument
    values = {"n": 5, "m": 4, "k": 2, "j": 3, "threads": 1}
    assert segment.better.suits(values)
    assert not segment.better.suits({**values, "j": 2})
    assert segment.workspace.evaluate(values) > segment.better.segment.workspace.evaluate(values)
