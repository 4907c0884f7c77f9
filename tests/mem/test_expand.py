"""Threads' memory in shares of common blocks: next to each other, or interleaved.

With at least as many threads as iterations, as on a GPU, the heap evaluator's check for
races says that no two threads meet.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from mem.programs import CASES
from mem.test_introduce import agree, of, placed, sizes_of
from mem.test_merge_blocks import rows
from programs.library import EXAMPLES, SIZES
from programs.random_programs import Case, assert_agree, programs
from slow import examples

from weft.errors import InternalError
from weft.fun import walk
from weft.fun.interpret import interpret as by_value
from weft.mem.check import check
from weft.mem.erase import erase
from weft.mem.expand import Sharing, expand
from weft.mem.interpret import interpret as by_heap
from weft.mem.merge_blocks import merge_blocks
from weft.mem.nodes import MemArray, Program
from weft.mem.parse import parse
from weft.mem.place_blocks import place_blocks
from weft.mem.rename import map_memory, rename_blocks
from weft.mem.show import show
from weft.ops.dtypes import DType
from weft.passes.nest import nest
from weft.passes.pipeline import optimise
from weft.sizes import Poly

LAYOUTS: tuple[Sharing, ...] = ("contiguous", "interleaved")
THREADS = {"threads": 101}


def expanded(program: Program, layout: Sharing) -> Program:
    after = expand(program, layout)
    check(after, "expand")
    assert not any(block.per_thread for block in after.blocks)
    assert len(after.blocks) == len(program.blocks)
    assert erase(after) == erase(program)
    assert expand(after, layout) is after
    assert parse(show(after)) == after
    return after


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("name", ["softmax", "kernel_loop", "branches"])
def test_golden(name: str, layout: Sharing, golden: Callable[[str], None]) -> None:
    golden(show(expanded(merge_blocks(of(name)), layout)))


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("name", CASES)
def test_hand_built(name: str, layout: Sharing) -> None:
    program, arguments = CASES[name]()
    sizes = sizes_of(name)
    after = expanded(merge_blocks(placed(program)), layout)
    agree(by_heap(after, arguments, {**sizes, **THREADS}), by_value(program, arguments, sizes))


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("name", [name for name in EXAMPLES if not name.startswith("call_")])
def test_library(name: str, layout: Sharing) -> None:
    example = EXAMPLES[name]
    after = expanded(merge_blocks(placed(nest(optimise(example.program)))), layout)
    arguments = example.arguments()
    assert_agree(by_heap(after, arguments, {**SIZES, **THREADS}), example.results(arguments))


@given(case=programs(), layout=st.sampled_from(LAYOUTS))
@settings(
    max_examples=examples(100), deadline=None, derandomize=True,
    suppress_health_check=list(HealthCheck),
)
def test_random_programs(case: Case, layout: Sharing) -> None:
    wanted = by_value(case.program, case.arguments, case.sizes)
    for source in (case.program, nest(optimise(case.program))):
        after = expanded(merge_blocks(placed(source)), layout)
        assert_agree(by_heap(after, case.arguments, {**case.sizes, **THREADS}), wanted)


def test_contiguous_is_what_processors_do() -> None:
    """`place_blocks` adds thread * stride to the pointer: the same byte for each element."""
    before = merge_blocks(of("kernel_loop"))
    after = expand(before, "contiguous")
    placed, expanded_places = place_blocks(before).places, place_blocks(after).places
    compared = 0
    for left, right in zip(arrays(before), arrays(after), strict=True):
        if not any(block.name == left.block and block.per_thread for block in before.blocks):
            continue
        place, size = placed[left.block], left.dtype.itemsize
        start = place.offset + place.stride * Poly.var("thread")
        assert start + left.index.offset * size == right.index.offset * size + (
            expanded_places[right.block].offset
        )
        assert left.index.strides == right.index.strides
        compared += 1
    assert compared > 1


def arrays(program: Program) -> list[MemArray]:
    return [
        var.type
        for let in walk.statements(program.program.body)
        for var in let.pattern
        if isinstance(var.type, MemArray)
    ]


def test_interleaved_elements_are_neighbours() -> None:
    (made, *_) = [a for a in arrays(expand(of("softmax"), "interleaved")) if "mem" in a.block]
    places = {
        (thread, j): made.index.apply((Poly.const(j),)).evaluate({"thread": thread, "threads": 4})
        for thread in range(4)
        for j in range(3)
    }
    assert sorted(places.values()) == list(range(12))
    assert [places[thread, 1] for thread in range(4)] == [4, 5, 6, 7]


def test_threads_that_share_a_share_are_found() -> None:
    """All in the share of thread 0: the check for races tells them apart."""

    def first(type_: MemArray) -> MemArray:
        offset = type_.index.offset.substitute({"thread": Poly.const(0)})
        return replace(type_, index=replace(type_.index, offset=offset))

    wrong = map_memory(expand(of("softmax")), first)
    with pytest.raises(InternalError, match="which all threads share"):
        check(wrong)
    with pytest.raises(InternalError, match="iteration"):
        by_heap(wrong, [np.ones((3, 4))], THREADS)


def test_elements_of_several_sizes_are_refused() -> None:
    """Interleaved, one thread's numbers would lie among another's of half the size."""
    program = placed(rows(DType.F64, DType.F32))
    first, second = (block.name for block in program.blocks)
    for layout in LAYOUTS:
        with pytest.raises(InternalError, match="holds elements of 4 and 8 bytes"):
            expand(rename_blocks(program, {second: first}), layout)


def test_nothing_of_threads_is_no_work() -> None:
    program: Any = of("chain")
    assert expand(program, "interleaved") is program
