"""Reductions in boxes on a device that has less room than a tile usually takes.

Tiles are smaller then, or boxes are of columns; bits are those of the device at once.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any
from unittest import mock

import numpy as np
import pytest
from agreement.ways import assert_equal_bits
from devices.harness import AS_PROCESSOR, device
from slow import every_second, some_slow

import weft as wf
from weft.runtime.devices.protocol import FAILURE_BYTES

PAIR = "opencl:0.0", "opencl:0.1"

RNG = np.random.default_rng(8)

OPERATIONS: dict[str, Callable[..., Any]] = {
    "sum": lambda x, axis: wf.sum(x, axis=axis),
    "max": lambda x, axis: wf.max(x, axis=axis),
    "mean": lambda x, axis: wf.mean(x * x + x, axis=axis),
}


def reduced(name: str, x: Any, axis: Any, part: float) -> list[int]:
    """Reduce under a limit of a part of the array; how many boxes each stage has."""
    on, program = device(), wf.jit(lambda a: OPERATIONS[name](a, axis))
    cap = int(x.nbytes * part)
    with wf.config(devices=[on.name]):
        whole = program(x)
        with wf.config(memory_limit={on.name: cap}):
            stages = program.explain(wf.asarray(x)).plan.stages
            on.trim()
            on.statistics.peak_bytes = 0
            before = on.statistics.bytes_in
            found = program(x)
    assert_equal_bits([found], [whole])
    boxes = [stage.boxes.count for stage in stages]
    assert all(stage.code.device is not None for stage in stages)
    assert 0 < on.statistics.peak_bytes <= cap
    between = max(x.nbytes // 32, 4096)  # one number of 32 rows, at most
    moved = on.statistics.bytes_in - before
    assert x.nbytes <= moved <= x.nbytes + between + 2 * FAILURE_BYTES * sum(boxes)
    return boxes


@pytest.mark.parametrize("part", [1 / 4, 2 / 3])
@pytest.mark.parametrize("name", list(OPERATIONS))
@pytest.mark.parametrize(
    "shape", every_second([(1000, 700), (2000, 700), (500, 1400), (1000, 2000), (100, 700)])
)
def test_boxes_are_of_columns(shape: tuple[int, int], name: str, part: float) -> None:
    x = RNG.random(shape, np.float32)
    columns, *_ = reduced(name, x, 0, part)
    assert columns > 1


TILED = [
    ((100_003,), 0),
    ((50_000, 7), 0),
    ((200_000, 1), 0),
    ((300, 301), None),
    ((3, 70_000), 1),  # rows that are split, though they are not long as a rule
    ((30, 40, 50), (0, 1)),
    ((300, 40, 5), (0, 1)),
    ((30, 40, 50), (0, 2)),
    ((30, 40, 50), None),
    ((200, 3, 300), 1),
]
TILED_AS = [(*each, as_processor) for each in TILED for as_processor in AS_PROCESSOR]


@pytest.mark.parametrize(("shape", "axis", "as_processor"), some_slow(
    TILED_AS, [each for each in TILED_AS if not each[2] or each[:2] in TILED[::2]], several=True
))  # fmt: skip
def test_tiles_are_smaller(shape: tuple[int, ...], axis: Any, as_processor: bool) -> None:
    x = RNG.random(shape)
    with mock.patch.object(device(), "is_processor", as_processor):
        for part in (1 / 4, 1 / 12):
            boxes = reduced("sum", x, axis, part)
            assert boxes[0] >= 1 / part


def test_a_row_of_one_tile_that_does_not_fit_the_cpu_does() -> None:
    """No tile has fewer elements than the longest grain."""
    on, x = device(), RNG.random(4096)
    total = wf.jit(lambda a: a.sum())
    with wf.config(devices=[on.name], memory_limit={on.name: 4096}):
        assert re.search(r"runs on the cpu: .* at once", str(wf.explain(total, x)))
        np.testing.assert_allclose(total(x), x.sum(), rtol=1e-12)


def test_parts_of_a_device_take_columns() -> None:
    on, x = device(), RNG.random((1000, 700), np.float32)
    if on.name != "opencl:0":
        pytest.skip("parts of a device of OpenCL")
    program = wf.jit(lambda a: a.sum(axis=0))
    with wf.config(devices=["opencl:0"]):
        whole = program(x)
    limits = dict.fromkeys(PAIR, x.nbytes // 4)
    with wf.config(devices=list(PAIR), memory_limit=limits):
        stage, *_ = program.explain(wf.asarray(x)).plan.stages
        assert {share.device for share in stage.shares} == set(PAIR)
        assert_equal_bits([program(x)], [whole])
