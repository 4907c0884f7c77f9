"""What is said of a stage of which no boxes fit."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from weft.errors import MemoryLimitError, Place
from weft.fun import nodes as fun
from weft.plan.nodes import PlannedStage, size_text

if TYPE_CHECKING:
    from weft.plan.schedule import Scheduler


def refusal(scheduler: Scheduler, planned: PlannedStage) -> MemoryLimitError:
    """What a box of the smallest needs, of what kinds, and what there is."""
    from_stage = planned.peak_bytes - scheduler.resident
    name, place = _largest(scheduler)
    chunked = _chunked(scheduler)
    cut = f"it cannot be cut into boxes{_why_whole(scheduler)}" if scheduler.draft is None else (
        f"its smallest boxes, {planned.boxes.extent} of {planned.boxes.total} along "
        f"{planned.boxes.unit}{chunked and f' (whole chunks of {chunked})'}, still do"
    )  # fmt: skip
    fewer = "smaller chunks=, or " if chunked else ""
    allowance, limit = scheduler.setting.allowance, scheduler.setting.limit
    device = scheduler.code.device
    if device is not None and planned.device_bytes > device.limit:
        return MemoryLimitError(
            f"{name} needs {size_text(planned.device_bytes)} at once on {device.name}: {cut}",
            f"at most its memory limit, {size_text(device.limit)}",
            f'{fewer}memory_limit={{"{device.name}": {planned.device_bytes}}}, or devices=["cpu"]',
            place,
        )
    parts = [f"{size_text(from_stage)} for a box"]
    if scheduler.resident:
        parts.append(f"{size_text(scheduler.resident)} for whole arrays")
    parts += _besides_arrays(allowance, scheduler.setting.reads)
    needed = int(planned.peak_bytes) + allowance
    error = MemoryLimitError(
        f"{name} needs {size_text(needed)} at once ({', '.join(parts)}): {cut}",
        f"at most the memory limit, {size_text(limit + allowance)}",
        f"{fewer}a memory_limit of at least {needed} bytes",
        place,
    )
    error.needed = needed
    return error


def refusal_of_copies(scheduler: Scheduler, planned: PlannedStage) -> MemoryLimitError:
    """That a device had better not have a stage whose boxes copy all there is again and again."""
    name, place = _largest(scheduler)
    assert scheduler.code.device is not None
    on, boxes = scheduler.code.device.name, planned.boxes
    return MemoryLimitError(
        f"{name} in {boxes.count} boxes of {boxes.extent} copies {size_text(sum(planned.copied))} "
        f"to {on} and back",
        "little more than it reads and writes",
        f'a larger memory_limit of "{on}", or devices=["cpu"]',
        place,
    )


def refusal_of_results(
    given: int, allowance: int, reads: int, limit: int, place: Place | None
) -> MemoryLimitError:
    """What is said where the results in memory alone, `given` bytes, pass the limit."""
    parts = [f"{size_text(given)} for arrays in memory", *_besides_arrays(allowance, reads)]
    return MemoryLimitError(
        f"the results need {size_text(given + allowance)} at once ({', '.join(parts)})",
        f"at most the memory limit, {size_text(limit)}",
        f"wf.store them into files, or a memory_limit of at least {given + allowance} bytes",
        place,
    )


def _besides_arrays(allowance: int, reads: int) -> list[str]:
    """What of the allowance, of which `reads` are for chunks, is for what."""
    parts = [f"{size_text(allowance - reads)} for the program itself"] if allowance else []
    return parts + ([f"{size_text(reads)} to decode chunks"] if reads else [])


def _chunked(scheduler: Scheduler) -> str:
    """Where results go in chunks that make the smallest boxes larger than need be."""
    draft = scheduler.draft
    if draft is None or scheduler.unit() == min(draft.unit(), max(draft.total, 1)):
        return ""
    sinks = scheduler.setting.sinks
    return ", ".join(
        sink.describe()
        for output in scheduler.stage.outputs
        for sink in sinks.get(output.array, ())
        if sink is not None and sink.chunks is not None
    )


def _largest(scheduler: Scheduler) -> tuple[str, Place | None]:
    """The statement of the stage with the largest result."""
    best: tuple[int, str, Place | None] = (-1, "the program", None)
    for let in scheduler.stage.program.body.statements:
        for var in let.pattern:
            size = scheduler.analysis.bytes(var.name) if var.name in scheduler.analysis.types else 0
            if size > best[0]:
                best = size, var.name, let.place
    return best[1], best[2]


def _why_whole(scheduler: Scheduler) -> str:
    """Why what runs whole does: it is a loop, or each box reads more arrays whole than fit."""
    analysis = scheduler.analysis
    made = {v.name for let in scheduler.stage.program.body.statements for v in let.pattern}
    own = [s for s in analysis.statements if made & set(s.results)]
    if any(isinstance(s.let.expr, fun.Loop) for s in own):
        return ", since the rounds of a loop run one after another"
    nothing = np.zeros(1, np.int64)
    needed = {
        access.array: None
        for s in own for dim in s.cuttable[:1]
        for access, bounds in analysis.footprints(s, dim, nothing, nothing + 1)
        if access.array in analysis.params and all(
            upper - lower == extent
            for (lower, upper), extent in zip(bounds, analysis.shapes[access.array], strict=True)
        )
    }  # fmt: skip
    device = scheduler.code.device
    limit = scheduler.setting.limit if device is None else device.limit
    if sum(map(analysis.bytes, needed)) <= limit:
        return ""
    return f", since each may need all of {', '.join(needed)}"
