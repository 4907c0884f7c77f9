"""`wf.config`: for good where it is called, and for a block alone where it is entered."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack

import pytest

import weft as wf

GIGABYTE = 10**9


@pytest.fixture(autouse=True)
def as_before() -> Iterator[None]:
    before = wf.settings()
    yield
    wf.config(**{name: getattr(before, name) for name in ("memory_limit", "threads", "slots")})


def test_blocks_that_are_entered_in_the_order_they_were_made() -> None:
    before = wf.settings()
    blocks = [wf.config(memory_limit=GIGABYTE), wf.config(threads=1)]
    with ExitStack() as stack:
        for block in blocks:
            stack.enter_context(block)
        assert (wf.settings().memory_limit, wf.settings().threads) == (GIGABYTE, 1)
    assert wf.settings() == before


def test_a_block_takes_back_only_its_own_change() -> None:
    block = wf.config(threads=1, slots=2)
    wf.config(memory_limit=GIGABYTE, slots=3)
    with block:
        assert (wf.settings().threads, wf.settings().slots) == (1, 2)
    assert wf.settings().memory_limit == GIGABYTE
    assert wf.settings().slots == 3
    assert wf.settings().threads is None


def test_changes_of_one_setting_that_are_taken_back_in_any_order() -> None:
    before = wf.settings()
    first, second = wf.config(slots=1), wf.config(slots=2)
    with first:
        assert wf.settings().slots == 1
    assert wf.settings().slots == 2
    with second:
        assert wf.settings().slots == 2
    assert wf.settings() == before


def test_a_block_takes_its_change_back_once() -> None:
    block = wf.config(threads=1)
    with block, block:
        assert wf.settings().threads == 1
    wf.config(threads=2)
    with block:
        assert wf.settings().threads == 1
    assert wf.settings().threads == 2


def test_blocks_that_end_in_the_order_they_began() -> None:
    before = wf.settings()
    first, second = wf.config(threads=1), wf.config(slots=2)
    first.__enter__()
    second.__enter__()
    first.__exit__(None, None, None)
    assert (wf.settings().threads, wf.settings().slots) == (before.threads, 2)
    second.__exit__(None, None, None)
    assert wf.settings() == before


def test_blocks_of_several_threads() -> None:
    before = wf.settings()
    shared = wf.config(slots=5)
    wrong = []

    def run(number: int) -> None:
        for _ in range(300):
            with wf.config(memory_limit=GIGABYTE + number), shared:
                found = wf.settings()
                if (found.memory_limit, found.slots) != (GIGABYTE + number, 5):
                    wrong.append(found)

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(run, range(4)))
    assert not wrong
    assert wf.settings() == before
