"""Rounds of stencils in overlapped tiles, as GPUs do them: the bits of a launch for each round."""

from __future__ import annotations

from typing import Any
from unittest import mock

import numpy as np
import pytest
from agreement.ways import assert_equal_bits
from devices.harness import compiled, device, run
from lower.harness import sizes_of
from lower.test_time_tiles import repeated, tiled
from printers.nvrtc import compile_text

from weft.compiler import compile_segment
from weft.fun import nodes as fun
from weft.fun.interpret import interpret
from weft.lower.gpu import overlapped
from weft.plan.segment import Segment

RNG = np.random.default_rng(0)
OVERLAPPED = "overlapping tiles"
ROUNDS = (3, 2)
CENTRE = (26, 12)  # of 32 and 16 x 8 with a radius of 1, along the first dimension


@pytest.fixture
def small_tiles(monkeypatch: pytest.MonkeyPatch) -> None:
    """Groups of few items, so that small arrays have many tiles."""
    monkeypatch.setattr(overlapped, "CHUNKS", (8, 4))
    monkeypatch.setattr(overlapped, "LANES", (1, 8))
    monkeypatch.setattr(overlapped, "OWN", ((4,), (4,)))
    monkeypatch.setattr(overlapped, "ROUNDS", ROUNDS)
    monkeypatch.setattr(overlapped, "HALO", (12, 4))
    monkeypatch.setattr(overlapped, "FEW", 1)


def in_tiles(program: fun.Program) -> Segment:
    segment = compiled(program)
    assert any(OVERLAPPED in label for label in segment.kernels), segment.kernels
    return segment


def agrees(program: fun.Program, segment: Segment, arrays: list[Any], rounds: int) -> None:
    """A GPU computes what the interpreter does."""
    (steps,) = {*program.sizes} - sizes_of(program, arrays, {}).keys()
    on = device()
    with mock.patch.object(on, "is_processor", False):
        found = run(on, program, segment, arrays, {steps: rounds})
    expected = interpret(program, arrays, sizes_of(program, arrays, {steps: rounds}))
    assert_equal_bits(found, [np.asarray(wanted) for wanted in expected])


SHAPES: dict[int, list[tuple[int, ...]]] = {
    1: [(1,), (2,), (7,), (25,), (26,), (27,), (53,), (97,)],
    2: [(1, 1), (2, 3), (11, 3), (13, 5), (1, 30), (30, 1), (29, 17), (37, 23)],
}


@pytest.mark.usefixtures("small_tiles")
@pytest.mark.parametrize("rule", ["keep", "edge", "reflect", "symmetric", "wrap", 2.5])
@pytest.mark.parametrize(("rank", "radius"), [(1, 1), (1, 2), (2, 1)])
def test_all_rules(rule: Any, rank: int, radius: int) -> None:
    program = tiled(repeated(rank, radius, rule), np.zeros((9,) * rank), 4)
    segment = in_tiles(program)
    compile_text(compile_segment(program, {}, "", "cuda").source)
    for shape in SHAPES[rank]:
        if rule == "keep" and min(shape) < 2 * radius:
            continue
        for rounds in (0, 1, 2, 3, 4, 10) if shape in SHAPES[rank][-2:] else (5,):
            agrees(program, segment, [RNG.random(shape)], rounds)


@pytest.mark.usefixtures("small_tiles")
@pytest.mark.parametrize("rank", [1, 2])
def test_a_launch_does_several_rounds(rank: int) -> None:
    shape = (97, 23)[:rank]
    program = tiled(repeated(rank, 1, "edge"), np.zeros(shape), 4)
    segment = in_tiles(program)
    (steps,) = {*program.sizes} - sizes_of(program, [np.zeros(shape)], {}).keys()
    on, most = device(), ROUNDS[rank - 1]
    made = []
    for rounds in (0, 1, most, most + 1, 3 * most + 1):
        before = on.statistics.launches
        with mock.patch.object(on, "is_processor", False):
            run(on, program, segment, [RNG.random(shape)], {steps: rounds})
        made.append(on.statistics.launches - before)
    around = 2  # copies into halves of a block, and out of them
    assert [number - around for number in made] == [0, 1, 1, 2, 4]
