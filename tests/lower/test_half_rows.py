"""Rows that a branch on their own index parts are two loops without it; others are one."""

from __future__ import annotations

import numpy as np
import pytest
from lower.harness import IndexFailureError, agree, compiled, run

from weft.fun.parse import parse
from weft.lower import narrow_rows

PROGRAM = """program halves(x: f64[n, m], y: f64[n, m], k: i64[n, m]) sizes n, m {
  let s: f64[n, m] = kernel (i < n, j < m) {
    CONDITION
    let w: f64 = if c { THEN } else { OTHERWISE }
    let z: f64 = multiply(w, 3.0)
    in z
  }
  in s
}"""
X, Y = "let p: f64 = x[i, j]\n in p", "let q: f64 = y[i, j]\n in q"
SHAPES = [(1, 1), (1, 40), (40, 1), (3, 3), (37, 41), (100, 64), (9, 200)]
HALVES = {
    "below": "let c: bool = less(j, i)",
    "above": "let c: bool = greater_equal(j, i)",
    "by a distance": "let d: i64 = add(j, 5) let c: bool = less_equal(d, i)",
    "against the row": "let d: i64 = add(i, j) let c: bool = greater(d, 30)",
    "of a column": "let c: bool = less(j, 7)",
    "of a size": "let e: i64 = size m - 3 let c: bool = less(j, e)",
    "negated": "let b: bool = less(j, i) let c: bool = logical_not(b)",
}
WHOLE = {
    "every other": "let d: i64 = remainder(j, 2) let c: bool = less(d, 1)",
    "one element": "let c: bool = equal(j, i)",
    "a band": "let a: bool = less(j, i) let b: bool = less(i, 9) let c: bool = logical_and(a, b)",
    "twice the index": "let d: i64 = multiply(j, 2) let c: bool = less(d, i)",
    "of the row alone": "let c: bool = less(i, 3)",
    "of data": "let d: i64 = k[i, j] let c: bool = less(j, d)",
}


def text(condition: str, then: str = X, otherwise: str = Y) -> str:
    made = PROGRAM.replace("CONDITION", condition).replace("THEN", then)
    return made.replace("OTHERWISE", otherwise).replace(" let ", "\n let ")


def arguments(n: int, m: int) -> list[np.ndarray]:
    rng = np.random.default_rng(3)
    x, y = rng.random((2, n, m))
    return [x, y, rng.integers(0, m, (n, m))]


def loops(source: str) -> list[str]:
    """The bodies of the simd loops."""
    return [part[: part.index("}")] for part in source.split("#pragma omp simd")[1:]]


@pytest.fixture
def one_text(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the other text that there is for rows of few elements."""
    monkeypatch.setattr(narrow_rows, "vectors", lambda *_: None)


@pytest.mark.parametrize("name", [*HALVES, *WHOLE])
def test_rows_of_few_elements_and_others(name: str) -> None:
    """With both texts: of one, nothing is known in the other."""
    program = parse(text((HALVES | WHOLE)[name]))
    segment = compiled(program)
    for n, m in SHAPES:
        agree(program, arguments(n, m), segment=segment, n=n, m=m)


@pytest.mark.usefixtures("one_text")
@pytest.mark.parametrize("name", HALVES)
def test_each_side_reads_its_own(name: str) -> None:
    program = parse(text(HALVES[name]))
    segment = compiled(program)
    assert [body.count(" ? ") for body in loops(segment.source)] == [0, 0]
    for n, m in SHAPES:
        agree(program, arguments(n, m), segment=segment, n=n, m=m)


@pytest.mark.usefixtures("one_text")
@pytest.mark.parametrize("name", WHOLE)
def test_what_is_no_half_is_one_loop(name: str) -> None:
    program = parse(text(WHOLE[name]))
    segment = compiled(program)
    assert len(loops(segment.source)) <= 1
    for n, m in SHAPES:
        agree(program, arguments(n, m), segment=segment, n=n, m=m)


@pytest.mark.usefixtures("one_text")
def test_a_branch_that_reads_nothing_is_a_selection() -> None:
    program = parse(text(HALVES["below"], "in 1.5", "in 2.5"))
    segment = compiled(program)
    assert len(loops(segment.source)) == 1
    agree(program, arguments(9, 9), segment=segment, n=9, m=9)


def test_a_side_is_checked_where_it_is() -> None:
    """What is read to the left of an element is there, where the branch says that one is."""
    left = "let p: f64 = x[i, j - 2]\n in p"
    program = parse(text("let c: bool = greater_equal(j, 2)", left))
    segment = compiled(program)
    for n, m in SHAPES:
        agree(program, arguments(n, m), segment=segment, n=n, m=m)
    outside = compiled(parse(text("let c: bool = greater_equal(j, 1)", left)))
    with pytest.raises(IndexFailureError):
        run(outside, arguments(5, 5), {"n": 5, "m": 5})


def test_two_branches() -> None:
    again = PROGRAM.replace(
        "let z: f64 = multiply(w, 3.0)",
        "let c2: bool = less(j, 3)\n let z: f64 = if c2 { let r: f64 = x[i, j] in r } "
        "else { let o: f64 = add(w, 1.0) in o }",
    ).replace("CONDITION", HALVES["below"]).replace("THEN", X).replace("OTHERWISE", Y)
    program = parse(again)
    segment = compiled(program)
    for n, m in SHAPES:
        agree(program, arguments(n, m), segment=segment, n=n, m=m)


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int8])
def test_rows_beside_columns(dtype: type) -> None:
    """Mirror images, and sums of a matrix and its transpose: tiles of few columns."""
    program = parse(
        """program turned(x: DT[n, n]) sizes n {
          let s: DT[n, n] = kernel (i < n, j < n) {
            let c: bool = less(j, i)
            let w: DT = if c { let p: DT = x[j, i] in p } else { let q: DT = x[i, j] in q }
            in w
          }
          let t: DT[n, n] = kernel (i2 < n, j2 < n) {
            let p2: DT = x[j2, i2]
            let q2: DT = x[i2, j2]
            let r2: DT = add(p2, q2)
            in r2
          }
          in s, t
        }""".replace("DT", {"f": "f32", "d": "f64", "b": "i8"}[np.dtype(dtype).char])
    )
    segment = compiled(program)
    for n in (1, 7, 63, 64, 65, 200):
        x = np.random.default_rng(n).integers(-60, 60, (n, n)).astype(dtype)
        mirrored, summed = agree(program, [x], segment=segment, n=n)
        np.testing.assert_array_equal(mirrored, np.triu(x) + np.triu(x, 1).T)
        np.testing.assert_array_equal(summed, x + x.T)
