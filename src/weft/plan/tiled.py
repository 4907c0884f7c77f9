"""Stages on a device in tiles: where boxes cut along one axis do not fit, or move more.

What tiles read, and which shapes of them fit, is known from footprints alone; a program is compiled
for the shape that is taken. Its own memory is known only then: where it leaves too little room, the
next shape is looked for in what is left.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import field, replace
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from weft.plan.code import DeviceCode
from weft.plan.device_boxes import copied, operations_of
from weft.plan.nodes import Boxes, PlannedStage, Tiles
from weft.plan.schedule import Scheduler
from weft.plan.sharing import HALVED
from weft.plan.tile_shapes import Shape, shapes
from weft.plan.tile_window import window_tiles
from weft.plan.tiles import Reached, Tiling, grid
from weft.plan.window import Windowed
from weft.records import dataclass

_WORTH = 1.05  # times what has to be moved: boxes along one axis that move less are taken
_FEWER = 0.95  # of their bytes, that tiles have to reach
_ATTEMPTS = 4  # to find room for memory that only compiled programs tell of

MakeScheduler: TypeAlias = Callable[[Windowed], Scheduler]


def in_tiles(
    alone: Scheduler, slabs: PlannedStage | None, make: MakeScheduler
) -> PlannedStage | None:
    """A stage in tiles; None where that moves no less, or tiles do not fit either.

    Parameters
    ----------
    alone : Scheduler
        Of the stage cut along one axis.
    slabs : PlannedStage or None
        The stage so cut; None where none fits.
    make : callable
        The scheduler of the stage in another form.
    """
    device, draft = alone.code.device, alone.draft
    if device is None or draft is None or "staged" in alone.where:
        return None
    moved = None if slabs is None else sum(copied(alone, slabs.boxes))
    if moved is not None and moved <= _WORTH * sum(copied(alone, alone.boxes(draft.total))):
        return None
    tiling = Tiling.of(draft, alone.setting.sinks)
    if tiling is None or len(tiling.extents) < 2:
        return None
    found = _Search(tiling, alone, device, make, tiling.moves()).planned()
    if found is None or found.tiles is None:
        return None
    if slabs is not None and moved is not None:
        fewer = found.tiles.bytes_in + found.bytes_written <= _FEWER * moved
        if not fewer or found.seconds >= slabs.seconds:
            return None
    return replace(found, tiles=replace(found.tiles, slabs=moved))


@dataclass
class _Search:
    """The quickest tiles that fit."""

    tiling: Tiling
    alone: Scheduler
    device: DeviceCode
    make: MakeScheduler
    moves: npt.NDArray[np.bool_]
    made: dict[Any, tuple[Scheduler, dict[str, tuple[int, int]]]] = field(default_factory=dict)

    def planned(self) -> PlannedStage | None:
        needed = [output.array for output in self.alone.stage.outputs]
        room, best = self.device.limit, None
        for _ in range(_ATTEMPTS):
            found = shapes(
                self.tiling, needed, room, self.device.rates, self.device.slots,
                operations_of(self.alone, self.device.rates), self.alone.contracts(),
            )  # fmt: skip
            if not found:
                break
            stage = self._stage(found[0])
            # What was not known is about as much in tiles that are little smaller, or larger.
            left = self.device.limit - (stage.device_bytes - found[0].memory)
            if not self.alone.fits(stage):
                room = min(left, room * 63 // 64)
                continue
            if best is None or stage.seconds < best[0].seconds:
                best = stage, found[0]
            if left <= room:
                break
            room = left
        return None if best is None else replace(
            best[0], smaller=self._smaller(best[1], HALVED)
        )

    def _smaller(self, shape: Shape, times: int) -> PlannedStage | None:
        """Tiles of half the size, one at a time, and so on: for a device that has less memory."""
        halves = [
            self.tiling.whole(axis, -(-extent // 2)) for axis, extent in enumerate(shape.extents)
        ]
        shorter = [axis for axis in shape.order if halves[axis] < shape.extents[axis]]
        if not times or not shorter:
            return None
        longest = max(shorter, key=lambda axis: shape.extents[axis])
        extents = list(shape.extents)
        extents[longest] = halves[longest]
        shape = replace(shape, extents=tuple(extents), slots=1, buffers=1)
        return replace(self._stage(shape), smaller=self._smaller(shape, times - 1))

    def _windowed(self, reached: Reached) -> tuple[Scheduler, dict[str, tuple[int, int]]]:
        """The stage of tiles that reach so far, and its sizes: those cut alike have one."""
        tiling = self.tiling
        key = tiling.cuts(reached)
        if key not in self.made:
            needed = {output.array for output in self.alone.stage.outputs}
            windowed, sizes = window_tiles(tiling, reached, needed, self.alone.stage.reason)
            self.made[key] = self.make(windowed), sizes
        return self.made[key]

    def _stage(self, shape: Shape) -> PlannedStage:
        """The stage in tiles of a shape."""
        tiling = self.tiling
        box = grid(tiling.extents, shape.extents, shape.order)
        reached = tiling.reached(box)
        scheduler, sizes = self._windowed(reached)
        values = {}
        for number, (name, (owner, axis)) in enumerate(sizes.items()):
            ranges = reached.read[owner] if owner >= 0 else reached.computed[-1 - owner]
            values[name] = ranges[axis][number % 2]
        count = len(box[0][0])
        owned = tuple((values[o.lower], values[o.upper]) for o in scheduler.stage.outputs)
        names = " x ".join(map(str, shape.order))
        unit = f"{scheduler.stage.outputs[0].array} axes {names}"
        boxes = Boxes(count, values, owned, unit)
        stays: list[npt.NDArray[np.bool_] | None] = [None] * len(scheduler.stage.windows)
        buffers = [shape.slots] * len(stays)
        follow = self.moves[:, shape.order[-1]]
        for number, (same, moves) in enumerate(zip(tiling.stays(reached), follow, strict=True)):
            if not scheduler.stage.windows[number].cuts:
                buffers[number] = 1
            elif same.any():
                stays[number] = same
                buffers[number] = shape.slots if moves else shape.buffers
        tiles = Tiles(shape.extents, shape.order, tuple(stays), tuple(buffers))
        return _planned(scheduler, boxes, shape, tiles)


def _planned(scheduler: Scheduler, boxes: Boxes, shape: Shape, tiles: Tiles) -> PlannedStage:
    """The stage in these tiles, with what it copies and the memory that it takes."""
    values, device = scheduler.values(boxes), scheduler.code.device
    assert device is not None
    scheduler.check(boxes)
    planned = scheduler.with_depth(boxes, min(shape.slots + 1, boxes.count), shape.slots)
    own = shape.slots * int(np.max(device.memory(values), initial=0))
    on_device = own + shape.slots * sum(planned.output_bytes)
    on_device += sum(n * size for n, size in zip(tiles.buffers, planned.input_bytes, strict=True))
    read, copied_in = dict.fromkeys(planned.read, 0), 0
    for window, same in zip(scheduler.stage.windows, tiles.stays, strict=True):
        each = scheduler.window_bytes(window, boxes)
        total = int(each[:1].sum() if not window.cuts else each.sum() if same is None
                    else each[~same].sum())  # fmt: skip
        copied_in += total
        if window.array in read:
            read[window.array] += total
    return replace(
        planned, read=read, device_bytes=on_device, seconds=shape.seconds(device.rates),
        launches=device.launches(values), tiles=replace(tiles, bytes_in=copied_in),
    )  # fmt: skip
