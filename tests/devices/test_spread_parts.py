"""What the scheduler promises of each device: one compiler's work, one box at a time, no hang."""

from __future__ import annotations

import threading
from collections import Counter
from importlib.util import find_spec
from pathlib import Path
from time import sleep
from typing import Any
from unittest import mock

import numpy as np
import pytest
from devices.faults import lost
from devices.harness import device, run_type

import weft as wf
from weft.errors import DeviceError, MemoryLimitError
from weft.launch.stage import SegmentStage
from weft.runtime import workers
from weft.runtime.devices.cpu import parts
from weft.runtime.shares import Left
from weft.runtime.threads import cores

TWO = ["cpu:0", "cpu:1"]

pytestmark = pytest.mark.skipif(len(parts()) < 2, reason="one core alone")


def heavy(a: Any) -> Any:
    return wf.sqrt(wf.sin(a) ** 2 + wf.cos(a) ** 2) + wf.exp(-a * a)


def test_code_is_compiled_once_for_a_kind_of_device() -> None:
    with wf.config(devices=TWO):
        plan = wf.explain(lambda: heavy(wf.asarray(np.zeros(1_000_000)))).plan
    first, second = (share.code for share in plan.stages[0].shares)
    assert isinstance(first, SegmentStage)
    assert isinstance(second, SegmentStage)
    assert first._loaded.code is second._loaded.code


@pytest.mark.skipif(find_spec("zarr") is None, reason="no zarr")
def test_one_thread_of_a_device_computes_at_a_time(tmp_path: Path) -> None:
    """The others read the next box, or write the last."""
    a = np.random.default_rng(3).random((4000, 200))
    wf.store(wf.asarray(a), tmp_path / "a.zarr", chunks=(100, 200))
    now: Counter[str] = Counter()
    most: Counter[str] = Counter()
    run, lock = SegmentStage.run, threading.Lock()

    def counted(self: Any, *arguments: Any) -> None:
        name = threading.current_thread().name
        with lock:
            now[name] += 1
            most[name] = max(most[name], now[name])
        sleep(0.005)  # others would come too
        run(self, *arguments)
        with lock:
            now[name] -= 1

    with (
        wf.config(devices=TWO, memory_limit={"cpu": "48 MiB", "cpu:0": "8 MiB", "cpu:1": "8 MiB"}),
        mock.patch.object(SegmentStage, "run", counted),
    ):
        y = heavy(wf.open(tmp_path / "a.zarr"))
        assert all(share.slots > 1 for share in wf.explain(y).plan.stages[0].shares)
        wf.store(y, tmp_path / "b.npy")
    np.testing.assert_allclose(np.load(tmp_path / "b.npy"), 1 + np.exp(-a * a), rtol=1e-14)
    taking = {name: count for name, count in most.items() if name.startswith("weft-worker")}
    assert taking
    assert set(taking.values()) == {1}


def test_the_limit_of_a_part_that_is_alone_bounds_all(tmp_path: Path) -> None:
    x = np.random.default_rng(0).random((4000, 1000))
    with wf.config(devices=TWO[:1], memory_limit={"cpu": "90 MiB", TWO[0]: "30 MiB"}):
        wf.store(wf.cumulative_sum(wf.asarray(x), axis=0), tmp_path / "y.npy")
        plan = wf.explain(wf.store, wf.cumulative_sum(wf.asarray(x), axis=0), tmp_path / "z.npy")
        assert plan.peak_bytes <= 30 << 20
        with pytest.raises(MemoryLimitError, match=r"30\.0 MiB"):
            wf.compute(wf.asarray(x) + 1)
    np.testing.assert_allclose(np.load(tmp_path / "y.npy"), x.cumsum(axis=0))


def test_no_device_begins_before_there_are_threads_for_all() -> None:
    """One that computes may keep who starts the next from its core; and one may not be there."""
    x = np.linspace(0, 3, 1_000_000)
    before = {thread.ident for thread in threading.enumerate()}
    start = threading.Thread.start

    def starting(self: threading.Thread) -> None:
        if self.name == "weft-worker-1":
            raise RuntimeError("can't start new thread")
        start(self)

    with (
        wf.config(devices=TWO),
        mock.patch.object(workers, "_idle", {}),
        mock.patch.object(threading.Thread, "start", starting),
        mock.patch.object(Left, "take") as take,
    ):
        with pytest.raises(RuntimeError, match="new thread"):
            np.asarray(heavy(wf.asarray(x)))
        take.assert_not_called()
        (started,) = (t for t in threading.enumerate() if t.ident not in before)
        (idle,) = workers._idle[cores()[:1]]  # it waits for what comes next
    with wf.config(devices=TWO), mock.patch.object(workers, "_idle", {cores()[:1]: [idle]}):
        found = np.asarray(heavy(wf.asarray(x)))
        assert workers._idle[cores()[:1]] == [idle]
    assert started.is_alive()
    np.testing.assert_allclose(found, 1 + np.exp(-x * x), rtol=1e-14)


def attempt(function: Any, x: Any, expected: Any) -> DeviceError | None:
    """The right answer, or the error that is named instead."""
    try:
        np.testing.assert_allclose(np.asarray(function(x)), expected, rtol=1e-12)
    except DeviceError as refusal:
        return refusal
    return None


@pytest.mark.filterwarnings("ignore:.* was left out:RuntimeWarning")
@pytest.mark.parametrize("method", ["is_done", "complete", "mark"])
def test_a_wait_that_fails_on_a_device(method: str) -> None:
    """Alone, the error is named; beside the CPU, that does the rest."""
    on = device()
    x = np.linspace(0, 3, 400_000)
    function = wf.jit(heavy)
    expected = 1 + np.exp(-x * x)
    found, error = getattr(run_type(), method), lost(on)
    for at in (1, 2, 4):
        calls = 0

        def failing(self: Any, *arguments: Any, at: int = at) -> Any:
            nonlocal calls
            calls += 1
            if calls == at:
                raise error
            return found(self, *arguments)

        for devices in ([on.name], ["cpu:0", on.name]):
            calls = 0
            with wf.config(devices=devices), mock.patch.object(run_type(), method, failing):
                refusal = attempt(function, x, expected)
            assert refusal is None or (on.name in str(refusal) and len(devices) == 1)
    with wf.config(devices=[on.name]):
        np.testing.assert_allclose(np.asarray(function(x)), expected, rtol=1e-12)
    on.trim()
    assert on.used == 0
