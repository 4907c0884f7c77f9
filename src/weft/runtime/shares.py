"""Which device computes what: the parts of a stage that are left, and who takes the next box.

Each device begins with a part of the coordinate of its own, next to what it has computed
before: its caches, or its memory, hold what lies there. It takes boxes from the front of that
part, and once nothing is left of it, from the back of the part of which most is left (affinity
scheduling, Markatos and LeBlanc 1994); tiles, from an end of a part that reads what it holds. Boxes
are large at first and smaller towards the end: of its own part a device takes the same ones in each
run, which are planned already. Among devices of different kinds each is as large as the measured
throughput of its device asks.

What a device gives back, because it failed, is left for the others.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import field
from time import perf_counter

from weft.plan.nodes import Share, guided
from weft.records import dataclass

_PROBE = 128  # the part of the whole that is the first box of a device, of unlike ones
_FADING = 0.5  # the weight of what a device did before its last box in what it is measured by
_LEAST_SECONDS = 1e-3  # of a box at the end: ten times what it costs to take a known one
_WORTH = 4  # times the seconds that preparing a box takes: the least that it should run for
_WAIT = 0.1  # seconds between two looks at whether an interrupt is to be handled

Interval = tuple[int, int]


@dataclass(slots=True)
class _Device:
    """What is known of a device that takes boxes."""

    share: Share
    largest: int
    left: list[Interval] = field(default_factory=list)  # of its own part
    under_way: int = 0  # boxes
    done: float = 0.0  # coordinates, the last box's with most weight
    busy: float = 0.0  # seconds with boxes under way, weighted likewise
    since: float = 0.0  # when a box began or ended last
    rate: float = 0.0  # coordinates in a second, as measured when the last box was done
    preparing: float = 0.0  # seconds for a box, the last one's with most weight
    failure: BaseException | None = None
    holds: Callable[[int], int] | None = None  # bytes there of what a tile reads, of tiles alone

    @property
    def waiting(self) -> int:
        return sum(stop - start for start, stop in self.left)

    def begin(self) -> None:
        """One more box is under way."""
        if not self.under_way:
            self.since = perf_counter()
        self.under_way += 1

    def end(self) -> None:
        """A box is not under way any more."""
        self.under_way -= 1

    def measure(self, extent: int) -> None:
        """A box is done: small ones, and the first of all, were slower than is to be expected."""
        now = perf_counter()
        self.done = self.done * _FADING + extent
        self.busy = self.busy * _FADING + now - self.since
        self.since = now
        self.rate = self.share.measured.rate = self.done / max(self.busy, 1e-9)


class Left:
    """What is left of a stage. Safe for any number of threads.

    Parameters
    ----------
    shares : sequence of Share
        The devices, by whose positions the others are named.
    parts : sequence of (start, stop)
        What is to be done.
    unit, least : int
        What bounds are multiples of (the end excepted), and the least that is worth a box.
    usual : int
        The least that a device takes before it is known how quick it is.
    at_once : float
        How much of what would be its part of what is left a device takes.
    """

    def __init__(
        self, shares: Sequence[Share], parts: Sequence[Interval], unit: int, least: int,
        at_once: float = 0.5, usual: int = 1,
    ) -> None:  # fmt: skip
        self.unit = unit
        self.least = least
        self.usual = usual
        self.at_once = at_once
        self.devices = [
            _Device(share, share.largest, rate=share.measured.rate) for share in shares
        ]
        self.alike = len({share.kind for share in shares}) == 1
        self.total = max(sum(stop - start for start, stop in parts), 1)
        self.error: BaseException | None = None
        self.finished = 0  # coordinates
        lock = threading.RLock()
        self._changed = threading.Condition(lock)  # for devices that wait for a box
        self._ending = threading.Condition(lock)  # for who waits for the end
        self._deal(parts)

    def _deal(self, parts: Sequence[Interval]) -> None:
        """Give every device its own part: equal ones, in the order of the devices."""
        each = -(-self.total // len(self.devices))
        each = -(-each // self.unit) * self.unit
        number, room = 0, each
        for start, stop in parts:
            while start < stop:
                taken = min(stop - start, room)
                self.devices[number].left.append((start, start + taken))
                start += taken
                room -= taken
                if room <= 0 and number + 1 < len(self.devices):
                    number, room = number + 1, each

    # ------------------------------------------------------------ taking

    def take(self, number: int) -> Interval | None:
        """The next box of a device; None once there is nothing left that it could ever do.

        Waits while others are at work: what they cannot do comes back.
        """
        with self._changed:
            device = self.devices[number]
            while True:
                if self.error is not None or device.failure is not None:
                    return None
                waiting = sum(other.waiting for other in self.devices)
                if waiting:
                    extent = self._extent(device, waiting)
                    if extent:
                        device.begin()
                        return self._cut(device, extent)
                elif not any(other.under_way for other in self.devices):
                    self._changed.notify_all()
                    return None
                self._changed.wait()

    def _extent(self, device: _Device, waiting: int) -> int:
        """How large the next box of a device should be; 0 where it should not begin one now."""
        able = [other for other in self.devices if other.failure is None]
        if self.alike or len(able) == 1:
            wanted = device.waiting * self.at_once or waiting * self.at_once / len(able)
            return guided(wanted, self.unit, self._step(device), device.largest)
        rate = device.rate
        if not rate:  # a first small box tells
            probe = max(self.total // _PROBE // self.unit, 1) * self.unit
            return 0 if device.under_way else min(probe, device.largest)
        rates = sum(other.rate for other in able)
        if self.unit / rate > waiting / rates and any(
            other.under_way for other in able if other is not device
        ):
            return 0  # the others will have done all before this one had done its least
        part = rate / rates
        step = self._step(device)
        while step > self.total * part and step // 2 >= self.unit:
            step = step // 2 // self.unit * self.unit  # a slow one would be the last to end
        wanted = waiting * part * self.at_once / device.share.slots
        return guided(wanted, self.unit, step, device.largest)

    def _step(self, device: _Device) -> int:
        """The least that a device takes: a millisecond's worth, once its rate is known."""
        wanted = device.rate * _LEAST_SECONDS if device.rate else self.usual
        first = self.total * self.at_once / len(self.devices)
        wanted = max(wanted, min(device.rate * _WORTH * device.preparing, first))
        step = self.least
        while step < wanted:
            step *= 2  # few steps there are, so that boxes come again
        return step

    def _cut(self, device: _Device, extent: int) -> Interval:
        """A box of an extent: from the front of its own part, or the back of another.

        It is larger where it would leave less than is worth a box.
        """
        if device.left:
            start, stop = device.left.pop(0)
            middle = min(start + extent, stop)
            if stop - middle < self.least and stop - start <= device.largest:
                middle = stop
            if middle < stop:
                device.left.insert(0, (middle, stop))
            return start, middle
        richest = max(self.devices, key=lambda other: other.waiting)
        if device.holds is not None:
            return self._near(device.holds, richest)
        start, stop = richest.left.pop()
        middle = max(start, (stop - extent) // self.unit * self.unit)
        middle = max(start, min(middle, stop - 1))
        if middle - start < self.least and stop - start <= device.largest:
            middle = start
        if middle > start:
            richest.left.append((start, middle))
        return middle, stop

    def _near(self, holds: Callable[[int], int], richest: _Device) -> Interval:
        """The tile at an end of what is left of a part, of which a device has most in its memory.

        As a rule that is none: then the back of the part of which most is left.
        """
        best, found = -1, (richest, -1, 0)
        for other in sorted(self.devices, key=lambda other: other is not richest):
            for number, (start, stop) in enumerate(other.left):
                for at in (stop - 1, start):
                    if (there := holds(at)) > best:
                        best, found = there, (other, number, at)
        other, number, at = found
        start, stop = other.left.pop(number)
        rest = (start, at), (at + 1, stop)
        other.left[number:number] = [part for part in rest if part[0] < part[1]]
        return at, at + 1

    # ------------------------------------------------------------ what became of boxes

    def prepared(self, number: int, seconds: float) -> None:
        """So long a device's next box was planned before it could begin."""
        with self._changed:
            device = self.devices[number]
            device.preparing += (seconds - device.preparing) * _FADING

    def begin_anew(self, number: int) -> None:
        """A device has compiled what a box needs: that tells nothing of how quick it is."""
        with self._changed:
            self.devices[number].since = perf_counter()

    def done(self, number: int, box: Interval) -> None:
        """A device has computed a box."""
        with self._changed:
            device = self.devices[number]
            device.measure(box[1] - box[0])
            device.end()
            self.finished += box[1] - box[0]
            self._tell()

    def give_back(self, number: int, box: Interval, smaller: bool = False) -> bool:
        """A device could not do a box; `smaller`: it had too little memory for it.

        False where it could not take a smaller one either.
        """
        start, stop = box
        with self._changed:
            device = self.devices[number]
            device.left.insert(0, box)
            device.end()
            self._changed.notify_all()
            if not smaller:
                return True
            if stop - start <= self.unit:
                return False
            half = (stop - start) // 2 // self.unit * self.unit
            device.largest = max(self.unit, min(device.largest, half))
            return True

    def retire(self, number: int, failure: BaseException) -> None:
        """A device has failed: others do its part; without any, the failure is the stage's."""
        with self._changed:
            self.devices[number].failure = self.devices[number].failure or failure
            if all(device.failure is not None for device in self.devices):
                self.error = self.error or failure
            self._tell()

    def stop(self, error: BaseException) -> None:
        """Nothing more is to be done."""
        with self._changed:
            self.error = self.error or error
            self._tell()

    # ------------------------------------------------------------ waiting for the end

    def wait(self) -> bool:
        """Wait for the end, briefly; True once all is done, or nothing more will be."""
        with self._ending:
            if not self._ended():
                self._ending.wait(_WAIT)
            return self._ended()

    def _tell(self) -> None:
        """Those who wait look again; who waits for the end is not woken before."""
        self._changed.notify_all()
        if self._ended():
            self._ending.notify_all()

    def _ended(self) -> bool:
        return self.error is not None or self.finished >= self.total
