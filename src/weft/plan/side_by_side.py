"""Boxes side by side: each is computed by one thread, which then writes it to files.

Boxes that all threads compute one after another are large, so that starting them costs little;
what they give to a file has then left the caches, and is read from memory once more, by threads
that take processors from those that compute. Side by side, no thread waits for another, and
where boxes can be small, every byte of a result goes from a core's cache to the file.
"""

from __future__ import annotations

import math
from copy import copy

import numpy as np

from weft.errors import MemoryLimitError
from weft.fun import nodes as fun
from weft.plan.code import BoxesCode
from weft.plan.nodes import Boxes, Output, PlannedStage
from weft.plan.protocols import FileSink
from weft.plan.schedule import Scheduler

_WRITTEN = 1 << 20
"""Bytes that a box gives: half of many cores' own caches. Less, and calls of the system count."""

_MOST_WRITTEN = 4 << 20  # bytes of a box; larger ones leave the caches before they are written
_AT_ONCE = 64 << 20  # bytes of all boxes that are under way
_MOST_BOXES = 1 << 16  # so that what is known of each takes little memory
_EACH = 4  # boxes for each thread: fewer, and some threads end long before others
_EACH_LARGE = 12  # of large ones, whose memory is touched for the first time as well
_COMPUTED_AGAIN = 1.125  # of what boxes compute, as a multiple of what there is
_READ_AGAIN = 1.5  # from caches, mostly
_WHOLE = 1 / 4  # of what a box gives: the most that it may read of arrays that all boxes read


def side_by_side(scheduler: Scheduler) -> PlannedStage | None:
    """The stage in boxes that threads take; None where that is no better, or does not fit.

    It suits results that go to plain files, of inputs that have an address, where a box costs
    no more than its part of the whole.
    """
    if not _suits(scheduler):
        return None
    alone = copy(scheduler)
    alone.threads = 1
    threads, rounds = scheduler.threads, _has_rounds(scheduler)
    boxes = _large(alone) if rounds else _small(alone, threads)
    if boxes is None or boxes.count < (_EACH_LARGE if rounds else _EACH) * threads:
        return None
    planned = alone.with_depth(boxes, threads, 1, abreast=threads)
    if not alone.fits(planned):
        return None
    alone.check(boxes)
    return planned


def _large(scheduler: Scheduler) -> Boxes | None:
    """Boxes as large as one after another would be: what overlaps is computed again by each.

    Threads that have a box each need not wait for one another after each round.
    """
    try:
        return scheduler.schedule().boxes
    except MemoryLimitError:
        return None


def _small(scheduler: Scheduler, threads: int) -> Boxes | None:
    """Boxes that stay in a core's cache until they are written."""
    draft, unit = scheduler.draft, scheduler.unit()
    assert draft is not None
    total = max(draft.total, 1)
    given = max(_given(scheduler, scheduler.boxes(total)), 1)
    wanted = min(_WRITTEN, _AT_ONCE // threads, scheduler.setting.box_bytes or _WRITTEN)
    extent = max(total * max(wanted, given // _MOST_BOXES) // given // unit, 1) * unit
    while (largest := given * extent // total) <= _MOST_WRITTEN and extent < total:
        boxes = scheduler.boxes(extent)
        if _is_cheap(scheduler, boxes, largest):
            return boxes
        extent *= 2
    return None


def _has_rounds(scheduler: Scheduler) -> bool:
    return any(isinstance(let.expr, fun.Loop) for let in scheduler.stage.program.body.statements)


def _suits(scheduler: Scheduler) -> bool:
    stage = scheduler.stage
    if scheduler.draft is None or stage.carries:
        return False
    if not isinstance(scheduler.code, BoxesCode) or "staged" in scheduler.where:
        return False
    written = [_is_written(scheduler, output) for output in stage.outputs]
    return None not in written and any(written)


def _is_written(scheduler: Scheduler, output: Output) -> bool | None:
    """Whether an output goes to files alone, else to memory; None where neither will do."""
    if output.axis is None or output.carry:
        return None
    if math.prod(scheduler.analysis.shapes[output.array][: output.axis]) > 1:
        return None  # a box is many pieces
    if output.array in scheduler.kept:
        return False
    for sink in scheduler.setting.sinks.get(output.array, ()):
        if not isinstance(sink, FileSink) or sink.file() is None:
            return None
    return True


def _given(scheduler: Scheduler, boxes: Boxes) -> int:
    """Bytes of all that boxes give."""
    return sum(
        int(np.sum(scheduler.output_bytes(output, boxes, number, True)))
        for number, output in enumerate(scheduler.stage.outputs)
    )


def _is_cheap(scheduler: Scheduler, boxes: Boxes, largest: int) -> bool:
    """Whether boxes, as small as these, cost little more than all at once."""
    for lower, upper in scheduler.windowed.ranges.values():
        if _times(boxes, lower, upper) > _COMPUTED_AGAIN:
            return False
    whole = 0
    for window in scheduler.stage.windows:
        if window.axis is None:
            whole += scheduler.analysis.bytes(window.array)
        elif _times(boxes, window.lower, window.upper) > _READ_AGAIN:
            return False
    return whole <= _WHOLE * largest


def _times(boxes: Boxes, lower: str, upper: str) -> float:
    """How much ranges of boxes have together, as a multiple of what they cover."""
    low, high = boxes.values[lower], boxes.values[upper]
    covered = int(np.max(high, initial=0) - np.min(low, initial=0))
    return int(np.sum(high - low)) / max(covered, 1)
