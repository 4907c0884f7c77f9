"""Stages of a plan, as what the executor runs on each box."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from weft.fun import nodes as fun
from weft.fun import walk
from weft.fun.interpret import interpret
from weft.launch.artifacts import segment_of
from weft.launch.device import device, have_compiler
from weft.passes.tile_time import tile_time
from weft.plan.nodes import StageCode
from weft.plan.segment import Layout, Segment
from weft.runtime.devices.cpu import LoadedSegment
from weft.runtime.incore import check_bounds, check_collisions
from weft.sizes import Size

NDArray: TypeAlias = npt.NDArray[Any]


class SegmentStage:
    """A stage that is one compiled segment."""

    def __init__(self, segment: Segment) -> None:
        self.segment = segment
        self.integers = segment.integers
        self.derived = segment.derived
        self.workspace: Size | None = segment.workspace
        self.kernels = segment.kernels
        self.remarks = segment.remarks
        self._loaded: LoadedSegment = device.load(segment)

    def run(
        self,
        integers: npt.NDArray[np.int64],
        inputs: Sequence[NDArray],
        outputs: Sequence[NDArray],
        workspace: npt.NDArray[np.uint8],
    ) -> None:
        pointers = [array.__array_interface__["data"][0] for array in inputs]
        pointers += [array.__array_interface__["data"][0] for array in outputs]
        pointers.append(workspace.__array_interface__["data"][0] if workspace.size else 0)
        self._loaded.call(integers.tolist(), pointers)

    def check(self, values: Mapping[str, Any]) -> None:
        check_bounds(self.segment.checks, values)
        check_collisions(self.segment.collisions, values)


class InterpretedStage:
    """A stage that the interpreter runs: library calls, or no compiler."""

    workspace: Size | None = None
    remarks: tuple[str, ...] = ()

    def __init__(self, program: fun.Program) -> None:
        self.program = program
        self.integers = (*program.sizes, *(entry.name for entry in program.derived))
        self.derived = program.derived
        self.kernels = tuple(
            f"{type(let.expr).__name__.lower()} {let.pattern[0].name} (by NumPy)"
            for let in program.body.statements
            if not isinstance(let.expr, fun.LAYOUT_CHANGES)
        )

    def run(
        self,
        integers: npt.NDArray[np.int64],
        inputs: Sequence[NDArray],
        outputs: Sequence[NDArray],
        workspace: npt.NDArray[np.uint8],
    ) -> None:
        sizes = dict(zip(self.integers, integers.tolist(), strict=True))
        results = interpret(self.program, inputs, sizes)
        for output, result in zip(outputs, results, strict=True):
            np.copyto(output, result, casting="no")

    def check(self, values: Mapping[str, Any]) -> None:
        """The interpreter checks every access when it comes to it."""


def stage_code(program: fun.Program, layouts: Sequence[Layout], optimise: str = "") -> StageCode:
    """What runs a stage of a plan on one box.

    Parameters
    ----------
    program : fun.Program
    layouts : sequence of Layout
        How each parameter lies in memory.
    optimise : str
        Which memory passes to leave out, as in `weft.config`.
    """
    calls = any(isinstance(let.expr, fun.Call) for let in walk.statements(program.body))
    if calls or not have_compiler():
        return InterpretedStage(program)
    named = {p.name: layout for p, layout in zip(program.params, layouts, strict=True)}
    if "no-time-tiles" not in optimise.split():
        program = tile_time(program)
    return SegmentStage(segment_of(program, named, optimise))
