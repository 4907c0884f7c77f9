"""The loop that adds is the innermost one of nests that multiply matrices."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from passes.programs import before_after

from weft.errors import Place
from weft.fun import nodes as fun
from weft.fun import walk
from weft.fun.check import check
from weft.fun.interpret import interpret
from weft.fun.parse import parse
from weft.passes.sum_inwards import sum_inwards

SIZES = {"n": 4, "m": 3, "l": 5, "q": 2}
ARRAYS = """a: f64[n, l], b: f64[l, m], c: f64[n, m], d: f64[q, n, m], p: i64[n]"""
BODY = """let f: f64 = b[k, j]
        let g: f64 = multiply(e, f)
        let s: f64 = c3[i, j]
        let t: f64 = add(s, g)
        let u: f64[n, m] = update c3[i, j] = t
        in u"""


def nest(order: str, body: str = BODY, **bounds: str) -> str:
    """Loops around a body; what is read of `a` stands in the inner one of those that it needs."""
    limits = {"i": "0 to n", "j": "0 to m", "k": "0 to l"} | bounds
    read = "let e: f64 = a[i, k]"
    lines = []
    for depth, index in enumerate(order, 1):
        before = f"c{depth - 1}" if depth > 1 else "c"
        lines.append(
            f"let y{depth}: f64[n, m] = loop (c{depth}: f64[n, m] = {before}) "
            f"for {index} from {limits[index]} {{"
        )
        if {"i", "k"} <= set(order[:depth]) and not {"i", "k"} <= set(order[: depth - 1]):
            lines.append(read)
    lines.append(body.replace("c3", f"c{len(order)}"))
    lines += [f"}} in y{depth}" for depth in range(len(order), 1, -1)]
    return f"program p({ARRAYS}) sizes n, m, l, q {{\n" + "\n".join(lines) + "\n} in y1 }"


def ran(program: fun.Program) -> object:
    random = np.random.default_rng(5)
    n, m, terms, q = SIZES.values()
    arrays = [random.random(s) for s in ((n, terms), (terms, m), (n, m), (q, n, m))]
    (found,) = interpret(program, [*arrays, np.array([1, 3, 2, 4])], SIZES)
    return found


def indices(program: fun.Program) -> str:
    """Of the loops, the outermost first."""
    forms = [let.expr.form for let in walk.statements(program.body)
             if isinstance(let.expr, fun.Loop)]  # fmt: skip
    return "".join(form.index.name for form in forms if isinstance(form, fun.For))


def test_golden(golden: Callable[[str], None]) -> None:
    golden(before_after(nest("ikj"), sum_inwards))


MOVED = {
    "rows": nest("ikj"),
    "columns": nest("jki"),
    "outermost": nest("kij"),
    "outermost, columns": nest("kji"),
    "columns, the sum innermost": nest("jik"),
    "subtracted": nest("ikj", BODY.replace("add(s, g)", "subtract(s, g)")),
    "scaled": nest("ikj", BODY.replace("add(s, g)", "add(h, s)").replace(
        "let s:", "let h: f64 = multiply(g, 2_f64) let s:")),
    "from a later row": nest("kij", i="1 to n"),
    "from a later term": nest("kij", k="2 to l"),
    "triangle": nest("kij", j="0 to i"),
    "turned around": nest("kij", BODY.replace("[i, j]", "[n - 1 - i, j]")),
}  # fmt: skip


@pytest.mark.parametrize("name", MOVED)
def test_the_loop_that_adds_is_innermost(name: str) -> None:
    before = parse(MOVED[name])
    check(before)
    after = sum_inwards(before)
    check(after)
    assert indices(after) == "ijk"
    np.testing.assert_array_equal(ran(after), ran(before))
    assert sum_inwards(after) is after


def test_columns_of_a_triangle_stay_columns() -> None:
    before = parse(nest("jki", i="j to n"))
    after = sum_inwards(before)
    check(after)
    assert indices(after) == "jik"
    np.testing.assert_array_equal(ran(after), ran(before))


STAYS = {
    "it is innermost": nest("ijk"),
    "a row's terms are fewer": nest("ikj", k="0 to i"),
    "a term's columns are fewer": nest("ikj", j="k to m"),
    "as many as data say": nest("ikj", k="0 to h").replace(
        "let y2", "let h: i64 = p[i] let y2"
    ),
    "multiplied": nest("ikj", BODY.replace("add(s, g)", "multiply(s, g)")),
    "the array is read elsewhere": nest("ikj", BODY.replace("b[k, j]", "c3[k - k, j]")),
    "another element is added to": nest("ikj", BODY.replace("c3[i, j]\n", "c3[i, 0]\n")),
    "what was there is used twice": nest(
        "ikj", BODY.replace("multiply(e, f)", "multiply(s, f)").replace(
            "let g", "let s: f64 = c3[i, j] let g", 1).replace("let s: f64 = c3[i, j]\n", "")),
    "one element for two indices": nest("ikj", BODY.replace("[i, j]", "[i, i]")),
    "two indices in one place": nest("ikj", BODY.replace("[i, j]", "[0, i + j]"), i="0 to 1"),
    "every other row": nest("kij", BODY.replace("[i, j]", "[2*i, j]"), i="0 to 2"),
    "a part of a row is written": nest("ikj", """let f: f64[1] = slice b[k, j for 1]
        let u: f64[n, m] = update c3[i, j for 1] = f
        in u"""),
    "no column is read": nest("ikj", BODY.replace("b[k, j]", "b[k, 0]")),
    "no row is read": nest("ikj", BODY.replace("multiply(e, f)", "multiply(f, f)")),
    "a row of data's choosing": nest("ikj", BODY.replace("b[k, j]", "b[h, j]")).replace(
        "let y3", "let h: i64 = p[i] let y3"
    ),
    "a part of an array": nest("ikj").replace(
        "let e", "let z: f64[m] = slice b[k, 0 for m] let e"
    ),
}  # fmt: skip


def test_each_condition_is_one() -> None:
    assert len({*STAYS.values(), *MOVED.values()}) == len(STAYS) + len(MOVED)


@pytest.mark.parametrize("name", STAYS)
def test_what_stays(name: str) -> None:
    program = parse(STAYS[name])
    check(program)
    assert sum_inwards(program) is program


@pytest.mark.parametrize(
    ("order", "after"), [("rikj", "rijk"), ("irkj", "irjk"), ("krij", "krij")]
)
def test_two_sums_stay_in_their_order(order: str, after: str) -> None:
    program = parse(nest(order, r="0 to q"))
    made = sum_inwards(program)
    check(made)
    assert indices(made) == after
    np.testing.assert_array_equal(ran(made), ran(program))


def test_in_a_branch() -> None:
    head, _, body = nest("kij").rpartition("\n}")[0].partition("{\n")
    text = f"""{head}{{
      let g0: i64 = size n
      let t0: bool = less(g0, 9)
      let y: f64[n, m] = if t0 {{ {body} }} in y1 }} else {{ in c }}
      in y }}"""
    before = parse(text)
    check(before)
    after = sum_inwards(before)
    check(after)
    assert indices(after) == "ijk"
    np.testing.assert_array_equal(ran(after), ran(before))


def test_a_loop_that_is_said_to_be_parallel_does_not_add() -> None:
    """Its rounds meet, which is refused."""
    program = parse(nest("kij").replace("\n} in y1 }", '\n} @ "here.py":7\n in y1 }'))
    (let,) = program.body.statements
    assert isinstance(let.place, Place)
    assert sum_inwards(program, [let.place]) is program
    assert indices(sum_inwards(program)) == "ijk"


def test_loops_take_their_places_along() -> None:
    program = parse(nest("kij").replace("\n} in y1 }", '\n} @ "here.py":7\n in y1 }'))
    (let,) = program.body.statements
    moved = [found for found in walk.statements(sum_inwards(program).body)
             if isinstance(found.expr, fun.Loop)]  # fmt: skip
    assert [found.place == let.place for found in moved] == [False, False, True]


# ---------------------------------------------------------------- what stands before


def after(
    first: str = "multiply(h, 2_f64)", read: str = "z2[i, w]", written: str = "z2[i, w]",
    bound: str = "0 to m", use: str = "", sums: str = "0 to m", result: str = "y1",
) -> str:  # fmt: skip
    """Rows that are scaled before products are added to them."""
    inner = nest("ikj", j=sums).partition("{\n")[2].partition("{\n")[2].rpartition("\n}")[0]
    inner = inner.replace("= c1)", "= z1)")
    return f"""program p({ARRAYS}) sizes n, m, l, q {{
      let y1: f64[n, m] = loop (c1: f64[n, m] = c) for i from 0 to n {{
        let z1: f64[n, m] = loop (z2: f64[n, m] = c1) for w from {bound} {{
          let h: f64 = {read}
          let r: f64 = {first}
          let v: f64[n, m] = update {written} = r
          in v }}
        {use}
        {inner}
      }}
      in {result} }}"""


def test_golden_with_what_stands_before(golden: Callable[[str], None]) -> None:
    golden(before_after(after(), sum_inwards))


BEGUN = {
    "scaled": after(),
    "of another array": after(read="d[0, i, w]"),
    "by its index": after(first="f64(w)"),
    "a triangle": after(bound="0 to i", sums="0 to i"),
    "scalars between": after(use="let g0: f64 = a[i, 0]"),
}


@pytest.mark.parametrize("name", BEGUN)
def test_elements_that_are_scaled_before(name: str) -> None:
    before = parse(BEGUN[name])
    check(before)
    made = sum_inwards(before)
    check(made)
    assert indices(made) == "ijk"
    np.testing.assert_array_equal(ran(made), ran(before))


APART = {
    "other rounds": after(bound="1 to m"),
    "fewer rounds": after(bound="0 to 2"),
    "other elements": after(written="z2[0, w]", read="z2[0, w]"),
    "neighbours are read": after(read="z2[i, m - 1 - w]"),
    "it is seen": after(use="let g0: f64 = z1[0, 0]"),
}


@pytest.mark.parametrize("name", APART)
def test_what_stays_before(name: str) -> None:
    before = parse(APART[name])
    check(before)
    made = sum_inwards(before)
    check(made)
    assert indices(made) == "iwjk"
    np.testing.assert_array_equal(ran(made), ran(before))


def test_an_element_that_is_scaled_before_its_sum() -> None:
    """The sum's loop is alone there, and stays as it is."""
    text = nest("ijk").replace("let y3:", "let z0: f64 = c2[i, j]\nlet z1: f64 = add(z0, z0)\n"
                               "let z: f64[n, m] = update c2[i, j] = z1\nlet y3:")
    program = parse(text.replace("= c2) for k", "= z) for k"))
    check(program)
    assert sum_inwards(program) is program

