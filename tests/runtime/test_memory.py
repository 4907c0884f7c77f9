"""Sizes, limits, budgets and the host memory pool."""

from __future__ import annotations

import gc
import math
import os
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from weft.errors import ArgumentError, MemoryLimitError
from weft.runtime import memory
from weft.runtime.memory import Budget, Pool, format_bytes, parse_bytes

MIB = 1 << 20


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("256 MiB", 256 << 20), ("1GiB", 1 << 30), ("1.5 GB", 1_500_000_000), ("2k", 2048),
        ("12", 12), ("12 B", 12), (4096, 4096), (1e6, 1_000_000), ("1e3 kB", 1_000_000),
        (" 3 tib ", 3 << 40), (".5K", 512),
    ],
)  # fmt: skip
def test_parse_bytes(text: str | int | float, expected: int) -> None:
    assert parse_bytes(text) == expected


@pytest.mark.parametrize("text", ["", "MiB", "12 apples", "-1", -1, float("nan"), math.inf, "1 2"])
def test_parse_bytes_refuses(text: str | int | float) -> None:
    with pytest.raises(ArgumentError, match="size in bytes"):
        parse_bytes(text)


@pytest.mark.parametrize(
    ("count", "expected"),
    [(0, "0 B"), (1023, "1023 B"), (1536, "1.5 KiB"), (256 << 20, "256 MiB"), (1 << 30, "1 GiB"),
     ((1 << 20) - 1, "1 MiB"), (123_456_789_012, "115 GiB")],
)  # fmt: skip
def test_format_bytes(count: int, expected: str) -> None:
    assert format_bytes(count) == expected


@given(st.integers(0, 1 << 50))
def test_formatted_sizes_parse_back_nearly(count: int) -> None:
    assert parse_bytes(format_bytes(count)) == pytest.approx(count, rel=0.06)


def test_default_limit_is_within_the_machine() -> None:
    assert 0 < memory.default_limit() < os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


@pytest.mark.parametrize(
    ("version", "files"),
    [
        ("v2", {"memory.max": "1000000", "memory.current": "600000",
                "memory.stat": "anon 1\ninactive_file 100000\n"}),
        ("v1", {"memory.limit_in_bytes": "1000000", "memory.usage_in_bytes": "600000",
                "memory.stat": "cache 1\ninactive_file 5\ntotal_inactive_file 100000\n"}),
    ],
)  # fmt: skip
def test_cgroup_limits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: str, files: dict[str, str]
) -> None:
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    monkeypatch.setattr(memory, "cgroup_directories", lambda _: [(version, tmp_path)])
    assert memory.available_memory() == 500_000
    assert memory.default_limit() == 300_000
    (tmp_path / next(iter(files))).write_text("max" if version == "v2" else str((1 << 63) - 4096))
    assert memory.available_memory() > 500_000


# ---------------------------------------------------------------- budget


def test_budget_is_never_passed() -> None:
    budget = Budget(1000)
    budget.reserve(600)
    with pytest.raises(MemoryLimitError, match=r"401 B for staging .* 1000 B.* 600 B"):
        budget.reserve(401, "staging")
    budget.reserve(400)
    assert budget.now == 1000
    budget.release(400)
    assert (budget.now, budget.peak) == (600, 1000)
    budget.release(600)
    assert budget.now == 0


def test_budget_of_many_threads() -> None:
    budget = Budget(1 << 40)

    def work() -> None:
        for _ in range(2000):
            budget.reserve(3)
            budget.release(3)

    workers = [threading.Thread(target=work) for _ in range(6)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert budget.now == 0
    assert 3 <= budget.peak <= 18


# ---------------------------------------------------------------- pool


def test_memory_comes_back_when_the_last_view_dies() -> None:
    pool = Pool(1 << 30)
    array = pool.empty((1000, 1000), np.float64)
    address = array.ctypes.data
    assert address % 64 == 0
    assert array.flags.c_contiguous
    assert array.flags.writeable
    view = array[10:, ::3].T
    array[:] = 1
    del array
    gc.collect()
    assert pool.free == 0
    assert (pool.empty((1000, 1000), np.float64).ctypes.data) != address
    assert view.sum() == view.size
    del view
    assert pool.live == 0
    blocks = [pool.empty((1000, 999), np.float64) for _ in range(2)]  # a little smaller
    assert address in [block.ctypes.data for block in blocks]


def test_small_arrays_are_numpy_s_own() -> None:
    pool = Pool(1 << 30)
    assert pool.empty((100,), np.int8).base is None
    assert pool.empty((0, 1 << 40), np.int8).shape == (0, 1 << 40)
    assert pool.live == 0


def test_reuse_gives_the_same_pages() -> None:
    pool = Pool(1 << 30)
    first = pool.empty((MIB,), np.float32)
    address = first.ctypes.data
    del first
    second = pool.empty((512, 2048), np.float32)
    assert second.ctypes.data == address
    assert pool.free == 0
    del second
    assert (pool.live, pool.free) == (0, 4 * MIB)


def test_a_much_larger_block_is_not_used() -> None:
    pool = Pool(1 << 30)
    address = pool.empty((16 * MIB,), np.int8).ctypes.data
    small = pool.empty((4 * MIB,), np.int8)
    assert not address <= small.ctypes.data < address + 16 * MIB


def test_huge_blocks_begin_in_the_first_page_of_a_huge_one() -> None:
    assert Pool(1 << 30).empty((5 * MIB,), np.int8).ctypes.data % (2 * MIB) < 4096


def test_blocks_begin_apart_within_a_page() -> None:
    pool = Pool(1 << 30)
    blocks = [pool.empty((4 * MIB,), np.int8) for _ in range(8)]
    begins = [block.ctypes.data % 4096 for block in blocks]
    assert all(begin % 64 == 0 for begin in begins)
    apart = [(a - b) % 4096 for a in begins for b in begins if a != b]
    assert len(set(begins)) == 8
    assert min(apart) >= 3 * 64
    for block in blocks:
        block[:] = 1  # up to its last byte


def test_free_blocks_give_way_to_the_limit() -> None:
    pool = Pool(64 * MIB)
    blocks = [pool.empty((10 * MIB,), np.int8) for _ in range(6)]
    assert pool.live == 60 * MIB
    blocks.clear()
    pool.trim(30 * MIB)
    assert pool.free <= 32 * MIB
    array = pool.empty((50 * MIB,), np.int8)
    assert pool.live + pool.free <= 64 * MIB
    del array
    pool.trim()
    assert (pool.live, pool.free) == (0, 0)


def test_free_memory_is_bounded_at_once() -> None:
    pool = Pool(64 * MIB, retained=0.25)
    del (kept := [pool.empty((8 * MIB,), np.int8) for _ in range(7)])[:]
    assert pool.free <= 16 * MIB
    assert kept == []


def test_too_much_is_a_memory_error() -> None:
    pool = Pool(1 << 60)
    with pytest.raises(MemoryLimitError):
        pool.empty((1 << 60,), np.int8)
    assert pool.live == 0


def test_workspace() -> None:
    pool = Pool(1 << 30)
    with pool.workspace(100_000) as address:
        assert address % 64 == 0
        assert pool.live >= 100_000
        with pool.workspace(100_000) as other:
            assert abs(other - address) >= 100_000
    assert pool.live == 0
    with pool.workspace(0) as nothing:
        assert nothing == 0


@settings(max_examples=30, deadline=None, derandomize=True)
@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 600_000)), max_size=40))
def test_arrays_never_share_memory(steps: list[tuple[int, int]]) -> None:
    pool = Pool(4 * MIB)
    held: dict[int, tuple[np.ndarray, int]] = {}
    for number, (slot, count) in enumerate(steps):
        held.pop(slot, None)
        array = pool.empty((count,), np.uint8)
        array[:] = number
        held[slot] = array, number
        for other, value in held.values():
            assert (other == value).all()
    array = other = None
    held.clear()
    assert pool.live == 0
    assert pool.free <= 4 * MIB


def test_pool_of_many_threads() -> None:
    pool = Pool(256 * MIB)
    wrong: list[int] = []

    def work(value: int) -> None:
        for round_ in range(40):
            array = pool.empty((100_000 + 10_000 * (round_ % 3),), np.uint8)
            array[:] = value
            other = pool.empty((200_000,), np.uint8)
            other[:] = value + 100
            if not ((array == value).all() and (other == value + 100).all()):
                wrong.append(value)

    with ThreadPoolExecutor(8) as threads:
        list(threads.map(work, range(8)))
    assert wrong == []
    pool.trim()
    assert (pool.live, pool.free) == (0, 0)


def test_pool_in_a_forked_child_while_its_lock_is_held() -> None:
    pool = Pool(256 * MIB)
    array = pool.empty((MIB,), np.uint8)
    array[:] = 7
    with pool._lock:
        child = os.fork()
        if child == 0:
            try:
                other = pool.empty((MIB,), np.uint8)
                other[:] = 9
                os._exit(0 if (array == 7).all() else 1)
            finally:
                os._exit(2)
    assert os.waitpid(child, 0)[1] == 0
    assert (array == 7).all()
