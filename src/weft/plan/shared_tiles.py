"""Tiles of a stage spread over several devices: where boxes along one axis do not fit them.

All have the shape that suits the device with the least memory, or a half of it, and so on, where
others need more room for what they pack. They come in an order in which neighbours read the same
parts of arrays. Each device takes its own run of them, and keeps such a part for the next of its
tiles (`weft.runtime.parts`). It is worth it where computing takes longer than copying, as in
products of matrices.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from weft.plan.device_boxes import operations_of
from weft.plan.nodes import Boxes, PlannedStage, Share
from weft.plan.schedule import Scheduler
from weft.plan.setting import Processor
from weft.plan.sharing import can_be_spread, compiled_for, spread_over
from weft.plan.tiled import in_tiles
from weft.plan.times import alone_seconds
from weft.plan.window import Windowed

Parts: TypeAlias = tuple[npt.NDArray[np.int64] | None, ...]

_SLOTS = (2, 1)
"""Tiles that a device has under way: one is copied while another is computed, where both fit."""


def share_tiles(
    members: Sequence[tuple[Processor, Scheduler]],
    make: Callable[[Processor, Windowed], Scheduler],
) -> PlannedStage | None:
    """The stage with tiles spread over devices; None where tiles do not fit two of them.

    Parameters
    ----------
    members : sequence of (Processor, Scheduler)
        Of the stage cut along one axis, for each device that has code for it.
    make : callable
        The scheduler of the stage in another form, for a device.
    """
    limits = {p.device: s.code.device.limit for p, s in members if s.code.device is not None}
    if not limits or len(members) < 2 or not can_be_spread(members[0][1]):
        return None
    processor, alone = min(members, key=lambda member: limits.get(member[0].device, 1 << 62))
    tiles = in_tiles(alone, None, lambda windowed: make(processor, windowed))
    while tiles is not None and _computes_longer(alone, tiles):
        found = _spread(tiles, [p for p, _ in members], make)
        if found is not None:
            return found
        tiles = tiles.smaller  # which may suit others
    return None


def _spread(
    tiles: PlannedStage, processors: Sequence[Processor],
    make: Callable[[Processor, Windowed], Scheduler],
) -> PlannedStage | None:  # fmt: skip
    """A stage in tiles of one device, spread over several."""
    assert tiles.tiles is not None
    boxes = replace(
        tiles.boxes, extent=1, total=tiles.boxes.count,
        spans=tuple((number, number + 1) for number in range(tiles.boxes.count)),
    )  # fmt: skip
    made, remarks = compiled_for(processors, lambda p: make(p, Windowed(tiles.stage, {}, {})))
    parts = _parts(made[0][1], boxes) if made else ()
    shares = [
        share for p, on in made if (share := _share(p, on, boxes, len(made), parts)) is not None
    ]
    if len(shares) < 2:
        return None
    first = made[0][1]
    base = first.with_depth(boxes, 1, 1)
    read, copied = _read(first, boxes, parts, len(shares))
    base = replace(base, read={name: read[name] for name in base.read})
    kept = replace(tiles.tiles, parts=parts, stays=(None,) * len(parts), bytes_in=copied)
    found = spread_over(base, shares, first.resident)
    if found.peak_bytes > first.setting.limit:
        return None
    first.check(boxes)
    return replace(found, tiles=kept, remarks=(*base.remarks, *remarks))


def _computes_longer(alone: Scheduler, tiles: PlannedStage) -> bool:
    """Whether a device computes tiles for longer than what each of them reads is copied."""
    assert alone.code.device is not None
    assert tiles.tiles is not None
    rates = alone.code.device.rates
    copying = tiles.tiles.bytes_in / rates.copy_in + tiles.bytes_written / rates.copy_out
    return copying <= operations_of(alone, rates) / rates.operations


def _parts(scheduler: Scheduler, boxes: Boxes) -> Parts:
    """Of windows that several tiles share, the part that each has."""
    found: list[npt.NDArray[np.int64] | None] = []
    for window in scheduler.stage.windows:
        ends = [boxes.values[name] for _, *names in window.cuts for name in names]
        parts = np.unique(ends, axis=1, return_inverse=True)[1].reshape(-1) if ends else None
        several = parts is not None and parts.max(initial=-1) + 1 < boxes.count
        found.append(parts if several else None)
    return tuple(found)


def _read(
    scheduler: Scheduler, boxes: Boxes, parts: Parts, devices: int
) -> tuple[dict[str, int], int]:
    """Bytes that are read of each array, and all of them, if devices take as many tiles each."""
    read: dict[str, int] = {}
    each = -(-boxes.count // devices)
    for window, part in zip(scheduler.stage.windows, parts, strict=True):
        size = scheduler.window_bytes(window, boxes)
        brought = np.full(boxes.count, bool(window.cuts))
        if part is not None:
            brought[1:] = part[1:] != part[:-1]
        brought[::each] = True  # the first of each device
        read[window.array] = read.get(window.array, 0) + int(size[brought].sum())
    return read, sum(read.values())


def _share(
    processor: Processor, scheduler: Scheduler, boxes: Boxes, devices: int, parts: Parts
) -> Share | None:
    """What a device takes: one tile at a time of each thread; None where none fits."""
    device = scheduler.code.device
    for slots in _SLOTS:
        planned = scheduler.with_depth(boxes, 1, slots)
        host_bytes = planned.peak_bytes - scheduler.resident
        fits = device is None or planned.device_bytes <= device.limit
        if fits and (processor.limit is None or slots * host_bytes <= processor.limit):
            brought = _read(scheduler, boxes, parts, devices)[1]
            return Share(
                processor.device, scheduler.code, processor.kind, processor.threads, slots, 1,
                host_bytes, planned.device_bytes,
                lru_cache(None)(lambda start, _: scheduler.picked(boxes, start)),
                alone_seconds(scheduler, boxes, slots, brought),
                alone_seconds(scheduler, boxes, 1, brought),
            )  # fmt: skip
    return None
