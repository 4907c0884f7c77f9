"""Steps of iterated stencils on tiles in the cache: the same bits, for any size and rule."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import weft as wf
from weft.compiler import with_memory
from weft.fun import nodes as fun
from weft.fun import walk
from weft.fun.check import check
from weft.fun.interpret import interpret
from weft.fun.show import show
from weft.passes import tile_time as tiling
from weft.passes.pipeline import optimise

Golden = Callable[[str], None]
RNG = np.random.default_rng(0)
RULES = ["keep", "edge", "reflect", "symmetric", 2.5]


@pytest.fixture
def small_tiles(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tiles of a few elements, so that small arrays have many of them, and odd ones."""
    monkeypatch.setattr(tiling, "WINDOW_BYTES", 200)
    monkeypatch.setattr(tiling, "STEPS", (3, 2))
    monkeypatch.setattr(tiling, "ROW", 11)


def fused(function: Any, *arguments: Any) -> fun.Program:
    return optimise(wf.jit(function).lower(*arguments).program)


def sizes_of(program: fun.Program, arguments: tuple[Any, ...]) -> dict[str, int]:
    """The size variables that arguments give: extents, and int arguments in order."""
    arrays = [a for a in arguments if isinstance(a, np.ndarray)]
    found = {
        size.variable: extent
        for param, array in zip(program.params, arrays, strict=False)
        for size, extent in zip(walk.type_sizes(param.type), array.shape, strict=True)
        if size.variable is not None
    }
    numbers = iter([a for a in arguments if isinstance(a, int)])
    return found | {name: next(numbers) for name in program.sizes if name not in found}


def agrees(function: Any, *arguments: Any) -> fun.Program:
    """Assert that tiling changes no bit; the tiled program."""
    program = fused(function, *arguments)
    assert len(tiling.time_tiles(program)) == 1
    tiled = tiling.tile_time(program)
    check(tiled, after="tile_time")
    sizes = sizes_of(program, arguments)
    arrays = tuple(a for a in arguments if isinstance(a, np.ndarray))
    expected = interpret(program, arrays, sizes)
    for found, wanted in zip(interpret(tiled, arrays, sizes), expected, strict=True):
        np.testing.assert_array_equal(found, wanted)
    return tiled


def three_points(rule: Any) -> Any:
    def step(x: Any) -> Any:
        return wf.stencil(lambda t: t[-1] * 0.25 + t[0] * 0.5 + t[1] * 0.25, x, boundary=rule)

    return lambda x, n: wf.iterate(step, x, n)


def five_points(rule: Any) -> Any:
    def step(x: Any) -> Any:
        return wf.stencil(
            lambda t: (t[-1, 0] + t[1, 0] + t[0, -1] + t[0, 1] - t[0, 0]) / 3, x, boundary=rule
        )

    return lambda x, n: wf.iterate(step, x, n)


@pytest.mark.usefixtures("small_tiles")
@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("rounds", [2, 3, 7])
@pytest.mark.parametrize("extent", [3, 7, 19, 20, 61])
def test_one_dimension(rule: Any, rounds: int, extent: int) -> None:
    agrees(three_points(rule), RNG.random(extent), rounds)


@pytest.mark.usefixtures("small_tiles")
@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("shape", [(3, 40), (17, 5), (23, 29), (40, 7)])
def test_two_dimensions(rule: Any, shape: tuple[int, int]) -> None:
    agrees(five_points(rule), RNG.random(shape), 5)


@pytest.mark.usefixtures("small_tiles")
@pytest.mark.parametrize("extent", [7, 30, 47])
def test_far_neighbours_several_arrays_and_one_from_outside(extent: int) -> None:
    def step(k: Any, pair: Any, power: Any) -> Any:
        x, y = pair
        new = wf.stencil(lambda a, p: a[-2] + p[1] - a[1] * 0.5, x, power, boundary="edge")
        return new, y * 0.5 + x + k

    def program(x: Any, y: Any, power: Any, n: Any) -> Any:
        return wf.fori_loop(0, n, lambda k, pair: step(k, pair, power), (x, y))

    arrays = [RNG.random(extent) for _ in range(3)]
    agrees(program, *arrays, 8)


@pytest.mark.usefixtures("small_tiles")
def test_golden(golden: Golden) -> None:
    golden(show(agrees(three_points("edge"), RNG.random(30), 4)))


def test_tiles_are_made_where_they_belong() -> None:
    """In two buffers of the whole array and two of a window for each thread: nothing else."""
    program = tiling.tile_time(fused(five_points("keep"), RNG.random((30, 40)), 4))
    memory = with_memory(program, {})
    assert [block.per_thread for block in memory.blocks] == [False, True]
    copied = [r.what for r in memory.remarks if "concatenation" in r.what]
    assert copied == []


def test_compiled_beyond_the_cache() -> None:
    x = RNG.random((1100, 1031)).astype("f4")
    program = wf.jit(five_points("keep"))
    tiled = program(x, 11)
    with wf.config(optimise="no-time-tiles"):
        np.testing.assert_array_equal(tiled, program(x, 11))


def heavy(x: Any, n: Any) -> Any:
    rows = wf.reshape(x, (5, 10))

    def step(x: Any) -> Any:
        return wf.stencil(lambda t: sum((t[0, 1] + k) * t[1, 0] for k in range(9)), x)

    return wf.iterate(step, rows, n)


def sum_each_round(x: Any, n: Any) -> Any:
    return wf.fori_loop(0, n, lambda _, x: x / wf.sum(x), x)


def wraps(x: Any, n: Any) -> Any:
    return three_points("wrap")(x, n)


def until(x: Any, n: Any) -> Any:
    return wf.while_loop(lambda x: x[0] < 100, lambda x: x * 2, x)


def gathers(x: Any, n: Any) -> Any:
    def step(_: Any, x: Any) -> Any:
        return wf.generate(x.shape, lambda i: x[x.shape[0] - 1 - i])

    return wf.fori_loop(0, n, step, x)


@pytest.mark.parametrize(
    "function", [sum_each_round, wraps, until, gathers, heavy], ids=lambda f: f.__name__
)
def test_what_is_left_alone(function: Any) -> None:
    """Steps that need a global result, or what is far away, or wait for arithmetic; and while."""
    program = fused(function, RNG.random(50), 3)
    assert tiling.time_tiles(program) == []
    assert tiling.tile_time(program) == program
