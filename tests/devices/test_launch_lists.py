"""Launches laid out for C: which of them come again, and are a graph."""

from __future__ import annotations

import ctypes
from itertools import chain

import pytest

from weft.plan.launches import Launch, Listed
from weft.runtime.devices.cpu import CpuDevice
from weft.runtime.devices.launch_lists import LaunchList, Part, _parts
from weft.sizes import ONE


def launch(number: int) -> Listed:
    return Launch("kernel", ONE, 64, (0,), ("n",)), 100, (number,)


A, B, C = map(launch, range(3))


@pytest.mark.parametrize(
    ("listed", "parts"),
    [
        ([], ()),
        ([A, B], (Part(0, 2),)),
        ([A] * 127, (Part(0, 127),)),
        ([A] * 128, (Part(0, 64, 2),)),
        ([A] * 200, (Part(0, 64, 3), Part(192, 200))),
        ([A, B] * 64, (Part(0, 64, 2),)),
        ([A, B, C] * 50, (Part(0, 63, 2), Part(126, 150))),
        ([C, *[A, B] * 100, C], (Part(0, 1), Part(1, 65, 3), Part(193, 202))),
        ([*map(launch, range(9)), *[A] * 300], (Part(0, 309),)),
    ],
)
def test_what_comes_again_is_a_part(listed: list[Listed], parts: tuple[Part, ...]) -> None:
    assert _parts(listed) == parts
    done = [listed[part.first : part.last] * part.times for part in parts]
    assert list(chain.from_iterable(done)) == listed


def test_equal_launches_are_the_same_where_they_are_one_object() -> None:
    assert _parts([launch(0) for _ in range(200)]) == (Part(0, 200),)


def test_more_groups_than_a_gpu_has_are_refused() -> None:
    if not CpuDevice.available():
        pytest.skip("no C compiler")
    seen: list[int] = []

    @ctypes.CFUNCTYPE(
        ctypes.c_int32, ctypes.c_void_p, *[ctypes.c_uint32] * 7, *[ctypes.c_void_p] * 3
    )
    def noted(kernel: int, groups: int, *_: int) -> int:
        seen.append(groups)
        return 0

    step = Launch("kernel", ONE, 64, (0,), ("n",))
    address = ctypes.cast(noted, ctypes.c_void_p).value or 0
    for groups in (5, 2**31 - 1, 2**31, 2**32 + 5):
        found = LaunchList([(step, 64 * groups, (3,))], lambda name: 1, 4)
        status = found.launcher([0] * 4, address, 0)(*found.parts)
        assert status == (groups >= 2**31)
    assert seen == [5, 2**31 - 1]
