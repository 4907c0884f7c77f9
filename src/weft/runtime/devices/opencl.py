"""OpenCL devices, through PyOpenCL.

A run of a segment takes a slot: a queue, on which it copies its inputs to the device, launches
kernels, and copies the results back. Slots are independent, so that the copies of one run
overlap with the kernels of another.
"""

from __future__ import annotations

import contextlib
import math
import shutil
import threading
import warnings
from functools import cache
from typing import Any

from weft.errors import CompileError, UnsupportedError, WeftError
from weft.plan.code import Rates
from weft.plan.segment import Segment
from weft.runtime.cache import key_of, open_cache
from weft.runtime.devices.memory import Memory, failure, in_short
from weft.runtime.devices.opencl_rates import measure
from weft.runtime.devices.opencl_runs import OpenClSegment, Slot
from weft.runtime.devices.protocol import NDArray, rows_of
from weft.runtime.memory import format_bytes

OPTIONS = ("-cl-std=CL1.2", "-w")
"""With which all programs are compiled."""

_POCL = "Portable Computing Language"  # the name of PoCL's platform
_LONG_ATOMICS = ("cl_khr_int64_base_atomics", "cl_khr_int64_extended_atomics")
_LEAST_ROW = {"CPU": 64, "GPU": 512}  # bytes of rows that are worth a copy each
_TOGETHER = {"CPU": 8, "GPU": 1}  # a CPU's kernels leave nothing of the host's in the caches
_ITEMS_OF_UNIT = {"CPU": 64, "GPU": 1024}  # work items for each compute unit, with memory
_building: dict[str, threading.Lock] = {}  # of programs, by their keys in the cache


@cache
def find() -> tuple[OpenClDevice, ...]:
    """Every device of every platform, in order; none where PyOpenCL or a driver is missing.

    The compute units of a device that can be partitioned come after it, as devices of their
    own: "opencl:0.0", "opencl:0.1", ...
    """
    try:
        import pyopencl as cl

        platforms = cl.get_platforms()
    except Exception:  # no PyOpenCL, or no loader, or no platform
        return ()
    whole: list[Any] = []
    for platform in platforms:
        if platform.name.strip() == _POCL and shutil.which("ld") is None:
            continue  # it links kernels with it, and without it ends the process
        with contextlib.suppress(cl.Error):
            whole += platform.get_devices()
    found: list[OpenClDevice] = []
    for number, device in enumerate(filter(_compiles, whole)):
        found.append(OpenClDevice(f"opencl:{number}", device))
        if device.max_compute_units > 1:
            equally = [cl.device_partition_property.EQUALLY, 1]
            with contextlib.suppress(cl.Error):  # most GPUs cannot be partitioned
                found += [
                    OpenClDevice(f"opencl:{number}.{unit}", part)
                    for unit, part in enumerate(device.create_sub_devices(equally))
                ]
    return tuple(found)


def _compiles(device: Any) -> bool:
    """Whether a device can compile: PoCL refuses all code for a CPU that its LLVM is older than.

    From its version 3.1 on, the environment variable POCL_LLVM_CPU_NAME names another CPU.
    """
    unknown = device.platform.name.strip() == _POCL and device.version.strip().endswith("-generic")
    return not unknown


class OpenClDevice(Memory):
    """One OpenCL device: see `weft.runtime.devices.protocol.Device`."""

    def __init__(self, name: str, device: Any) -> None:
        import pyopencl as cl

        self.cl: Any = cl
        self.device = device
        kind = "CPU" if device.type & cl.device_type.CPU else "GPU"
        self.is_processor = kind == "CPU"
        self.together = _TOGETHER[kind]
        self.has_long_atomics = all(name in device.extensions for name in _LONG_ATOMICS)
        self.most_of_group = int(device.max_work_group_size)
        self.shared_bytes = int(device.local_mem_size)  # by the items of a group
        self.items = device.max_compute_units * _ITEMS_OF_UNIT[kind]
        self.memory = int(device.global_mem_size)
        super().__init__(name, self.memory * 4 // 5)
        self.slots: int | None = None
        self.least_row = _LEAST_ROW[kind]
        self.copies_boxes = True  # until its driver refuses one
        # Seconds from its clock to the host's, as far as is known in a profile: clocks drift.
        self.shift: tuple[Any, float] = (None, math.inf)
        self._loaded: dict[str, OpenClSegment] = {}
        self._built: dict[str, Any] = {}
        self._context: Any = None
        self._rates: Rates | None = None

    @property
    def rates(self) -> Rates:
        """How quick it is, measured when it is first asked for."""
        if self._rates is None:
            self._rates = measure(self)
        return self._rates

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
        """A program: of this process, which segments share, from the cache of binaries, or new."""
        self.check_process()
        if source not in self._built:
            self._built[source] = self._build(source)
        return self._built[source]

    def _build(self, source: str) -> Any:
        cl, device = self.cl, self.device
        if "double" in source and "cl_khr_fp64" not in device.extensions:
            raise UnsupportedError(
                f"float64 on {self.name}, {device.name.strip()}",
                "float32",
                'compute it on the CPU: wf.config(devices=["cpu"])',
            )
        options = [*OPTIONS]
        if self.has_long_atomics:
            options.append("-DWEFT_LONG_ATOMICS")  # see `weft.printers.opencl`
        rounding = cl.device_fp_config.CORRECTLY_ROUNDED_DIVIDE_SQRT
        if device.single_fp_config & rounding:
            options.append("-cl-fp32-correctly-rounded-divide-sqrt")
        key = key_of(source, *options, device.name, device.version, device.driver_version)
        with _building.setdefault(key, threading.Lock()):  # by one of several devices of a kind
            return self._from_cache(key, source, options)

    def _from_cache(self, key: str, source: str, options: list[str]) -> Any:
        """A program from the cache of binaries; else new, which is then there."""
        cl, device = self.cl, self.device
        cached = open_cache().load(key, ".clbin")
        if cached is not None:
            try:
                return cl.Program(self.context, [device], [cached]).build()
            except cl.Error:
                open_cache().remove(key, ".clbin")
        text: Any = None
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # PyOpenCL's own cache, which unpickles, is passed by
            try:
                text = cl.Program(self.context, source)
                program = cl.link_program(self.context, [text.compile(options)])
            except cl.Error as error:
                log = ""
                if text is not None:
                    with contextlib.suppress(cl.Error):
                        log = text.get_build_info(device, cl.program_build_info.LOG)
                raise CompileError(
                    f"{self.name} refuses generated code: {in_short(error)} {log[:2000]}",
                    advice='compute it on the CPU: wf.config(devices=["cpu"]), and report this',
                ) from error
        if device.platform.name.strip() == _POCL:
            return program  # it has a cache of its own; for a binary it compiles all once more
        with contextlib.suppress(OSError, cl.Error):
            open_cache().save(key, ".clbin", program.get_info(cl.program_info.BINARIES)[0])
        return program

    # ------------------------------------------------------------ memory and queues

    def takes(self, array: NDArray) -> bool:
        """Arrays whose rows are long enough to be copied one by one need no packing."""
        if super().takes(array):
            return True
        if not self.copies_boxes or array.nbytes < self.least_row:
            return False
        rows = rows_of(array)
        return rows is not None and rows.bytes >= self.least_row

    def make_buffer(self, count: int) -> Any:
        """A buffer of so many bytes, from the driver."""
        return self.cl.Buffer(self.context, self.cl.mem_flags.READ_WRITE, count)

    def make_slot(self) -> Slot:
        """A queue without buffers."""
        return Slot(self)

    @property
    def failures(self) -> tuple[type[BaseException], ...]:  # type: ignore[override]
        """What the driver raises."""
        return (self.cl.Error,)

    def error(self, what: str, error: BaseException) -> WeftError:
        """What a failed call becomes: many drivers find memory only when it is used."""
        out_of_memory = isinstance(error, self.cl.MemoryError)
        return failure(self.name, what, error, out_of_memory=out_of_memory)
