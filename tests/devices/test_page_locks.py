"""Host memory that a GPU copies as it lies: when it is locked, until when, and what is not."""

from __future__ import annotations

import gc
import mmap
from collections.abc import Iterator
from typing import Any
from unittest import mock

import numpy as np
import pytest
from devices import pretended_cuda

import weft as wf
from weft.runtime.devices import copies, cuda_runs
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


@pytest.mark.parametrize("count", [0, 1, copies.LARGE - 1, copies.LARGE, 3 * copies.LARGE + 5])
def test_copies_by_threads(count: int) -> None:
    source = np.random.default_rng(1).integers(0, 255, count).astype(np.uint8)
    target = np.zeros(count + 2, np.uint8)
    copies.copy(target[1:-1], source, 2)
    np.testing.assert_array_equal(target[1:-1], source)
    assert target[0] == target[-1] == 0
    copies.copy(target[1:-1][::-1], source, 2)
    np.testing.assert_array_equal(target[-2:0:-1], source)
