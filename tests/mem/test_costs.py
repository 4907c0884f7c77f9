"""Costs are what a program moves: counted by hand for small programs."""

from __future__ import annotations

import numpy as np
import pytest
from mem.programs import CASES
from mem.test_introduce import of

from weft.compiler import with_memory
from weft.fun.parse import parse as parse_fun
from weft.mem.costs import Costs, costs
from weft.mem.parse import parse


def test_a_map_reads_and_writes_each_element_once() -> None:
    program = parse("""
program test(a : f32[n] @ a[0; (n : 1)])
    sizes n
    result f32[n] @ result_0[0; (n : 1)]
{
    let b : f32[n] @ result_0[0; (n : 1)] = kernel (i < n) {
        let x : f32 = a[i]
        in x
    }
    in b
}
""")
    assert costs(program, [np.ones(5, np.float32)]) == Costs(read_bytes=20, written_bytes=20)


JOINED = """
program test(a : f64[n] @ a[0; (n : 1)])
    sizes n
    block mem 8*n
    result f64[2*n] @ result_0[0; (2*n : 1)]
{{
    let b : f64[n] @ {place} = kernel (i < n) {{
        let x : f64 = a[i]
        in x
    }}
    let c : f64[2*n] @ result_0[0; (2*n : 1)] = concat 0 (a, b)
    in c
}}
"""


def test_only_the_parts_that_are_elsewhere_are_copied() -> None:
    apart = costs(parse(JOINED.format(place="mem[0; (n : 1)]")), [np.ones(3)])
    assert apart == Costs(1, 24, copies=2, copied_bytes=48, read_bytes=72, written_bytes=72)
    there = costs(parse(JOINED.format(place="result_0[n; (n : 1)]")), [np.ones(3)])
    assert there == Costs(1, 24, copies=1, copied_bytes=24, read_bytes=48, written_bytes=48)


def test_a_copy_is_counted_each_time_it_is_executed() -> None:
    _, arguments = CASES["update_loop"]()
    found = costs(of("update_loop"), arguments)
    assert found.copies == 6  # three rounds, each out of the way and back
    assert found.copied_bytes == 6 * 16 * 8


def test_copies_of_nothing_are_none() -> None:
    program = of("cumulative")
    assert costs(program, [np.ones((0, 4))]) == Costs()


ROWS = """program p(a: f64[n, m], x: f64[n], at: i64[n]) sizes n, m {{
  let y: f64[n, m] = kernel (i < n{row}) {{
    {statements}
  }}
  in y
}}"""
ELEMENT = "{read} let q: f64 = a[i, j] let s: f64 = add(p, q) in s"
ROW = "let r: f64[m] = kernel (j < m) {{ " + ELEMENT + " }} in r"
BRANCH = (
    "let q: f64 = a[i, j] let g: bool = less(q, 2.0)"
    " let s: f64 = if g { let p: f64 = x[i] in p } else { in q } in s"
)
LOOP = """let z: f64[m] = slice a[i, 0 for m]
    let r: f64[m] = loop (v: f64[m] = z) for k from 0 to m {
      let p: f64 = READ
      let w: f64[m] = update v[k] = p
      in w
    }
    in r"""

# Elements that are read of 3 rows of 4, besides those of a copy; and indices.
ALONG_A_LOOP = {
    "of the row": (ROW.format(read="let p: f64 = x[i]"), 3 + 12, 0),
    "of the whole": (ROW.format(read="let p: f64 = x[0]"), 1 + 12, 0),
    "of the element": (ROW.format(read="let p: f64 = a[i, m - 1 - j]"), 12 + 12, 0),
    "by what is read": (ROW.format(read="let o: i64 = at[i] let p: f64 = x[o]"), 3 + 12, 3),
    "by what is computed": (
        ROW.format(read="let o: i64 = size n - 1 - i let p: f64 = x[o]"), 3 + 12, 0
    ),
    "in a space of two": (ELEMENT.format(read="let p: f64 = x[i]"), 3 + 12, 0),
    "along the outer index": (ELEMENT.format(read="let p: f64 = a[0, j]"), 12 + 12, 0),
    "in a branch": (BRANCH, 12 + 12, 0),
    "of what a loop writes": (LOOP.replace("READ", "v[0]"), 12 + 12, 0),
    "of what a loop leaves": (LOOP.replace("READ", "x[i]"), 3 + 12, 0),
}  # fmt: skip


@pytest.mark.parametrize("name", ALONG_A_LOOP)
def test_what_stays_the_same_along_a_loop_is_read_once(name: str) -> None:
    statements, elements, indices = ALONG_A_LOOP[name]
    row = "" if "in r" in statements else ", j < m"
    program = with_memory(parse_fun(ROWS.format(row=row, statements=statements)), {})
    found = costs(program, [np.ones((3, 4)), np.ones(3), np.zeros(3, np.int64)])
    assert found.read_bytes == 8 * (elements + indices)
