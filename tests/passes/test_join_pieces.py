"""Arrays put together from pieces, as kernels with branches."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import weft as wf
from weft.fun import nodes as fun
from weft.fun import walk
from weft.fun.check import check
from weft.fun.interpret import interpret
from weft.passes import tile_time as tiling
from weft.passes.pipeline import optimise

RNG = np.random.default_rng(3)


def line(x: Any) -> Any:
    return wf.concat([x[:1] * 2, x[:-2] + x[2:] * 0.5, x[-1:] - x[-2:-1]])


def plate(x: Any) -> Any:
    """Nine pieces: corners, edges, and what is between."""

    def row(at: slice, other: slice) -> Any:
        here, there = x[at], x[other]
        return wf.concat(
            [here[:, :1] + there[:, :1], here[:, :-2] - there[:, 2:], here[:, -1:] * 0.5], axis=1
        )

    return wf.concat(
        [row(slice(0, 1), slice(1, 2)), row(slice(1, -1), slice(2, None)),
         row(slice(-1, None), slice(-2, -1))]
    )  # fmt: skip


def program(step: Any) -> Any:
    return lambda x, n: wf.iterate(step, x, n)


def joined(step: Any, x: Any) -> fun.Program:
    fused = optimise(wf.jit(program(step)).lower(x, 5).program)
    return tiling.tile_time(fused)


def concatenations(program: fun.Program) -> int:
    return sum(isinstance(let.expr, fun.Concat) for let in walk.statements(program.body))


@pytest.mark.parametrize(
    ("step", "shape"), [(line, (50,)), (line, (3,)), (plate, (9, 11)), (plate, (3, 4))]
)
def test_the_same_values(step: Any, shape: tuple[int, ...]) -> None:
    x = RNG.random(shape)
    made = joined(step, x)
    check(made, after="tile_time")
    assert concatenations(made) == 0
    (loop,) = [let.expr for let in made.body.statements if isinstance(let.expr, fun.Loop)]
    assert isinstance(loop.form, fun.For)
    assert loop.form.tiled is not None
    assert sum(isinstance(let.expr, fun.Kernel) for let in loop.body.statements) == 1
    values = [5, *shape] if made.sizes[0] == "n0" else [*shape, 5]
    (found,) = interpret(made, [x], dict(zip(made.sizes, values, strict=True)))
    expected = x
    for _ in range(5):
        expected = np.asarray(step(wf.asarray(expected)))
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("shape", [(3, 3), (5, 90), (130, 70), (301, 200)])
def test_compiled(shape: tuple[int, int]) -> None:
    x = RNG.random(shape)
    run = wf.jit(program(plate))
    with wf.config(interpret_below=0):
        tiled = run(x, 9)
        with wf.config(optimise="no-time-tiles"):
            np.testing.assert_array_equal(run(x, 9), tiled)


def partly(x: Any) -> Any:
    """A piece that is used elsewhere too, as the middle of the next array."""
    first = x[:1] * 2
    return wf.concat([first, x[1:] + wf.sum(first)])


def flipped(x: Any) -> Any:
    """Reads that are not near their index, once it is that of the whole."""
    return wf.concat([x[:1], wf.flip(x[1:])])


@pytest.mark.parametrize("step", [partly, flipped], ids=lambda step: step.__name__)
def test_what_stays(step: Any) -> None:
    """Joined or not: what is then no stencil is left as it was."""
    fused = optimise(wf.jit(program(step)).lower(RNG.random(20), 5).program)
    assert tiling.time_tiles(fused) == []
    assert tiling.tile_time(fused) == fused


# ---------------------------------------------------------------- updates of parts


def heat(u: Any, source: Any) -> None:
    for _ in range(source.shape[0]):
        u[1:-1, 1:-1] += 0.1 * (u[2:, 1:-1] + u[:-2, 1:-1] + u[1:-1, 2:] + u[1:-1, :-2])


def waves(u: Any, v: Any, source: Any) -> None:
    for t in range(source.shape[0]):
        v[0, :] = source[t]
        v[1:, :] -= 0.5 * (u[1:, :] - u[:-1, :])
        u[:, :-1] -= 0.3 * (v[:, 1:] - v[:, :-1])


def walls(u: Any, source: Any) -> None:
    """Lines that follow their neighbours, as walls through which nothing flows."""
    for _ in range(source.shape[0]):
        u[1:-1, 1:-1] = 0.5 * (u[2:, 1:-1] + u[1:-1, :-2])
        u[:, 0] = u[:, 1]
        u[-1, :] = u[-2, :] * 0.5


def gaps(u: Any, source: Any) -> None:
    for _ in range(source.shape[0]):
        u[1:-1:2, :] = u[:-2:2, :] + u[2::2, :]


def middle(u: Any, row: int, source: Any) -> None:
    for t in range(source.shape[0]):
        u[row, :] = source[t]
        u[1:-1, :] = 0.5 * (u[2:, :] + u[:-2, :])


def somewhere(u: Any, rows: Any, source: Any) -> None:
    for t in range(source.shape[0]):
        u[rows[0], :] = source[t]
        u[1:-1, :] = 0.5 * (u[2:, :] + u[:-2, :])


def loops_tiled(function: Any, *arguments: Any) -> int:
    """Of the program as it would be tiled in time, checked and interpreted."""
    fused = optimise(wf.kernel(function).trace(*arguments))
    made = tiling.tile_time(fused)
    check(made, after="tile_time")
    loops = [let.expr for let in made.body.statements if isinstance(let.expr, fun.Loop)]
    return sum(isinstance(loop.form, fun.For) and loop.form.tiled is not None for loop in loops)


@pytest.mark.parametrize("size", [3, 4, 90])
@pytest.mark.parametrize(
    ("function", "arrays", "tiled"), [(heat, 1, 1), (waves, 2, 1), (walls, 1, 1), (gaps, 1, 0)]
)
def test_updates(function: Any, arrays: int, tiled: int, size: int) -> None:
    arguments = [RNG.random((2 * size + 1, size)) for _ in range(arrays)]
    arguments.append(RNG.random(5))
    assert loops_tiled(function, *arguments) == tiled
    expected, found, untiled = ([np.copy(a) for a in arguments] for _ in range(3))
    function(*expected)
    wf.kernel(function)(*found)
    with wf.config(optimise="no-time-tiles"):
        wf.kernel(function)(*untiled)
    for one, other, third in zip(found, expected, untiled, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-12)
        np.testing.assert_array_equal(one, third)


def test_a_part_that_may_reach_beyond_its_array_is_still_checked() -> None:
    u, source = RNG.random((9, 8)), RNG.random(3)
    assert loops_tiled(middle, u, 4, source) == 1  # that it does not is asked of each call
    with pytest.raises(wf.WeftError, match="out of bounds"):
        wf.kernel(middle)(u, 9, source)
    assert loops_tiled(somewhere, u, np.array([4]), source) == 0
    with pytest.raises(wf.WeftError, match="outside axis 0"):
        wf.kernel(somewhere)(u, np.array([9]), source)
