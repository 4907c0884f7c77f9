"""Who takes which box, and what becomes of boxes that fail."""

from __future__ import annotations

import math
import threading
from collections.abc import Sequence
from itertools import pairwise
from typing import Any
from unittest import mock

import pytest

from weft.errors import DeviceError
from weft.plan.nodes import Share, guided
from weft.runtime import shares
from weft.runtime.shares import Left


def share(name: str = "cpu:0", kind: str = "1 threads", largest: int = 1 << 30) -> Share:
    code: Any = None
    return Share(name, code, kind, 1, 1, largest, 0, 0, lambda start, stop: code)


def two(*kinds: str) -> list[Share]:
    return [share(f"device:{k}", kind) for k, kind in enumerate(kinds or ("a", "a"))]


class Clock:
    """Time that passes as devices work."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def run(
    left: Left, rates: Sequence[float], work: Sequence[float] | None = None
) -> tuple[list[list[tuple[int, int]]], float]:
    """Devices of some rates take boxes, each when it is free; boxes by device, and the time.

    `work` is that of each coordinate; 1 if not given.
    """
    taken: list[list[tuple[int, int]]] = [[] for _ in rates]
    free = [0.0] * len(rates)
    busy: list[tuple[int, int] | None] = [None] * len(rates)
    clock = Clock()

    class Waiting(Exception):  # noqa: N818 (a signal)
        pass

    with (
        mock.patch.object(shares, "perf_counter", clock),
        mock.patch.object(left._changed, "wait", side_effect=Waiting),
    ):
        while True:
            for k in range(len(rates)):
                if busy[k] is None:
                    try:
                        box = left.take(k)
                    except Waiting:
                        continue
                    if box is not None:
                        taken[k].append(box)
                        busy[k] = box
                        all_of_it = box[1] - box[0] if work is None else sum(work[slice(*box)])
                        free[k] = clock.now + all_of_it / rates[k]
            working = [k for k in range(len(rates)) if busy[k] is not None]
            if not working:
                return taken, clock.now
            k = min(working, key=free.__getitem__)
            clock.now = free[k]
            box = busy[k]
            assert box is not None
            busy[k] = None
            left.done(k, box)


def assert_covered(taken: Sequence[Sequence[tuple[int, int]]], total: int, unit: int) -> None:
    at = 0
    for start, stop in sorted(box for boxes in taken for box in boxes):
        assert start == at
        assert stop > start
        assert stop % unit == 0 or stop == total
        at = stop
    assert at == total


@pytest.mark.parametrize("unit", [1, 7])
@pytest.mark.parametrize("rates", [(1.0, 1.0), (3.0, 1.0), (1.0, 1.0, 1.0)])
def test_all_is_done_once_and_at_the_same_time(rates: tuple[float, ...], unit: int) -> None:
    total = 10_003
    least = 77
    left = Left(two(*["a"] * len(rates)), [(0, total)], unit, least)
    taken, seconds = run(left, rates)
    assert_covered(taken, total, unit)
    assert left.wait()
    assert seconds <= total / sum(rates) + least / min(rates) + 1


def test_devices_of_different_kinds_share_by_their_measured_rates() -> None:
    total = 100_000
    left = Left(two("fast", "slow"), [(0, total)], 1, 500)
    taken, seconds = run(left, (20.0, 1.0))
    assert_covered(taken, total, 1)
    assert seconds <= 1.1 * total / 21
    slow = sum(stop - start for start, stop in taken[1])
    assert 0.5 * total / 21 < slow < 1.1 * total / 21


def test_unbalanced_work_ends_at_the_same_time() -> None:
    """Rows of a Mandelbrot set: those in the middle take ten times as long."""
    total = 4000
    work = [1 + 9 * math.exp(-(((k / total - 0.5) / 0.15) ** 2)) for k in range(total)]
    lopsided = [1.0] * (total // 2) + [5.0] * (total // 2)
    for amounts in (work, lopsided):
        left = Left(two(), [(0, total)], 1, total // 64)
        taken, seconds = run(left, (1.0, 1.0), amounts)
        assert_covered(taken, total, 1)
        assert sum(amounts) / seconds >= 1.9
        assert sum(map(len, taken)) <= 40


def test_rates_are_known_when_a_stage_runs_again() -> None:
    total, shares_of_stage = 100_000, two("fast", "slow")
    first, _ = run(Left(shares_of_stage, [(0, total)], 1, 500), (3.0, 1.0))
    taken, seconds = run(Left(shares_of_stage, [(0, total)], 1, 500), (3.0, 1.0))
    assert_covered(taken, total, 1)
    assert seconds <= 1.05 * total / 4
    assert taken[0][0][1] - taken[0][0][0] > 10 * (first[0][0][1] - first[0][0][0])
    assert sum(map(len, taken)) <= sum(map(len, first))


def test_a_device_too_slow_for_what_is_left_begins_nothing() -> None:
    left = Left(two("fast", "slow"), [(0, 4000)], 1000, 1000)
    taken, _ = run(left, (1000.0, 0.5))
    assert_covered(taken, 4000, 1000)
    assert len(taken[1]) <= 1  # one, before its rate is known


def test_boxes_are_taken_next_to_each_other() -> None:
    left = Left(two(), [(0, 1000)], 1, 50)
    taken, _ = run(left, (1.0, 1.0))
    assert all(stop <= 500 for _, stop in taken[0])
    assert all(start >= 500 for start, _ in taken[1])
    for boxes in taken:
        assert all(a[1] == b[0] for a, b in pairwise(boxes))


def test_what_is_given_back_another_does() -> None:
    left = Left(two(), [(0, 100)], 1, 10)
    box = left.take(0)
    assert box is not None
    left.give_back(0, box)
    left.retire(0, DeviceError("lost"))
    assert left.take(0) is None
    done = []
    while (box := left.take(1)) is not None:
        done.append(box)
        left.done(1, box)
    assert_covered([done], 100, 1)
    assert left.error is None
    assert left.wait()


def test_the_last_failure_is_the_error() -> None:
    left = Left(two(), [(0, 100)], 1, 10)
    for number in range(2):
        assert left.error is None
        left.retire(number, DeviceError(f"lost {number}"))
    assert str(left.error) == "lost 1"
    assert left.wait()


def test_too_little_memory_halves_the_next_boxes() -> None:
    left = Left(two(), [(0, 96)], 3, 3)
    extents = []
    while True:
        box = left.take(0)
        assert box is not None
        extents.append(box[1] - box[0])
        if not left.give_back(0, box, smaller=True):
            break
    assert all(b <= max(a // 2, 3) for a, b in pairwise(extents))
    assert extents[-1] == 3


def test_who_finds_nothing_waits_for_what_may_come_back() -> None:
    left = Left(two(), [(0, 10)], 10, 10)
    box = left.take(0)
    assert box == (0, 10)
    found: list[Any] = []
    waiter = threading.Thread(target=lambda: found.append(left.take(1)))
    waiter.start()
    left.give_back(0, box)
    left.retire(0, DeviceError("lost"))
    waiter.join(10)
    assert found == [(0, 10)]


def test_guided_extents() -> None:
    assert guided(1000, 1, 10, 10_000) == 1000
    assert guided(1000, 1, 300, 10_000) == 900  # a multiple of the least
    assert guided(3, 2, 10, 10_000) == 10
    assert guided(1000, 4, 100, 50) == 48  # not more than the most, in whole units
    assert guided(1000, 8, 100, 5) == 8


def test_boxes_at_the_end_take_a_millisecond() -> None:
    """However large the stage: the slower a device, the smaller its boxes, down to the least."""
    for rate, expected in ((1e6, 1024), (3e5, 512), (1.0, 8)):
        left = Left(two(), [(0, 1 << 16)], 1, 8, usual=4096)
        taken, _ = run(left, (rate, rate))
        assert taken[0][0][1] - taken[0][0][0] >= 4096  # its rate is not known yet
        assert min(b - a for boxes in taken for a, b in boxes) == expected


def test_what_is_compiled_for_a_box_is_none_of_its_time() -> None:
    left, clock = Left(two("a", "b"), [(0, 1000)], 1, 10), Clock()
    with mock.patch.object(shares, "perf_counter", clock):
        box = left.take(0)
        assert box is not None
        clock.now = 5.0
        left.begin_anew(0)
        clock.now = 6.0
        left.done(0, box)
    assert left.devices[0].rate == box[1] - box[0]


def test_boxes_at_the_end_are_worth_preparing() -> None:
    """What takes longer to plan runs longer, but never longer than the first box may."""
    for seconds, expected in ((0.0, 1024), (1e-4, 1024), (2e-3, 8192), (1.0, 262144)):
        left = Left(two(), [(0, 1 << 20)], 1, 8)
        for _ in range(20):
            left.prepared(0, seconds)
            left.prepared(1, seconds)
        taken, _ = run(left, (1e6, 1e6))
        last = [boxes[-2][1] - boxes[-2][0] for boxes in taken]
        assert min(last) == expected, (seconds, taken)


def test_who_waits_for_the_end_is_not_woken_by_every_box() -> None:
    left = Left(two(), [(0, 100)], 1, 10)
    with mock.patch.object(left._ending, "notify_all") as told:
        while (box := left.take(0)) is not None:
            assert not told.called
            left.done(0, box)
        assert told.called
    assert left.wait()


def test_a_call_that_packs_much_is_made_once_by_each_device() -> None:
    for least in (2048, 1920):  # 80 more are worth no box
        given = [share(largest=2000), share(largest=2000)], [(0, 4000)], 1, least
        halves = Left(*given, at_once=1.0)
        assert [halves.take(k) for k in (0, 1)] == [(0, 2000), (2000, 4000)]
    many = Left(two(), [(0, 40_000)], 1, 2048, at_once=1.0)
    assert many.take(0) == (0, 20_000)  # 9 of the least, and what is worth no box


def test_a_device_helps_with_tiles_that_read_what_it_holds() -> None:
    """Else with the last one of those of whom most are left."""
    left = Left([share(f"device:{k}", largest=1) for k in range(3)], [(0, 90)], 1, 1)
    near: set[int] = set()
    left.devices[2].holds = lambda at: len(near & {at})
    for _ in range(30):
        start, stop = left.take(2)  # type: ignore[misc]
        assert stop - start == 1
        assert start >= 60
    left.take(0)
    assert left.take(2) == (59, 60)
    near |= {1, 40}
    assert left.take(2) == (1, 2)
    assert left.take(2) == (58, 59)  # 40 is in the middle of what another has
    assert left.take(0) == (2, 3)
    assert [device.left for device in left.devices] == [[(3, 30)], [(30, 58)], []]
