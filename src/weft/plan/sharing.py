"""Sharing: the boxes of a stage spread over several devices.

Every device has the stage compiled for itself, and buffers of its own. Which boxes it computes
is decided while the stage runs (`runtime.scheduler`); decided here is who takes part, and how
large its boxes may be, so that all that is under way at once fits the limits.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import lru_cache

import numpy as np

from weft.errors import CompileError, DeviceError, UnsupportedError
from weft.fun import nodes as fun
from weft.plan.device_boxes import USUAL_SLOTS
from weft.plan.extents import useful_extent
from weft.plan.nodes import Boxes, PlannedStage, Share, guided
from weft.plan.schedule import Scheduler
from weft.plan.setting import Processor
from weft.plan.times import HOST, alone_seconds, together
from weft.records import dataclass

SMALL_WORK = 1 << 21
"""Scalar operations that are not worth spreading."""

_LEAST_WORK = 1 << 18  # scalar operations of a box that is worth taking
_USUAL_PARTS = 32  # for each device, that boxes are as small as while its rate is unknown
_AT_ONCE = 0.5  # of its part that a device takes, if it is to take boxes after that
_NEARLY = 0.9  # of it, where every box does much anew: what is left is one more, or another's
_WORTH = 32  # times as long as what a box does anew of what all boxes do, at least
_DEAR = 0.04  # of its part, that a box does anew which is worth it if cores are not equally quick
_PACKED = 4e9  # bytes that a core packs in a second: what a library call does anew
_KNOWN_BOXES = 256  # whose numbers are kept for the next run of the same plan
HALVED = 4  # times, at most, where a device has less memory than it seemed
_LEAST_OF_LEAN = 4  # boxes are no shorter than this part of how far they lean
_STAGED_SLOTS = 2  # one box is read or written while another is computed


def share(schedulers: Sequence[tuple[Processor, Scheduler]]) -> PlannedStage | None:
    """The stage with its boxes spread over devices; None where it is better not spread.

    Parameters
    ----------
    schedulers : sequence of (Processor, Scheduler)
        Of the same stage, for each device that has code for it.
    """
    if len(schedulers) < 2 or not can_be_spread(schedulers[0][1]):
        return None
    sharing = _Sharing(schedulers[0][1], [_Member(p, s) for p, s in schedulers])
    return sharing.planned() if sharing.fits() else None


def in_smaller_boxes(scheduler: Scheduler, planned: PlannedStage) -> PlannedStage | None:
    """The stage in boxes of half the extent or less, on the one device that has it.

    None for the CPU, whose memory is known beforehand, and for boxes that cannot be smaller.
    """
    device, draft = scheduler.code.device, scheduler.draft
    if device is None or draft is None:
        return None
    unit, extent = scheduler.unit(), planned.boxes.extent
    if extent <= unit:
        return None
    if scheduler.stage.in_order:
        return _all_in_smaller_boxes(scheduler, extent, HALVED)
    if not _has_free_boxes(scheduler):
        return None
    no_limit = scheduler.setting.compile, None
    processor = Processor(device.name, device.name, False, scheduler.setting.threads, *no_limit)
    member = _Member(processor, scheduler, 1, max(unit, extent // 2 // unit * unit))
    member.measure()
    return _Sharing(scheduler, [member]).planned()


def _all_in_smaller_boxes(
    scheduler: Scheduler, extent: int, times: int
) -> PlannedStage | None:
    """A stage whose boxes come in order, from the first one on: what they have left is lost."""
    unit, (_, least) = scheduler.unit(), scheduler.draft.shortest() if scheduler.draft else (0, 0)
    extent = extent // 2 // unit * unit
    if not times or extent < max(unit, least // _LEAST_OF_LEAN):
        return None
    planned = scheduler.with_depth(scheduler.boxes(extent), 1, 1)
    return replace(planned, smaller=_all_in_smaller_boxes(scheduler, extent, times - 1))


def compiled_for(
    processors: Sequence[Processor], make: Callable[[Processor], Scheduler]
) -> tuple[list[tuple[Processor, Scheduler]], list[str]]:
    """The schedulers that `make(processor)` gives, and why devices are left out."""
    found: list[tuple[Processor, Scheduler]] = []
    remarks: list[str] = []
    for processor in processors:
        try:
            scheduler = make(processor)
            scheduler.code.compile()  # others do what it may refuse
        except (CompileError, UnsupportedError, DeviceError) as error:
            remarks.append(f"not on {processor.device}: {error.found}")
            continue
        if scheduler.code.device is None and not processor.is_host:
            remarks.append(f"not on {processor.device}: the CPU alone has code for it")
        else:
            found.append((processor, scheduler))
    return found, remarks


def spread_over(
    base: PlannedStage, shares: Sequence[Share], resident: int
) -> PlannedStage:
    """A stage planned for one device, done by several.

    Parameters
    ----------
    base : PlannedStage
    shares : sequence of Share
    resident : int
        Bytes of the host for what all boxes have in common.
    """
    kernels = [
        f"{kernel.removesuffix(f' on {share.device}')} on {share.device}"
        for share in shares
        for kernel in share.code.kernels
    ]
    return replace(
        base,
        peak_bytes=resident + sum(share.slots * share.host_bytes for share in shares),
        workspace=0,
        device_bytes=0,
        kept_rows=(None,) * len(base.kept_rows),
        kernels=tuple(kernels),
        shares=tuple(shares),
        seconds=together([share.seconds for share in shares]),
        serial_seconds=shares[0].seconds,
    )


def can_be_spread(scheduler: Scheduler) -> bool:
    """Whether boxes are independent, and the work is worth it."""
    draft = scheduler.draft
    if draft is None or not _has_free_boxes(scheduler):
        return False
    return draft.total >= 2 * scheduler.unit() and scheduler.work() >= SMALL_WORK


def _has_free_boxes(scheduler: Scheduler) -> bool:
    """Whether boxes may be computed in any order, and each gives a part of every result."""
    stage = scheduler.stage
    return not stage.in_order and all(output.axis is not None for output in stage.outputs)


@dataclass
class _Member:
    """A device that takes part, as far as it is decided."""

    processor: Processor
    scheduler: Scheduler
    slots: int = 1
    extent: int = 1
    host_bytes: int = 0
    device_bytes: int = 0

    def measure(self) -> None:
        """What a box of its extent takes at most."""
        planned = self.scheduler.with_depth(self.scheduler.boxes(self.extent), 1, self.slots)
        self.host_bytes = planned.peak_bytes - self.scheduler.resident
        self.device_bytes = planned.device_bytes

    def may_fit(self, unit: int) -> bool:
        """Whether its first box would, were all as small as can be: if not, none need be tried."""
        first = self.scheduler.boxes_between(np.array([0]), np.array([unit]))
        device = self.scheduler.code.device
        planned = self.scheduler.with_depth(first, 1, 1)
        return device is None or planned.device_bytes <= device.limit

    def fits(self) -> bool:
        device, limit = self.scheduler.code.device, self.processor.limit
        if device is not None and self.device_bytes > device.limit:
            return False
        return limit is None or self.slots * self.host_bytes <= limit

    def shrink(self, unit: int) -> bool:
        """Fewer slots, else smaller boxes; False where nothing is left to give up."""
        if self.slots > 1:
            self.slots -= 1
        elif self.extent > unit:
            self.extent = max(unit, self.extent // 2 // unit * unit)
        else:
            return False
        self.measure()
        return True


class _Sharing:
    def __init__(self, first: Scheduler, members: list[_Member]) -> None:
        assert first.draft is not None
        self.first = first
        self.members = members
        self.total = first.draft.total
        self.work = max(first.work(), 1.0)  # rows without elements have none
        self.unit = first.unit()
        self.is_call = any(
            isinstance(first.draft.statement(position).let.expr, fun.Call)
            for position in first.draft.members
        )
        self.least, self.at_once = self._sizes()
        self.usual = max(self.least, self.total // (_USUAL_PARTS * len(members)))

    def _sizes(self) -> tuple[int, float]:
        """The least extent that is worth a box, and what a device takes at once of its part."""
        least, anew, members = _LEAST_WORK / self.work, self._anew(), len(self.members)
        worth, last = max(least, _WORTH * anew), (1 - _NEARLY) / members
        if last < worth and least < last and anew * members < _DEAR:
            return self._extent(last), _NEARLY
        found = self._extent(worth)
        return found, _AT_ONCE if 2 * members * found < self.total else 1.0

    def _extent(self, part: float) -> int:
        """A part of all, in whole units."""
        return max(self.unit, -(-round(self.total * min(part, 1.0)) // self.unit) * self.unit)

    def _anew(self) -> float:
        """What every call of a library packs, whatever its extent, as a part of all work.

        A product of some rows of a matrix packs all of the other one.
        """
        if not self.is_call:
            return 0.0
        scheduler = self.first
        whole = scheduler.boxes(self.total)
        windows = (w for w in scheduler.stage.windows if w.axis is None)
        packed = sum(int(scheduler.window_bytes(w, whole).max(initial=0)) for w in windows)
        return packed / _PACKED * HOST.called / self.work

    def fits(self) -> bool:
        """Choose extents and slots; False where fewer than two devices can take part."""
        self._begin()
        self.members = [m for m in self.members if m.fits() or m.may_fit(self.unit)]
        for member in list(self.members):
            while not member.fits():
                if not member.shrink(self.unit):
                    self.members.remove(member)
                    break
        limit = self.first.setting.limit - self.first.resident
        while len(self.members) > 1 and self._host_bytes() > limit:
            largest = max(self.members, key=lambda m: m.slots * m.host_bytes)
            if not largest.shrink(self.unit):
                self.members.remove(largest)
        return len(self.members) > 1

    def _begin(self) -> None:
        # Rounded up: where a device takes its part at once, nothing of it is left for a box more.
        most = -(-int(self.total * self.at_once) // len(self.members) // self.unit) * self.unit
        for member in self.members:
            scheduler = member.scheduler
            device = scheduler.code.device
            member.extent = max(self.unit, most)
            if device is not None or scheduler.is_buffered():
                useful = useful_extent(scheduler, self.total, self.unit)
                member.extent = min(useful, member.extent)
            if device is not None:
                usual = USUAL_SLOTS if device.rates.beside else _STAGED_SLOTS
                member.slots = device.slots or usual
            elif scheduler.is_buffered():
                member.slots = _STAGED_SLOTS
            member.measure()

    def _host_bytes(self) -> int:
        return sum(member.slots * member.host_bytes for member in self.members)

    def planned(self) -> PlannedStage:
        """The stage, with boxes as they are expected: large ones first."""
        boxes = self._expected()
        base = self.first.with_depth(boxes, 1, 1)
        self.first.check(boxes)
        shares = list(map(self._share, self.members))
        return replace(
            spread_over(base, shares, self.first.resident),
            unit=self.unit,
            least=self.least,
            usual=self.usual,
            at_once=self.at_once,
        )

    def _expected(self) -> Boxes:
        """The boxes that devices of one speed would take in turn."""
        most = max(member.extent for member in self.members)
        part = -(-self.total // len(self.members) // self.unit) * self.unit
        step = max(self.least, self.usual // self.least * self.least)
        starts = [0]
        while starts[-1] < self.total:
            left = self.total - starts[-1]
            if self.at_once > _AT_ONCE:
                extent = min(most, part - starts[-1] % part)
            else:
                extent = guided(left * self.at_once / len(self.members), self.unit, step, most)
            starts.append(min(starts[-1] + extent, self.total))
        edges = np.array(starts, np.int64)
        return self.first.boxes_between(edges[:-1], edges[1:])

    def _share(self, member: _Member) -> Share:
        plan = lru_cache(_KNOWN_BOXES)(member.scheduler.one_box)
        boxes = member.scheduler.boxes(member.extent)
        return Share(
            member.processor.device, member.scheduler.code, member.processor.kind,
            member.processor.threads, member.slots, member.extent, member.host_bytes,
            member.device_bytes, plan,
            alone_seconds(member.scheduler, boxes, member.slots),
            alone_seconds(member.scheduler, boxes, 1),
        )  # fmt: skip
