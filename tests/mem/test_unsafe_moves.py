"""Programs that short-circuiting would corrupt if one of its safety conditions had a hole.

Each is run by value and by heap, before and after the pass.
"""

from __future__ import annotations

import numpy as np
import pytest
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


# ---------------------------------------------------------------- every way to write, and to read

SUM = "(l: f64, r: f64) { let q: f64 = add(l, r) in q }"
AGREE = "let same: bool = less(s, 9)\n"
ROUNDS = "let u: f64[n, m] = loop (p: f64[n, m] = OF) for t from 0 to 2 { "
SCATTER = (
    "let u: f64[n, m] = scatter OF over (j < 2) {"
    " let k: i64 = size AT let h: i64 = size j let g: f64 = v[j] in k, h, g }"
)
WRITES = {
    "a scalar": "let u: f64[n, m] = update OF[AT, 0] = 7_f64\n",
    "a row": row("o", "v[0]") + "let u: f64[n, m] = update OF[AT, 0 for m] = o\n",
    "a column": row("o", "v[0]", "AT + 1")
    + "let u: f64[n, m] = update OF[AT for AT + 1 by -1, 0] = o\n",
    "an LMAD": "let f: f64[m*n] = reshape OF (m*n)\n"
    + row("o", "v[0]", "2")
    + "let g: f64[m*n] = update_lmad f[AT*m; (2 : 1)] = o\nlet u: f64[n, m] = reshape g (n, m)\n",
    "a view": "let d: f64[m, n] = permute OF (1, 0)\nlet g: f64[m, n] = update d[1, AT] = 7_f64\n"
    "let u: f64[n, m] = permute g (1, 0)\n",
    "a scatter": SCATTER + "\n",
    "a scatter that adds": SCATTER + " with " + SUM + "\n",
    "a loop": ROUNDS + "let w: f64[n, m] = update p[AT, t] = 7_f64 in w }\n",
    "a loop of rows": ROUNDS
    + row("o", "v[1]")
    + "let w: f64[n, m] = update p[AT, 0 for m] = o in w }\n",
    "a loop in a loop": ROUNDS + "let w: f64[n, m] = loop (k: f64[n, m] = p) for h from 0 to 2 {"
    " let g: f64[n, m] = update k[AT, t + h] = 7_f64 in g } in w }\n",
    "a while loop": "let u: f64[n, m], ended: i64 = loop (p: f64[n, m] = OF, k: i64 = 0) while {"
    " let o: bool = less(k, 2) in o } { let g: f64[1] = broadcast 7_f64 (1)"
    " let w: f64[n, m] = update p[AT, 0 for 1] = g let h: i64 = add(k, 1) in w, h }\n",
    "a branch": AGREE
    + "let u: f64[n, m] = if same { let w: f64[n, m] = update OF[AT, 0] = 7_f64 in w }"
    " else { in OF }\n",
}
READS = {
    "a kernel's operator": "let c: f64 = reduce (; j < m) from 0_f64 { let g: f64 = v[j] in g }"
    " with (l: f64, r: f64) { let k: f64 = OF[AT, 0] let h: f64 = multiply(k, 0_f64)"
    " let o: f64 = add(l, h) let q: f64 = add(o, r) in q }\n"
    "let d: f64 = OF[AT, 0]\nlet e: f64 = add(c, d)\n",
    "a scan's operator": "let f: f64[m] = scan (j < m) from 0_f64 { let g: f64 = v[j] in g }"
    " with (l: f64, r: f64) { let k: f64 = OF[AT, 0] let h: f64 = subtract(k, k)"
    " let o: f64 = add(l, h) let q: f64 = add(o, r) in q }\nlet d: f64 = OF[AT, 1]\n"
    "let c: f64 = f[1]\nlet e: f64 = add(c, d)\n",
    "a scan's first value": "let k: f64 = OF[AT, 0]\n"
    "let f: f64[m] = scan (j < m) from k { let g: f64 = v[j] in g } with " + SUM
    + "\nlet e: f64 = f[1]\n",
    "a scatter's operator": "let o: f64[m] = broadcast 0_f64 (m)\n"
    "let f: f64[m] = scatter o over (j < m) { let k: i64 = size j let g: f64 = v[j] in k, g }"
    " with (l: f64, r: f64) { let k2: f64 = OF[AT, 0] let q: f64 = add(k2, r) in q }\n"
    "let e: f64 = f[1]\n",
    "a condition": "let e: f64, ended: i64 = loop (l: f64 = 1_f64, c: i64 = 0) while {"
    " let k: f64 = OF[AT, 2] let o: bool = less(l, k) in o }"
    " { let h: f64 = add(l, l) let d: i64 = add(c, 1) in h, d }\n",
    "a copy": "let f: f64[m] = slice OF[AT, 0 for m]\nlet g: f64[m] = copy f\n"
    + total("g", "e", ("m",)),
    "a reshaped copy": "let d: f64[m, n] = permute OF (1, 0)\n"
    "let f: f64[m, 1] = slice d[0 for m, AT for 1]\nlet g: f64[m] = reshape f (m)\n"
    + total("g", "e", ("m",)),
    "a loop's first value": "let f: f64[m] = slice OF[AT, 0 for m]\n"
    "let g: f64[m] = loop (p: f64[m] = f) for t from 0 to 2 {"
    + row("o", "p[-I + m - 1]") + " in o }\n" + total("g", "e", ("m",)),
    "a loop that ends with it": "let f: f64[m] = slice OF[AT, 0 for m]\n"
    "let g: f64[m] = loop (p: f64[m] = v) for t from 0 to 2 { in f }\n" + total("g", "e", ("m",)),
    "a branch's result": AGREE + "let f: f64[m] = slice OF[AT, 0 for m]\n"
    "let g: f64[m] = if same { in f } else { in v }\n" + total("g", "e", ("m",)),
    "an iteration's result": "let f: f64[m] = slice OF[AT, 0 for m]\n"
    "let g: f64[2, m] = kernel (k < 2) { in f }\n" + total("g", "e", ("2", "m")),
    "a kernel in a kernel": "let g: f64[2, m] = kernel (k < 2) {"
    + row("o", "OF[AT, I]") + row("j", "o[-I + m - 1]") + " in j }\n" + total("g", "e", ("2", "m")),
    "a value of an update": "let f: f64[m] = slice OF[AT, 0 for m]\n"
    "let o: f64[2, m] = broadcast 0_f64 (2, m)\nlet g: f64[2, m] = update o[1, 0 for m] = f\n"
    + total("g", "e", ("2", "m")),
    "an LMAD": "let d: f64[m*n] = reshape OF (m*n)\nlet f: f64[2] = lmad d[AT*m; (2 : 1)]\n"
    + total("f", "e", ("2",)),
    "an index with a boundary": "let e: f64 = OF[AT, s + 9 : wrap(0, m)]\n",
}  # fmt: skip
WHOLE = {"a scatter", "a scatter that adds", "a branch"}  # which elements is not known
SQUARE = (
    "let x: f64[n, m] = kernel (i1 < n, j1 < m) {"
    " let old: f64 = a[i1, j1] let new: f64 = add(old, 1_f64) in new }\n"
)
PUT_U = PUT.replace("y[", "u[")


def at(text: str, row_at: int, of: str) -> str:
    return text.replace("AT", str(row_at)).replace("OF", of)


@pytest.mark.parametrize("name", WRITES)
def test_overlap_rejects_every_kind_of_write_before_the_point(name: str) -> None:
    """The row is overwritten by what is put there last, not by what is written in between."""
    near = rows(START + row("x") + at(WRITES[name], 1, "y") + PUT_U)
    far = rows(START + row("x") + at(WRITES[name], 2, "y") + PUT_U)
    if name != "a branch":  # which has memory of its own
        assert left(near).get("copy of x into a part of z") == "overlap"
    if name not in WHOLE and name != "a column":
        assert in_place(far)


@pytest.mark.parametrize("name", WRITES)
def test_overlap_rejects_every_kind_of_write_while_the_source_is_read(name: str) -> None:
    """The source shares the row that is overwritten after it was put there."""
    after = "let c: f64 = x[0]\nlet e: f64 = x[1]\n"
    near = rows(START + row("x") + PUT + at(WRITES[name], 1, "z") + after, "u, c, e")
    far = rows(START + row("x") + PUT + at(WRITES[name], 2, "z") + after, "u, c, e")
    if name != "a branch":
        assert left(near).get("copy of x into a part of z") == "overlap"
    if name not in WHOLE and name != "a column":
        assert in_place(far)


@pytest.mark.parametrize("name", READS)
def test_overlap_rejects_every_kind_of_read_before_the_point(name: str) -> None:
    near = rows(START + row("x") + at(READS[name], 1, "y") + PUT, "z, e")
    assert left(near).get("copy of x into a part of z") == "overlap"
    far = rows(START + row("x") + at(READS[name], 2, "y") + PUT, "z, e")
    assert "copy of x into a part of z" not in left(far)


@pytest.mark.parametrize("name", READS)
def test_a_source_may_be_read_in_every_way_when_it_has_moved(name: str) -> None:
    """What is read is the source's, in its new place, also when that is in a larger array."""
    square = "let y: f64[2, n, m] = broadcast 0_f64 (2, n, m)\n"
    put = "let z: f64[2, n, m] = update y[1, 0 for n, 0 for m] = x\n"
    before = rows(square + SQUARE + at(READS[name], 1, "x") + put, "z, e")
    after = rows(square + SQUARE + put + at(READS[name], 1, "x"), "z, e")
    for program in (before, after):
        assert "copy of x into a part of z" not in left(program)


@pytest.mark.parametrize("write", WRITES)
def test_a_source_is_made_in_every_way(write: str) -> None:
    """The updates that make a source happen in its new place, and nowhere else."""
    square = "let y: f64[2, n, m] = broadcast 3_f64 (2, n, m)\n"
    put = "let z: f64[2, n, m] = update y[1, 0 for n, 0 for m] = u\n"
    program = rows(square + SQUARE + at(WRITES[write], 1, "x") + put)
    assert "copy of u into a part of z" not in left(program)
