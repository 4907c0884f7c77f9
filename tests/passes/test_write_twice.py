"""A kernel in a loop writes what the loop keeps to both of its places."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from passes.programs import agree, before_after
from passes.test_chain_rows import states

import weft as wf
from weft.fun import nodes as fun
from weft.fun import walk
from weft.fun.check import check
from weft.fun.parse import parse
from weft.fun.show import show
from weft.passes.write_twice import write_twice


def results(program: fun.Program) -> list[int]:
    """How many each kernel in a loop gives."""
    return [
        len(let.pattern)
        for loop in walk.statements(program.body)
        if isinstance(loop.expr, fun.Loop)
        for let in loop.expr.body.statements
        if isinstance(let.expr, fun.Kernel)
    ]


def test_a_state_that_is_carried_and_kept_is_written_twice() -> None:
    before = states(results="e, y")
    after = write_twice(before)
    check(after)
    agree(before, after, [np.arange(1.0, 6.0), np.int64(0)], n=4)
    assert results(before) == [1]
    assert results(after) == [2]
    assert write_twice(after) == after


def test_what_is_only_kept_is_written_once() -> None:
    before = parse(show(states()).replace("in v2, y2", "in v1, y2"))
    assert write_twice(before) == before


def test_a_filter_makes_one_pass_a_round() -> None:
    def smooth(x: wf.Array) -> wf.Array:
        def step(state: wf.Array, row: wf.Array) -> tuple[wf.Array, wf.Array]:
            state = 0.25 * row + 0.75 * state
            return state, state

        return wf.scan(step, x[0], x)[1]

    x = np.random.default_rng(2).standard_normal((50, 70))
    expected, state = np.empty_like(x), x[0]
    for number, row in enumerate(x):
        expected[number] = state = 0.25 * row + 0.75 * state
    smoothed = wf.jit(smooth)
    np.testing.assert_array_equal(smoothed(x), expected)
    source = smoothed.lower(x).source()
    rounds = source[source.index("for (int64_t i0 = 0;", source.index("weft_entry(")) :]
    assert rounds.count("parallel_for") == 1


def test_golden(golden: Callable[[str], None]) -> None:
    golden(before_after(show(states(results="e, y")), write_twice))
