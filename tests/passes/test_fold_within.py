"""Few terms are folded where a reduction of their totals reads them."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from passes.programs import agree_on_numbers, before_after, reductions

from weft.fun.check import check
from weft.fun.parse import parse
from weft.passes.fold_within import fold_within

LEAST = """program p(x: f64[n, 3], c: f64[4, 3]) sizes n {
  let d: f64[n, 4] = reduce (i < n, j < 4; k < 3) from 0.0 {
    let a: f64 = x[i, k]
    let b: f64 = c[j, k]
    let e: f64 = subtract(a, b)
    let f: f64 = multiply(e, e)
    in f
  } with (l: f64, r: f64) { let t: f64 = add(l, r) in t }
  let m: f64[n] = reduce (u < n; v < 4) from +inf {
    let g: f64 = d[u, v]
    let h: f64 = add(g, 1.0)
    in h
  } with (l2: f64, r2: f64) { let t2: f64 = minimum(l2, r2) in t2 }
  in m
}"""
TWO = (
    LEAST.replace("let d: f64[n, 4] =", "let d: f64[n, 4], q: f64[n, 4] =")
    .replace("from 0.0", "from 0.0, 0.0").replace("in f\n", "in f, e\n")
    .replace("(l: f64, r: f64)", "(l: f64, w: f64, r: f64, z: f64)")
    .replace("in t }", "let s: f64 = add(w, z) in t, s }")
)  # fmt: skip
SIZES = {"n": 5, "s": 19}
MANY = (
    LEAST.replace("4]", "s]").replace("[4, 3]", "[s, 3]").replace("< 4", "< s")
    .replace("sizes n", "sizes n, s")
)  # fmt: skip

FOLDED = {
    "one": LEAST,
    "one_of_two": TWO,
    "both": TWO.replace("add(g, 1.0)", "add(g, o)").replace("let h", "let o: f64 = q[u, v] let h"),
    "many_centres": MANY,
    "all_centres": MANY.replace("let m: f64[n] =", "let m: f64 =")
    .replace("u < n; v < s", "; u < n, v < s"),
    "mathematics_of_totals": MANY.replace("add(g, 1.0)", "exp(g)"),
    "many_centres_in_another_order": MANY.replace("i < n, j < s", "j < s, i < n")
    .replace("d: f64[n, s]", "d: f64[s, n]").replace("d[u, v]", "d[v, u]"),
    "in_another_order": LEAST.replace("i < n, j < 4", "j < 4, i < n")
    .replace("d: f64[n, 4]", "d: f64[4, n]").replace("d[u, v]", "d[v, u]"),
    "one_centre": LEAST.replace("4]", "1]").replace("< 4", "< 1").replace("d[u, v]", "d[u, 0]"),
    "in_a_loop": LEAST.replace("let d", "let y: f64[n] = broadcast 0.0 (n) "
                               "let w: f64[n] = loop (z: f64[n] = y) for o from 0 to 2 { let d")
    .replace("in m\n", "in m } in w\n"),
}  # fmt: skip
STAYS = {
    "many_terms_of_many_centres": MANY.replace("3", "17"),
    "many_coordinates": LEAST.replace("3]", "n]").replace("k < 3", "k < n"),
    "too_many_terms": LEAST.replace("3", "24").replace("4]", "16]").replace("< 4", "< 16"),
    "read_twice": LEAST.replace("add(g, 1.0)", "add(g, o)")
    .replace("let h", "let o: f64 = d[u, v] let h"),
    "at_two_places": TWO.replace("add(g, 1.0)", "add(g, o)")
    .replace("let h", "let o: f64 = q[u, 3 - v] let h"),
    "for_several": LEAST.replace("u < n; v < 4", "u < n; v < 4, y < 2"),
    "a_result": LEAST.replace("in m\n", "in m, d\n"),
    "branches": MANY.replace("let h: f64 = add(g, 1.0)", "let o: bool = less(g, 1.0) "
                             "let h: f64 = if o { in g } else { let y: f64 = add(g, 1.0) in y }"),
    "mathematics": LEAST.replace("multiply(e, e)", "exp(e)"),
}  # fmt: skip


@pytest.mark.parametrize("name", FOLDED)
def test_totals_are_folded_where_they_are_read(name: str) -> None:
    program = parse(FOLDED[name])
    check(program)
    after = fold_within(program)
    check(after)
    assert (len(reductions(program)), len(reductions(after))) == (2, 1)
    agree_on_numbers(program, after, SIZES)


@pytest.mark.parametrize("name", STAYS)
def test_what_stays(name: str) -> None:
    program = parse(STAYS[name])
    check(program)
    assert fold_within(program) is program


def test_the_least_of_distances(golden: Callable[[str], None]) -> None:
    golden(before_after(LEAST, fold_within))


