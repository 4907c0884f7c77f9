"""Where workspace begins within a page: no load soon after a store has its last bits."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from weft.runtime.address import address_of
from weft.runtime.apart import PAGE, distance, first_byte
from weft.runtime.memory import Pool


def until_taken_for_stored(begin: int, at: int, strides: tuple[int, ...]) -> int:
    """The bytes that a loop writes until it reads what looks like its first store, by trying.

    It goes on by 4 bytes, and reads rows and planes before and after what it writes.
    """
    loads = [0, *strides, *(-stride for stride in strides)]
    for ahead in range(PAGE):
        for source, target in ((at, begin), (begin, at)):
            if any((source + load + ahead - target) % PAGE == 0 for load in loads):
                return ahead
    return PAGE


@given(
    begin=st.integers(0, PAGE - 1), at=st.integers(0, PAGE - 1),
    strides=st.lists(st.integers(-(1 << 20), 1 << 20), max_size=2),
)  # fmt: skip
def test_distance(begin: int, at: int, strides: list[int]) -> None:
    within = tuple(stride % PAGE for stride in strides)
    expected = until_taken_for_stored(begin, at, tuple(strides))
    assert distance(begin, [(at, within)]) == expected


@pytest.mark.parametrize("shape", [(40, 404, 404), (8, 8192), (50, 400, 400), (40, 128, 1024)])
@pytest.mark.parametrize("step", [64, 512])
def test_no_worse_than_anywhere_else(shape: tuple[int, ...], step: int) -> None:
    array = np.empty(shape, np.float32)
    place = address_of(array) % PAGE, tuple(s % PAGE for s in array.strides[:-1])
    found = first_byte([array], step)
    assert found % step == 0
    assert 0 <= found < PAGE
    every = [distance(begin, [place]) for begin in range(0, PAGE, step)]
    assert distance(found, [place]) == max(every)
    assert max(every) >= 256


def test_several_arrays_and_small_ones() -> None:
    first, second = np.empty((64, 640), np.float32), np.empty((64, 640), np.float32)
    places = [(address_of(a) % PAGE, (2560,)) for a in (first, second)]
    found = first_byte([first, second, np.empty(3)], 64)  # three elements have no neighbours
    assert distance(found, places) == max(distance(b, places) for b in range(0, PAGE, 64))
    assert first_byte([], 64, 192) == first_byte([np.empty(3)], 64, 192) == 192


def test_workspace_begins_there() -> None:
    pool = Pool(1 << 30)
    for rows in (16, 600):  # few pages, and huge ones
        result = pool.empty((rows, 1010), np.float32)
        with pool.workspace(result.nbytes, [result]) as address:
            step = 512 if result.nbytes >= 2 << 20 else 64
            place = address_of(result) % PAGE, (4040,)
            best = max(distance(begin, [place]) for begin in range(0, PAGE, step))
            assert address % step == 0
            assert distance(address % PAGE, [place]) == best
            end = address + result.nbytes
            assert end <= address_of(result) or address >= address_of(result) + result.nbytes
