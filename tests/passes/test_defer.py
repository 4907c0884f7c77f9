"""Elements that are all overwritten are computed where they are read, or never."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from passes.programs import agree

from weft.fun import nodes as fun
from weft.fun import walk
from weft.fun.check import check
from weft.fun.interpret import interpret
from weft.fun.parse import parse
from weft.fun.show import show
from weft.mem.hoist import hoist
from weft.mem.interpret import interpret as interpret_by_heap
from weft.mem.introduce import introduce
from weft.mem.merge_blocks import merge_blocks
from weft.mem.short_circuit import short_circuit
from weft.passes.defer import defer

FILL = """program p(x: f64[n, m]) sizes n, m {
  let z: f64[n, m] = broadcast 0.0 (n, m)
  let r: f64[n, m] = loop (v: f64[n, m] = z) for k from 0 to n {
    let c: f64[m] = kernel (i < m) { let a: f64 = x[k, i] let b: f64 = exp(a) in b }
    let w: f64[n, m] = update v[k, 0 for m] = c
    in w
  }
  in r
}"""

ROWS = """program p(x: f64[l, n, m]) sizes l, n, m {
  let r: f64[l, n, m] = kernel (h < l) {
    let z: f64[n, m] = kernel (i < n, j < m) {
      let a: f64 = x[h, i, j]
      let b: f64 = exp(a)
      in b
    }
    let first: f64[m] = kernel (g < m) { let d: f64 = z[0, g] let e: f64 = sin(d) in e }
    let u: f64[n, m] = update z[0, 0 for m] = first
    let q: f64[n, m] = loop (v: f64[n, m] = u) for k from 1 to n {
      let c: f64[m] = kernel (f < m) {
        let s: f64 = v[k, f]
        let t: f64 = v[k - 1, f]
        let y: f64 = add(s, t)
        in y
      }
      let w: f64[n, m] = update v[k, 0 for m] = c
      in w
    }
    in q
  }
  in r
}"""


def arguments(program: fun.Program) -> list[np.ndarray]:
    shapes = {1: (4,), 2: (4, 3), 3: (2, 4, 3)}
    random = np.random.default_rng(0)
    return [random.random(shapes[len(walk.type_sizes(p.type))]) for p in program.params]


def passed(text: str) -> fun.Program:
    """The program after the pass, which is right by value and by heap."""
    before = parse(text)
    check(before)
    after = defer(before)
    check(after)
    given = arguments(before)
    agree(before, after, given)
    assert parse(show(after)) == after
    assert defer(after) is after
    if after is not before:
        memory = hoist(introduce(after))
        for version in (memory, short_circuit(memory), merge_blocks(short_circuit(memory))):
            for got, wanted in zip(
                interpret_by_heap(version, given), interpret(before, given), strict=True
            ):
                np.testing.assert_array_equal(got, wanted)
    return after


def empties(program: fun.Program) -> int:
    return sum(isinstance(let.expr, fun.Empty) for let in walk.statements(program.body))


@pytest.mark.parametrize("text", [FILL, ROWS], ids=["fill", "rows"])
def test_golden(text: str, golden: Callable[[str], None]) -> None:
    golden(f"{show(parse(text))}\n=>\n\n{show(passed(text))}")


OVERWRITTEN = {
    "from the last row": ("v[k, 0 for m]", "v[n - 1 - k, 0 for m]"),
    "a row before, one after": (
        "v[k, 0 for m] = c",
        "v[k, 0 for 1] = 1.0 let o: f64[n, m] = update w[k, 1 for m - 1] = 2.0",
        "in w\n",
        "in o\n",
    ),
    "read after it was written": (
        "in w\n",
        "let y: f64 = w[k, m - 1] let o: f64[n, m] = update w[k, 0] = y in o\n",
    ),
    "read before it is written": (
        "let b: f64 = exp(a)",
        "let y: f64 = v[k, i] let b: f64 = add(a, y)",
    ),
    "read twice before it is written": (
        "let b: f64 = exp(a)",
        "let y: f64 = v[k, i] let y2: f64 = v[n - 1, i] let b: f64 = add(y2, y)",
    ),
    "the fill is used elsewhere": ("in r\n", "in r, z\n"),
    "in a branch of a kernel": (
        "let b: f64 = exp(a)",
        "let o: bool = less(a, 0.5) let b: f64 = if o { let y: f64 = v[k, i] in y } else { in a }",
    ),
}  # fmt: skip


def changed(text: str, change: tuple[str, ...]) -> str:
    for old, new in zip(change[::2], change[1::2], strict=True):
        assert old in text
        text = text.replace(old, new)
    return text


@pytest.mark.parametrize("change", OVERWRITTEN.values(), ids=OVERWRITTEN)
def test_a_fill_is_not_written(change: tuple[str, ...]) -> None:
    assert empties(passed(changed(FILL, change))) == 1


FILLED = {
    "not all rows": ("from 0 to n", "from 1 to n"),
    "not all of a row": ("v[k, 0 for m] = c", "v[k, 0 for m - 1] = 2.0"),
    "a step": ("v[k, 0 for m] = c", "v[k, m - 1 for m by -1] = c"),
    "a row in every round": ("v[k, 0 for m]", "v[0, 0 for m]"),
    "read by one who knows not when": (
        "let b: f64 = exp(a)",
        "let b: f64 = v[i : wrap(0, n), 0]",
    ),
    "read in any row": (
        "let b: f64 = exp(a)",
        "let o: i64 = i64(a) let b: f64 = v[o, i]",
    ),
    "read as a whole": (
        "let c: f64[m] =",
        "let o: f64[m] = slice v[k, 0 for m] let c: f64[m] =",
        "let b: f64 = exp(a)",
        "let b: f64 = o[i]",
    ),
    "a condition that ends the loop": (
        "for k from 0 to n {",
        "while { let o: f64 = v[0, 0] let l: bool = less(o, 1.0) in l } {",
        "x[k, i]",
        "x[0, i]",
        "v[k, 0 for m]",
        "v[0, 0 for m]",
    ),
    "the rows so far are kept": (
        "loop (v: f64[n, m] = z)",
        "loop (v: f64[n, m] = z, o: f64[n, m] = x)",
        "let r: f64[n, m] =",
        "let r: f64[n, m], r2: f64[n, m] =",
        "in w\n",
        "in w, v\n",
        "in r\n",
        "in r, r2\n",
    ),
    "what a round gives is another array": (
        "in w\n",
        "let o: f64[n, m] = copy x let o2: f64 = w[k, 0] in o\n",
    ),
}  # fmt: skip


@pytest.mark.parametrize("change", FILLED.values(), ids=FILLED)
def test_a_fill_stays(change: tuple[str, ...]) -> None:
    assert empties(passed(changed(FILL, change))) == 0


def test_two_arrays_of_one_fill_are_two() -> None:
    text = changed(
        FILL,
        (
            "let r: f64[n, m] = loop (v: f64[n, m] = z)",
            "let r: f64[n, m], r2: f64[n, m] = loop (v: f64[n, m] = z, v2: f64[n, m] = z)",
            "in w\n",
            "let w2: f64[n, m] = update v2[n - 1 - k, 0 for m] = c in w, w2\n",
            "in r\n",
            "in r, r2\n",
        ),
    )
    assert empties(passed(text)) == 2


def test_a_scalar_that_is_read_early_and_is_a_result() -> None:
    text = """program p(x: f64[n]) sizes n {
      let a: f64 = x[0]
      let z: f64[n] = broadcast a (n)
      let u: f64[n] = update z[0] = 1.0
      let s: f64 = u[n - 1]
      let w: f64[n] = update u[1 for n - 1] = 2.0
      in w, s
    }"""
    assert empties(passed(text)) == 1


def test_elements_are_computed_where_they_are_read() -> None:
    after = passed(ROWS)
    assert empties(after) == 1
    assert show(after).count("exp(") == 2  # of the first row, and of the others


KEPT = {
    "an element read twice": ("v[k, f]", "v[n - 1, f]"),
    "read before and after": ("let t: f64 = v[k - 1, f]", "let t: f64 = v[k - 1 : edge(0, n), f]"),
    "the row read is not the row written": ("let s: f64 = v[k, f]", "let s: f64 = v[k, m - 1 - f]"),
    "each element of a row for each": ("let s: f64 = v[k, f]", "let s: f64 = v[k, 0]"),
    "two reads in one round": (
        "let y: f64 = add(s, t)",
        "let s2: f64 = v[k, f] let t2: f64 = add(s2, t) let y: f64 = add(s, t2)",
    ),
    "not in a vector loop": (
        "let c: f64[m] = kernel (f < m) {",
        "let c: f64[m] = kernel (f2 < m) { let f: i64 = size 0 ",
    ),
    "read in a row that is written at some time": ("v[k - 1, f]", "v[n - 1 - k, f]"),
    "used after it": (
        "in q\n",
        "let o: f64 = z[0, 0] let q2: f64[n, m] = update q[0, 0] = o in q2\n",
    ),
    "not all are overwritten": ("for k from 1 to n {", "for k from 1 to n - 1 {"),
}  # fmt: skip


@pytest.mark.parametrize("change", KEPT.values(), ids=KEPT)
def test_a_kernel_stays(change: tuple[str, ...]) -> None:
    assert empties(passed(changed(ROWS, change))) == 0


def test_a_kernel_outside_of_kernels_stays() -> None:
    """It is parallel over more than the loop that would compute its elements."""
    text = FILL.replace("broadcast 0.0 (n, m)", "kernel (g < n, h < m) { in 1.0 }").replace(
        "let b: f64 = exp(a)", "let y: f64 = v[k, i] let b: f64 = add(a, y)"
    )
    assert empties(passed(text)) == 0
