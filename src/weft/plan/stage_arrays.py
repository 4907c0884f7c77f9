"""The arrays of one stage: where they are, how they lie, and how many bytes boxes have of them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from weft.fun import nodes as fun
from weft.plan.canonical import canonical
from weft.plan.nodes import ArrayForm, Boxes, Cut, Numbers, Output, Stage, Where, Window
from weft.plan.segment import Layout
from weft.plan.setting import Setting, form_in_memory
from weft.plan.statements import Analysis

_PAGE = 4096
_ROOM = 2  # bytes of all arrays of a round, for each that is written of them


class StageArrays:
    """What a stage reads from, and what it computes into."""

    def __init__(
        self, analysis: Analysis, stage: Stage, kept: frozenset[str], setting: Setting
    ) -> None:
        """`kept`: results that stay in memory."""
        self.analysis = analysis
        self.stage = stage
        self.kept = kept
        self.setting = setting
        self.where = tuple(map(self._where, stage.windows))
        self.within: set[int] = set()  # results that lie within workspaces, once it is compiled
        self.strided = False  # whether results may be computed where they belong, in pieces
        self._flanks = {flank.name: flank for flank in stage.flanks}
        self.program, self._names = stage.program, dict[str, str]()
        if analysis.repeats:  # stages that differ in names alone compile once
            self.program, self._names = canonical(stage.program)

    @property
    def flank_bytes(self) -> int:
        """What boxes leave to the next, in memory from the first box to the last."""
        return sum(flank.bytes for flank in self.stage.flanks)

    def _where(self, window: Window) -> Where:
        if window.array not in self.setting.inputs:
            return "resident"
        if form_in_memory(self.setting.inputs[window.array]) is not None:
            return "direct"
        return "resident" if window.axis is None else "staged"

    def _layouts(self) -> tuple[Layout, ...]:
        layouts: list[Layout] = []
        for window, where in zip(self.stage.windows, self.where, strict=True):
            if where == "direct":
                form = form_in_memory(self.setting.inputs[window.array])
                assert form is not None
                layouts.append(_layout(form, window.last))
            else:
                layouts.append("rows" if self._is_part_of_rows(window, where) else "contiguous")
        layouts += ["contiguous"] * (len(self.stage.carries) + len(self.stage.flanks))
        return tuple(layouts)

    def _private(self) -> tuple[str, ...]:
        """What each box has for itself, by the names of its memory: tiles share what stays."""
        if not self.setting.on_device:
            return self._written_out()
        if any(len(output.cuts) > 1 for output in self.stage.outputs):
            return ()
        windows = zip(self.program.params, self.stage.windows, strict=False)
        names = [param.name for param, window in windows if window.axis is not None]
        names += [f"result_{k}" for k, out in enumerate(self.stage.outputs) if not out.carry]
        return tuple(names)

    def _written_out(self) -> tuple[str, ...]:
        """What boxes that lean write, or leave, on the host: it may lie in their workspaces.

        Of those there are then several, in place of buffers: where that takes little more.
        """
        outputs, flanks = self.stage.outputs, self.stage.flanks
        staged = [output.array for output in outputs if self._is_apart(output)]
        written = sum(self.analysis.types[name].dtype.itemsize for name in staged)
        if not flanks or sum(flank.dtype.itemsize for flank in flanks) > _ROOM * written:
            return ()
        left = {flank.name for flank in flanks if not flank.begins}
        return tuple(
            f"result_{k}" for k, output in enumerate(outputs)
            if output.carry in left or output.array in staged
        )  # fmt: skip

    def _is_part_of_rows(self, window: Window, where: Where) -> bool:
        """Whether a window of an array in memory, which lies row by row, is in pieces."""
        if where != "resident" or window.axis is None:
            return False
        return math.prod(self.analysis.shapes[window.array][: window.last]) > 1

    def is_staged(self, output: Output) -> bool:
        """Whether boxes of an output are computed into a buffer of their own."""
        in_place = self.strided and output.array in self.kept
        return self._is_apart(output) and not in_place

    def _is_apart(self, output: Output) -> bool:
        """Whether boxes of an output are no single pieces of an array in memory."""
        if output.carry:
            return False
        if output.array not in self.kept:
            return True
        shape = self.analysis.shapes[output.array]
        return math.prod(shape[: output.last or 0]) > 1

    def is_buffered(self) -> bool:
        """Whether boxes are read, or written, apart from being computed."""
        return "staged" in self.where or any(map(self.is_staged, self.stage.outputs))

    # ------------------------------------------------------------ bytes

    def window_bytes(self, window: Window, boxes: Boxes) -> npt.NDArray[np.int64]:
        if window.axis is None:
            return np.full(boxes.count, self.analysis.bytes(window.array))
        return self.part_bytes(window.array, window.cuts, boxes.values, boxes.count)

    def output_bytes(self, output: Output, boxes: Boxes, number: int, owned: bool) -> Any:
        flank = self._flanks.get(output.carry)
        if flank is not None:
            return np.full(boxes.count, flank.bytes)
        if output.axis is None:
            type_ = self.stage.program.body.results[number].type
            is_array = isinstance(type_, fun.Array)
            size = self.analysis.bytes(output.array) if is_array else type_.dtype.itemsize
            return np.full(boxes.count, size)
        if not owned or output.more:  # tiles own what they compute
            return self.part_bytes(output.array, output.cuts, boxes.values, boxes.count)
        lower, upper = boxes.owned[number]
        return (upper - lower) * self._row_bytes(output.array, output.axis)

    def part_bytes(
        self, array: str, cuts: tuple[Cut, ...], ends: Mapping[str, Numbers], count: int
    ) -> npt.NDArray[np.int64]:
        shape = self.analysis.shapes[array]
        axes = {axis for axis, _, _ in cuts}
        size = np.full(count, self.analysis.types[array].dtype.itemsize)
        size *= math.prod(extent for axis, extent in enumerate(shape) if axis not in axes)
        for _, lower, upper in cuts:
            size = size * (ends[upper] - ends[lower])
        return size

    def _row_bytes(self, array: str, axis: int) -> int:
        shape = self.analysis.shapes[array]
        others = math.prod(shape[:axis]) * math.prod(shape[axis + 1 :])
        return self.analysis.types[array].dtype.itemsize * others

    def _argument_bytes(self, boxes: Boxes) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """The most bytes that a box has of each window, and of each output."""
        stage = self.stage
        inputs = tuple(int(self.window_bytes(w, boxes).max(initial=0)) for w in stage.windows)
        outputs = tuple(
            int(np.max(self.output_bytes(output, boxes, number, False), initial=0))
            for number, output in enumerate(stage.outputs)
        )
        return inputs, outputs

    def _staging(self, inputs: tuple[int, ...], outputs: tuple[int, ...]) -> int:
        """Bytes of the buffers of a box whose arguments have so many."""
        read = sum(
            pages(size)
            for size, where in zip(inputs, self.where, strict=True)
            if where == "staged"
        )
        return read + sum(
            pages(size)
            for number, (size, output) in enumerate(zip(outputs, self.stage.outputs, strict=True))
            if self.is_staged(output) and number not in self.within
        )


def pages(count: int) -> int:
    """So many bytes as whole pages."""
    return -(-count // _PAGE) * _PAGE


def _layout(form: ArrayForm, axis: int | None) -> Layout:
    """The layout of a window of an array along an axis."""
    if form.is_contiguous and (axis is None or math.prod(form.shape[:axis]) == 1):
        return "contiguous"
    return "rows" if form.strides[-1:] == (form.itemsize,) else "strided"
