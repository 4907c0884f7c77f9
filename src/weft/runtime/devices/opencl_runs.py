"""Runs of segments on an OpenCL device: copies in, kernels, copies out, on one queue."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from functools import partial
from time import perf_counter
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import numpy.typing as npt

from weft.errors import CompileError
from weft.plan import launches
from weft.plan.segment import Segment
from weft.runtime import profile
from weft.runtime.address import address_of
from weft.runtime.devices.memory import Buffers, HeldArrays
from weft.runtime.devices.protocol import row_major, rows_of
from weft.runtime.devices.runs import Loaded, Run, begin
from weft.runtime.memory import format_bytes

if TYPE_CHECKING:
    from weft.runtime.devices.opencl import OpenClDevice

NDArray: TypeAlias = npt.NDArray[Any]


_LONG = 1 << 14  # launches that are too many for one of them


class OpenClSegment(Loaded["OpenClDevice"]):
    """A segment compiled for a device."""

    def __init__(self, device: OpenClDevice, segment: Segment) -> None:
        super().__init__(
            device, segment, lambda values: launches.listed(segment.steps, values, _LONG)
        )
        self.program = device.build(segment.source)

    def prepare(self, integers: Sequence[int]) -> bool:
        """Everything is compiled."""
        return False

    def start(
        self, integers: Sequence[int], inputs: Sequence[NDArray], results: Sequence[NDArray],
        held: HeldArrays | None = None, behind: Run[Any] | None = None,
        after: Sequence[Run[Any]] = (),
    ) -> Run[Any]:  # fmt: skip
        """Queue copies in, launches, copies out; see `weft.runtime.devices.runs.begin`."""
        return begin(OpenClRun(self, integers, inputs, results, held, behind), after)


class Slot(Buffers["OpenClDevice"]):
    """An OpenCL queue, and its buffers."""

    def __init__(self, device: OpenClDevice) -> None:
        super().__init__(device)
        cl = device.cl
        timed = cl.command_queue_properties.PROFILING_ENABLE
        try:
            self.queue = cl.CommandQueue(device.context, device.device, properties=timed)
        except cl.Error as error:
            raise device.error("making a queue", error) from error
        self._kernels: dict[tuple[OpenClSegment, str], tuple[Any, int]] = {}

    def kernel(self, loaded: OpenClSegment, step: launches.Launch) -> tuple[Any, int]:
        """A segment's kernel, for this queue alone, and how many of its items run together.

        Its arguments are its own state.

        Raises
        ------
        CompileError
            Where its items share what the device has too little of.
        """
        found = self._kernels.get((loaded, step.kernel))
        if found is None:
            kernel = self.device.cl.Kernel(loaded.program, step.kernel)
            buffers = (None,) * (1 + len(step.blocks))
            # PyOpenCL sets numbers of known types much more quickly.
            kernel.set_scalar_arg_dtypes([*buffers, *(np.int64,) * len(step.integers)])
            found = kernel, self._group(kernel, step)
            self._kernels[loaded, step.kernel] = found
        return found

    def _group(self, kernel: Any, step: launches.Launch) -> int:
        """As many items as a launch asks for, or as the device has where these share nothing."""
        device, kind = self.device, self.device.cl.kernel_work_group_info
        most, shared = (
            int(kernel.get_work_group_info(what, device.device))
            for what in (kind.WORK_GROUP_SIZE, kind.LOCAL_MEM_SIZE)
        )
        most = min(most, device.most_of_group)
        if shared and (most < step.group or shared > device.shared_bytes):
            raise CompileError(
                f"{step.kernel} has groups of {step.group} items that share "
                f"{format_bytes(shared)}, and {device.name} has no larger ones than of {most}, "
                f"with {format_bytes(device.shared_bytes)}",
                advice='compute it on the CPU: wf.config(devices=["cpu"])',
            )
        return min(step.group, most)

    def copy_in(self, buffer: Any, array: NDArray, offset: int = 0) -> Any:
        """Queue a copy to the device, so many bytes into the buffer."""
        copy = partial(self.device.cl.enqueue_copy, self.queue, buffer, dst_offset=offset)
        if array.flags.c_contiguous:
            return copy(array, is_blocking=False)
        event = None if offset else self._copy_box("in", buffer, array)
        if event is None:
            packed = row_major(array)
            self.device.statistics.bytes_packed += packed.nbytes
            event = copy(packed, is_blocking=False)
            event.wait()  # nobody keeps what is packed
        return event

    def copy_out(self, array: NDArray, buffer: Any, offset: int = 0) -> Any:
        """Queue a copy from the device, from so many bytes into the buffer on."""
        copy = partial(self.device.cl.enqueue_copy, self.queue, src_offset=offset)
        if array.flags.c_contiguous:
            return copy(array, buffer, is_blocking=False)
        event = None if offset else self._copy_box("out", buffer, array)
        if event is None:
            packed = np.empty(array.shape, array.dtype)
            event = copy(packed, buffer, is_blocking=True)
            self.device.statistics.bytes_packed += packed.nbytes
            np.copyto(array, packed)
        return event

    def _copy_box(self, way: str, buffer: Any, array: NDArray) -> Any:
        """Queue a copy of rows that lie apart on the host; None where the driver refuses it."""
        cl, rows = self.device.cl, rows_of(array)
        assert rows is not None
        region = (rows.bytes, rows.count, rows.planes)
        span = (rows.planes - 1) * rows.plane_pitch + (rows.count - 1) * rows.pitch + rows.bytes
        memory: Any = (ctypes.c_uint8 * span).from_address(address_of(array))
        host = np.ndarray((span,), np.uint8, memory)
        ends = (buffer, host) if way == "in" else (host, buffer)
        try:
            event = cl.enqueue_copy(
                self.queue, *ends, buffer_origin=(0, 0, 0), host_origin=(0, 0, 0), region=region,
                buffer_pitches=(rows.bytes, rows.bytes * rows.count),
                host_pitches=(rows.pitch, rows.plane_pitch), is_blocking=False,
            )  # fmt: skip
        except (cl.LogicError, cl.RuntimeError):
            self.device.copies_boxes = False
            return None
        self.device.statistics.boxes += 1
        return event

    def release_buffer(self, buffer: Any) -> None:
        buffer.release()

    def finish(self) -> None:
        self.queue.finish()


class OpenClRun(Run["OpenClDevice"]):
    """One run of a segment in a slot."""

    def __init__(
        self, loaded: OpenClSegment, integers: Sequence[int], inputs: Sequence[NDArray],
        results: Sequence[NDArray], held: HeldArrays | None, behind: Run[OpenClDevice] | None,
    ) -> None:  # fmt: skip
        super().__init__(loaded, integers, inputs, results, held, behind)
        self.loaded: OpenClSegment = loaded
        self.events: list[tuple[str, str, str, Any, int]] = []

    def copy(
        self, way: str, name: str, number: int, buffer: Any, array: NDArray, offset: int = 0
    ) -> None:
        if way == "in":
            event = self.slot.copy_in(buffer, array, offset)
        else:
            event = self.slot.copy_out(array, buffer, offset)
        self.events.append((f"copy {way} ", name, way, event, array.nbytes))

    def steps(self, steps: launches.Steps) -> None:
        found = self.loaded.launches.of(self.values) if steps is self.segment.steps else None
        if found is None:
            super().steps(steps)
            return
        for step, items, integers in found:
            self.queue(step, items, integers)

    def launch(
        self, step: launches.Launch, items: int, blocks: list[Any], integers: Sequence[int]
    ) -> None:
        device = self.device
        kernel, group = self.slot.kernel(self.loaded, step)
        kernel.set_args(self.buffers[-1], *blocks, *integers)
        event = device.cl.enqueue_nd_range_kernel(
            self.slot.queue, kernel, (-(-items // group) * group,), (group,)
        )
        if profile.recorder is None and self.events and self.events[-1][2] == "compute":
            self.events.pop()  # those of copies keep their arrays
        self.events.append(("", step.kernel, "compute", event, 0))

    def read(self, step: launches.Read, buffer: Any, offset: int) -> NDArray:
        cl, slot = self.device.cl, self.slot
        value = np.zeros(1, np.dtype(step.dtype))
        event = cl.enqueue_copy(slot.queue, value, buffer, src_offset=offset, is_blocking=False)
        if self.segment.failures:
            event = cl.enqueue_copy(slot.queue, self.failure, self.buffers[-1], is_blocking=False)
        self.events.append(("", "read", "out", event, value.nbytes))
        return value

    def mark(self) -> Any:
        last = self.events[-1][3] if self.events else None
        if last is None:
            last = self.device.cl.enqueue_marker(self.slot.queue)
        self.slot.queue.flush()
        return last

    def follow(self, event: Any) -> None:
        self.device.cl.enqueue_barrier(self.slot.queue, wait_for=[event])

    def is_done(self, event: Any) -> bool:
        complete = self.device.cl.command_execution_status.COMPLETE
        return bool(event.command_execution_status <= complete)

    def complete(self, event: Any) -> None:
        event.wait()

    def landing(self) -> None:
        """Copies land where they belong; loops that read what decides have events without end."""
        if profile.recorder is None:
            self.events.clear()

    def record(self) -> None:
        """What the device's own clock says of each command, on the host's clock."""
        recorder = profile.recorder
        if recorder is None or not self.events:
            return
        ended = perf_counter()
        of, known = self.device.shift
        shift = ended - self.last.profile.end * 1e-9  # too much: the end is seen late
        shift = min(shift, known) if of is recorder else shift
        self.device.shift = recorder, shift
        for what, name, queue, event, count in self.events:
            start, end = event.profile.start * 1e-9 + shift, event.profile.end * 1e-9 + shift
            recorder.record(what + name, f"{self.device.name} {queue}", start, end, count)
