"""Reductions by lanes, on a device that is a processor: the bits of one item for each row."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from unittest import mock

import numpy as np
import pytest
from agreement.ways import assert_equal_bits
from devices.harness import compiled, device, processors_only, run

import weft as wf
from weft.compiler import compile_segment
from weft.lower.gpu.lanes import LANES
from weft.plan.launches import PROCESSOR, Branch, Launch

pytestmark = processors_only

ROWS = [1, LANES - 1, LANES, LANES + 1, 3 * LANES + 5]
EXTENTS = [1, 32, 33, 250]  # too few for groups


def compose(p: Any, q: Any) -> Any:
    return p[0] * q[0], p[1] * q[0] + q[1]


PROGRAMS: dict[str, Callable[[Any, Any], tuple[Any, ...]]] = {
    "pairs": lambda x, y: (wf.sum(y / wf.sqrt(1 + (y - x.reshape(-1, 1)) ** 2), axis=1),),
    "columns": lambda x, y: (wf.sum(x * y.reshape(-1, 1), axis=0) / (1 + wf.abs(x)),),
    "place": lambda x, y: (wf.argmax(wf.floor(x * y.reshape(-1, 1) * 4), axis=0),),
    "composed": lambda x, y: wf.reduce(
        compose, (1.0, 0.0), wf.tanh(x.reshape(-1, 1) * y), wf.minimum(x.reshape(-1, 1), y)
    ),
    "outer": lambda x, y: (
        wf.sum(x * y.reshape(-1, 1, 1) * wf.arange(3.0).reshape(-1, 1), axis=0),
    ),
}


@pytest.mark.parametrize("name", list(PROGRAMS))
def test_lanes_and_items_give_the_same_bits(name: str) -> None:
    on = device()
    function = wf.jit(PROGRAMS[name])
    rng = np.random.default_rng(8)
    for dtype in (np.float32, np.float64) if name == "pairs" else (np.float32,):
        x, y = rng.normal(size=40).astype(dtype), rng.normal(size=50).astype(dtype)
        program = function.lower(x, y).program
        segment = compiled(program)
        branches = [step for step in segment.steps if isinstance(step, Branch)]
        assert all(branch.condition == PROCESSOR for branch in branches)
        vectorised = [step for branch in branches for step in branch.then]
        assert any(isinstance(s, Launch) and s.kernel.startswith("lanes") for s in vectorised)
        for rows in ROWS:
            for extent in EXTENTS:
                x = rng.normal(size=rows).astype(dtype)
                y = rng.normal(size=extent).astype(dtype)
                found = []
                for by_lanes in (True, False):
                    with mock.patch.object(on, "is_processor", by_lanes):
                        found.append(run(on, program, segment, [x, y], {"n": rows, "m": extent}))
                assert_equal_bits(*found)


def test_rows_that_lie_apart_are_left_to_others() -> None:
    """Lanes would read elements that are not neighbours."""
    x = np.zeros((40, 50))
    rows = wf.jit(lambda a: a.sum(axis=1)).lower(x).program
    assert "lanes" not in compiled(rows).source
    columns = wf.jit(lambda a: a.sum(axis=0)).lower(x).program
    assert "lanes" in compiled(columns).source
    assert "lanes" not in compile_segment(columns, {}, "", "cuda").source


def test_what_the_processor_has_instructions_for_is_not_called() -> None:
    """A call would keep loops from being vectorised."""
    x = np.linspace(0, 9, 500, dtype=np.float32)
    function = wf.jit(lambda a: wf.sqrt(a) + wf.floor(a) - wf.abs(a) + wf.copysign(a, -a))
    text = function.lower(x).source("opencl")
    for name in ("sqrt", "floor"):
        assert f"#define {name} seen_{name}" in text
    assert "double" not in text
    on = device()
    with wf.config(devices=[on.name]):
        found = np.asarray(function(x))
    np.testing.assert_array_equal(found, np.sqrt(x) + np.floor(x) - np.abs(x) + np.copysign(x, -x))
