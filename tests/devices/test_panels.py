"""Panels: what a device holds along no axis is cut along two, and each panel's boxes are many rows
and whole lines of columns, copied to where they belong."""

from __future__ import annotations

from dataclasses import replace
from typing import Any
from unittest import mock

import numpy as np
import pytest
from devices.harness import device

import weft as wf
from weft.launch.panels import PanelStage
from weft.plan.code import Rates
from weft.plan.nodes import Plan


def sums_of_products() -> Any:
    return wf.jit(lambda a, b: (a[:, None, :] * b.T[None, :, :]).sum(axis=-1))


def plans(program: Any, *arrays: Any) -> tuple[Plan, list[Plan]]:
    """How panels are cut, and how each is streamed."""
    outer = program.explain(*map(wf.asarray, arrays)).plan
    code = outer.stages[0].code
    assert isinstance(code, PanelStage)
    return outer, list(code._plans.values())


@pytest.mark.parametrize(("rows", "reduced", "columns"), [(300, 200, 260), (97, 333, 513)])
def test_panels_of_awkward_sizes_give_what_the_device_gives_at_once(
    rows: int, reduced: int, columns: int
) -> None:
    on = device()
    rng = np.random.default_rng(rows)
    a, b = rng.random((rows, reduced), np.float32), rng.random((reduced, columns), np.float32)
    cap = (a.nbytes + b.nbytes + 4 * rows * columns) // 8
    program = sums_of_products()
    with wf.config(devices=[on.name]):
        whole = program(a, b)
        for slots in (None, 1, 3):
            on.trim()
            on.statistics.peak_bytes = 0
            with wf.config(memory_limit={on.name: cap}, slots=slots):
                found = program(a, b)
            assert found.tobytes() == whole.tobytes()
            assert 0 < on.statistics.peak_bytes <= cap


def test_boxes_of_panels_are_lines_of_columns_and_move_what_the_plan_says() -> None:
    on = device()
    n = 512
    a, b = np.random.default_rng(2).random((2, n, n), np.float32)
    program = sums_of_products()
    rates = Rates(4e9, 4e9, 2e10, 2e-5, 2e-4, 2, False, 2e10)
    with (
        mock.patch.object(on, "_rates", rates),
        wf.config(devices=[on.name], memory_limit={on.name: 3 * a.nbytes // 8}),
    ):
        outer, panels = plans(program, a, b)
        count = outer.stages[0].boxes.count
        (boxes,) = {plan.stages[0].boxes.extent for plan in panels}
        assert boxes % 64 == 0
        assert outer.stages[0].boxes.extent % 64 == 0
        before = replace(on.statistics)
        program(a, b)
        after = on.statistics
    # The rows once, the columns once for each panel, and the record of failures.
    assert after.bytes_in - before.bytes_in <= a.nbytes + count * b.nbytes + 4096
    assert after.bytes_out - before.bytes_out == n * n * 4
    assert after.bytes_packed == before.bytes_packed  # copied from, and to, where they lie
    assert count <= 10
