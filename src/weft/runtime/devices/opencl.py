"""OpenCL devices, through PyOpenCL.

A run of a segment takes a slot: a queue, on which it copies its inputs to the device, launches
kernels, and copies the results back. Slots are independent, so that the copies of one run
overlap with the kernels of another.
"""

from __future__ import annotations

import contextlib
import threading
import warnings
from collections.abc import Sequence
from functools import cache
from time import perf_counter, sleep
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from weft.errors import CompileError, DeviceError, MemoryLimitError, UnsupportedError, WeftError
from weft.plan import launches
from weft.plan.segment import Segment
from weft.runtime import profile
from weft.runtime.cache import key_of, open_cache
from weft.runtime.devices.protocol import FAILURE_BYTES, Statistics, raise_failure, row_major
from weft.runtime.memory import format_bytes

NDArray: TypeAlias = npt.NDArray[Any]

SLOTS = 3
_ITEMS_OF_UNIT = {"CPU": 64, "GPU": 1024}  # work items for each compute unit, with memory
_ALIGNMENT = 128
_SPINS = 200
_NAP = 0.0002


@cache
def find() -> tuple[OpenClDevice, ...]:
    """Every device of every platform, in order; none where PyOpenCL or a driver is missing."""
    try:
        import pyopencl as cl

        platforms = cl.get_platforms()
    except Exception:  # no PyOpenCL, or no loader, or no platform
        return ()
    found: list[Any] = []
    for platform in platforms:
        with contextlib.suppress(cl.Error):
            found += platform.get_devices()
    return tuple(OpenClDevice(f"opencl:{k}", device) for k, device in enumerate(found))


class OpenClDevice:
    """One OpenCL device: see `weft.runtime.devices.protocol.Device`."""

    def __init__(self, name: str, device: Any) -> None:
        import pyopencl as cl

        self.name = name
        self.cl: Any = cl
        self.device = device
        kind = "CPU" if device.type & cl.device_type.CPU else "GPU"
        self.items = device.max_compute_units * _ITEMS_OF_UNIT[kind]
        self.memory = int(device.global_mem_size)
        self.default_limit = self.limit = self.memory * 4 // 5
        self.slots = SLOTS
        self.statistics = Statistics()
        self._loaded: dict[str, OpenClSegment] = {}
        self._lock = threading.Lock()
        self._context: Any = None
        self._used = 0
        self._free_slots: list[_Slot] = []

    @property
    def context(self) -> Any:
        """The OpenCL context, made when it is first needed."""
        with self._lock:
            if self._context is None:
                self._context = self.cl.Context([self.device])
            return self._context

    def describe(self) -> str:
        """The device and its memory."""
        device = self.device
        return (
            f"{self.name}: {device.name.strip()} ({device.platform.name.strip()}), "
            f"{device.max_compute_units} compute units, {format_bytes(self.memory)}"
        )

    # ------------------------------------------------------------ code

    def load(self, segment: Segment) -> OpenClSegment:
        """The segment, compiled: from this process, from the cache, or now."""
        found = self._loaded.get(segment.source)
        if found is None or (found.segment is not segment and found.segment != segment):
            found = self._loaded[segment.source] = OpenClSegment(self, segment)
        return found

    def build(self, source: str) -> Any:
        """A program, through the cache of binaries."""
        cl, device = self.cl, self.device
        if "double" in source and "cl_khr_fp64" not in device.extensions:
            raise UnsupportedError(
                f"float64 on {self.name}, {device.name.strip()}",
                "float32",
                'compute it on the CPU: wf.config(devices=["cpu"])',
            )
        options = ["-cl-std=CL1.2", "-w"]
        rounding = cl.device_fp_config.CORRECTLY_ROUNDED_DIVIDE_SQRT
        if device.single_fp_config & rounding:
            options.append("-cl-fp32-correctly-rounded-divide-sqrt")
        key = key_of(source, *options, device.name, device.version, device.driver_version)
        cached = open_cache().load(key, ".clbin")
        if cached is not None:
            try:
                return cl.Program(self.context, [device], [cached]).build()
            except cl.Error:
                open_cache().remove(key, ".clbin")
        text = cl.Program(self.context, source)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # PyOpenCL's own cache, which unpickles, is passed by
            try:
                program = cl.link_program(self.context, [text.compile(options)])
            except cl.Error as error:
                log = ""
                with contextlib.suppress(cl.Error):
                    log = text.get_build_info(device, cl.program_build_info.LOG)
                raise CompileError(
                    f"{self.name} refuses generated code: {_first_lines(error)} {log[:2000]}",
                    advice='compute it on the CPU: wf.config(devices=["cpu"]), and report this',
                ) from error
        with contextlib.suppress(OSError, cl.Error):
            open_cache().save(key, ".clbin", program.get_info(cl.program_info.BINARIES)[0])
        return program

    # ------------------------------------------------------------ memory and queues

    def allocate(self, count: int, purpose: str) -> Any:
        """A buffer of `count` bytes.

        Raises
        ------
        MemoryLimitError
            When that passes the limit, or the device has no more.
        """
        count = max(count, 1)
        with self._lock:
            used = self._used + count
            if used > self.limit:
                raise MemoryLimitError(
                    f"{format_bytes(count)} for {purpose} are asked of {self.name}, where "
                    f"{format_bytes(self._used)} are in use",
                    f"at most its limit, {format_bytes(self.limit)}",
                    f'raise memory_limit={{"{self.name}": ...}}',
                )
            self._used = used
            self.statistics.peak_bytes = max(self.statistics.peak_bytes, used)
        try:
            return self.cl.Buffer(self.context, self.cl.mem_flags.READ_WRITE, count)
        except (self.cl.Error, MemoryError) as error:
            self.free(count)
            raise MemoryLimitError(
                f"{self.name} has no {format_bytes(count)} left for {purpose}",
                advice=f'lower memory_limit={{"{self.name}": ...}}, so that boxes are smaller',
            ) from error

    @property
    def used(self) -> int:
        """Bytes that are allocated."""
        return self._used

    def free(self, count: int) -> None:
        """Account for a buffer of `count` bytes that is gone."""
        with self._lock:
            self._used -= max(count, 1)

    def take_slot(self) -> _Slot:
        """A queue with its buffers, that nobody else uses."""
        with self._lock:
            if self._free_slots:
                return self._free_slots.pop()
        return _Slot(self)

    def give_back(self, slot: _Slot) -> None:
        """The slot is free for another run; its buffers are kept for it while they fit."""
        with self._lock:
            self._free_slots.append(slot)

    def trim(self) -> None:
        """Release the buffers that free slots keep."""
        with self._lock:
            slots = list(self._free_slots)
        for slot in slots:
            slot.release()

    def error(self, what: str, error: BaseException) -> WeftError:
        """What a failed call becomes: many drivers find memory only when it is used."""
        if isinstance(error, self.cl.MemoryError):
            return MemoryLimitError(
                f"{self.name} has no memory left for {what}: {_first_lines(error)}",
                advice=f'lower memory_limit={{"{self.name}": ...}}, so that boxes are smaller',
            )
        return DeviceError(
            f"{self.name} failed at {what}: {_first_lines(error)}",
            advice='try again, or compute on the CPU: wf.config(devices=["cpu"])',
        )


def _first_lines(error: BaseException) -> str:
    return " ".join(str(error).split())[:500]


class _Slot:
    """A queue, and buffers by what they are for."""

    def __init__(self, device: OpenClDevice) -> None:
        self.device = device
        cl = device.cl
        timed = cl.command_queue_properties.PROFILING_ENABLE
        try:
            self.queue = cl.CommandQueue(device.context, device.device, properties=timed)
        except cl.Error as error:
            raise device.error("making a queue", error) from error
        self.buffers: list[tuple[int, Any]] = []
        self.failure = np.zeros(3, np.int64)

    def fit(self, sizes: Sequence[int], names: Sequence[str]) -> list[Any]:
        """One buffer for each size; those that were there are used again if they are as large."""
        have = [count for count, _ in self.buffers]
        if (
            self.device.used > self.device.limit  # which may have been lowered
            or len(have) != len(sizes)
            or any(h < n or h > 2 * n + 4096 for h, n in zip(have, sizes, strict=True))
        ):
            self.release()
            try:
                self._allocate(sizes, names)
            except MemoryLimitError:
                self.release()
                self.device.trim()  # what idle slots keep is not needed
                self._allocate(sizes, names)
        return [buffer for _, buffer in self.buffers]

    def _allocate(self, sizes: Sequence[int], names: Sequence[str]) -> None:
        for count, name in zip(sizes, names, strict=True):
            self.buffers.append((count, self.device.allocate(count, name)))

    def release(self) -> None:
        """Give the memory back."""
        while self.buffers:
            count, buffer = self.buffers.pop()
            buffer.release()
            self.device.free(count)


class OpenClSegment:
    """A segment compiled for a device."""

    def __init__(self, device: OpenClDevice, segment: Segment) -> None:
        self.device = device
        self.segment = segment
        program = device.build(segment.source)
        self._kernels = {kernel.function_name: kernel for kernel in program.all_kernels()}
        self._lock = threading.Lock()  # a kernel's arguments are its own state

    def start(
        self, integers: Sequence[int], inputs: Sequence[NDArray], results: Sequence[NDArray]
    ) -> _Run:
        """Queue copies in, launches, copies out.

        Raises
        ------
        MemoryLimitError
            When the device's memory is too small.
        DeviceError
            When the device fails.
        """
        run = _Run(self, integers, inputs, results)
        try:
            run.enqueue()
        except BaseException as error:
            run.abandon()
            if isinstance(error, self.device.cl.Error):
                raise self.device.error(run.stage, error) from error
            raise
        return run


class _Run:
    """One run of a segment in a slot."""

    def __init__(
        self,
        loaded: OpenClSegment,
        integers: Sequence[int],
        inputs: Sequence[NDArray],
        results: Sequence[NDArray],
    ) -> None:
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
        self.ended = False

    # ------------------------------------------------------------ going in

    def enqueue(self) -> None:
        """Everything that does not have to wait."""
        cl, slot, segment = self.device.cl, self.slot, self.segment
        self.began = perf_counter()
        arrays = [*self.inputs, *self.landed]
        workspace = segment.workspace.evaluate(self.values)
        sizes = [a.nbytes for a in arrays] + [workspace, FAILURE_BYTES]
        names = [s.name for s in (*segment.params, *segment.results)] + ["workspace", "failures"]
        self.buffers = slot.fit(sizes, names)
        self.stage = "a copy to it"
        slot.failure[:] = 0
        self._copy("in", "failures", self.buffers[-1], slot.failure)
        for param, buffer, array in zip(segment.params, self.buffers, self.inputs, strict=False):
            self._copy("in", param.name, buffer, array)
        self._steps(segment.steps)
        self.stage = "a copy from it"
        outputs = self.buffers[len(self.inputs) :]
        for result, buffer, array in zip(segment.results, outputs, self.landed, strict=False):
            self._copy("out", result.name, buffer, array)
        self._copy("out", "failures", self.buffers[-1], slot.failure)
        self.last = cl.enqueue_marker(slot.queue)
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
        cl.enqueue_copy(slot.queue, value, buffer, src_offset=offset, is_blocking=False)
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
        status = self.device.cl.command_execution_status
        spins = 0
        while event.command_execution_status > status.COMPLETE:
            spins += 1
            sleep(0 if spins < _SPINS else _NAP)
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
