"""Blocks of tiled loops begin apart within pages; others are as large as they were."""

from __future__ import annotations

import pytest
from plan.test_leaning import PROGRAMS, given, leaning, planned

from weft.compiler import with_versions
from weft.fun import nodes as fun
from weft.mem.check import check
from weft.mem.expand import LINE
from weft.mem.nodes import Program
from weft.mem.place_blocks import APART, place_blocks
from weft.mem.space_blocks import PAGE, space_blocks
from weft.passes.tile_time import tile_time

__all__ = ["leaning"]


def boxes(name: str) -> tuple[fun.Program, list[dict[str, int]]]:
    """The program of a box that leans, a loop over arrays, each in a block; sizes of boxes."""
    program, _ = PROGRAMS[name]
    sizes = dict(zip(program.sizes, (997, *(3,) * (len(program.sizes) - 2), 6), strict=True))
    sinks = [None] * len(program.body.results)
    (stage,) = planned(program, sizes, given(program, sizes), sinks, 1 << 12).stages
    values = [dict(zip(stage.code.integers, row.tolist(), strict=True)) for row in stage.integers]
    return stage.stage.program, values


def with_memory(program: fun.Program) -> Program:
    return with_versions(program, {}, "", "opencl")[0]


def begins(program: Program, sizes: dict[str, int]) -> list[int]:
    """Where blocks begin within a page."""
    values = {**sizes, "threads": 2}
    for entry in program.program.derived:
        values[entry.name] = entry.evaluate(values)
    assert all(block.bytes.evaluate(values) > 0 for block in program.blocks)
    places = place_blocks(program).places
    return [place.offset.evaluate(values) % PAGE for place in places.values()]


@pytest.mark.parametrize("name", PROGRAMS)
def test_apart_for_any_sizes(name: str, leaning: None) -> None:
    program, values = boxes(name)
    spaced = with_memory(tile_time(program))
    check(spaced)
    assert len(spaced.blocks) >= 2
    assert len(values) > 2
    for sizes in values:
        expected = [n * (APART + LINE) % PAGE for n in range(len(spaced.blocks))]
        assert sorted(begins(spaced, sizes)) == sorted(expected)


def test_others_are_as_they_were(leaning: None) -> None:
    program, values = boxes("line")
    untiled = with_memory(program)
    assert space_blocks(untiled) is untiled
    assert any(sorted(begins(untiled, sizes)) != [0, APART + LINE] for sizes in values)


def test_one_block_is_next_to_nothing(leaning: None) -> None:
    spaced = with_memory(tile_time(boxes("line")[0]))
    only = Program(spaced.program, spaced.blocks[:1], spaced.destinations)
    assert space_blocks(only) is only
