"""Many rounds of a loop on each element by itself, in one launch on a GPU."""

from __future__ import annotations

from typing import Any
from unittest import mock

import numpy as np
import pytest
from agreement.ways import assert_equal_bits
from devices.harness import compiled, device, launched
from lower.harness import sizes_of
from lower.test_time_tiles import tiled
from printers.nvrtc import compile_text

import weft as wf
from weft.compiler import compile_segment
from weft.fun import nodes as fun
from weft.fun.interpret import interpret
from weft.lower.gpu import apart

RNG = np.random.default_rng(0)
AT_ONCE = "rounds at a time on each element"


def add(x: Any, y: Any, n: Any) -> Any:
    return wf.fori_loop(0, n, lambda k, z: z * 0.5 + y * k, x)


def escapes(x: Any, y: Any, n: Any) -> Any:
    """Branches, and arrays that take from each other."""

    def step(_: Any, z: Any) -> Any:
        a, b = z
        inside = a * a + b * b < 4
        return wf.where(inside, a * a - b * b + x, a), wf.where(inside, 2 * a * b + y, b)

    return wf.fori_loop(0, n, step, (x * 0, y * 0))


def neighbours_of_another(x: Any, y: Any, n: Any) -> Any:
    """What rounds do not change may be read anywhere."""
    return wf.fori_loop(
        0, n, lambda _, z: wf.stencil(lambda z, y: z[0] + y[-2] * y[1], z, y, boundary="reflect"), x
    )


def neighbours(x: Any, y: Any, n: Any) -> Any:
    return wf.iterate(lambda z: wf.stencil(lambda z: z[0] + z[1], z, boundary="edge") + y, x, n)


def segment_of(function: Any) -> tuple[fun.Program, Any]:
    program = tiled(function, np.zeros(9), np.zeros(9), 4)
    return program, compiled(program)


@pytest.mark.parametrize("function", [add, escapes, neighbours_of_another])
def test_the_bits_of_a_launch_for_each_round(
    function: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(apart, "ROUNDS", 5)
    program, segment = segment_of(function)
    assert any(AT_ONCE in label for label in segment.kernels)
    (steps,) = {*program.sizes} - sizes_of(program, [np.zeros(9)] * 2, {}).keys()
    on = device()
    for extent in (0, 1, 2, 61, 64, 65):
        for rounds in (0, 1, 4, 5, 6, 16):
            x, y = RNG.random((2, extent))
            before = on.statistics.launches
            with mock.patch.object(on, "is_processor", False):
                kinds, found = launched(on, program, segment, [x, y], {steps: rounds})
            assert not extent or not rounds or "rounds" in kinds
            assert on.statistics.launches - before <= -(-rounds // 5) + 4
            expected = interpret(program, [x, y], sizes_of(program, [x, y], {steps: rounds}))
            assert_equal_bits(found, [np.asarray(wanted) for wanted in expected])


@pytest.mark.parametrize("function", [add, escapes, neighbours_of_another])
def test_nvrtc_compiles_it(function: Any) -> None:
    program = tiled(function, np.zeros(9), np.zeros(9), 4)
    compile_text(compile_segment(program, {}, "", "cuda").source)


def test_elements_that_meet_do_not_suit() -> None:
    _, segment = segment_of(neighbours)
    assert not any(AT_ONCE in label for label in segment.kernels)
