"""Runs of segments on an OpenCL device: copies in, kernels, copies out, on one queue."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from time import perf_counter, sleep
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import numpy.typing as npt

from weft.plan import launches
from weft.plan.segment import Segment
from weft.runtime import profile
from weft.runtime.devices.protocol import FAILURE_BYTES, raise_failure, row_major

if TYPE_CHECKING:
    from weft.runtime.devices.opencl import OpenClDevice

NDArray: TypeAlias = npt.NDArray[Any]

_SPINS = 20
_SHORTEST, _LONGEST = 20e-6, 10e-3  # seconds between two looks at whether a run has ended
_LATE = 32  # a run's end is seen late by this part of its time, at most


class OpenClSegment:
    """A segment compiled for a device."""

    def __init__(self, device: OpenClDevice, segment: Segment) -> None:
        self.device = device
        self.segment = segment
        program = device.build(segment.source)
        self._kernels = {kernel.function_name: kernel for kernel in program.all_kernels()}
        self._lock = threading.Lock()  # a kernel's arguments are its own state

    def hold(self, inputs: Mapping[int, NDArray]) -> HeldInputs:
        """Copy inputs, by their positions, that several runs share.

        Raises
        ------
        MemoryLimitError, DeviceError
        """
        return HeldInputs(self, inputs)

    def start(
        self,
        integers: Sequence[int],
        inputs: Sequence[NDArray],
        results: Sequence[NDArray],
        held: HeldInputs | None = None,
    ) -> Run:
        """Queue copies in, launches, copies out.

        Raises
        ------
        MemoryLimitError
            When the device's memory is too small.
        DeviceError
            When the device fails.
        """
        run = Run(self, integers, inputs, results, {} if held is None else held.buffers)
        try:
            run.enqueue()
        except BaseException as error:
            run.abandon()
            if isinstance(error, self.device.cl.Error):
                raise self.device.error(run.stage, error) from error
            raise
        return run


class HeldInputs:
    """Inputs on the device, by their positions."""

    def __init__(self, loaded: OpenClSegment, inputs: Mapping[int, NDArray]) -> None:
        self.device = loaded.device
        self.buffers: dict[int, Any] = {}
        self._slot = self.device.take_slot()
        arrays = {number: row_major(array) for number, array in inputs.items()}
        names = [loaded.segment.params[number].name for number in arrays]
        try:
            buffers = self._slot.fit([array.nbytes for array in arrays.values()], names)
            for (number, array), buffer in zip(arrays.items(), buffers, strict=True):
                if array.nbytes:
                    self.device.cl.enqueue_copy(self._slot.queue, buffer, array)
                    self.device.statistics.copies_in += 1
                    self.device.statistics.bytes_in += array.nbytes
                self.buffers[number] = buffer
        except BaseException as error:
            self.release()
            if isinstance(error, self.device.cl.Error):
                raise self.device.error("a copy to it", error) from error
            raise

    def release(self) -> None:
        """Give the memory back."""
        self.buffers = {}
        self._slot.release()
        self.device.give_back(self._slot)


class Run:
    """One run of a segment in a slot."""

    def __init__(
        self,
        loaded: OpenClSegment,
        integers: Sequence[int],
        inputs: Sequence[NDArray],
        results: Sequence[NDArray],
        held: Mapping[int, Any],
    ) -> None:
        self.held = held
        self.loaded = loaded
        self.device = loaded.device
        self.segment = loaded.segment
        self.values = dict(zip(self.segment.integers, map(int, integers), strict=True))
        self.inputs = [row_major(array) for array in inputs]
        self.results = results
        self.landed = [a if a.flags.c_contiguous else np.empty(a.shape, a.dtype) for a in results]
        self.slot = self.device.take_slot()
        self.stage = "allocation"
        self.events: list[tuple[str, str, Any, int]] = []
        self.checked = self.ended = False

    # ------------------------------------------------------------ going in

    def enqueue(self) -> None:
        """Everything that does not have to wait."""
        cl, slot, segment = self.device.cl, self.slot, self.segment
        self.began = perf_counter()
        arrays = [*self.inputs, *self.landed]
        workspace = segment.workspace.evaluate(self.values)
        sizes = [a.nbytes for a in arrays] + [workspace, FAILURE_BYTES]
        names = [s.name for s in (*segment.params, *segment.results)] + ["workspace", "failures"]
        own = [number for number in range(len(sizes)) if number not in self.held]
        fitted = slot.fit([sizes[number] for number in own], [names[number] for number in own])
        found = {**self.held, **dict(zip(own, fitted, strict=True))}
        self.buffers = [found[number] for number in range(len(sizes))]
        self.stage = "a copy to it"
        if slot.zeroed is not self.buffers[-1]:
            slot.failure[:] = 0
            self._copy("in", "failures", self.buffers[-1], slot.failure)
            slot.zeroed = self.buffers[-1]
        for number, (param, array) in enumerate(zip(segment.params, self.inputs, strict=True)):
            if number not in self.held:
                self._copy("in", param.name, self.buffers[number], array)
        self._steps(segment.steps)
        self.stage = "a copy from it"
        outputs = self.buffers[len(self.inputs) :]
        for result, buffer, array in zip(segment.results, outputs, self.landed, strict=False):
            self._copy("out", result.name, buffer, array)
        if segment.failures:
            self._copy("out", "failures", self.buffers[-1], slot.failure)
        self.last = self.events[-1][2] if self.events else cl.enqueue_marker(slot.queue)
        slot.queue.flush()

    def _copy(self, way: str, name: str, buffer: Any, array: NDArray) -> None:
        if not array.nbytes:
            return
        cl, queue, statistics = self.device.cl, self.slot.queue, self.device.statistics
        source, target = (buffer, array) if way == "out" else (array, buffer)
        event = cl.enqueue_copy(queue, target, source, is_blocking=False)
        if way == "in":
            statistics.copies_in += 1
            statistics.bytes_in += array.nbytes
        else:
            statistics.copies_out += 1
            statistics.bytes_out += array.nbytes
        self.events.append((f"copy {way} {name}", f"{self.device.name} {way}", event, array.nbytes))

    # ------------------------------------------------------------ steps

    def _steps(self, steps: launches.Steps) -> None:
        values = self.values
        for step in steps:
            match step:
                case launches.Launch():
                    self._launch(step)
                case launches.Define(name, size):
                    values[name] = size.evaluate(values)
                case launches.Read():
                    values[step.name] = self._read(step)
                case launches.Repeat(index, lower, upper, inner):
                    for number in range(lower.evaluate(values), upper.evaluate(values)):
                        values[index] = number
                        self._steps(inner)
                case launches.While(before, condition, inner):
                    self._steps(before)
                    while values[condition]:
                        self._steps(inner)
                        self._steps(before)
                case launches.Branch(condition, then, otherwise):
                    self._steps(then if values[condition] else otherwise)

    def _launch(self, step: launches.Launch) -> None:
        items = step.items.evaluate(self.values)
        if items <= 0:
            return
        self.stage = f"the launch of {step.kernel}"
        group = min(step.group, self.device.device.max_work_group_size)
        integers = [np.int64(self.values[name]) for name in step.integers]
        # Blocks are parameters, results, workspace (-1 among them), then the failures.
        blocks = [self.buffers[-2 if number < 0 else number] for number in step.blocks]
        kernel = self.loaded._kernels[step.kernel]
        with self.loaded._lock:
            kernel.set_args(self.buffers[-1], *blocks, *integers)
            event = self.device.cl.enqueue_nd_range_kernel(
                self.slot.queue, kernel, (-(-items // group) * group,), (group,)
            )
        self.device.statistics.launches += 1
        self.events.append((step.kernel, f"{self.device.name} compute", event, 0))

    def _read(self, step: launches.Read) -> int:
        """A scalar, once all that was launched has run."""
        self.stage = "reading a scalar from it"
        cl, slot = self.device.cl, self.slot
        value = np.zeros(1, np.dtype(step.dtype))
        buffer = self.buffers[-2 if step.block < 0 else step.block]
        offset = step.offset.evaluate(self.values)
        event = cl.enqueue_copy(slot.queue, value, buffer, src_offset=offset, is_blocking=False)
        if self.segment.failures:
            event = cl.enqueue_copy(slot.queue, slot.failure, self.buffers[-1], is_blocking=False)
        slot.queue.flush()
        self._wait_for(event)
        self._check()
        return int(value[0])

    # ------------------------------------------------------------ coming back

    def wait(self) -> None:
        """Return when the results are there."""
        if self.ended:
            return
        try:
            self.stage = "waiting for it"
            self._wait_for(self.last)
            self._check()
            self.checked = True
            for array, landed in zip(self.results, self.landed, strict=True):
                if landed is not array:
                    np.copyto(array, landed)
            self._record()
        except self.device.cl.Error as error:
            raise self.device.error(self.stage, error) from error
        finally:
            self.abandon()

    def _wait_for(self, event: Any) -> None:
        """Ctrl-C is heard meanwhile."""
        complete = self.device.cl.command_execution_status.COMPLETE
        spins = 0
        while event.command_execution_status > complete:
            spins += 1
            waited = (perf_counter() - self.began) / _LATE
            sleep(0 if spins < _SPINS else min(max(waited, _SHORTEST), _LONGEST))
        event.wait()  # raises what went wrong

    def _check(self) -> None:
        code, index, extent = self.slot.failure.tolist()
        if code:
            raise_failure(self.segment, code, index, extent)

    def abandon(self) -> None:
        """The slot is free once nothing on its queue uses the arrays any more."""
        if self.ended:
            return
        self.ended = True
        if not self.checked:
            self.slot.zeroed = None
        try:
            self.slot.queue.finish()
        except self.device.cl.Error:  # a queue that has failed is not used again
            self.slot.release()
        else:
            self.device.give_back(self.slot)

    def _record(self) -> None:
        """What the device's own clock says of each command, on the host's clock."""
        recorder = profile.recorder
        if recorder is None or not self.events:
            return
        ended = perf_counter()
        shift = ended - self.last.profile.end * 1e-9
        for name, queue, event, count in self.events:
            start, end = event.profile.start * 1e-9 + shift, event.profile.end * 1e-9 + shift
            recorder.record(name, queue, start, end, count)
