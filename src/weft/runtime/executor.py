"""Running a plan, stage by stage: on one device (`pipeline`), or on several (`scheduler`)."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from weft.errors import MemoryLimitError, SourceError
from weft.plan.nodes import Output, Plan, PlannedStage, memory_sink
from weft.plan.protocols import Sink, Source, is_source
from weft.plan.rounds import Rounds
from weft.runtime import profile
from weft.runtime.boxes import SideBySide
from weft.runtime.memory import Pool
from weft.runtime.pipeline import Pipeline
from weft.runtime.rounds import run_rounds
from weft.runtime.scheduler import Destination, SharedStage, owned_of
from weft.runtime.scratch import scratch_array
from weft.runtime.shares import Interval

Array: TypeAlias = npt.NDArray[Any]
Progress: TypeAlias = Callable[[int, int], None]
"""Called after each box with the bytes moved so far and in all."""


def execute(
    plan: Plan, *, progress: Progress | None = None, pool: Pool | None = None
) -> list[Any]:
    """Run a plan, and finish its sinks.

    Parameters
    ----------
    plan : Plan
    progress : callable, optional
        (bytes done, bytes in all), after each box.
    pool : Pool, optional
        Where memory comes from; one of its own, bounded by the plan's peak, if not given.

    Returns
    -------
    list
        For each result its array or scalar; None for those that went to a sink.

    Raises
    ------
    WeftError
        Whatever a source, a sink or the code raises; every sink is then aborted.
    KeyboardInterrupt
        On Ctrl-C, after the same.
    """
    with finished(sink for sink in plan.sinks if sink is not None):
        return computed(plan, progress=progress, pool=pool)


def computed(
    plan: Plan, *, progress: Progress | None = None, pool: Pool | None = None
) -> list[Any]:
    """Run a plan; what it has written to its sinks may be written again, by another plan.

    Parameters, results and errors are those of `execute`.
    """
    arrays = max((stage.peak_bytes for stage in plan.stages), default=0)  # without allowance
    try:
        run = Running(plan, progress, pool or Pool(limit=arrays))
        for stage in plan.stages:
            run.stage(stage)
        return run.results()
    except SourceError:
        check_sources(plan.inputs.values())
        raise


@contextmanager
def finished(sinks: Iterable[Sink]) -> Iterator[None]:
    """What is written in the block is complete after it; where it fails, sinks are aborted."""
    left = list({id(sink): sink for sink in sinks}.values())
    try:
        yield
        while left:
            left[0].finish()
            left.pop(0)
    except BaseException as error:
        for sink in left:
            _abort(sink, error)
        raise


def check_sources(values: Iterable[Any]) -> None:
    """Raise what a source says of itself that has gone or shrunk: it knows its name."""
    for value in values:
        if is_source(value):
            try:
                value.check()
            except SourceError as error:
                raise error from None


def _abort(sink: Sink, error: BaseException) -> None:
    try:
        sink.abort()
    except Exception as second:  # the first error is the one to tell
        error.add_note(f"while {sink.describe()} was cleaned up: {second!r}")


class Running:
    """What is in memory while a plan runs."""

    def __init__(self, plan: Plan, progress: Progress | None, pool: Pool) -> None:
        self.plan = plan
        self.progress = progress
        self.pool = pool
        self.memory: dict[str, Array] = {
            name: np.asarray(value) for name, value in plan.constants.items()
        }
        self.inputs: dict[str, Array] = {}  # addressable ones
        for name, value in plan.inputs.items():
            array = value.direct() if is_source(value) else np.asarray(value)
            if array is None and not plan.values[name].shape:
                array = self._loaded(name)  # scalars are in memory, wherever they are from
            if array is not None:
                self.inputs[name] = array
        self.moved = 0
        self.destinations: dict[str, list[Sink | None]] = {}
        for name, sink in zip(plan.results, plan.sinks, strict=True):
            self.destinations.setdefault(name, []).append(sink)

    def stage(self, planned: PlannedStage) -> None:
        for name in planned.loads:
            if name not in self.inputs:
                self.memory[name] = self._loaded(name)
        if planned.rounds is not None:
            self._rounds(planned, planned.rounds)
        elif planned.shares:
            self._shared(planned)
        else:
            self._alone(planned)
        for name in planned.freed:
            self.memory.pop(name, None)

    def _alone(self, planned: PlannedStage) -> None:
        """A stage that one device runs; again in smaller boxes, where its memory is too small."""
        before = self.moved
        try:
            (SideBySide if planned.abreast else Pipeline)(self, planned).run()
        except MemoryLimitError:
            if planned.smaller is None:
                raise
        else:
            return
        self.moved = before
        if planned.smaller.shares:
            self._shared(planned.smaller)
        else:
            self._alone(planned.smaller)

    def _shared(self, planned: PlannedStage) -> None:
        """A stage whose boxes are spread over devices."""
        before, moved = self.moved, planned.bytes_read + planned.bytes_written
        outputs = planned.stage.outputs
        inputs: list[Array | Source] = []
        for window, where in zip(planned.stage.windows, planned.where, strict=True):
            source = self.plan.inputs.get(window.array)
            if where == "staged" and is_source(source):
                inputs.append(source)
            else:
                inputs.append(self.array(window.array))
        to = [self.destination(planned, output) for output in outputs]

        def report(part: float) -> None:
            self.moved = before + int(moved * part)
            if self.progress is not None:
                self.progress(self.moved, self.plan.bytes_moved)

        SharedStage(planned, inputs, to, self.pool).run(_left(planned, to), report)

    def _rounds(self, planned: PlannedStage, rounds: Rounds) -> None:
        """A loop whose rounds are plans of their own."""

        def compute(plan: Plan) -> list[Any]:
            before = self.moved

            def report(moved: int, _: int) -> None:
                self.moved = before + moved
                if self.progress is not None:
                    self.progress(self.moved, max(self.plan.bytes_moved, self.moved))

            results = computed(plan, progress=report, pool=self.pool)
            self.moved = before + plan.bytes_moved
            return results

        run_rounds(self, planned, rounds, compute)

    def destination(self, planned: PlannedStage, output: Output) -> Destination:
        """Where a result that is not carried goes; its array in memory is made."""
        value, sinks = self.plan.values[output.array], self.destinations.get(output.array, [])
        own = memory_sink(sinks)
        others = [sink for sink in sinks if sink is not None and sink is not own]
        if output.array not in planned.kept:
            return Destination(output, value.shape, value.dtype, None, others, False)
        kept = self.memory.get(output.array)  # from a run that ended for lack of memory
        if own is not None:
            kept = own.direct()
        elif kept is not None:
            pass
        elif output.array in planned.spilled:
            kept = scratch_array(value.shape, value.dtype)
        else:
            kept = self.pool.empty(value.shape, value.dtype)
        assert kept is not None
        self.memory[output.array] = kept
        # A device that has a stage alone copies what it computes of a tile to where it belongs.
        axis = output.last if planned.shares else output.axis
        front = 1 if axis is None else math.prod(value.shape[:axis])
        in_place = kept.flags.c_contiguous and front == 1
        return Destination(output, value.shape, value.dtype, kept, others, in_place)

    def _loaded(self, name: str) -> Array:
        """A source read whole."""
        source = self.plan.inputs[name]
        assert isinstance(source, Source)
        value = self.plan.values[name]
        with profile.span(f"load {name}", "read", value.bytes):
            array = self.pool.empty(value.shape, value.dtype)
            source.check()
            source.read(tuple(slice(0, n) for n in value.shape), array)
        return array

    def array(self, name: str) -> Array:
        found = self.inputs.get(name)
        return self.memory[name] if found is None else found

    def results(self) -> list[Any]:
        """The results that stay in memory; no two share it."""
        found: list[Any] = []
        seen: set[str] = set()
        for name, sink in zip(self.plan.results, self.plan.sinks, strict=True):
            if sink is not None:
                if name not in self.plan.values or name in self.plan.inputs:  # no stage gave it
                    sink.write((), self.array(name))
                found.append(None)
                continue
            array = self.array(name)
            found.append(array[()] if array.ndim == 0 else array.copy() if name in seen else array)
            seen.add(name)
        return found


def _left(planned: PlannedStage, destinations: Sequence[Destination]) -> list[Interval]:
    """The parts of a stage that no sink has yet, where a sink can tell."""
    boxes = planned.boxes
    if any(to.array is not None or not to.sinks for to in destinations):
        return [(0, boxes.total)]
    left: list[Interval] = []
    for box, (start, stop) in enumerate(boxes.spans):
        if not all(
            sink.done(owned_of(to, boxes, number, box))
            for number, to in enumerate(destinations)
            for sink in to.sinks
        ):
            left.append((start, stop))
    return left
