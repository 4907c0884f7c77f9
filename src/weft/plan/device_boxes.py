"""How many boxes go through a device, and how many of them at once.

Boxes are copied in, computed and copied out; while one is computed, others are copied (van
Beurden and Scholz, *On Generating Out-Of-Core GPU Code for Multi-Dimensional Array
Operations*, section 5). Few boxes overlap little: the first copy in and the last copy out have
nothing beside them. Many boxes cost many launches, and margins that boxes share are computed
by each of them. The time of a number of boxes is predicted from the device's measured rates,
and the quickest that fits is taken.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from weft.errors import MemoryLimitError
from weft.plan.code import DeviceCode, Rates
from weft.plan.extents import overlap
from weft.plan.halve import halve
from weft.plan.nodes import Boxes, PlannedStage
from weft.plan.refusals import refusal
from weft.records import dataclass

if TYPE_CHECKING:
    from weft.plan.schedule import Scheduler

USUAL_SLOTS = 3
"""Boxes in flight as a rule: one is copied in, one computed, one copied out."""

SLOTS = (1, 2, USUAL_SLOTS, 4)
"""Boxes in flight that are tried."""

_LINE = 64  # elements that are whole cache lines, of any dtype
_MANY_LINES = 16  # of a box, which is hardly longer for the last of them
_FINE = 256  # boxes, up to which numbers that are tried are close to each other
_TAKEN = 4  # times that flanks are read or written: from the box before, and for the next
_MOST = 1 << 16  # boxes that are tried, each of which costs the host memory and time,
_MANY_TIMES = 4  # or so many times those that there are at least
_GAIN = 0.01  # of the time, that another way has to save: it takes more memory, or boxes;
_GAIN_BESIDE = 0.1  # or of what passes beside computing, which is predicted best
_IDLE = 1.02  # times as long as if no processor waited, of which other boxes may save some
_OFTEN = 64  # times all there is, that boxes copy at most: others may be cut better, or not at all,
_LITTLE = 4  # where they take so many times as long as what they compute
_HOPELESS = 2.0  # more boxes are not tried where they take so many times the best


def quickest(
    scheduler: Scheduler, device: DeviceCode, total: int, unit: int, wanted: int | None
) -> PlannedStage:
    """The stage with the boxes, and so many of them in flight, that are predicted quickest.

    Parameters
    ----------
    total, unit : int
        How many coordinates are cut, and what bounds of boxes are multiples of.
    wanted : int or None
        Boxes that are to be in flight; None: as many as is quickest.

    Raises
    ------
    MemoryLimitError
        When not even the smallest boxes fit.
    """
    search = _Search(scheduler, device, total, unit, wanted)
    least = _fewest(scheduler, device, total)
    numbers = [*counts(total, unit, least)]
    few = [count for count in numbers if count <= _FINE]
    may_be_more = search.tries_each(few)
    if search.best is None:  # the smallest, which others are told of: if these do not fit, none do
        search.tries(numbers[-1])
        may_be_more &= search.best is not None or search.last[0].extent > unit
    if may_be_more:
        search.tries_each(numbers[len(few) :])
    if search.idle > _IDLE:  # larger boxes may suit the processors better
        for count in search.fewer(least):
            search.tries(count)
    best = search.best
    if best is None:
        raise refusal(scheduler, _in_slots(scheduler, *search.last))
    scheduler.check(best.boxes)
    return replace(best, integers=scheduler.integers(best.boxes))


@dataclass
class _Search:
    """The quickest of the boxes that are tried, which fit.

    Attributes
    ----------
    best : PlannedStage or None
    gain : float
        Seconds by which another way has to be quicker.
    idle : float
        As the best of them has it, see `Work`.
    last : (Boxes, int)
        What was tried last, and the fewest of them in flight.
    is_hopeless : bool
        Whether what a box cannot do without takes more memory than there is.
    """

    scheduler: Scheduler
    device: DeviceCode
    total: int
    unit: int
    wanted: int | None
    best: PlannedStage | None = None
    gain: float = 0.0
    idle: float = 1.0
    is_hopeless: bool = False

    @property
    def seconds(self) -> float:
        """How long the best of them take, as predicted."""
        return math.inf if self.best is None else self.best.seconds

    def tries_each(self, numbers: Sequence[int]) -> bool:
        """Try so many boxes, the fewest first; whether even more may be quicker, or fit at all."""
        for count in numbers:
            if self.tries(count) > _HOPELESS * self.seconds or self.is_hopeless:
                return False
        return True

    def tries(self, count: int) -> float:
        """Try so many boxes; how long they take, so many in flight as is tried last."""
        scheduler, rates = self.scheduler, self.device.rates
        boxes = scheduler.boxes(extent_of(self.total, self.unit, count, _in_lines(scheduler)))
        work = work_of(scheduler, self.device, boxes)
        # What one box carries to the next, no two can have; flanks the device hands on.
        asked = 1 if scheduler.stage.carries else self.wanted
        tried = slots_to_try(asked, boxes.count, rates.beside)
        self.last = boxes, min(tried)
        for slots in tried:
            predicted = seconds(work, rates, slots)
            if predicted >= self.seconds - self.gain:
                continue
            planned = _in_slots(scheduler, boxes, slots)
            if scheduler.fits(planned):
                self._take(planned, work, slots)
            elif boxes.count > 1:
                self._take_halved(boxes, slots, alone=slots == min(tried))
        return predicted

    def _take_halved(self, boxes: Boxes, slots: int, alone: bool) -> None:
        """The stage with a few of the boxes in parts, if so it fits."""
        room = (self.device.limit - _held(self.scheduler, boxes)) // slots
        found = halve(self.scheduler, boxes, room)
        if found is None:
            return
        self.is_hopeless |= alone and not found.all_fit
        planned = _in_slots(self.scheduler, found.boxes, slots)
        if self.scheduler.fits(planned):
            self._take(planned, work_of(self.scheduler, self.device, found.boxes), slots)

    def _take(self, planned: PlannedStage, work: Work, slots: int) -> None:
        """These are the best, if they are quicker."""
        rates = self.device.rates
        predicted, alone = seconds(work, rates, slots), seconds(work, rates, 1)
        if predicted >= self.seconds - self.gain:
            return
        self.best = replace(
            planned, seconds=predicted, serial_seconds=alone,
            copied=(work.bytes_in, work.bytes_out), launches=work.launches,
        )  # fmt: skip
        beside = alone - computing(work, rates)
        self.gain = min(_GAIN * predicted, _GAIN_BESIDE * beside)
        self.idle = work.idle

    def fewer(self, least: int) -> range:
        """Numbers of boxes that are somewhat fewer than the best, but no fewer than `least`."""
        count = 1 if self.best is None else self.best.boxes.count
        return range(max(-(-count * 2 // 3), least), count, max(count // _FINE, 1))


def _in_slots(scheduler: Scheduler, boxes: Boxes, slots: int) -> PlannedStage:
    """The stage with so many in flight: one is read into buffers while these are on the device."""
    return scheduler.with_depth(boxes, min(slots + 1, boxes.count), slots, is_tried=True)


def in_fewer_slots(scheduler: Scheduler, refusal: MemoryLimitError) -> PlannedStage:
    """The stage with fewer boxes in flight than are wanted, for which there is no memory.

    Raises
    ------
    MemoryLimitError
        `refusal`, where as many as is quickest were tried already; or what one box needs.
    """
    device, draft = scheduler.code.device, scheduler.draft
    if device is None or draft is None or scheduler.resident > scheduler.setting.limit:
        raise refusal
    slots = device.slots or 1
    while slots > 1:
        slots //= 2
        try:
            return quickest(scheduler, device, draft.total, scheduler.unit(), slots)
        except MemoryLimitError as error:
            refusal = error
    raise refusal


def as_one_box(
    scheduler: Scheduler, device: DeviceCode, planned: PlannedStage
) -> PlannedStage:
    """A stage that is not cut, with what it copies and how long it takes on a device."""
    work = work_of(scheduler, device, planned.boxes)
    predicted = seconds(work, device.rates, 1)
    return replace(
        planned, seconds=predicted, serial_seconds=predicted,
        copied=(work.bytes_in, work.bytes_out), launches=work.launches,
    )  # fmt: skip


def extent_of(total: int, unit: int, count: int, across: bool = False) -> int:
    """How long so many boxes are; long ones are whole cache lines, whatever lies in a line.

    What lies behind an array of a box is then aligned as it is, and so are its vectors.
    Parts of rows (`across`) are whole lines where that makes them no more than twice as long.
    """
    units = max(-(-total // (count * unit)), 1)
    whole = lines(units) * _LINE
    enough = 2 * units > _LINE if across else whole >= _MANY_LINES * _LINE
    return (whole if enough and whole < total // unit else units) * unit


def lines(extent: int) -> int:
    """How many cache lines, whatever lies in one, so many neighbours take: at least one."""
    return max(-(-extent // _LINE), 1)


def _fewest(scheduler: Scheduler, device: DeviceCode, total: int) -> int:
    """How many boxes there are at least: for one of them to fit, and for a limit of its own."""
    whole = scheduler.boxes(total)
    moved, most = sum(copied(scheduler, whole)), scheduler.setting.box_bytes
    held = _held(scheduler, whole)
    fits = -(-(moved - held) // max(device.limit - held, 1)) if device.limit > held else 1
    return max(fits, 1 if most is None else -(-moved // most))


def _held(scheduler: Scheduler, boxes: Boxes) -> int:
    """Bytes of what all boxes need whole."""
    whole = (window for window in scheduler.stage.windows if window.axis is None)
    return sum(int(scheduler.window_bytes(w, boxes).max(initial=0)) for w in whole)


def operations_of(scheduler: Scheduler, rates: Rates) -> float:
    """The operations of all boxes; those of contractions as so many that take as long."""
    return scheduler.work() / (rates.contracting if scheduler.contracts() else 1)


def copied(scheduler: Scheduler, boxes: Boxes) -> tuple[int, int]:
    """Bytes that all boxes copy to a device, and from it."""
    into = out = 0
    for window in scheduler.stage.windows:
        size = scheduler.window_bytes(window, boxes)
        into += int(size.max(initial=0) if window.axis is None else size.sum())
    for number, output in enumerate(scheduler.stage.outputs):
        if output.array:  # what it leaves to the next box stays there
            out += int(np.sum(scheduler.output_bytes(output, boxes, number, False)))
    return into, out


@dataclass(frozen=True, slots=True)
class Work:
    """What all boxes of a stage together ask of a device.

    Attributes
    ----------
    boxes : int
    bytes_in, bytes_out : int
        Copied there and back, what boxes share by each of them.
    launches : int
        Of one box.
    operations : float
        Scalar ones, those that boxes repeat by each of them.
    taken : int
        Bytes that boxes read and write besides: flanks.
    copies : int
        Of one box, to the device.
    idle : float
        How many times as long kernels take as if no processor waited for the others.
    held : int
        Bytes of `bytes_in` that are there before the first box.
    """

    boxes: int
    bytes_in: int
    bytes_out: int
    launches: int
    operations: float = 0.0
    taken: int = 0
    copies: int = 0
    idle: float = 1.0
    held: int = 0


def work_of(scheduler: Scheduler, device: DeviceCode, boxes: Boxes) -> Work:
    """What the boxes of a stage ask of a device."""
    values = scheduler.values(boxes)
    operations = operations_of(scheduler, device.rates)
    in_tiles = any(output.more for output in scheduler.stage.outputs)  # which do nothing twice
    if scheduler.draft is not None and not in_tiles:
        operations *= overlap(scheduler, boxes.extent)
        if _in_lines(scheduler):
            operations *= boxes.count * lines(boxes.extent) / lines(boxes.total)
    taken = boxes.count * _TAKEN * scheduler.flank_bytes
    copies = sum(window.axis is not None for window in scheduler.stage.windows)
    held = _held(scheduler, boxes) if boxes.count > 1 else 0
    return Work(
        boxes.count, *copied(scheduler, boxes), device.launches(values), operations, taken,
        copies, device.idle(values), held,
    )  # fmt: skip


def _in_lines(scheduler: Scheduler) -> bool:
    """Whether the device does whole lines of what is cut, and the rest of a last one too."""
    return scheduler.cuts_rows() or scheduler.contracts()


def copies_often(scheduler: Scheduler, planned: PlannedStage) -> bool:
    """Whether boxes copy all that they read many times over, and compute little beside that.

    So do elements that are read from many rows, each of which is copied whole for a few of them.
    """
    device = scheduler.code.device
    if device is None or scheduler.draft is None:
        return False
    once = sum(copied(scheduler, scheduler.boxes(planned.boxes.total)))
    if sum(planned.copied) <= _OFTEN * once:
        return False
    work = work_of(scheduler, device, planned.boxes)
    return _LITTLE * computing(work, device.rates) < planned.seconds


def seconds(work: Work, rates: Rates, slots: int) -> float:
    """How long it takes with so many boxes in flight."""
    before, bytes_in = work.held / rates.copy_in, work.bytes_in - work.held
    into, out = bytes_in / rates.copy_in, work.bytes_out / rates.copy_out
    started = work.boxes * work.copies * rates.copy
    into += started
    computed = computing(work, rates)
    host = work.boxes * (rates.box + work.launches * rates.launch)
    slots = min(slots, work.boxes)
    if slots <= 1:  # no box is beside another; nothing at all, where there is none
        return before + into + computed + out + host
    together = rates.copying(bytes_in, work.bytes_out) + started
    copies = max(together, (into + out) / min(slots, rates.engines))
    if rates.beside:
        busy = max(copies, computed, (into + computed + out) / slots)
        ends = into + computed + out - max(into, computed, out)  # of the queue, for one box
        return before + max(busy, host) + ends / work.boxes
    # Kernels leave no processor idle that the host, or a copy, could have: each has one of them
    # while the others compute, and the host waits for its share where it is asked for the most.
    shared = computed + (into + out + host) / rates.engines
    waiting = host * (rates.engines + 1) / rates.engines
    return before + max(shared, copies, waiting) + (into + out) / work.boxes


def computing(work: Work, rates: Rates) -> float:
    """How long the device's kernels take."""
    touched = (work.bytes_in + work.bytes_out) * max(work.launches, 1) / rates.memory
    touched += work.taken / rates.memory
    computed = max(touched, work.operations / rates.operations) * work.idle
    return computed + work.boxes * work.launches * rates.start


def counts(total: int, unit: int, least: int) -> Iterator[int]:
    """Numbers of boxes to try, of `total` coordinates in multiples of `unit`: fewest first."""
    most = max(-(-total // max(unit, 1)), 1)
    most = min(most, max(_MANY_TIMES * least, _MOST))
    count = min(max(least, 1), most)
    while count < most:
        yield count
        count += max(count // 4, 1) if count < _FINE else count
    yield most


def slots_to_try(wanted: int | None, boxes: int, beside: bool) -> Sequence[int]:
    """How many boxes may be in flight, of so many; those first of which others have to be better.

    Where copies run beside kernels, and not always at one pace, that is the usual number.
    """
    tried = SLOTS if wanted is None else (wanted,)
    found = sorted({max(min(slots, boxes), 1) for slots in tried})
    return sorted(found, key=lambda slots: slots < USUAL_SLOTS) if beside else found
