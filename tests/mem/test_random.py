"""Random programs: by value and by heap they give the same, after every memory pass."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from programs.random_programs import Case, assert_agree, programs
from slow import examples

from weft.fun import nodes as fun
from weft.fun.interpret import interpret as by_value
from weft.mem.check import check
from weft.mem.erase import erase
from weft.mem.interpret import interpret as by_heap
from weft.mem.introduce import introduce
from weft.mem.layout import Layout
from weft.mem.merge_blocks import merge_blocks
from weft.mem.short_circuit import versions
from weft.passes.nest import nest
from weft.passes.pipeline import optimise

SETTINGS = settings(
    max_examples=examples(80), deadline=None, derandomize=True,
    suppress_health_check=list(HealthCheck),
)
KINDS = st.sampled_from(["contiguous", "rows", "strided"])


def holds(case: Case, program: fun.Program, layout: Layout, arguments: tuple[Any, ...]) -> None:
    wanted = by_value(case.program, case.arguments, case.sizes)
    layouts = {p.name: layout for p in program.params if isinstance(p.type, fun.Array)}
    with_memory = introduce(program, layouts, (layout,) * len(program.body.results))
    check(with_memory, "introduce")
    assert_agree(by_value(erase(with_memory), case.arguments, case.sizes), wanted)
    assert_agree(by_heap(with_memory, arguments, case.sizes), wanted)
    made_in_place, *better = versions(with_memory)
    check(made_in_place, "short_circuit")
    assert_agree(by_value(erase(made_in_place), case.arguments, case.sizes), wanted)
    assert_agree(by_heap(made_in_place, arguments, case.sizes), wanted)
    for version in better:  # which sizes it holds for is tested elsewhere
        check(version, "short_circuit")
        assert_agree(by_value(erase(version), case.arguments, case.sizes), wanted)
    for merged in map(merge_blocks, (with_memory, made_in_place)):
        check(merged, "merge_blocks")
        assert_agree(by_heap(merged, arguments, case.sizes), wanted)


def spread(array: Any) -> Any:
    """The same array with other strides: every second row, columns backwards."""
    if np.ndim(array) == 0:
        return array
    wide = np.repeat(array, 2, axis=0)[::2]
    return np.flip(np.flip(wide, -1).copy(), -1) if array.ndim > 1 else wide


@given(case=programs(), layout=KINDS)
@SETTINGS
def test_introduced(case: Case, layout: Layout) -> None:
    strided = tuple(map(spread, case.arguments)) if layout == "strided" else case.arguments
    holds(case, case.program, layout, strided)


@given(case=programs())
@SETTINGS
def test_optimised_and_nested(case: Case) -> None:
    holds(case, nest(optimise(case.program)), "contiguous", case.arguments)
