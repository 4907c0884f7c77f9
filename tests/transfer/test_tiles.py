"""Nests in tiles under a device's cap: what is moved, as the device counts it."""

from __future__ import annotations

import copy
from collections.abc import Callable
from functools import partial

import numpy as np
import pytest
from devices.harness import device
from loops.programs import grids

import weft as wf
from weft import prange
from weft.plan import planner

GRID = np.random.default_rng(6).normal(size=(40, 44))
ROW = 44 * 8
FAILURES = 24  # bytes of the record of failures of each slot


def moved(cap: int, monkeypatch: pytest.MonkeyPatch) -> tuple[int, int]:
    """Bytes that a five-point stencil moves under a cap, there and back; checked."""
    without_allowance = partial(planner.plan_program, allowance=0)
    monkeypatch.setattr(planner, "plan_program", without_allowance)
    on = device()
    expected, found = GRID.copy(), GRID.copy()
    grids.five_point(GRID, expected)
    on.trim()
    on.statistics.peak_bytes = 0
    before = copy.copy(on.statistics)
    with wf.config(devices=on.name, memory_limit={on.name: cap}):
        wf.kernel(grids.five_point)(GRID, found)
    np.testing.assert_allclose(found, expected, rtol=1e-12)
    after = on.statistics
    assert after.peak_bytes <= cap
    assert after.launches > 1
    return after.bytes_in - before.bytes_in, after.bytes_out - before.bytes_out


def test_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    """Boxes of rows share two rows with their neighbours."""
    there, back = moved(8192, monkeypatch)
    boxes, rest = divmod(there - GRID.nbytes, 2 * ROW)
    assert 1 <= boxes <= 9
    assert rest <= 4 * FAILURES
    assert back - 38 * 42 * 8 <= 4 * FAILURES


@pytest.mark.slow
def test_rows_and_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where three rows do not fit, tiles are cut along both axes: less than single rows move."""
    there, _ = moved(900, monkeypatch)
    assert there < 2 * GRID.nbytes < 3 * 38 * ROW


def triangle(a, c):
    for i in prange(c.shape[0]):
        for j in range(i + 1):
            c[i, j] = c[i, j] + 2.0 * a[i, j]


def turned(a, c):
    for i in prange(c.shape[0]):
        for j in range(i + 1):
            c[i, j] = a[i, j] + a[j, i]


@pytest.mark.parametrize("function", [triangle, turned])
def test_triangles_under_a_cap(
    function: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Boxes of packed elements; of rows where those in another order are read."""
    without_allowance = partial(planner.plan_program, allowance=0)
    monkeypatch.setattr(planner, "plan_program", without_allowance)
    on = device()
    a = np.random.default_rng(6).normal(size=(40, 40))
    expected, found = a.copy(), a.copy()
    function(a, expected)
    on.trim()
    on.statistics.peak_bytes = 0
    before = copy.copy(on.statistics)
    with wf.config(devices=on.name, memory_limit={on.name: 8192}):
        wf.kernel(function)(a, found)
    np.testing.assert_array_equal(found, expected)
    after = on.statistics
    assert after.peak_bytes <= 8192
    assert after.launches - before.launches > 1
    if function is triangle:
        back, there = after.bytes_out - before.bytes_out, after.bytes_in - before.bytes_in
        assert 820 * 8 <= back <= 820 * 8 + 4 * FAILURES
        assert 2 * 820 * 8 <= there <= 2 * 820 * 8 + 4 * FAILURES


def red_or_black(a, b, colour):
    """A colour of a checkerboard, of which rows begin in turn with the first element."""
    for i in prange(1, a.shape[0] - 1):
        for j in range(1 + (i + colour) % 2, a.shape[1] - 1, 2):
            b[i, j] = 0.25 * (a[i - 1, j] + a[i + 1, j] + a[i, j - 1] + a[i, j + 1])


def test_a_checkerboard_under_a_cap() -> None:
    on = device()
    a = np.random.default_rng(6).normal(size=(60, 61))
    expected, found = a.copy(), a.copy()
    red_or_black(a, expected, 1)
    before = copy.copy(on.statistics)
    with wf.config(devices=on.name, memory_limit={on.name: a.nbytes}):
        wf.kernel(red_or_black)(a, found, 1)
    np.testing.assert_array_equal(found, expected)
    after = on.statistics
    assert after.launches - before.launches > 1
    there = after.bytes_in - before.bytes_in
    assert there < 2 * a.nbytes + 8 * 2 * 61 * 8  # two rows more for each of a few boxes
