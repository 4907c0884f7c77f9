"""Costs are what a program moves: counted by hand for small programs."""

from __future__ import annotations

import numpy as np
from mem.programs import CASES
from mem.test_introduce import of

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
