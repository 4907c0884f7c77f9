"""How long boxes should be, before it is asked what fits.

Boxes touch not much at once, for caches and for what is done beside them to overlap; but more
than they share with their neighbours, which all of them read or compute again.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from weft.fun import nodes as fun
from weft.plan.nodes import Where, Window
from weft.plan.protocols import is_source
from weft.plan.setting import BOX_BYTES
from weft.plan.traffic import moved

if TYPE_CHECKING:
    from weft.plan.schedule import Scheduler

_MOST = 1 << 15  # boxes of the host, each of which costs memory and time before any of them runs
_OVERLAPPING = 16  # boxes, where there are buffers
_SMALLEST = 4 << 20  # bytes of a box that need not be smaller for the sake of overlap
_ALONE = 128 << 20  # of a box for each thread, where nothing is done beside it but its tiles
_ALONE_WORKSPACE = 1 << 20  # bytes, for each thread, that such boxes may take
_NEAR = 8 << 20  # bytes, for each thread, of what boxes make and use up: about what stays in caches
MOST_OVERLAP = 1.125  # of windows: more, and boxes are larger than would do otherwise
_FLANKS = 8  # boxes that lean are so many times as long as they lean, where there is memory


def least_extent(total: int, unit: int) -> int:
    """How long boxes are at least, of `total` coordinates: more of them would be no help."""
    return -(-total // (_MOST * unit)) * unit or unit


def useful_extent(scheduler: Scheduler, total: int, unit: int) -> int:
    """How long boxes should be, of `total` coordinates: a multiple of a unit, or all."""
    assert scheduler.draft is not None
    read, written = moved(scheduler, scheduler.boxes(max(total, 1)))
    touched = sum(read.values()) + written or 1

    def touching(wanted: int) -> int:
        return total if touched <= wanted else max(total * wanted // touched, 1)

    extent = touching(scheduler.setting.box_bytes or BOX_BYTES)
    if scheduler.is_buffered() or scheduler.code.device is not None:
        # Enough boxes for reading, computing and writing to overlap.
        extent = min(extent, touching(max(touched // _OVERLAPPING, _SMALLEST)))
    elif scheduler.setting.box_bytes is None:
        # Threads wait for one another after each.
        alone = touching(_ALONE * scheduler.threads)
        if scheduler.workspace(scheduler.boxes(alone)) <= _ALONE_WORKSPACE * scheduler.threads:
            extent = max(extent, alone)
    if scheduler.code.device is None and scheduler.setting.box_bytes is None:
        extent = _near(scheduler, extent, unit)
    while extent < total and overlap(scheduler, extent) > MOST_OVERLAP:
        extent *= 2
    # What boxes take over, and leave, should be less than what they add.
    extent = max(extent, min(_FLANKS * scheduler.draft.shortest()[1], total))
    for window, where in zip(scheduler.stage.windows, scheduler.where, strict=True):
        extent = _whole_chunks(scheduler, window, where, extent, total, unit)
    return max(unit, min(extent, total) // unit * unit if extent < total else total)


def _near(scheduler: Scheduler, extent: int, unit: int) -> int:
    """At most so long that what a box makes and uses up stays near the cores.

    Boxes of loops are as long as they are for other reasons; and where that does not become
    less with shorter boxes, they stay, too.
    """
    assert scheduler.draft is not None
    members = map(scheduler.draft.statement, scheduler.draft.members)
    if any(isinstance(member.let.expr, fun.Loop) for member in members):
        return extent
    most, taken = _NEAR * scheduler.threads, scheduler.workspace(scheduler.boxes(extent))
    while taken > most and extent > unit:
        shorter = max(extent // 2, unit)
        less = scheduler.workspace(scheduler.boxes(shorter))
        if 4 * less > 3 * taken:
            break
        extent, taken = shorter, less
    return extent


def overlap(scheduler: Scheduler, extent: int) -> float:
    """How much of its windows all boxes together compute, as a multiple of what there is."""
    most = 1.0
    assert scheduler.draft is not None
    members = map(scheduler.draft.statement, scheduler.draft.members)
    if not any(isinstance(m.let.expr, fun.Loop) and not m.leans for m in members):
        return most  # what overlaps is read again at most
    boxes = scheduler.boxes(extent)
    for window in scheduler.stage.windows:
        if window.axis is not None:
            lower, upper = boxes.values[window.lower], boxes.values[window.upper]
            there = int(np.max(upper, initial=0) - np.min(lower, initial=0))
            most = max(most, int(np.sum(upper - lower)) / max(there, 1))
    return most


def _whole_chunks(
    scheduler: Scheduler, window: Window, where: Where, extent: int, total: int, unit: int
) -> int:
    """The extent as a multiple of a source's chunks, so that none is read twice."""
    source = scheduler.setting.inputs.get(window.array)
    if where != "staged" or window.axis is None or not is_source(source):
        return extent
    assert scheduler.draft is not None
    slope = scheduler.draft.slopes.get((window.array, window.axis))
    if source.chunks is None or not slope or extent >= total:
        return extent
    chunk = math.lcm(unit, math.ceil(source.chunks[window.axis] / slope))
    if chunk > total:
        return extent
    return max(1, extent // chunk) * chunk
