"""Reductions by groups of work items: the bits of one item alone."""

from __future__ import annotations

from typing import Any
from unittest import mock

import numpy as np
import pytest
from agreement.ways import assert_equal_bits
from devices.harness import compiled, device, run

import weft as wf
from weft.lower.gpu import groups as gpu_groups
from weft.plan.launches import Branch, Launch

EXTENTS = [1, 31, 32, 33, 255, 256, 2047, 2048, 2049, 6177, 65536 + 40]


def programs() -> dict[str, Any]:
    """Reductions of rows, with operators that commute and one that does not."""

    def compose(p: Any, q: Any) -> Any:
        return p[0] * q[0], p[1] * q[0] + q[1]

    return {
        "sum": lambda x: (x.sum(axis=1),),
        "mean of squares": lambda x: (wf.mean(x * x + 1, axis=1),),
        "argmax": lambda x: (wf.argmax(x, axis=1), wf.max(x, axis=1)),
        "all": lambda x: (wf.all(x > -4, axis=1),),
        "composed": lambda x: wf.reduce(compose, (1.0, 0.0), wf.tanh(x), x),
    }


@pytest.mark.parametrize("name", list(programs()))
def test_groups_and_items_give_the_same_bits(name: str) -> None:
    on = device()
    function = wf.jit(programs()[name])
    rng = np.random.default_rng(8)
    for extent in EXTENTS:
        x = rng.normal(size=(3, extent))
        lowered = function.lower(x)
        program = lowered.program
        found = []
        for short in (1, 1 << 40):  # rows for groups, and rows for items
            with mock.patch.object(gpu_groups, "_SHORT", short):
                segment = compiled(program)
            before = on.statistics.launches
            found.append(run(on, program, segment, [x], {}))
            steps = [step for step in segment.steps if isinstance(step, Launch | Branch)]
            names = [step.kernel for step in steps if isinstance(step, Launch)]
            assert any(kernel.startswith("group") for kernel in names) == (extent > 1)
            assert on.statistics.launches - before < len(steps) or extent == 1
        assert_equal_bits(*found)


def test_long_rows_are_launched_by_groups() -> None:
    on = device()
    total = wf.jit(lambda x: x.sum(axis=1))
    x = np.random.default_rng(9).normal(size=(5, 3000))
    text = total.lower(x).source("opencl")
    assert "barrier(CLK_LOCAL_MEM_FENCE)" in text
    assert "__syncthreads()" in total.lower(x).source("cuda")
    with wf.config(devices=[on.name]):
        np.testing.assert_allclose(total(x), x.sum(axis=1), rtol=1e-12)
        np.testing.assert_allclose(total(x[:, :20]), x[:, :20].sum(axis=1), rtol=1e-12)


def test_what_may_fail_is_left_to_items() -> None:
    """An item that leaves its group early would be waited for."""
    on = device()
    gather = wf.jit(lambda t, i: wf.take(t, i.reshape(-1)).reshape(i.shape).sum(axis=1))
    table, at = np.arange(50.0), np.random.default_rng(1).integers(0, 50, (4, 700))
    assert "barrier" not in gather.lower(table, at).source("opencl")
    with wf.config(devices=[on.name]):
        np.testing.assert_allclose(gather(table, at), table[at].sum(axis=1))
        at[2, 650] = 50
        with pytest.raises(IndexError, match="index 50 is outside"):
            gather(table, at)
