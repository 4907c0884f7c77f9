"""Panels: what is too large for a device along one axis is cut along two.

A product of matrices needs all of b for each row of a. Where b does not fit a device beside
boxes of rows, the host cuts a into panels of rows, and for each of them streams b, the panel
being what stays on the device. The fewer panels, the less often b is moved: their number is the
one whose predicted time is least.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
from numpy.lib.stride_tricks import as_strided

from weft.errors import MemoryLimitError
from weft.fun import nodes as fun
from weft.fun import walk
from weft.io.memory import MemorySink
from weft.plan.code import DeviceCode, StageCode
from weft.plan.device_boxes import counts
from weft.plan.nodes import Plan
from weft.plan.segment import Layout
from weft.runtime.memory import host_pool
from weft.sizes import ZERO, Size

NDArray: TypeAlias = npt.NDArray[Any]
MakePlan: TypeAlias = Callable[[fun.Program, Mapping[str, int], Mapping[str, NDArray]], Plan]
"""(program, sizes, its arrays) -> a plan for a device."""

_MOST = 64  # panels
_HOPELESS = 1.1  # more panels are not tried where they take so many times the best


class PanelStage:
    """A stage of panels: each is planned again, for the device."""

    workspace: Size | None = ZERO
    device: DeviceCode | None = None
    remarks: tuple[str, ...] = ()

    def __init__(self, program: fun.Program, make: MakePlan) -> None:
        self.program = program
        self.make = make
        self._plans: dict[Any, Plan] = {}  # panels of one shape have one plan
        self.integers = (*program.sizes, *(entry.name for entry in program.derived))
        self.derived = program.derived
        self.kernels = tuple(
            f"{type(let.expr).__name__.lower()} {let.pattern[0].name}, panel by panel on a device"
            for let in program.body.statements
            if not isinstance(let.expr, fun.LAYOUT_CHANGES)
        )

    def plan(self, sizes: Mapping[str, int], inputs: Sequence[NDArray]) -> Plan:
        """How one panel is streamed.

        Raises
        ------
        MemoryLimitError
            When it does not fit.
        """
        known = {name: sizes[name] for name in self.program.sizes}
        key = tuple(known.items()), tuple(array.strides for array in inputs)
        plan = self._plans.get(key)
        names = [param.name for param in self.program.params]
        if plan is None:
            places = zip(names, map(without_memory, inputs), strict=True)
            plan = self._plans[key] = self.make(self.program, known, dict(places))
        return replace(plan, inputs=dict(zip(names, inputs, strict=True)))

    def run(
        self,
        integers: npt.NDArray[np.int64],
        inputs: Sequence[NDArray],
        outputs: Sequence[NDArray],
        workspace: npt.NDArray[np.uint8],
        cancel: Any = None,
    ) -> None:
        from weft.runtime.executor import execute

        sizes = dict(zip(self.integers, integers.tolist(), strict=True))
        sinks = tuple(map(MemorySink, outputs))
        execute(replace(self.plan(sizes, inputs), sinks=sinks), pool=host_pool())

    def check(self, values: Mapping[str, Any]) -> None:
        """Each panel's own plan checks."""


def without_memory(array: NDArray) -> NDArray:
    """What a plan knows of an array: its shape, dtype and strides. (A kept plan keeps no data.)"""
    return as_strided(np.empty(1, array.dtype), array.shape, array.strides)


def plan_panels(
    program: fun.Program,
    outer: Callable[[Callable[[fun.Program, tuple[Layout, ...]], StageCode], int], Plan],
    make: MakePlan,
) -> Plan | None:
    """The plan of panels that is predicted quickest; None where none fits.

    Parameters
    ----------
    program : fun.Program
        What does not fit a device when it is cut along one axis.
    outer : callable
        (code of a stage, panels) -> the plan on the host, of so many panels at most.
    make : callable
        The plan of a panel on the device.
    """
    if any(isinstance(let.expr, fun.Call) for let in walk.statements(program.body)):
        return None
    best: tuple[float, Plan] | None = None
    extents = set[int]()
    for panels in counts(_MOST, 1, 2):
        try:
            plan = outer(lambda p, layouts: PanelStage(p, make), panels)
            if plan.stages[0].boxes.extent in extents:
                continue
            extents.add(plan.stages[0].boxes.extent)
            seconds = _predicted(plan)
        except MemoryLimitError:
            continue
        if seconds is not None:
            if best is None or seconds < best[0]:
                best = seconds, plan
            elif seconds > _HOPELESS * best[0]:
                break
    return None if best is None else best[1]


def _predicted(plan: Plan) -> float | None:
    """Seconds of all panels, from the largest; None where this is no plan of panels."""
    stage = plan.stages[0]
    code = stage.code
    if len(plan.stages) != 1 or not isinstance(code, PanelStage):
        return None
    if stage.boxes.count < 2 or stage.stage.in_order or any(w != "direct" for w in stage.where):
        return None
    widths = [0] * stage.boxes.count
    for output, (first, last) in zip(stage.stage.outputs, stage.boxes.owned, strict=True):
        if output.axis is None:
            return None
        widths = [int(w) + int(b) for w, b in zip(widths, last - first, strict=True)]
    largest = int(np.argmax(widths))
    sizes = dict(zip(code.integers, stage.integers[largest].tolist(), strict=True))
    inputs = []
    for window in stage.stage.windows:
        array = np.asarray(plan.inputs[window.array])
        if window.axis is not None:
            low, high = (int(stage.boxes.values[n][largest]) for n in (window.lower, window.upper))
            array = array[(slice(None),) * window.axis + (slice(low, high),)]
        inputs.append(array)
    inner = code.plan(sizes, inputs)
    if any(part.code.device is None for part in inner.stages):
        return None
    return stage.boxes.count * sum(part.seconds for part in inner.stages)
