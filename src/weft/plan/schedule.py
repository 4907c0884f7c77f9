"""Scheduling: boxes for one stage, as large as is useful and as the limit allows.

The peak of a stage is what is in memory whole, plus for the boxes in flight their staging
buffers, plus the workspace of the one box that is computed. Arrays that the caller holds
and mapped files cost nothing.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from weft.fun import nodes as fun
from weft.plan import draft as drafts
from weft.plan.calls import bytes_beside
from weft.plan.derived import evaluator
from weft.plan.device_boxes import as_one_box, quickest
from weft.plan.device_items import with_items
from weft.plan.draft import Draft
from weft.plan.extents import MOST_OVERLAP, least_extent, overlap, useful_extent
from weft.plan.footprint import Bounds
from weft.plan.halve import halve
from weft.plan.nodes import (
    Boxes,
    Numbers,
    OneBox,
    PlannedStage,
    Where,
    Window,
)
from weft.plan.protocols import is_source, takes_parts
from weft.plan.refusals import refusal
from weft.plan.segment import PARTS
from weft.plan.setting import Setting, form_in_memory
from weft.plan.stage_arrays import StageArrays, pages
from weft.plan.statements import Analysis
from weft.plan.traffic import moved
from weft.plan.window import Windowed
from weft.plan.work import is_contraction, work

DEPTH = 3
"""Boxes in flight: one is read, one computed, one written."""

_MUCH_LONGER = 8
"""Times a chunk, or a scan's tile, that boxes of whole ones of both are at most."""

_NONE = np.zeros((0, 0), np.int64)


class Scheduler(StageArrays):
    """Chooses the boxes of one stage."""

    def __init__(
        self, analysis: Analysis, draft: Draft | None, windowed: Windowed, kept: frozenset[str],
        resident: int, setting: Setting,
    ) -> None:  # fmt: skip
        """`kept`: results that stay in memory; `resident`: bytes that are there already."""
        super().__init__(analysis, windowed.stage, kept, setting)
        self.draft = draft
        self.windowed = windowed
        self.resident = resident
        self.threads = setting.threads  # that compute a box
        # Boxes, threads, and what `values` has found for them: they are asked about several times.
        self._known: tuple[Boxes, int, dict[str, Any]] | None = None
        self._unit: int | None = None
        self.code = setting.compile(self.program, self._layouts(), self._private())
        self.within = {inset.slot for inset in self.code.within}
        self.strided = self.code.strided
        if self.code.device is None:  # on a device they are in its own memory
            left = {self.stage.outputs[number].carry for number in self.within}
            self.resident += sum(f.bytes for f in self.stage.flanks if f.name not in left)

    # ------------------------------------------------------------ boxes

    def schedule(self) -> PlannedStage:
        """The stage with the largest useful boxes that fit.

        Raises
        ------
        MemoryLimitError
            When not even the smallest boxes fit.
        """
        if self.draft is None:
            fixed = {name: np.array([value]) for name, value in self.windowed.fixed.items()}
            nothing = np.array([0]), np.array([0])
            one = Boxes(1, fixed, (nothing,) * len(self.stage.outputs))
            planned, device = self._fitting(one, lambda: None), self.code.device
            return planned if device is None else as_one_box(self, device, planned)
        total, unit = self.draft.total, self.unit()
        least = least_extent(total, unit)
        if self.resident > self.setting.limit:  # no boxes help, and the smallest are many
            first = self.boxes_between(np.array([0]), np.array([min(least, total)]))
            raise refusal(self, self.with_depth(first, 1, 1))
        if self.code.device is not None:
            return quickest(self, self.code.device, total, unit, self.code.device.slots)
        extent = useful_extent(self, total, unit)

        def smaller() -> Boxes | None:
            nonlocal extent
            if extent <= least:
                return None
            # Boxes that overlap much are better as large as they can be.
            gently = self.stage.flanks or overlap(self, extent) > MOST_OVERLAP
            less = extent * 3 // 4 if gently else extent // 2
            extent = max(least, less // unit * unit)
            return self.boxes(extent)

        return self._fitting(self.boxes(extent), smaller)

    def boxes(self, extent: int) -> Boxes:
        """Boxes of `extent` coordinate units."""
        assert self.draft is not None
        total = self.draft.total
        starts = np.arange(0, total, max(extent, 1), dtype=np.int64)
        first, last = self.draft.shortest()
        starts = starts[(starts == 0) | ((starts >= first) & (total - starts >= last))]
        return self.boxes_between(starts, np.append(starts[1:], total)[: len(starts)])

    def boxes_between(self, starts: Numbers, stops: Numbers) -> Boxes:
        """Boxes `start <= coordinate < stop`."""
        draft = self.draft
        assert draft is not None
        total = draft.total
        extent = int(np.max(stops - starts, initial=0))
        ranges = draft.evaluate(starts, stops)
        values = {name: np.full(len(starts), n) for name, n in self.windowed.fixed.items()}
        around: dict[str, Numbers] = {}
        for position, (lower, upper) in self.windowed.ranges.items():
            values[lower], values[upper] = ranges.computed[position]
        for name, (low, high) in self.windowed.tiles.items():
            values[name] = (values[high] - values[low]) // drafts.SCAN_TILE
        for window in self.stage.windows:
            if window.axis is not None:
                keys = self.windowed.reads[window.name]
                lows, highs = _hull([ranges.reads[key] for key in keys])
                values[window.lower], values[window.upper] = lows, self._to_chunks(
                    window, lows, highs
                )
                if not ranges.unwrapped.keys().isdisjoint(keys):
                    first, last = _hull([ranges.unwrapped.get(k, ranges.reads[k]) for k in keys])
                    around[window.name] = last - first
        owned = []
        for output in self.stage.outputs:
            position = self.analysis.producer.get(output.array, -1)
            if output.axis is None:
                owned.append((np.zeros_like(starts), np.zeros_like(starts)))
            else:
                owned.append(ranges.owned[position])
        unit = self._unit_name()
        spans = tuple(zip(starts.tolist(), stops.tolist(), strict=True))
        extent = min(extent, total)
        return Boxes(len(starts), values, tuple(owned), unit, extent, total, spans, around)

    def _to_chunks(
        self, window: Window, lower: npt.NDArray[np.int64], upper: npt.NDArray[np.int64]
    ) -> npt.NDArray[np.int64]:
        """Window ends moved to chunk borders, so that halos split no chunk between two reads."""
        source = self.setting.inputs.get(window.array)
        assert window.axis is not None
        if not is_source(source) or source.chunks is None:
            return upper
        if source.direct() is not None:
            return upper
        chunk = source.chunks[window.axis]
        extent = self.analysis.shapes[window.array][window.axis]
        whole = np.minimum(-(-upper // chunk) * chunk, extent)
        whole = np.where(upper > lower, whole, upper)
        largest = int(np.max(upper - lower, initial=0))
        return whole if int(np.max(whole - lower, initial=0)) <= 1.5 * largest else upper

    def _kept_rows(
        self, window: Window, where: Where, boxes: Boxes, depth: int
    ) -> npt.NDArray[np.int64] | None:
        """What of each staged window the box before has read already."""
        if where != "staged" or window.axis is None or depth < 2 or boxes.count < 2:
            return None
        lower, upper = boxes.values[window.lower], boxes.values[window.upper]
        overlap = np.clip(np.minimum(upper[:-1], upper[1:]) - lower[1:], 0, None)
        overlap[lower[1:] < lower[:-1]] = 0
        return np.concatenate([[0], overlap]) if overlap.any() else None

    def _unit_name(self) -> str:
        assert self.draft is not None
        position = min(self.draft.targets.items(), key=lambda item: item[1])[0]
        statement = self.draft.statement(position)
        dim = self.draft.members[position]
        return f"{statement.results[0]} {'terms' if statement.adds_up(dim) else f'axis {dim}'}"

    def unit(self) -> int:
        """What box bounds are multiples of: whole indices, whole chunks of sinks.

        Where those have little in common, or are too large, a sink may put chunks together. (Whole
        ones are quicker.)
        """
        if self._unit is None:
            self._unit = self._whole_unit()
        return self._unit

    def _whole_unit(self) -> int:
        draft = self.draft
        assert draft is not None
        unit = draft.unit()
        for output in self.stage.outputs:
            if output.axis is None:
                continue
            scale = int(draft.targets[self.analysis.producer[output.array]])
            for sink in self.setting.sinks.get(output.array, ()):
                if sink is None or sink.chunks is None:
                    continue
                chunk = scale * sink.chunks[output.axis]
                together = math.lcm(unit, chunk)
                is_long = together > _MUCH_LONGER * max(unit, chunk)
                if not takes_parts(sink) or not (is_long or self._is_too_large(together)):
                    unit = together
        return min(unit, max(draft.total, 1))

    def _is_too_large(self, extent: int) -> bool:
        """Whether the first box of so many coordinates does not fit."""
        assert self.draft is not None
        first = self.boxes_between(np.array([0]), np.array([min(extent, self.draft.total)]))
        return not self.fits(self.with_depth(first, 1, 1, is_tried=True))

    def work(self) -> float:
        """The scalar operations of all boxes, but for what they repeat."""
        draft, sizes = self.draft, {**self.analysis.sizes, **self.windowed.fixed}
        if draft is None:
            return sum(work(let, sizes) for let in self.program.body.statements)
        return sum(work(draft.statement(position).let, sizes) for position in draft.members)

    def contracts(self) -> bool:
        """Whether all that boxes have parts of are contractions."""
        draft = self.draft
        return draft is not None and all(
            is_contraction(draft.statement(position).let) for position in draft.targets
        )

    def cuts_rows(self) -> bool:
        """Whether boxes have parts of rows: neighbours in memory, of which a device does many."""
        draft = self.draft
        assert draft is not None
        return any(
            draft.members[position] == len(draft.statement(position).dims) - 1 > 0
            for position in draft.targets
        )

    # ------------------------------------------------------------ bytes

    def workspace(self, boxes: Boxes) -> int:
        """Bytes that one run needs besides its arguments, at most."""
        polynomial = self.code.workspace
        values = self.values(boxes)
        if polynomial is not None:
            return int(np.max(polynomial.evaluate(values), initial=0))
        # An interpreter makes every array, the results too, before they are copied out.
        total = np.zeros(boxes.count, np.int64)
        for let in self.program.body.statements:
            total = total + bytes_beside(let).evaluate(values)
            for var in let.pattern:
                if isinstance(var.type, fun.Array) and not isinstance(let.expr, fun.LAYOUT_CHANGES):
                    count: Any = var.type.dtype.itemsize
                    for size in var.type.shape:
                        count = count * size.evaluate(values)
                    total = total + count
        return int(total.max(initial=0))

    # ------------------------------------------------------------ what fits

    def _fitting(self, boxes: Boxes, smaller: Callable[[], Boxes | None]) -> PlannedStage:
        while True:
            halved = halve(self, boxes, (self.setting.limit - self.resident) // DEPTH)
            if halved is not None and halved.all_fit:
                boxes = halved.boxes
            following: Boxes | None = None
            for depth in range(min(DEPTH, max(boxes.count, 1)), 0, -1):
                if boxes.count > 1 and depth == 1:
                    following = smaller()
                    if following is not None:
                        break  # smaller boxes that overlap are better
                planned = self.with_depth(boxes, depth, 1)
                if self.fits(planned):
                    self.check(boxes)
                    return planned
            following = following or smaller()
            if following is None:
                raise refusal(self, planned)
            boxes = following

    def _held(self, inputs: tuple[int, ...], boxes: Boxes) -> int:
        """Bytes of windows that are whole arrays: several boxes share them on a device."""
        windows = zip(inputs, self.stage.windows, strict=True)
        return sum(size for size, w in windows if w.axis is None) if boxes.count > 1 else 0

    def fits(self, planned: PlannedStage) -> bool:
        device = self.code.device
        fits_device = device is None or planned.device_bytes <= device.limit
        return fits_device and planned.peak_bytes <= self.setting.limit

    def with_depth(
        self, boxes: Boxes, depth: int, slots: int, abreast: int = 0, is_tried: bool = False
    ) -> PlannedStage:
        """The stage in these boxes; `depth`, `slots` and `abreast` as a planned stage has them.

        `is_tried`: it is asked what it takes, and has no integers yet.
        """
        stage = self.stage
        inputs, outputs = self._argument_bytes(boxes)
        workspace = pages(self.workspace(boxes))
        on_device = locked = 0
        if self.code.device is not None:
            own = np.max(self.code.device.memory(self.values(boxes))) if boxes.count else 0
            held, flanks = self._held(inputs, boxes), self.flank_bytes
            carries = [size for size, o in zip(outputs, stage.outputs, strict=True) if o.carry]
            taken = sum(inputs) - held + sum(carries) - flanks  # what the box before left, too
            each = taken + sum(outputs) - flanks + int(own)
            on_device = held + flanks + slots * each
            own_results = [n for n, o in zip(outputs, stage.outputs, strict=True) if not o.carry]
            locked = slots * self.code.device.page_locked(own_results)
            locked += self.code.device.page_locked(()) if held else 0
        staging = self._staging(inputs, outputs)
        # What lies within one is written, or read by the next box, while that is computed.
        workspaces = max(depth, 2) if self.code.within else max(abreast, 1)
        kept_rows = tuple(
            self._kept_rows(window, where, boxes, depth)
            for window, where in zip(stage.windows, self.where, strict=True)
        )
        read, written = moved(self, boxes, kept_rows)
        loads = tuple(dict.fromkeys(
            window.array
            for window, where in zip(stage.windows, self.where, strict=True)
            if where == "resident" and window.array in self.setting.inputs
        ))  # fmt: skip
        return PlannedStage(
            stage, boxes, self.code, self.where, inputs, outputs, workspace, depth,
            self.resident + staging * depth + workspace * workspaces + locked,
            written, _NONE if is_tried else self.integers(boxes), loads, tuple(sorted(self.kept)),
            kernels=self.code.kernels, remarks=self.code.remarks, read=read, held=self.resident,
            kept_rows=kept_rows, slots=slots, device_bytes=on_device, abreast=abreast,
            workspaces=workspaces,
        )  # fmt: skip

    def one_box(self, start: int, stop: int) -> OneBox:
        """The box `start <= coordinate < stop`; planned while others are computed."""
        return self._alone(self.boxes_between(np.array([start]), np.array([stop])))

    def picked(self, boxes: Boxes, number: int) -> OneBox:
        """One of some boxes, as tiles are."""

        def only(numbers: Numbers) -> Numbers:
            return numbers[number : number + 1]

        values = {name: only(numbers) for name, numbers in boxes.values.items()}
        owned = tuple((only(lower), only(upper)) for lower, upper in boxes.owned)
        return self._alone(Boxes(1, values, owned, boxes.unit))

    def _alone(self, boxes: Boxes) -> OneBox:
        staging = self._staging(*self._argument_bytes(boxes)) if self.is_buffered() else 0
        return OneBox(boxes, self.integers(boxes)[0], staging, pages(self.workspace(boxes)))

    def values(self, boxes: Boxes) -> dict[str, Any]:
        """Every size that the code knows: an int, or one for each box."""
        known = self._known
        if known is None or known[0] is not boxes or known[1] != self.threads:
            self._known = known = boxes, self.threads, self._values(boxes)
        return dict(known[2])

    def check(self, boxes: Boxes) -> None:
        """Raise `OutOfBoundsError` where a box is known to access what is in no array."""
        values, shapes = self.values(boxes), self.analysis.shapes
        windows = zip(self.stage.windows, self.program.params, strict=False)
        wholes = {
            (param.name, axis): (values[lower], shapes[window.array][axis])
            for window, param in windows
            for axis, lower, _ in window.cuts
        }
        self.code.check(values, wholes)

    def _values(self, boxes: Boxes) -> dict[str, Any]:
        values: dict[str, Any] = {**self.analysis.sizes, **boxes.values}
        values.update((new, values[name]) for new, name in self._names.items())
        if self.code.device is None:
            return self._derived(boxes, values, self.threads)
        return with_items(self.code.device, partial(self._derived, boxes, values))

    def _derived(self, boxes: Boxes, known: Mapping[str, Any], threads: int) -> dict[str, Any]:
        values = {**known, "threads": threads}
        if any(entry.name == PARTS for entry in self.code.derived):
            values[PARTS] = self._parts(boxes)
        unknown = tuple([entry for entry in self.code.derived if entry.name not in values])
        return {**values, **evaluator(unknown)(values)}

    def _parts(self, boxes: Boxes) -> Any:
        """Of how many such boxes the results have the bytes; 1 where boxes lie elsewhere."""
        stage = self.stage
        if any(output.carry or self.is_staged(output) for output in stage.outputs):
            return 1
        whole = sum(self.analysis.bytes(output.array) for output in stage.outputs)
        box = sum(
            self.output_bytes(output, boxes, number, False)
            for number, output in enumerate(stage.outputs)
        )
        return np.maximum(whole // np.maximum(box, 1), 1)

    def integers(self, boxes: Boxes) -> npt.NDArray[np.int64]:
        """What the code takes of each box, in the order of its `integers`."""
        known = self.values(boxes)
        windows = zip(self.stage.windows, self.program.params, self.where, strict=False)
        for window, param, where in windows:
            if where == "direct":
                form = form_in_memory(self.setting.inputs[window.array])
                assert form is not None
                for dim, stride in enumerate(form.strides):
                    known[f"{param.name}.stride{dim}"] = stride // form.itemsize
            elif self._is_part_of_rows(window, where):
                shape = self.analysis.shapes[window.array]
                for dim in range(len(shape)):
                    known[f"{param.name}.stride{dim}"] = math.prod(shape[dim + 1 :])
        table = np.zeros((boxes.count, len(self.code.integers)), np.int64)
        for column, name in enumerate(self.code.integers):
            table[:, column] = known[name]
        return table


def _hull(bounds: Sequence[Bounds]) -> Bounds:
    lower = np.minimum.reduce([low for low, _ in bounds])
    upper = np.maximum.reduce([high for _, high in bounds])
    empty = lower >= upper
    return np.where(empty, 0, lower), np.where(empty, 0, upper)
