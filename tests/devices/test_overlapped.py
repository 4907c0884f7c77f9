"""Rounds of stencils in overlapped tiles, as GPUs do them: the bits of a launch for each round."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pytest
from agreement.ways import assert_equal_bits
from devices.harness import compiled, device, run
from lower.harness import sizes_of
from lower.test_time_tiles import loop, repeated, tiled, waves
from printers.nvrtc import compile_text
from slow import some_slow

import weft as wf
from weft.compiler import compile_segment
from weft.fun import nodes as fun
from weft.fun.interpret import interpret
from weft.fun.parse import parse
from weft.lower.gpu import overlapped, overlaps
from weft.plan import phases
from weft.plan.launches import listed
from weft.plan.segment import Segment

RNG = np.random.default_rng(0)
OVERLAPPED = "overlapping tiles"
ROUNDS = (4, 2)
CENTRE = (24, 12)  # of 32 and 16 x 8 with a radius of 1, along the first dimension


@pytest.fixture
def small_tiles(monkeypatch: pytest.MonkeyPatch) -> None:
    """Groups of few items, so that small arrays have many tiles."""
    monkeypatch.setattr(overlaps, "CHUNKS", (8, 4))
    monkeypatch.setattr(overlaps, "LANES", (1, 8))
    monkeypatch.setattr(overlaps, "OWN", ((4,), (4,)))
    monkeypatch.setattr(overlaps, "ROUNDS", ROUNDS)
    monkeypatch.setattr(overlaps, "HALO", (12, 4))
    monkeypatch.setattr(overlaps, "CENTRE", (0.1, 0.1))
    monkeypatch.setattr(overlapped, "FEW", (1, 1))


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
    1: [(1,), (2,), (7,), (23,), (24,), (25,), (49,), (73,), (96,), (97,), (131,)],
    2: [(1, 1), (2, 3), (11, 3), (13, 5), (1, 30), (30, 1), (29, 17), (37, 23)],
}


@pytest.mark.usefixtures("small_tiles")
@pytest.mark.parametrize("rule", ["keep", "edge", "reflect", "symmetric", "wrap", 2.5])
@pytest.mark.parametrize(("rank", "radius"), some_slow(
    [(1, 1), (1, 2), (1, 3), (2, 1)], [(1, 2), (1, 3)], several=True
))
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


def varied(x: Any, c: Any, n: Any) -> Any:
    """An array that rounds do not change is read around its index."""

    def cell(v: Any, c: Any) -> Any:
        return v[0] + (v[-1] - v[1]) * c[0] + c[2] * c[-1]

    return wf.fori_loop(0, n, lambda k, x: wf.stencil(cell, x, c, boundary="reflect") - k, x)


def rows(x: Any, c: Any, n: Any) -> Any:
    """One has a number for each row, which wraps around as the array does."""

    def step(_: Any, x: Any) -> Any:
        around = wf.stencil(lambda v: v[-1, 1] + v[1, 0], x, boundary=("wrap", "symmetric"))
        return around * 0.5 + c[:, None]

    return wf.fori_loop(0, n, step, x)


def pair(x: Any, y: Any, n: Any) -> Any:
    """Two arrays, each read around its index."""

    def step(k: Any, both: Any) -> Any:
        x, y = both
        return (
            wf.stencil(lambda a, b: a[-1] * 0.5 + b[1], x, y, boundary=1.0),
            wf.stencil(lambda a, b: b[-1] - a[1] * 0.25, x, y, boundary=2.0) + k,
        )

    return wf.fori_loop(0, n, step, (x, y))


def twice(x: Any, n: Any) -> Any:
    """A round of two kernels: what the first makes is read around its index by the second."""

    def step(x: Any) -> Any:
        flux = wf.stencil(lambda v: wf.sqrt(v[1] * v[1] + v[0] + v[-1]), x, boundary="wrap")
        return wf.stencil(lambda v, f: v[-1] + f[1] - f[-1] * f[0], x, flux, boundary="wrap")

    return wf.iterate(step, x, n)


def ended(x: Any, n: Any) -> Any:
    """As `twice`, but neither wraps around: rules lead to what the first makes near ends."""

    def step(x: Any) -> Any:
        flux = wf.stencil(lambda v: v[1] * 0.5 + v[0] - v[-1] * 0.25, x, boundary="symmetric")
        return wf.stencil(lambda v, f: v[-1] + f[1] - f[-1] * f[0], x, flux, boundary="edge")

    return wf.iterate(step, x, n)


def parity(x: Any, n: Any) -> Any:
    """Of integers: divisors may be 0 where nothing is wanted, and indices are values."""

    def step(x: Any) -> Any:
        around = wf.stencil(lambda v: v[-1] // (v[1] % 7 + 1), x, boundary="wrap")
        return around + wf.arange(x.shape[0]) % 5

    return wf.iterate(step, x, n)


PROGRAMS: dict[str, tuple[Any, int, int]] = {  # function, arrays, of which rank
    "varied": (varied, 2, 1), "pair": (pair, 2, 1), "twice": (twice, 1, 1), "ended": (ended, 1, 1),
}  # fmt: skip


@pytest.mark.usefixtures("small_tiles")
@pytest.mark.parametrize("name", PROGRAMS)
def test_several_arrays(name: str) -> None:
    function, number, rank = PROGRAMS[name]
    program = tiled(function, *[np.zeros((9,) * rank)] * number, 4)
    segment = in_tiles(program)
    for shape in SHAPES[rank][2:]:
        agrees(program, segment, [RNG.random(shape) for _ in range(number)], 7)


@pytest.mark.usefixtures("small_tiles")
def test_a_number_for_each_row() -> None:
    program = tiled(rows, np.zeros((9, 9)), np.zeros(9), 4)
    segment = in_tiles(program)
    for shape in SHAPES[2]:
        agrees(program, segment, [RNG.random(shape), RNG.random(shape[0])], 5)


@pytest.mark.usefixtures("small_tiles")
def test_integers() -> None:
    program = tiled(parity, np.zeros(9, np.int64), 4)
    segment = in_tiles(program)
    for shape in SHAPES[1]:
        agrees(program, segment, [RNG.integers(0, 99, shape)], 7)


# ---------------------------------------------------------------- what suits

SUITED: dict[str, tuple[Any, tuple[Any, ...]]] = {
    "1-D": (repeated(1, 1, "edge"), (np.zeros(9, np.float32),)),
    "2-D": (repeated(2, 1, "reflect"), (np.zeros((9, 9), np.float32),)),
    "2-D of doubles": (repeated(2, 1, "wrap"), (np.zeros((9, 9)),)),
    "far away": (repeated(1, 32, "keep"), (np.zeros(99),)),
    **{name: (program, (np.zeros(9),) * number) for name, (program, number, _) in PROGRAMS.items()},
    "rows": (rows, (np.zeros((9, 9)), np.zeros(9))),
    "bytes": (
        lambda x, n: wf.iterate(lambda x: wf.stencil(lambda v: v[-1] ^ v[1], x), x, n),
        (np.zeros(9, np.uint8),),
    ),
}  # fmt: skip


def leapfrog(x: Any, y: Any, n: Any) -> Any:
    """What the second is made of is read at its own place alone: it is written over."""

    def step(_: Any, both: Any) -> Any:
        x, y = both
        moved = wf.stencil(lambda a: a[-1] - a[1], x, boundary="edge")
        return moved + y, y * 0.5 + x

    return wf.fori_loop(0, n, step, (x, y))


def costly(x: Any, n: Any) -> Any:
    def cell(t: Any) -> Any:
        total = t[0, 1] + t[1, 0]
        for _ in range(6):
            total = wf.exp(wf.sin(total))
        return total

    return wf.iterate(lambda x: wf.stencil(cell, x, boundary="edge"), x, n)


UNSUITED: dict[str, tuple[Any, tuple[Any, ...]]] = {
    "3-D": (repeated(3, 1, "edge"), (np.zeros((5, 5, 5)),)),
    "too far away": (repeated(1, 65, "edge"), (np.zeros(199),)),
    "too far away in 2-D": (repeated(2, 4, "edge"), (np.zeros((9, 9)),)),
    "no neighbours": (lambda x, y, n: wf.iterate(lambda z: z + y, x, n), (np.zeros(9),) * 2),
    "in place": (leapfrog, (np.zeros(9),) * 2),
    "in place, several kernels": (waves, (np.zeros((9, 9)),) * 2),
    "not bound by memory": (costly, (np.zeros((9, 9)),)),
}  # fmt: skip


@pytest.mark.parametrize("name", SUITED)
def test_what_suits_compiles(name: str) -> None:
    function, arguments = SUITED[name]
    segment = compile_segment(tiled(function, *arguments, 4), {}, "", "cuda")
    (label,) = (label for label in segment.kernels if OVERLAPPED in label)
    assert "rounds at a time" in label
    compile_text(segment.source)
    shared = re.search(r"void overlapped.*?\n}\n", segment.source, re.DOTALL)
    assert shared is not None
    bytes_ = {"float": 4, "double": 8, "unsigned char": 1}
    arrays = re.findall(r"__shared__ ([a-z ]+) \w+\[(\d+)\]", shared[0])
    assert 0 < sum(bytes_[type_] * int(extent) for type_, extent in arrays) <= 48 << 10


@pytest.mark.parametrize("name", UNSUITED)
def test_what_does_not_suit(name: str) -> None:
    function, arguments = UNSUITED[name]
    segment = compile_segment(tiled(function, *arguments, 4), {}, "", "cuda")
    assert not any(OVERLAPPED in label for label in segment.kernels)


AROUND = "let d: f64 = v[i - 1 : wrap(0, n)]\n let a: f64 = v"


@pytest.mark.parametrize(
    "text",
    [
        loop(index="n - 1 - i"), loop(index="i + k"), loop(lower="1"),
        loop().replace("let a: f64 = v", AROUND).replace("add(a, 1.0)", "add(a, d)"),
    ],
)  # fmt: skip
def test_reads_that_do_not_suit(text: str) -> None:
    """Far away, by a rule that leads elsewhere, by two rules of which one leads around the ends."""
    segment = compile_segment(parse(text), {}, "", "cuda")
    assert not any(OVERLAPPED in label for label in segment.kernels)


@pytest.mark.parametrize(("rank", "extents", "expected"), [
    (1, (61, 3 * 1792, 1 << 20), [2, 2, 2]), (2, (61, 520, 600), [130, 130, 33]),
])  # fmt: skip
def test_few_tiles_of_rows_are_a_launch_for_each_round(
    rank: int, extents: tuple[int, ...], expected: list[int]
) -> None:
    """Those of a vector are not: a round of one takes less than a launch."""
    shape, rounds, around = (61,) * rank, 130, 2
    program = tiled(repeated(rank, 1, "edge"), np.zeros(shape), 4)
    segment = compile_segment(program, {}, "", "cuda")
    (steps,) = {*program.sizes} - sizes_of(program, [np.zeros(shape)], {}).keys()
    made = []
    for extent in extents:
        some = np.broadcast_to(0.0, (extent,) * rank)
        values = {**sizes_of(program, [some], {}), steps: rounds, "threads": 64}
        for derived in segment.derived:
            values[derived.name] = derived.evaluate(values)
        steps_ = listed(segment.steps, values, 1000)
        assert steps_ is not None
        made.append(len(steps_) - around)
    assert made == expected


@pytest.mark.parametrize("rank", [1, 2])
def test_golden(golden: Callable[[str], None], rank: int) -> None:
    program = tiled(repeated(rank, 1, "edge"), np.zeros((9,) * rank, np.float32), 4)
    shown = compile_segment(program, {}, "", "cuda").source
    kernel = re.search(r"extern[^{]* overlapped.*?\n}\n", shown, re.DOTALL)
    assert kernel is not None
    golden(kernel[0])


@pytest.mark.parametrize(
    ("shape", "limit"), [((60_000,), None), ((60_000,), "300 KiB"), ((150, 140), None)]
)
def test_users_programs_in_core_and_in_boxes(
    shape: tuple[int, ...], limit: str | None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:  # fmt: skip
    """In boxes that overlap; those that lean do a round a launch."""
    on = device()
    monkeypatch.setattr(phases._Numbers, "leaning", lambda _: None)
    monkeypatch.setattr(overlapped, "FEW", (2, 2))
    monkeypatch.setenv("WEFT_CACHE_DIR", str(tmp_path))  # where code has other numbers of tiles
    function = wf.jit(repeated(len(shape), 1, "reflect"))
    x = RNG.random(shape)
    expected = function(x, 40)
    made = []
    for optimise in ("", "no-time-tiles"):
        before = on.statistics.launches
        limits = {} if limit is None else {"memory_limit": {on.name: limit}}
        with (
            mock.patch.object(on, "is_processor", False),
            wf.config(devices=[on.name], optimise=optimise, **limits),
        ):
            text = str(wf.explain(function, x, 40))
            np.testing.assert_array_equal(function(x, 40), expected)
        assert ("boxes of" in text) == (limit is not None)
        assert (OVERLAPPED in text) == (not optimise)
        made.append(on.statistics.launches - before)
    assert made[0] < made[1] / 2
