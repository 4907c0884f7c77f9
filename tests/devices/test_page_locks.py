"""Host memory that a GPU copies as it lies: when it is locked, until when, and what is not."""

from __future__ import annotations

import gc
import mmap
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any
from unittest import mock

import numpy as np
import pytest
from devices import pretended_cuda

import weft as wf
from weft.runtime.devices import copies, cuda_runs, pinned
from weft.runtime.devices.cuda import CudaDevice
from weft.runtime.devices.page_locks import LEAST, PageLocks
from weft.runtime.memory import Pool

LARGE = LEAST // 8  # float64 that are worth it


class Driver:
    """Notes what is locked."""

    def __init__(self) -> None:
        self.locked: dict[int, int] = {}
        self.refuses = False
        self.foreign: set[int] = set()

    def lock(self, address: int, count: int) -> bool:
        if not self.refuses:
            self.locked[address] = count
        return not self.refuses

    def locks(self, most: int = 1 << 30) -> PageLocks:
        return PageLocks(self.lock, self.locked.pop, self.foreign.__contains__, most)


def test_memory_is_locked_when_all_of_it_has_been_copied() -> None:
    driver = Driver()
    locks, x = driver.locks(), np.zeros(4 * LARGE)
    quarters = np.split(x, 4)
    assert not any(locks.holds(quarter) for quarter in quarters)
    assert not driver.locked
    assert locks.holds(quarters[2])
    assert driver.locked == {x.ctypes.data: x.nbytes}
    assert locks.holds(x[::2])
    assert locks.holds(x.reshape(-1, 8).T[1:])
    assert locks.bytes == x.nbytes
    del x, quarters
    gc.collect()
    assert not driver.locked, "until it dies"
    assert locks.bytes == 0


def test_small_memory_is_not() -> None:
    driver = Driver()
    locks, x = driver.locks(), np.zeros(LARGE - 1)
    assert not any(locks.holds(x) for _ in range(3))


def test_a_part_of_large_memory_is_worth_it_in_the_end() -> None:
    locks, x = Driver().locks(), np.zeros(4 * LARGE)
    assert [locks.holds(x[:LARGE]) for _ in range(6)] == 4 * [False] + 2 * [True]


def test_what_the_driver_refuses_is_not_tried_again() -> None:
    driver = Driver()
    locks, x = driver.locks(), np.zeros(LARGE)
    driver.refuses = True
    assert not any(locks.holds(x) for _ in range(3))
    driver.refuses = False
    assert not locks.holds(x)


def test_no_more_is_locked_than_may_be() -> None:
    driver = Driver()
    locks = driver.locks(most=LEAST * 3 // 2)
    x, y = np.zeros(LARGE), np.zeros(LARGE)
    assert [locks.holds(x) for _ in range(2)] == [False, True]
    assert not any(locks.holds(y) for _ in range(3))
    del x
    gc.collect()
    assert locks.holds(y), "once another has died"


def test_memory_of_a_pool_stays_locked() -> None:
    driver, pool = Driver(), Pool(1 << 30)
    locks = driver.locks()
    for turn in range(3):
        x = pool.empty((LARGE,), np.float64)
        assert locks.holds(x) == (turn > 0)
        del x
        gc.collect()
    assert len(driver.locked) == 1
    pool.trim()
    assert not driver.locked, "until the pool unmaps it"


def test_memory_of_others_is_theirs_to_lock() -> None:
    driver = Driver()
    locks = driver.locks()
    x: Any = np.frombuffer(mmap.mmap(-1, LEAST), np.float64)
    assert not any(locks.holds(x) for _ in range(3))
    driver.foreign |= {x.ctypes.data, x.ctypes.data + x.nbytes - 1}
    assert locks.holds(x)
    assert not locks.holds(x[::2])
    assert not driver.locked


@pytest.fixture
def on(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[CudaDevice]:
    with pretended_cuda.only_gpu(monkeypatch, tmp_path) as found:
        yield found


def test_copies_are_from_and_to_locked_memory(on: CudaDevice) -> None:
    x = np.random.default_rng(1).normal(size=(64, 2 * LARGE // 64))
    triple = wf.jit(lambda a: a * 3)
    staging = pretended_cuda.Resource.allocate
    with wf.config(devices=[on.name]):
        for turn in range(4):
            on.trim()  # what it is staged in
            with mock.patch.object(pretended_cuda.Resource, "allocate", autospec=True) as made:
                made.side_effect = staging
                found = triple(x)
            np.testing.assert_array_equal(found, 3 * x)
            staged = [c.args[1] for c in made.call_args_list if c.args[0] is on.pinned]
            assert (x.nbytes in staged) == (turn == 0)
            del found
    assert on.driver.is_locked(x.ctypes.data)


def test_views_of_page_locked_memory_outlive_its_slot(on: CudaDevice) -> None:
    slot = on.take_slot()
    view = slot.staging(0, LARGE)[1]
    at = view.ctypes.data
    slot.release()
    assert pretended_cuda.allocated[at].open() == at
    view[...] = 1
    del view
    assert at not in pretended_cuda.allocated


def test_rows_that_lie_apart_are_copied_as_they_lie(on: CudaDevice) -> None:
    x = np.random.default_rng(1).normal(size=(64, 4000))
    running = wf.jit(lambda a: wf.cumulative_sum(a, axis=0))
    with wf.config(devices=[on.name], memory_limit={on.name: "1 MiB"}):
        for _ in range(3):
            found = running(x)
            np.testing.assert_allclose(found, np.cumsum(x, axis=0), rtol=1e-9, atol=1e-9)
    assert on.driver.rows > 2
    assert on.driver.rows == on.statistics.boxes


def test_rows_farther_apart_than_the_driver_copies_are_copied_one_by_one(on: CudaDevice) -> None:
    x = np.random.default_rng(1).normal(size=(3, 8, 20_000))
    running = wf.jit(lambda a: wf.cumulative_sum(a, axis=0))
    with (
        wf.config(devices=[on.name], memory_limit={on.name: "1 MiB"}),
        mock.patch.object(cuda_runs, "_MOST_PITCH", x.strides[1] - 1),
    ):
        for _ in range(3):
            found = running(x)
            np.testing.assert_allclose(found, np.cumsum(x, axis=0), rtol=1e-9, atol=1e-9)
    assert on.driver.is_locked(x.ctypes.data)
    assert not on.driver.rows


def test_large_copies_are_in_pieces_and_by_threads(on: CudaDevice) -> None:
    x = np.random.default_rng(1).integers(0, 255, (3 << 20) + 5)
    with wf.config(devices=[on.name], threads=2):
        found = wf.jit(lambda a: a + 1)(x)
    np.testing.assert_array_equal(found, x + 1)


@pytest.mark.parametrize("limit", ["1 GiB", "1 MiB"], ids=["in core", "in boxes"])
@pytest.mark.parametrize("way", ["row-major", "strided", "columns"])
def test_copies_take_a_few_pieces_however_large_arrays_are(
    on: CudaDevice, limit: str, way: str
) -> None:
    """Every copy is a first one here: none of the arrays is locked."""
    shape = {"row-major": (300, 1000), "strided": (300, 2000), "columns": (1000, 300)}[way]
    x = np.random.default_rng(2).normal(size=shape)
    x = {"row-major": x, "strided": x[:, ::2], "columns": x.T}[way]
    double = wf.jit(lambda a: (a + a, a * 3))
    sums = wf.jit(lambda a: wf.cumulative_sum(a, axis=1))
    allocate = pretended_cuda.Resource.allocate
    piece = 64 << 10
    assert on.rates  # which were measured with more
    on._free_slots.clear()
    with (
        wf.config(devices=[on.name], memory_limit={"cpu": "256 MiB", on.name: limit}),
        mock.patch.object(on.locks, "most", 0),
        mock.patch.object(type(on), "piece", piece),
        mock.patch.object(pretended_cuda.Resource, "allocate", autospec=True) as made,
    ):
        made.side_effect = allocate
        for _ in range(2):
            on.trim()
            with wf.profile() as profile:
                for found, expected in zip(double(x), (x + x, x * 3), strict=True):
                    np.testing.assert_array_equal(found, expected)
            out = [event for event in profile.events if event.queue == f"{on.name} out"]
            assert sum(event.bytes for event in out) >= 2 * x.nbytes
            np.testing.assert_allclose(sums(x), np.cumsum(x, axis=1), rtol=1e-9, atol=1e-9)
        locked = [c.args[1] for c in made.call_args_list if c.args[0] is on.pinned]
    assert max(locked) <= piece
    assert sum(slot.ring.bytes for slot in on._free_slots) <= 3 * piece * len(on._free_slots)


@pytest.mark.parametrize("most", [64, 100 * 8, 8 * 8 * 7, 1 << 20])
@pytest.mark.parametrize("order", ["all", "every second", "turned", "one"])
def test_parts_are_the_whole(most: int, order: str) -> None:
    whole = np.arange(8.0 * 9 * 10).reshape(8, 9, 10)
    array = {
        "all": whole, "every second": whole[:, ::2], "turned": whole.transpose(2, 0, 1)[:, ::-1],
        "one": whole[3, 4, 5:6],
    }[order]  # fmt: skip
    found, at = np.zeros(array.nbytes, np.uint8), 0
    for begin, part in pinned.parts(array, most):
        assert begin == at
        assert 0 < part.nbytes <= most
        assert np.shares_memory(part, whole)
        at += part.nbytes
        found[begin:at] = np.ascontiguousarray(part).reshape(-1).view(np.uint8)
    np.testing.assert_array_equal(found.view(np.float64).reshape(array.shape), array)


def test_pieces_are_filled_again_once_their_copies_are_done() -> None:
    marks: list[mock.Mock] = []
    memory = [np.zeros(1000, np.uint8) for _ in range(9)]
    left = iter(memory)

    def allocate(count: int) -> Any:
        array = next(left)
        return SimpleNamespace(handle=array.ctypes.data, size=count, array=array)

    def mark() -> mock.Mock:
        marks.append(mock.Mock())
        return marks[-1]

    ring = pinned.Ring(allocate, mark)
    places = [ring.room(400, 1000) for _ in range(7)]
    assert [begin for _, begin, _ in places] == [0, 448, 0, 448, 0, 448, 0]
    assert [any(p[0].array is m for m in memory[:3]) for p in places] == [True] * 7
    assert places[6][0] is places[0][0]
    assert [m.sync.called for m in marks] == [True, False, False]
    for number, (_, _, view) in enumerate(places[1:]):
        view[...] = number
    assert all((view == number).all() for number, (_, _, view) in enumerate(places[1:]))
    assert ring.room(400, 500)[1] == 0  # of another limit
    assert all(m.sync.called for m in marks)
    ring.release()
    assert ring.room(10, 500)[1] == 0


def test_pieces_for_which_there_was_no_memory() -> None:
    memory = np.zeros(1000, np.uint8)
    made = SimpleNamespace(handle=memory.ctypes.data, size=1000)
    ring = pinned.Ring(mock.Mock(side_effect=[MemoryError, made]), mock.Mock())
    with pytest.raises(MemoryError):
        ring.room(10, 1000)
    assert ring.room(10, 1000)[:2] == (made, 0)


def test_a_piece_is_a_part_of_the_limit() -> None:
    assert pinned.piece_bytes(1 << 40) == 8 << 20
    assert pinned.piece_bytes(256 << 20) == 2 << 20
    assert pinned.piece_bytes(0) == 64 << 10


def test_plans_count_what_copies_go_through(on: CudaDevice) -> None:
    x = np.zeros(1 << 20)
    with wf.config(devices=[on.name], memory_limit={on.name: "2 MiB"}, slots=3):
        (stage,) = wf.jit(lambda a: a + a).explain(wf.asarray(x)).plan.stages
    box = stage.output_bytes[0]
    with_turns = 3 * (3 * on.piece + 2 * min(box, on.piece))
    assert stage.peak_bytes - stage.held == with_turns


@pytest.mark.parametrize("count", [0, 1, copies.LARGE - 1, copies.LARGE, 3 * copies.LARGE + 5])
def test_copies_by_threads(count: int) -> None:
    source = np.random.default_rng(1).integers(0, 255, count).astype(np.uint8)
    target = np.zeros(count + 2, np.uint8)
    copies.copy(target[1:-1], source, 2)
    np.testing.assert_array_equal(target[1:-1], source)
    assert target[0] == target[-1] == 0
    copies.copy(target[1:-1][::-1], source, 2)
    np.testing.assert_array_equal(target[-2:0:-1], source)
