"""How long stages are said to take: on the host, in boxes or at once, and on several devices."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pytest
from devices.pretended import PretendedCode, PretendedDevice, spread_over

import weft as wf
from weft.plan import times
from weft.plan.at_once import AtOnce
from weft.plan.code import Rates
from weft.plan.times import HostRates, HostWork, host_seconds, together
from weft.runtime.devices.cpu import parts

RATES = HostRates(
    operations=1e9, called=4e9, memory=1e9, together=3e9, files=1e8, launch=1e-3, box=1e-2
)
FREE = replace(RATES, launch=0.0, box=0.0)
X = np.random.default_rng(4).random(1 << 18)


@pytest.mark.parametrize(("asked", "threads", "expected"), [
    (HostWork(operations=4e9), 1, 4.0),
    (HostWork(operations=4e9), 4, 1.0),
    (HostWork(called=4e9), 2, 0.5),
    (HostWork(touched=6e9), 1, 6.0),
    (HostWork(touched=6e9), 2, 3.0),
    (HostWork(touched=6e9), 8, 2.0),  # no more comes from memory
    (HostWork(operations=4e9, touched=6e9), 1, 6.0),  # one waits for the other
    (HostWork(operations=8e9, touched=6e9), 2, 4.0),
    (HostWork(touched=1e9, read=1e8, written=2e8), 1, 4.0),
])  # fmt: skip
def test_what_takes_longer_is_what_it_takes(
    asked: HostWork, threads: int, expected: float
) -> None:
    assert host_seconds(asked, threads, False, FREE) == pytest.approx(expected)


def test_files_are_read_and_written_beside_boxes() -> None:
    asked = HostWork(touched=1e9, read=1e8, written=2e8, boxes=10)
    assert host_seconds(asked, 1, True, FREE) == pytest.approx(2.0 + 2.0 / 10)
    assert host_seconds(asked, 1, False, FREE) == pytest.approx(4.0)
    one = replace(asked, boxes=1)  # beside which there is no other
    assert host_seconds(one, 1, True, FREE) == pytest.approx(4.0)


def test_boxes_and_kernels_cost_something() -> None:
    asked = HostWork(boxes=100, kernels=3)
    assert host_seconds(asked, 8, False, RATES) == pytest.approx(100 * (1e-2 + 3e-3))


def test_devices_share_by_how_quick_they_are() -> None:
    assert together([2.0, 2.0]) == pytest.approx(1.0)
    assert together([1.0, 3.0]) == pytest.approx(0.75)
    assert together([]) == 0.0


PROGRAMS: dict[str, Callable[[Any], Any]] = {
    "map": lambda a: a * 2 + 1,
    "sum": wf.sum,
    "running sum": wf.cumulative_sum,
    "stencil": lambda a: wf.stencil(lambda s: s[-1] + s[1], a, boundary="edge"),
    "sorted": wf.sort,
    "product": lambda a: wf.reshape(a[: 1 << 16], (256, 256)) @ wf.reshape(a[-65536:], (256, 256)),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_every_stage_has_a_time_and_says_so(name: str) -> None:
    told = wf.explain(lambda: PROGRAMS[name](wf.asarray(X)))
    assert told.seconds == sum(stage.seconds for stage in told.plan.stages) > 0
    assert all(stage.seconds > 0 for stage in told.plan.stages)
    assert str(told).count("takes roughly") >= len(told.plan.stages)


@pytest.mark.parametrize("name", ["map", "sum", "running sum", "stencil", "sorted"])
def test_more_takes_longer(name: str, tmp_path: Path) -> None:
    few, many = X[: len(X) // 2], np.tile(X, 8)  # of which no plan is kept
    np.save(tmp_path / "x.npy", many)
    large = wf.open(tmp_path / "x.npy")
    with mock.patch.object(times, "HOST", FREE):
        small, big, file = (
            wf.explain(lambda a=a: PROGRAMS[name](a)).seconds
            for a in (wf.asarray(few), wf.asarray(many), large)
        )
    assert 8 < big / small < 32
    assert file > big  # it has to be read


def test_it_is_what_rates_say(tmp_path: Path) -> None:
    """A map reads and writes its arrays once; each file is read, or written, besides."""
    with wf.config(threads=2), mock.patch.object(times, "HOST", FREE):
        in_memory = wf.explain(lambda: wf.asarray(X) + 1).seconds
        assert in_memory == pytest.approx(2 * X.nbytes / 2e9)
        np.save(tmp_path / "x.npy", X)
        file = wf.explain(lambda: wf.open(tmp_path / "x.npy") + 1).seconds
        assert file == pytest.approx(2 * X.nbytes / 2e9 + X.nbytes / 1e8)


def test_functions_take_longer_than_sums() -> None:
    with mock.patch.object(times, "HOST", replace(FREE, memory=1e15, together=1e15)):
        added, computed = (
            wf.explain(lambda f=f: f(wf.asarray(X))).seconds
            for f in (lambda a: a + a, lambda a: wf.exp(a))
        )
    assert 10 < computed / added < 100


def test_of_a_call_at_once() -> None:
    def double(x: Any) -> None:
        x *= 2.0

    kernel = wf.kernel(double)
    small, large = (wf.explain(kernel, np.tile(X, times_)) for times_ in (1, 8))
    assert isinstance(small.plan, AtOnce)
    assert "takes roughly" in str(small)
    assert 4 < large.seconds / small.seconds < 16


@pytest.mark.skipif(len(parts()) < 2, reason="one core alone")
def test_of_devices_that_share_a_stage() -> None:
    """The quicker one does more of it."""
    other, slow = PretendedDevice(), Rates(1e8, 1e8, 1e11, 1e-5, 1e-4, 2, True)
    init = PretendedCode.__init__

    def slower(self: Any, *given: Any) -> None:
        init(self, *given)
        self.rates = slow

    x = np.tile(X, 8)
    with wf.config(devices=["cpu:0", "cpu:1"]):
        told = wf.explain(lambda: wf.asarray(x) * 2 + 1)
        (stage,) = told.plan.stages
        first, second = stage.shares
        assert first.seconds == second.seconds == stage.serial_seconds
        assert stage.seconds == pytest.approx(first.seconds / 2)
        assert str(told).count("does about 50% of it") == 2
        assert "on cpu:0 alone" in str(told)
        with spread_over("cpu:0", other), mock.patch.object(PretendedCode, "__init__", slower):
            told = wf.explain(lambda: wf.asarray(x) * 3 + 1)
    (stage,) = told.plan.stages
    first, second = stage.shares
    assert first.serial_seconds == first.seconds  # of one box at a time
    beside = 1 - second.seconds / second.serial_seconds
    assert 0 < beside < 1
    assert f"of it, {beside:.0%} of that beside other boxes" in str(told)
    assert second.seconds >= 8 * first.seconds
    assert stage.seconds < first.seconds
    assert stage.seconds == pytest.approx(together([first.seconds, second.seconds]))
