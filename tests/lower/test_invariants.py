"""Loops hold no more than what varies in them; an element that is read twice is read once."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
from lower.harness import IndexFailureError, agree

from weft.fun.parse import parse
from weft.imp import nodes as imp
from weft.lower.segment import lower_program
from weft.mem.introduce import introduce
from weft.mem.short_circuit import short_circuit
from weft.passes.share import share

RNG = np.random.default_rng(8)

ROWS = """program rows(a: f64[n, m], x: f64[n], w: f64, at: i64[n]) sizes n, m {
  let c: f64[n, m] = kernel (i < n, j < m) {
    let p: f64 = x[i]
    let d: f64 = divide(p, w)
    let q: f64 = a[i, j]
    let o: f64 = a[i, j]
    let r: f64 = multiply(d, q)
    let s: f64 = add(r, o)
    in s
  }
  in c
}"""

BRANCHES = """program branches(a: f64[n, m], x: f64[n], w: f64, at: i64[n]) sizes n, m {
  let c: f64[n, m] = kernel (i < n, j < m) {
    let q: f64 = a[i, j]
    let g: bool = less(0.5, q)
    let e: f64 = if g {
      let o: i64 = at[i]
      let p: f64 = x[o]
      let d: f64 = multiply(p, w)
      in d
    } else { in q }
    in e
  }
  in c
}"""


def lowered(text: str) -> imp.Program:
    return lower_program(short_circuit(introduce(share(parse(text)), {})), "invariants")[0]


def loops(statements: tuple[imp.Stmt, ...]) -> Iterator[imp.For]:
    """All loops, outer ones first."""
    for statement in statements:
        match statement:
            case imp.For():
                yield statement
                yield from loops(statement.body)
            case imp.Parallel(body=body):
                yield from loops(body)
            case imp.If(_, then, otherwise):
                yield from loops((*then, *otherwise))
            case _:
                pass


def inputs(n: int, m: int) -> list[object]:
    at = RNG.integers(0, n, n)
    return [RNG.random((n, m)), RNG.random(n), np.float64(1.7), at]


def test_rows() -> None:
    """A row's own value, and what is made of it, stand before the loop over columns."""
    program = lowered(ROWS)
    innermost = [loop for loop in loops(program.body) if not list(loops(loop.body))]
    texts = [str(loop) for loop in innermost if "multiply" in str(loop)]
    assert texts  # of rows that are a few vectors long, and of others
    for columns in texts:
        assert "divide" not in columns
        assert columns.count("Load(") == 1
    assert "divide" in str(program)
    for n, m in ((1, 1), (3, 70), (5, 0)):
        agree(share(parse(ROWS)), inputs(n, m), n=n, m=m)


def test_what_only_a_branch_reads_stays_in_it() -> None:
    """An index out of bounds that no element asks for is no failure."""
    arguments = inputs(4, 6)
    arguments[0] = np.zeros((4, 6))
    arguments[3] = np.full(4, 99)
    agree(BRANCHES, arguments, n=4, m=6)
    arguments[0] = np.ones((4, 6))
    with pytest.raises((IndexFailureError, IndexError)):
        agree(BRANCHES, arguments, n=4, m=6)


def test_reads_of_one_element_are_shared_but_not_of_another() -> None:
    shared = str(share(parse(ROWS)))
    assert shared.count("array=Var(name='a'") < str(parse(ROWS)).count("array=Var(name='a'")
    other = ROWS.replace("let o: f64 = a[i, j]", "let o: f64 = a[i, 0]")
    assert share(parse(other)) == parse(other)
