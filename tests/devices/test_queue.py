"""Boxes that are queued behind others, so that a device does not wait for the host."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pytest
from devices.faults import failing, lost
from devices.harness import Device, compiled, device, processors_only, run_type

import weft as wf
from weft.errors import DeviceError, OutOfBoundsError
from weft.fun.parse import parse
from weft.plan.segment import Segment
from weft.runtime import pipeline
from weft.runtime.devices import runs
from weft.runtime.devices.opencl_runs import OpenClRun
from weft.runtime.devices.runs import Run
from weft.runtime.incore import derive

DOUBLE = parse(
    """program double(x: f64[n]) sizes n {
      let y: f64[n] = kernel (i < n) { let a: f64 = x[i] let b: f64 = add(a, a) in b }
      in y }"""
)


def integers(on: Device, segment: Segment, count: int) -> list[int]:
    """What a run of `DOUBLE` on so many elements is given."""
    known = derive({"n": count, "threads": on.items}, segment.derived)
    return [known[name] for name in segment.integers]


@contextmanager
def watched() -> Iterator[list[tuple[str, Any]]]:
    """What happens to runs, in order: each is queued, and is waited for."""
    found: list[tuple[str, Any]] = []
    enqueue, wait = Run.enqueue, Run.wait

    def queued(self: Any, after: Sequence[Any]) -> None:
        enqueue(self, after)
        found.append(("queued", self))  # not what is refused, to be done in boxes

    def waited(self: Any) -> None:
        if not self.ended:
            found.append(("waited", self))
        wait(self)

    with mock.patch.object(Run, "enqueue", queued), mock.patch.object(Run, "wait", waited):
        yield found


def ahead(events: Sequence[tuple[str, Any]]) -> int:
    """The most runs that were queued before the oldest of them was waited for."""
    now = most = 0
    for what, _ in events:
        now += 1 if what == "queued" else -1
        most = max(most, now)
    return most


@pytest.mark.parametrize("slots", [1, 2, 3])
def test_every_slot_has_a_box_queued_behind_the_one_it_does(
    slots: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    on = device()
    monkeypatch.setattr(on, "together", 1)
    x, y = np.random.default_rng(1).normal(size=(2, 100_003))
    add = wf.jit(lambda a, b: a + 2 * b)
    limit = 256 << 10
    with wf.config(devices=[on.name], memory_limit={on.name: limit}, slots=slots):
        add(x, y)
        on.trim()
        on.statistics.peak_bytes = 0
        with watched() as events:
            found = add(x, y)
    np.testing.assert_array_equal(found, x + 2 * y)
    assert ahead(events) == 2 * slots
    assert len({id(run.slot) for _, run in events}) == slots
    assert 0 < on.statistics.peak_bytes <= limit


@pytest.mark.parametrize("kind", ["small", "long", "packed"])
def test_small_boxes_are_begun_several_at_once(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Once as many have ended; those that move more are waited for one by one.

    So are those for which the host packs what they read.
    """
    on, x = device(), np.random.default_rng(1).normal(size=(66_667, 4))
    x = x[:, :3] if kind == "packed" else np.ascontiguousarray(x[:, :3])
    monkeypatch.setattr(on, "together", 3)
    if kind == "long":
        monkeypatch.setattr(pipeline, "_SMALL", 1 << 10)
    double = wf.jit(lambda a: a * 2)
    with wf.config(devices=[on.name], memory_limit={on.name: 256 << 10}, slots=2):
        double(x)
        with watched() as events:
            found = double(x)
    np.testing.assert_array_equal(found, x * 2)
    what = "".join(name[0] for name, _ in events)
    assert what.startswith("qqqqqqwwwqqqwww" if kind == "small" else "qqqqwqwqw")
    assert [run for name, run in events if name == "waited"] == [
        run for name, run in events if name == "queued"
    ]
    assert len({id(run.slot) for _, run in events}) == 2


@pytest.mark.parametrize("together", [1, 4])
def test_of_boxes_that_fail_the_first_is_told(
    together: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In whatever order their ends are seen."""
    on, x = device(), np.arange(100_003.0)
    monkeypatch.setattr(on, "together", together)
    at = np.arange(100_003)
    at[[40_000, 70_000, 90_000]] = 200_000, 300_000, 400_000
    taken = wf.jit(lambda a, at: wf.take(a, at, axis=0))
    with wf.config(devices=[on.name], memory_limit={on.name: 1 << 20}, slots=2):
        plan = wf.explain(taken, x, at).plan
        assert plan.stages[0].boxes.count > 8
        with pytest.raises(OutOfBoundsError, match="index 200000 "):
            taken(x, at)


def test_a_device_that_fails_while_several_boxes_end(monkeypatch: pytest.MonkeyPatch) -> None:
    on, x = device(), np.random.default_rng(1).normal(size=200_003)
    monkeypatch.setattr(on, "together", 3)
    double, see = wf.jit(lambda a: a * 2), Run._see

    def seen(run: Any, event: Any) -> None:
        if run.stage != "waiting for it":  # it is not waited for yet
            raise lost(on)
        see(run, event)

    with wf.config(devices=[on.name], memory_limit={on.name: 256 << 10}, slots=2):
        with mock.patch.object(Run, "_see", seen), pytest.raises(DeviceError, match=on.name):
            double(x)
        np.testing.assert_array_equal(double(x), x * 2)
    on.trim()
    assert on.used == 0


def test_chunks_for_which_none_are_chosen_suit_a_capped_device(tmp_path: Path) -> None:
    """Boxes are whole chunks, of which several are on the device at once; or parts of them."""
    on, x = device(), np.random.default_rng(2).random((300, 1500))
    result = wf.asarray(x) * 2
    with wf.config(devices=[on.name], memory_limit={on.name: "1 MiB"}):
        assert wf.explain(wf.store, result, tmp_path / "y.zarr").bytes_moved == 2 * x.nbytes
        wf.store(result, tmp_path / "y.zarr")
    np.testing.assert_array_equal(wf.open(tmp_path / "y.zarr").numpy(), 2 * x)
    with wf.config(devices=[on.name], memory_limit={on.name: "1 MiB"}):
        large = wf.explain(wf.store, result, tmp_path / "z.zarr", chunks=(300, 1500))
        wf.store(result, tmp_path / "z.zarr", chunks=(300, 1500))
    assert large.plan.stages[0].boxes.count > 1
    assert not re.search(r"runs on the cpu", str(large))
    np.testing.assert_array_equal(wf.open(tmp_path / "z.zarr").numpy(), 2 * x)


def test_one_more_box_than_there_are_slots_has_buffers_of_the_host(tmp_path: Path) -> None:
    on, x = device(), np.random.default_rng(2).random(1 << 18, np.float32)
    wf.store(wf.asarray(x), tmp_path / "x.zarr", chunks=(1 << 14,))
    limits = {"cpu": (24 << 20) + (2 << 20), on.name: 256 << 10}
    with wf.config(devices=[on.name], memory_limit=limits, slots=3), watched() as events:
        wf.store(wf.open(tmp_path / "x.zarr") * 2, tmp_path / "y.npy")
    np.testing.assert_array_equal(np.load(tmp_path / "y.npy"), x * 2)
    assert ahead(events) == 3 + 1


def test_what_a_box_carries_to_the_next_comes_by_the_host() -> None:
    on, x = device(), np.random.default_rng(2).normal(size=300_007)
    running = wf.jit(wf.cumulative_sum)
    with wf.config(devices=[on.name], memory_limit={on.name: 2 << 20}), watched() as events:
        found = running(x)
    np.testing.assert_allclose(found, np.cumsum(x), atol=1e-9)
    assert len(events) > 2
    assert ahead(events) == 1


@pytest.mark.parametrize("together", [1, 3])
def test_tiles_change_what_stays_without_the_host(
    together: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The next part of a matrix is copied to where the last one was, in the same queue."""
    on = device()
    monkeypatch.setattr(on, "together", together)
    a, b = np.random.default_rng(3).normal(size=(2, 260, 260)).astype(np.float32)
    product = wf.jit(lambda a, b: (a[:, None, :] * b.T[None, :, :]).sum(axis=-1))
    with wf.config(devices=[on.name], slots=1):
        expected = product(a, b)
    for slots in (1, 2):
        limit = {on.name: 3 * a.nbytes // 6}
        with wf.config(devices=[on.name], memory_limit=limit, slots=slots), watched() as events:
            found = product(a, b)
        np.testing.assert_array_equal(found, expected)
        assert len(events) > 2 * 6
        assert ahead(events) == 2 * max(slots, together)


def test_a_box_that_needs_more_memory_waits() -> None:
    on, segment = device(), compiled(DOUBLE)
    loaded = on.load(segment)
    small, large = np.arange(10.0), np.arange(5000.0)
    results = np.empty_like(small), np.empty_like(large), np.empty_like(small)

    def start(x: np.ndarray, out: np.ndarray, behind: Any) -> Any:
        return loaded.start(integers(on, segment, x.size), [x], [out], None, behind)

    on.trim()
    first = start(small, results[0], None)
    second = start(large, results[1], first)
    assert first.ended
    third = start(small, results[2], second)
    assert not second.ended
    assert third.slot is second.slot is first.slot
    third.wait()
    second.wait()
    for x, out in zip((small, large, small), results, strict=True):
        np.testing.assert_array_equal(out, x + x)
    assert third.slot.runs == 0


@pytest.mark.parametrize("kind", ["copy", "launch"])
def test_a_device_that_fails_behind_a_box(kind: str) -> None:
    """Nothing that is queued uses an array any more when the failure is told."""
    on, segment = device(), compiled(DOUBLE)
    loaded, x = on.load(segment), np.arange(1000.0)
    given = integers(on, segment, x.size)
    first = loaded.start(given, [x], [found := np.empty_like(x)], None)
    with failing(on, kind, 1, lost(on)), pytest.raises(DeviceError, match=on.name):
        loaded.start(given, [x], [np.empty_like(x)], None, first)
    assert first.slot.runs == 1
    first.wait()
    np.testing.assert_array_equal(found, x + x)
    assert first.slot.runs == 0
    on.trim()
    assert on.used == 0


def looks(count: int | None) -> int:
    """How often a run of 20 ms is looked at, with another of so many elements started after it.

    Its end is seen in time, by a clock that sleeping alone moves on.
    """
    on = device()
    on.trim()  # a slot has what the first run takes, not more
    segment = compiled(DOUBLE)
    loaded = on.load(segment)
    x = np.random.default_rng(1).random(1000)
    result = np.empty(1000)
    first, others = loaded.start(integers(on, segment, 1000), [x], [result]), []
    now, slept = first.began, 0

    def pass_(seconds: float) -> None:
        nonlocal now, slept
        now += max(seconds, 1e-5)
        slept += 1

    def clock() -> float:
        return now

    with (
        mock.patch.object(runs, "sleep", pass_),
        mock.patch.object(runs, "perf_counter", clock),
        mock.patch.object(run_type(), "is_done", lambda run, event: now - run.began > 20e-3),
    ):
        if count is not None:
            arrays = [np.ones(count)], [np.empty(count)]
            others = [loaded.start(integers(on, segment, count), *arrays, behind=first)]
        first.wait()
        is_followed = count == 1000
        assert 0 < now - first.began - 20e-3 < 20e-3 / (4 if is_followed else 32)
    for other in others:
        other.wait()
    np.testing.assert_array_equal(result, 2 * x)
    return slept


def test_a_run_before_another_is_looked_at_less_often() -> None:
    """The device goes on without the host; the last run's end is seen soon.

    So is that of a run whose slot is too small for the next, which waits for it. From a GPU, looks
    take nothing: only those that are hurried are saved.
    """
    times = 4 if device().is_processor else 1
    assert looks(1000) < looks(None) / times
    assert looks(1000) < looks(3000) / times


@processors_only
@pytest.mark.parametrize("reads", [True, False])
def test_events_of_long_loops_are_not_kept(reads: bool) -> None:
    """Of what has run, and of kernels that others follow, nobody asks any more."""
    on, x, kept = device(), np.arange(50.0), []
    mark = OpenClRun.mark

    def marked(run: Any) -> Any:
        kept.append(len(run.events))
        return mark(run)

    if reads:
        loop = wf.jit(lambda a: wf.while_loop(lambda y: y.sum() < 1e5, lambda y: y + 1, a))
        expected = x + 1976
    else:
        loop = wf.jit(lambda a: wf.fori_loop(0, 500, lambda k, y: y[::-1] + k, a))
        expected = x + sum(range(500))
    with (
        wf.config(devices=[on.name], interpret_below=0),
        mock.patch.object(OpenClRun, "mark", marked),
    ):
        np.testing.assert_allclose(loop(x), expected)
    assert max(kept) < 10
