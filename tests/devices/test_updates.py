"""Calls that update their arguments in place, and find no memory while they run.

The answer is right, or an error is named: no call begins anew from arguments that are updated in
part.
"""

from __future__ import annotations

from typing import Any
from unittest import mock

import numpy as np
import pytest
from devices.faults import failing, full
from devices.harness import device

import weft as wf
from weft.errors import MemoryLimitError
from weft.launch import boxes
from weft.runtime.memory import Pool


def add(u: Any, v: Any) -> None:
    """A part of either is read, and updated: that part alone is copied there and back."""
    for i in range(u.shape[0] // 8):
        u[i] += 1.0
        v[i] += u[i]


def spread(u: Any, v: Any) -> None:
    """All of both."""
    for i in range(u.shape[0]):
        u[i] += 1.0
        v[i] += u[i]


def refused(*_: Any) -> None:
    raise MemoryLimitError("no boxes fit")


@pytest.mark.parametrize("function", [add, spread])
@pytest.mark.parametrize("fits", [True, False], ids=["boxes fit", "boxes do not fit"])
@pytest.mark.parametrize("kind", ["memory", "copy", "launch"])
def test_a_device_finds_no_memory(function: Any, kind: str, fits: bool) -> None:
    on = device()
    given = np.random.default_rng(0).random((2, 80_000))
    expected = given.copy()
    function(*expected)
    update = wf.kernel(function)
    errors = 0
    with wf.config(devices=[on.name]):
        update(*given.copy())
        for at in range(1, 9):
            u, v = given.copy()
            on.trim()
            on._free_slots.clear()
            in_boxes = boxes.run_in_boxes if fits else refused
            with (
                failing(on, kind, at, full(on)) as faulty,
                mock.patch.object(boxes, "run_in_boxes", in_boxes),
            ):
                try:
                    update(u, v)
                except MemoryLimitError:
                    errors += 1
                else:
                    np.testing.assert_array_equal(u, expected[0])
                    np.testing.assert_array_equal(v, expected[1])
            if faulty.calls < at:
                break
    if fits or function is spread:
        assert not errors
    elif kind == "copy":
        assert errors, "a result is in its place when the copy of another fails"


def sums(u: Any, v: Any) -> None:
    """Two launches, with a call of a library between them."""
    u += 1.0
    v += u @ u
    u *= v


@pytest.mark.parametrize("at", [1, 2, 3, 4])
def test_the_system_finds_no_memory(at: int) -> None:
    """While the CPU has updated some of them."""
    given = np.random.default_rng(0).random((2, 300, 300))
    expected = given.copy()
    sums(*expected)
    update = wf.kernel(sums)
    update(*given.copy())
    u, v = given.copy()
    empty, calls = Pool.empty, 0

    def made(self: Pool, shape: tuple[int, ...], dtype: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls == at:
            raise MemoryLimitError("the system has no memory left")
        return empty(self, shape, dtype)

    with mock.patch.object(Pool, "empty", made):
        try:
            update(u, v)
        except MemoryLimitError:
            assert calls >= at
            return
    np.testing.assert_allclose(u, expected[0], rtol=1e-12)
    np.testing.assert_allclose(v, expected[1], rtol=1e-12)
