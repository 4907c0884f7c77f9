"""Rounds of stencils in trapezoids on a processor: the bits of a launch for each round."""

from __future__ import annotations

from itertools import product
from typing import Any
from unittest import mock

import numpy as np
import pytest
from agreement.ways import assert_equal_bits
from devices.harness import AS_PROCESSOR, DIALECT, compiled, device, run
from lower import test_leaning
from lower.harness import sizes_of
from lower.test_time_tiles import (
    SHAPES,
    TILED,
    TURNS,
    loop,
    pair_with_power,
    repeated,
    tiled,
    waves,
)  # fmt: skip
from slow import some_slow

import weft as wf
from weft.compiler import compile_segment
from weft.fun import nodes as fun
from weft.fun.interpret import interpret
from weft.fun.parse import parse
from weft.lower import trapezoids
from weft.lower.gpu import time_tiles as gpu_time_tiles
from weft.passes.pipeline import optimise
from weft.passes.tile_time import tile_time
from weft.plan.launch_counts import count
from weft.plan.launches import PROCESSOR, Branch
from weft.plan.segment import Dialect, Segment

RNG = np.random.default_rng(0)


@pytest.fixture(autouse=True)
def small_tiles(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tiles of a few elements, so that small arrays have many of them, and odd ones."""
    monkeypatch.setattr(gpu_time_tiles, "LEVELS", (3, 4, 2))
    monkeypatch.setattr(gpu_time_tiles, "APART", 3)
    monkeypatch.setattr(gpu_time_tiles, "SOME", 1)
    monkeypatch.setattr(gpu_time_tiles, "MANY", 5)
    monkeypatch.setattr(gpu_time_tiles, "ALIGNED", 2)
    for module in (gpu_time_tiles, trapezoids):
        monkeypatch.setattr(module, "FEW_LEVELS", 2)
        monkeypatch.setattr(module, "line", lambda _: 5)
        monkeypatch.setattr(module, "ROW", (7, 6))
        monkeypatch.setattr(module, "block_bytes", lambda: (300, 700))
    monkeypatch.setattr(trapezoids, "SECOND", 3)


def in_tiles(program: fun.Program, dialect: Dialect = DIALECT) -> Segment:
    """The program's kernels, which have trapezoids where the dialect is one of processors."""
    segment = compile_segment(program, {}, "", dialect)
    tiled = any(TILED in label for label in segment.kernels)
    assert tiled == (dialect == "opencl"), segment.kernels
    if not tiled:
        return segment
    branch = next(step for step in segment.steps if isinstance(step, Branch))
    assert branch.condition == PROCESSOR
    return segment


def agrees(program: fun.Program, segment: Segment, arrays: list[Any], rounds: int) -> None:
    """Tiles and rounds compute what the interpreter does."""
    on = device()
    (steps,) = {*program.sizes} - sizes_of(program, arrays, {}).keys()
    expected = interpret(program, arrays, sizes_of(program, arrays, {steps: rounds}))
    for by_tiles in AS_PROCESSOR:
        with mock.patch.object(on, "is_processor", by_tiles):
            found = run(on, program, segment, arrays, {steps: rounds})
        assert_equal_bits(found, [np.asarray(wanted) for wanted in expected])


@pytest.mark.parametrize("name", TURNS)
def test_arrays_that_take_turns(name: str) -> None:
    program = tiled(TURNS[name], np.zeros(61), np.zeros(61), 4)
    segment = in_tiles(program)
    for rounds in (0, 1, 2, 10):
        agrees(program, segment, [RNG.random(61), RNG.random(61)], rounds)


@pytest.mark.parametrize(
    ("rank", "radius", "rule"),
    [
        *((1, 1, rule) for rule in ("edge", "symmetric", 2.5)), (1, 3, "wrap"), (2, 2, "keep"),
        (2, 1, "wrap"), (3, 1, "reflect"),
    ],
)  # fmt: skip
def test_all_rules(rule: Any, rank: int, radius: int) -> None:
    program = tiled(repeated(rank, radius, rule), np.zeros((9,) * rank), 4)
    segment = in_tiles(program)
    for shape in SHAPES[rank]:
        for rounds in (0, 1, 3, 10) if rank == 1 else (5,):
            agrees(program, segment, [RNG.random(shape)], rounds)


def test_several_arrays_and_one_from_outside() -> None:
    arrays = [RNG.random(47) for _ in range(3)]
    program = tiled(pair_with_power, *arrays, 8)
    segment = in_tiles(program)
    for extent in (2, 7, 30, 47):
        agrees(program, segment, [RNG.random(extent) for _ in range(3)], 8)


def test_several_kernels_a_round() -> None:
    program = tiled(waves, np.zeros((9, 9)), np.zeros((9, 9)), 8)
    segment = in_tiles(program)
    for shape in SHAPES[2]:
        agrees(program, segment, [RNG.random(shape), RNG.random(shape)], 7)


def test_few_launches_do_many_rounds() -> None:
    """Two for each phase, of three rounds here; on a GPU all rounds of so few elements are one."""
    program = tiled(repeated(1, 1, "edge"), np.zeros(61), 4)
    segment = in_tiles(program, "opencl")
    (steps,) = {*program.sizes} - sizes_of(program, [np.zeros(61)], {}).keys()
    values = sizes_of(program, [np.zeros(61)], {steps: 30, "threads": 64})
    for derived in segment.derived:
        values[derived.name] = derived.evaluate(values)
    around = 2  # copies into halves of a block, and out of them
    assert count(segment.steps, {**values, PROCESSOR: 1}) == 2 * 10 + around
    assert count(segment.steps, {**values, PROCESSOR: 0}) == 1 + around
    assert count(segment.steps, values) == 2 * 10 + around


def sums(rounds: Any) -> Any:
    return lambda x, y: wf.fori_loop(0, rounds, lambda k, z: z + y, x)


def test_rounds_that_meet_no_neighbours() -> None:
    """One launch for each phase: odd trapezoids would be empty."""
    program = tiled(lambda x, y, n: sums(n)(x, y), np.zeros(61), np.zeros(61), 4)
    segment = in_tiles(program)
    x, y = RNG.random((2, 61))
    for rounds in (0, 1, 3, 10):
        agrees(program, segment, [x, y], rounds)
    segment = in_tiles(program, "opencl")
    (steps,) = {*program.sizes} - sizes_of(program, [x, y], {}).keys()
    values = sizes_of(program, [x, y], {steps: 30, "threads": 64, PROCESSOR: 1})
    for derived in segment.derived:
        values[derived.name] = derived.evaluate(values)
    around = 1  # the copy of x, which is added to in place
    assert count(segment.steps, values) == 10 + around


def test_boxes_of_rounds_that_meet_no_neighbours_need_no_margin() -> None:
    """So their result is where the rounds are made: nothing is copied out of a part."""
    on, function = device(), wf.jit(sums(5))
    x, y = RNG.random((2, 200_001))
    with wf.config(devices=[on.name], memory_limit={on.name: "2 MiB"}):
        text = str(wf.explain(function, x, y))
        found = function(x, y)
    assert "boxes of" in text
    assert "is only a part of" not in text
    np.testing.assert_array_equal(found, x + y + y + y + y + y)


@pytest.mark.parametrize("index", ["n - 1 - i", "i + k"])
def test_reads_that_are_not_near(index: str) -> None:
    program = parse(loop(index=index))
    segment = compiled(program)
    assert not any(TILED in label for label in segment.kernels)
    x = RNG.random(17)
    expected = interpret(program, [x], {"n": 17, "t": 5})
    found = run(device(), program, segment, [x], {"t": 5})
    np.testing.assert_array_equal(found[0], expected[0])


def test_rounds_that_are_not_straight_lines() -> None:
    """An inner loop that data end: items do it one by one."""

    def step(x: Any) -> Any:
        def cell(t: Any) -> Any:
            return wf.while_loop(lambda y: y > 1, lambda y: y * 0.5, t[-1] + t[1])

        return wf.stencil(cell, x, boundary="edge")

    program = tiled(lambda x, n: wf.iterate(step, x, n), np.zeros(9), 4)
    segment = compile_segment(program, {}, "", "opencl")
    assert not any(TILED in label for label in segment.kernels)


def test_other_devices_have_no_trapezoids() -> None:
    program = tiled(repeated(1, 1, "edge"), np.zeros(61), 4)
    segment = compile_segment(program, {}, "", "cuda")
    assert not any(TILED in label for label in segment.kernels)


def test_users_programs_are_tiled_in_core_and_in_boxes() -> None:
    on = device()
    function = wf.jit(repeated(1, 1, "reflect"))
    x = RNG.random(200_000)
    expected = function(x, 40)
    for limit in (None, "2 MiB"):
        before = on.statistics.launches
        limits = {} if limit is None else {"memory_limit": {on.name: limit}}
        with wf.config(devices=[on.name], **limits):
            text = str(wf.explain(function, x, 40))
            found = function(x, 40)
        assert (TILED in text) == on.is_processor
        np.testing.assert_array_equal(found, expected)
        tiled = on.statistics.launches - before
        with wf.config(devices=[on.name], optimise="no-time-tiles", **limits):
            before = on.statistics.launches
            np.testing.assert_array_equal(function(x, 40), expected)
        if on.is_processor and limit is None:  # in boxes, there may be more of them
            assert tiled < on.statistics.launches - before


@pytest.mark.parametrize(("shape", "radius"), some_slow(
    product([(30, 50), (1, 9), (2, 1, 30), (3, 4, 20)], [1, 2]),
    [((30, 50), 2), ((1, 9), 1), ((2, 1, 30), 2), ((3, 4, 20), 1)], several=True,
))  # fmt: skip
def test_rows_apart_that_wrap_around_lean_over_all_rounds_of_a_phase(
    shape: tuple[int, ...], radius: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rows that meet no other rows have phases longer than any other: as all of a row leans."""
    monkeypatch.undo()  # tiles as large as users have them

    def around(u: Any) -> Any:
        moved = [wf.roll(u, step, axis=-1) for step in (-radius, radius)]
        return (moved[0] + u + moved[1]) / 3

    function = wf.jit(lambda u, n: wf.iterate(around, u, n))
    u = RNG.random(shape)
    for rounds in (31, 40, 100):
        expected = function(u, rounds)
        with wf.config(devices=[device().name], interpret_below=0):
            assert_equal_bits(function(u, rounds), expected)


@pytest.mark.parametrize("name", test_leaning.CASES)
def test_rows_that_lean(name: str) -> None:
    """A box that leans computes its own rows of each round alone, in trapezoids too."""
    function, count, radius, shape = test_leaning.CASES[name]
    original = optimise(wf.jit(function).lower(*[np.zeros(shape)] * count, 3).program)
    program = tile_time(test_leaning.leaning(original, 1))
    segment = in_tiles(program)
    arrays = [RNG.random(shape) for _ in program.params]
    known = sizes_of(original, arrays[:count], {})
    on = device()
    for rows in ((32, 50, radius, radius), (0, 50, 0, radius), (31, 60, radius, 0), (40, 41, 1, 1)):
        for often in (0, 3):
            sizes = {**dict.fromkeys(program.sizes, 0), **known, "count": often}
            sizes.update(zip(test_leaning.LEAN, rows, strict=True))
            expected = interpret(program, arrays, sizes)
            for by_tiles in AS_PROCESSOR:
                with mock.patch.object(on, "is_processor", by_tiles):
                    found = run(on, program, segment, arrays, sizes)
                for one, wanted in zip(found, expected, strict=True):
                    np.testing.assert_array_equal(one, wanted)
