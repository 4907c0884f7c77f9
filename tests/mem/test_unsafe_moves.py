"""Programs that short-circuiting would corrupt if one of its safety conditions had a hole.

Each is run by value and by heap, before and after the pass.
"""

from __future__ import annotations

import numpy as np
from mem.test_short_circuit import PUT, START, in_place, left, passed, row, rows


def total(array: str, name: str, shape: tuple[str, ...]) -> str:
    """A statement that sums all of an array."""
    space = ", ".join(f"{name}{axis} < {extent}" for axis, extent in enumerate(shape))
    indices = ", ".join(f"{name}{axis}" for axis in range(len(shape)))
    return (
        f"let {name}: f64 = reduce (; {space}) from 0_f64 {{"
        f" let of_{name}: f64 = {array}[{indices}] in of_{name} }}"
        f" with (l_{name}: f64, r_{name}: f64) {{"
        f" let both_{name}: f64 = add(l_{name}, r_{name}) in both_{name} }}\n"
    )


# ---------------------------------------------------------------- what moves along


def joined_and_put(extent: str) -> str:
    """A row that is put into an array, and before that joined with something."""
    return (
        row("x")
        + row("o", "v[0]", extent)
        + f"let z: f64[{extent} + m] = concat 0 (x, o)\n"
        + "let w: f64[n, m] = update y[0, 0 for m] = x\n"
        + total("w", "c", ("n", "m"))
    )


def test_layout_rejects_a_source_that_is_a_part_of_its_block() -> None:
    """The row is the first of `y` by then: all of `y` does not fit where it is joined."""
    program = rows(START + joined_and_put("m"), "z, c")
    assert left(program) == {"copy of x into the concatenation z": "layout"}
    assert [block.name for block in program.blocks] == ["mem_y_0"]


def test_layout_accepts_a_source_of_which_its_block_holds_parts() -> None:
    body = (
        row("x", "v[0]", "2")
        + row("w", "v[1]", "3")
        + "let y: f64[5] = concat 0 (x, w)\nlet o: f64[2, 5] = broadcast 0_f64 (2, 5)\n"
        + "let z: f64[2, 5] = update o[1, 0 for 5] = y\n"
    )
    program = rows(body)
    assert in_place(program)
    assert not program.blocks


def kept(after: str, read: str) -> str:
    """A copy of a row, by a loop, which a kernel may read in its own result's place."""
    return (
        row("x")
        + "let w: f64[m] = loop (p: f64[m] = x) for t from 0 to 2 { in x }\n"
        + after
        + f"let z: f64[m] = kernel (i < m) {{ let e: f64 = {read}[i] let g: f64 = w[i]"
        + " let f: f64 = add(e, g) in f }\n"
    )


def test_overlap_accepts_a_copy_of_what_only_is_read() -> None:
    assert not rows(kept("", "x")).blocks


def test_overlap_rejects_a_copy_of_what_is_overwritten() -> None:
    """Both rows may move to the result; then the copy is none, and must not change."""
    assert len(rows(kept("let u: f64[m] = update x[0] = 7_f64\n", "u")).blocks) == 1


# ---------------------------------------------------------------- what is known, and where


def test_overlap_forgets_what_holds_where_something_was_refused() -> None:
    """`n >= 3` inside of the kernel of n - 2 iterations, at which the lower point is refused.

    At the upper one the first element and that before the last are the same if n = 2.
    """
    text = (
        "program test(a: f64[n], b: f64[n])\n sizes n\n{\n let y: f64[n] = copy a\n"
        + row("x", "y[0]", "1")
        + "let c: f64 = y[0]\nlet z: f64[n] = update y[n - 2 for 1] = x\nlet o: f64[n] = copy b\n"
        + row("w", "o[-I + n - 3]", "n - 2")
        + "let u: f64[n] = update o[0 for n - 2] = w\n in z, c, u }"
    )
    for n in (2, 3, 7):
        program = passed(text, np.arange(1.0, 1.0 + n), np.arange(2.0, 2.0 + n))
        assert set(left(program)) == {"copy of x into a part of z", "copy of w into a part of u"}


# ---------------------------------------------------------------- many accesses


def many_reads(row_written: int) -> str:
    """A loop that overwrites one element, and reads more views than a summary holds."""
    reads = "".join(
        f"let b{k}: f64[n, m] = slice u[0 for n, 0 for m]\nlet g{k}: f64 = b{k}[2, 1]\n"
        for k in range(60)
    )
    return (
        "let o: f64[n, m] = loop (p: f64[n, m] = z) for t from 0 to 2 {\n"
        f"let u: f64[n, m] = update p[{row_written}, 0] = 7_f64\n{reads} in u }}\n"
    )


def test_overlap_counts_a_write_among_many_reads() -> None:
    program = rows(START + row("x") + PUT + many_reads(1) + "let c: f64 = x[0]\n", "o, c")
    assert left(program) == {"copy of x into a part of z": "overlap"}
