"""Boxes of which few need more memory than there is, where all others stay as long as they are.

Next to the seam of an array that is rolled twice (`roll(sqrt(roll(x, a)), b)`), or turned
around, a box needs both ends of what is computed before, and so all between them; its neighbours
need no more than their own part. It is halved, and what of it lies over the seam again, so that
boxes become shorter and shorter towards it: for each seam some more boxes, whose number is the
logarithm of their length.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from weft.plan.nodes import Boxes
from weft.records import dataclass

if TYPE_CHECKING:
    from weft.plan.schedule import Scheduler

_FEW = 4
"""Of so many boxes one may need more than there is: where more do, all should be smaller."""

_MANY = 4096
"""Boxes of which some are cut, at most: finding those costs the host time."""

_MUCH = 2
"""Times what one box of all needs: more, and every box needs much besides its own part."""


@dataclass(frozen=True, slots=True)
class Halved:
    """Boxes of which a few have been cut.

    Attributes
    ----------
    boxes : Boxes
    all_fit : bool
        Whether none needs more than there is. If one does, it is as short as can be: no boxes fit,
        of whatever length, since one of them has what it has.
    """

    boxes: Boxes
    all_fit: bool


def halve(scheduler: Scheduler, boxes: Boxes, room: int) -> Halved | None:
    """The boxes, cut until none needs more than `room` bytes for itself.

    None where that is not for this: where more than one of four would be cut, or all need much
    more together than there is; where boxes are fewer than that, or thousands; and where a box
    leaves something to the next, whose length then counts.
    """
    draft, stage = scheduler.draft, scheduler.stage
    if draft is None or stage.flanks or stage.carries or any(draft.shortest()):
        return None
    if not _FEW <= boxes.count <= _MANY:
        return None
    unit, most = scheduler.unit(), None
    while True:
        needed = _needed(scheduler, boxes)
        large = needed > room
        count = np.count_nonzero(large)
        if _FEW * count > boxes.count:
            return None
        if most is None:
            if not count:  # as a rule
                return Halved(boxes, True)
            most = _MUCH * np.sum(_needed(scheduler, scheduler.boxes(draft.total)))
        if np.sum(needed[~large]) > most:
            return None
        starts, stops = np.array(boxes.spans).T
        lengths = (stops - starts)[large]
        if not count or lengths.min() <= unit:
            return Halved(boxes, not count)
        middles = starts[large] + np.maximum(lengths // (2 * unit), 1) * unit
        starts = np.sort(np.concatenate([starts, middles]))
        boxes = scheduler.boxes_between(starts, np.append(starts[1:], stops[-1]))


def _needed(scheduler: Scheduler, boxes: Boxes) -> npt.NDArray[np.int64]:
    """Bytes that each box takes for itself: on the device that it is for, or of buffers.

    Whether boxes fit is asked of the largest of each of their arguments, see `Scheduler.fits`.
    """
    stage, code, values = scheduler.stage, scheduler.code, scheduler.values(boxes)
    found = np.zeros(boxes.count, np.int64)
    if code.device is not None:
        found += code.device.memory(values)
    elif code.workspace is not None:
        found += code.workspace.evaluate(values)
    for window, where in zip(stage.windows, scheduler.where, strict=True):
        if window.axis is not None and (code.device is not None or where == "staged"):
            found += scheduler.window_bytes(window, boxes)
    for number, output in enumerate(stage.outputs):
        staged = scheduler.is_staged(output) and number not in scheduler.within
        if code.device is not None or staged:
            found += scheduler.output_bytes(output, boxes, number, False)
    return found
