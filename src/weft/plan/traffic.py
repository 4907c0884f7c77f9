"""What the boxes of a stage read from inputs, and write to results."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from weft.plan.nodes import Boxes, Numbers, Window
from weft.plan.protocols import decoded_chunks

if TYPE_CHECKING:
    from weft.plan.schedule import Scheduler


def moved(
    scheduler: Scheduler, boxes: Boxes, kept_rows: tuple[Numbers | None, ...] = ()
) -> tuple[dict[str, int], int]:
    """Bytes read of each input, and bytes written, in all boxes together.

    `kept_rows`: what of each window the box before has read already.
    """
    read: dict[str, int] = {}
    windows, where = scheduler.stage.windows, scheduler.where
    kept_rows = kept_rows or (None,) * len(windows)
    for window, there, kept in zip(windows, where, kept_rows, strict=True):
        if there == "resident" or not scheduler.analysis.shapes[window.array]:
            continue  # what is loaded is counted when it is; scalars are nothing
        count = _bytes_read(scheduler, window, boxes, kept)
        read[window.array] = read.get(window.array, 0) + count
    written = 0
    for number, output in enumerate(scheduler.stage.outputs):
        places = len(scheduler.setting.sinks.get(output.array, ()))
        size = scheduler.output_bytes(output, boxes, number, True)
        written += places * int(size.max(initial=0) if output.carry else size.sum())
    return read, written


def _bytes_read(
    scheduler: Scheduler, window: Window, boxes: Boxes, kept: Numbers | None
) -> int:
    """Bytes of a window that all boxes together read: by whole chunks where these are decoded."""
    if window.axis is None:  # what every box may read is moved once
        return int(scheduler.window_bytes(window, boxes).max(initial=0))
    chunks = decoded_chunks(scheduler.setting.inputs.get(window.array))
    ends = {name: boxes.values[name] for _, *cut in window.cuts for name in cut}
    if kept is not None:
        ends[window.lower] = ends[window.lower] + kept
    if chunks is not None:
        for axis, lower, upper in window.cuts:
            chunk, extent = chunks[axis], scheduler.analysis.shapes[window.array][axis]
            some = ends[upper] > ends[lower]
            whole = np.minimum(-(-ends[upper] // chunk) * chunk, extent)
            ends[lower] = np.where(some, ends[lower] // chunk * chunk, ends[upper])
            ends[upper] = np.where(some, whole, ends[upper])
    around = boxes.around.get(window.name)
    if around is not None and window.array not in scheduler.analysis.staged:
        # Of what lies between, nothing is read.
        ends[window.upper] = np.minimum(ends[window.upper], ends[window.lower] + around)
    return int(scheduler.part_bytes(window.array, window.cuts, ends, boxes.count).sum())
