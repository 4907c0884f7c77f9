"""A stage on several devices: threads that take boxes, one for each that may be under way.

A box is the part that the rules of fission (`weft.passes.fission`; Svensson et al., *Converting
Data-Parallelism to Task-Parallelism by Rewrites*, 2015, figure 2) make of every statement of the
stage along the axis that is cut: the statement at bounds that are parameters, compiled once for
all parts. Arrays are read by slices, which are views, and each part is computed where `concat`
would put it, or copied there. Reductions are cut into tiles beforehand
(`weft.passes.split_reductions`), which are parts whose results the operator joins.

A device has as many threads as it has slots, and a token: of the threads of a CPU device one
computes, while the others read the next box or write the last. Devices with memory of their
own order what is queued on them themselves.

What fails is told apart by what it says. A device that has too little memory (`MemoryLimitError`)
takes smaller boxes; one that fails (`DeviceError`, or memory too small for the smallest box)
takes no more, and others do its part. Everything else is the program's error, or the
data's, and ends the stage.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Sequence
from functools import partial
from time import perf_counter
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from weft.errors import CompileError, DeviceError, InternalError, MemoryLimitError, warn
from weft.plan.code import Held
from weft.plan.nodes import Boxes, OneBox, Output, PlannedStage, Share, Window
from weft.plan.protocols import Box, Sink, Source
from weft.records import dataclass
from weft.runtime import blas, profile, workers
from weft.runtime.devices.cpu import cores_of
from weft.runtime.memory import Pool
from weft.runtime.parts import Parts
from weft.runtime.shares import Interval, Left
from weft.runtime.threads import CancelFlag

Array: TypeAlias = npt.NDArray[Any]
_PAGE = 4096


@dataclass(frozen=True, slots=True)
class Destination:
    """Where a result of a stage goes: an array in memory, or sinks, or both.

    `in_place`: boxes are computed in the array, since each is one piece of it.
    """

    output: Output
    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    array: Array | None
    sinks: Sequence[Sink]
    in_place: bool


class SharedStage:
    """One stage whose boxes several devices compute.

    Parameters
    ----------
    planned : PlannedStage
        With shares.
    inputs : sequence of (ndarray or Source)
        For each window, the array that it is a part of.
    destinations : sequence of Destination
        For each result.
    pool : Pool
        Where buffers come from.
    """

    def __init__(
        self, planned: PlannedStage, inputs: Sequence[Array | Source],
        destinations: Sequence[Destination], pool: Pool,
    ) -> None:  # fmt: skip
        if any(share.code.within for share in planned.shares):
            raise InternalError("shared boxes: results lie within a workspace, which none reads")
        self.planned = planned
        self.inputs = inputs
        self.destinations = destinations
        self.pool = pool
        self.cancel = CancelFlag()

    def run(self, parts: Sequence[Interval], report: Callable[[float], None]) -> None:
        """Compute boxes.

        Parameters
        ----------
        parts : sequence of (start, stop)
            Of the coordinate along which boxes are cut.
        report : callable
            Called with the part that is done, after boxes, by the calling thread.

        Raises
        ------
        WeftError
            What ended the stage; where every device failed, the failure of the last.
        KeyboardInterrupt
            On Ctrl-C, once nothing runs any more.
        """
        planned = self.planned
        given = planned.unit, planned.least, planned.at_once, planned.usual
        left = Left(planned.shares, parts, *given)
        devices = [_Device(self, k, share, left) for k, share in enumerate(planned.shares)]
        for device, known in zip(devices, left.devices, strict=True):
            known.holds = None if planned.tiles is None else device.bytes_there
        at_work: list[workers.Job] = []
        with blas.at_most(min(share.threads for share in planned.shares)):
            try:
                at_work = workers.begin([
                    (device.run, device.cores)
                    for device in devices
                    for _ in range(device.share.slots)
                ])
                while not left.wait():
                    report(left.finished / left.total)
            except BaseException as error:
                left.stop(error)
            finally:
                if left.error is not None:
                    self.cancel.set()
                for job in at_work:
                    job.join()
                for device in devices:
                    device.release()
        if left.error is not None:
            raise left.error
        _tell_failures(left)
        report(1.0)


def _tell_failures(left: Left) -> None:
    for device in left.devices:
        if device.failure is not None:
            warn(
                f"{device.share.device} was left out, and others did its part: {device.failure}",
                RuntimeWarning,
            )


class _Device:
    """A device at work on a stage: what its threads share."""

    def __init__(self, stage: SharedStage, number: int, share: Share, left: Left) -> None:
        self.stage = stage
        self.number = number
        self.share = share
        self.left = left
        self.token = threading.Lock()
        self._held: Held | None = None
        self._holding = threading.Lock()
        on_device = share.code.device is not None and stage.planned.tiles is not None
        self.parts = Parts(stage.planned, share.slots) if on_device else None

    @property
    def cores(self) -> tuple[int, ...]:
        """Where its threads run: on its core, if it is one; threads that help are not ours."""
        cores = cores_of(self.share.device)
        return cores if len(cores) == 1 else ()

    def run(self) -> None:
        """What each of its threads does."""
        try:
            self._work()
        except BaseException as error:
            self.left.stop(error)

    def _work(self) -> None:
        buffer = np.empty(0, np.uint8)
        while (box := self.left.take(self.number)) is not None:
            try:
                began = perf_counter()
                planned = self.share.plan(*box)
                self.left.prepared(self.number, perf_counter() - began)
                device = self.share.code.device
                if device is not None and device.prepare(planned.integers):
                    self.left.begin_anew(self.number)
                needed = planned.staging + planned.workspace
                if buffer.size < needed:
                    buffer = np.empty(0, np.uint8)  # the old one goes first
                    buffer = self.stage.pool.empty((needed,), np.uint8)
                _Box(self, box[0], planned, buffer).run()
            except MemoryLimitError as error:
                if not self.left.give_back(self.number, box, smaller=True):
                    self.left.retire(self.number, error)
            except (DeviceError, CompileError) as error:
                self.left.give_back(self.number, box)
                self.left.retire(self.number, error)
            except BaseException:
                self.left.give_back(self.number, box)
                raise
            else:
                self.left.done(self.number, box)

    def hold(self, arrays: Callable[[], dict[int, Array]]) -> Held:
        """What all boxes need, on the device from its first box to its last."""
        device = self.share.code.device
        assert device is not None
        with self._holding:
            if self._held is None:
                self._held = device.hold(arrays(), (), self.share.device_bytes)
            return self._held

    def bytes_there(self, start: int) -> int:
        """How much of what a tile reads is in its memory."""
        return 0 if self.parts is None else self.parts.bytes_there(start)

    def release(self) -> None:
        """Give the memory back, once no thread needs it."""
        if self._held is not None:
            self._held.release()
            self._held = None


class _Box:
    """One box on a device: its arguments, in a buffer."""

    def __init__(self, device: _Device, start: int, planned: OneBox, buffer: Array) -> None:
        self.device = device
        self.start = start
        self.name = device.share.device
        self.planned = planned
        self.stage = device.stage
        self.windows = device.stage.planned.stage.windows
        self.buffer = buffer
        self.used = 0

    def run(self) -> None:
        """Read what it needs, compute it, and give the results to where they go."""
        inputs = [self._input(k, window) for k, window in enumerate(self.windows)]
        outputs = [self._output(to) for to in self.stage.destinations]
        self._compute(inputs, outputs)
        for number, (to, array) in enumerate(zip(self.stage.destinations, outputs, strict=True)):
            if to.sinks or not self._in_place(to):
                self._deliver(number, to, array)

    # ------------------------------------------------------------ arguments

    def _room(self, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
        """An array in the buffer."""
        count = math.prod(shape) * dtype.itemsize
        if not count:
            return np.empty(shape, dtype)
        found = np.ndarray(shape, dtype, self.buffer[self.used : self.used + count].data)
        self.used += -(-count // _PAGE) * _PAGE
        return found

    def _input(self, number: int, window: Window) -> Array:
        given = self.stage.inputs[number]
        if window.axis is None:
            assert isinstance(given, np.ndarray)  # what boxes need whole has been loaded
            return given
        if isinstance(given, np.ndarray):
            return given[box_of(given.shape, window, self.planned.boxes)]
        where = box_of(given.shape, window, self.planned.boxes)
        array = self._room(tuple(s.stop - s.start for s in where), np.dtype(given.dtype))
        if array.size:
            given.check()
            with profile.span(f"read {window.array}", f"{self.name} read", array.nbytes):
                given.read(where, array)
        return array

    def _output(self, to: Destination) -> Array:
        where = box_of(to.shape, to.output, self.planned.boxes)
        if to.array is not None and self._in_place(to):
            return to.array[where]
        return self._room(tuple(s.stop - s.start for s in where), to.dtype)

    def _in_place(self, to: Destination) -> bool:
        """Whether the device computes boxes where they belong."""
        return to.in_place or (to.array is not None and self.device.share.code.strided)

    # ------------------------------------------------------------ computing

    def _compute(self, inputs: list[Array], outputs: list[Array]) -> None:
        code, integers = self.device.share.code, self.planned.integers
        if code.device is None:
            workspace = self._room((self.planned.workspace,), np.dtype(np.uint8))
            moved = sum(array.nbytes for array in (*inputs, *outputs))
            what = f"box of {self.stage.destinations[0].output.array}"
            with self.device.token, profile.span(what, f"{self.name} compute", moved):
                code.run(integers, inputs, outputs, workspace, self.stage.cancel)
            return
        held = self.device.hold(
            lambda: {k: inputs[k] for k, window in enumerate(self.windows) if window.axis is None}
        )
        begin = partial(code.device.start, integers, inputs, outputs, held)
        parts, done = self.device.parts, False
        if parts is None:
            pending = begin()
        else:
            pending = parts.start(self.start, held, lambda after: begin(after=after))
        try:
            pending.wait()
            done = True
        finally:
            pending.abandon()
            if parts is not None:
                parts.ended(pending, failed=not done)

    def _deliver(self, number: int, to: Destination, array: Array) -> None:
        """What belongs to the box, to the array in memory and to sinks."""
        computed = box_of(to.shape, to.output, self.planned.boxes)
        where = owned_of(to, self.planned.boxes, number)
        owned = array[tuple(
            slice(own.start - all_.start, own.stop - all_.start)
            for own, all_ in zip(where, computed, strict=True)
        )]  # fmt: skip
        if not owned.size:
            return
        if to.array is not None and not self._in_place(to):
            np.copyto(to.array[where], owned)
        for sink in to.sinks:
            with profile.span(f"write {to.output.array}", f"{self.name} write", owned.nbytes):
                sink.write(where, owned)


def box_of(shape: tuple[int, ...], part: Window | Output, boxes: Boxes, number: int = 0) -> Box:
    """The part of an array that one of the boxes has: all, but along axes that are cut."""
    found = [slice(0, extent) for extent in shape]
    for axis, lower, upper in part.cuts:
        found[axis] = slice(int(boxes.values[lower][number]), int(boxes.values[upper][number]))
    return tuple(found)


def owned_of(to: Destination, boxes: Boxes, output: int, number: int = 0) -> Box:
    """The part of a result that belongs to one of the boxes; tiles own what they compute."""
    found = list(box_of(to.shape, to.output, boxes, number))
    if to.output.axis is not None:
        first, last = (int(bound[number]) for bound in boxes.owned[output])
        found[to.output.axis] = slice(first, last)
    return tuple(found)
