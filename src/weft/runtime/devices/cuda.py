"""NVIDIA GPUs, through cuda.core.

Each run has a stream of its own. What it copies is page-locked, or goes through memory that is, so
that copies run beside kernels; memory on the GPU comes from a pool. Where the same launches come
again and again, as in the rounds of a loop, they are captured once as a graph, which is then
launched.
"""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import cache, cached_property, lru_cache
from time import perf_counter
from typing import Any, TypeAlias

import numpy.typing as npt

from weft.errors import CompileError, DeviceError, MemoryLimitError, WeftError
from weft.plan import launch_counts, launches
from weft.plan.code import FlankPlace, Rates
from weft.plan.segment import Segment
from weft.runtime import threads as runtime_threads
from weft.runtime.cache import key_of, open_cache
from weft.runtime.devices import kernel_texts
from weft.runtime.devices.cpu import CpuDevice
from weft.runtime.devices.cuda_runs import CudaRun, Slot
from weft.runtime.devices.launch_lists import LaunchList
from weft.runtime.devices.memory import HeldArrays, Memory, failure, in_short
from weft.runtime.devices.page_locks import PageLocks
from weft.runtime.devices.pinned import IN_TURN, piece_bytes
from weft.runtime.devices.protocol import Rows
from weft.runtime.devices.runs import Loaded, Run, begin, values_of
from weft.runtime.memory import format_bytes

NDArray: TypeAlias = npt.NDArray[Any]

_ITEMS_OF_UNIT = 1024  # work items for each multiprocessor, with memory of their own
_OUT_OF_MEMORY = "OUT_OF_MEMORY"  # in the driver's message
_LOST = "process must be terminated"  # there too, after what a kernel must not do
_LONG = 1 << 16  # launches that are too many for one of them
_CONFIGS = 4096  # numbers of groups and items that are kept
_OF_ALL_GPUS = 1  # CU_MEMHOSTREGISTER_PORTABLE
_BOX, _LAUNCH = 1e-4, 3e-6  # seconds that the host takes for a box, and for a launch
_COPY, _START = 4e-6, 3e-6  # seconds that a GPU takes for a copy, and a kernel, however small
_EACH_CYCLE = 128  # scalar operations of a multiprocessor
_CONTRACTING = 0.65  # of these, terms of contractions
_MEASURED = 32 << 20  # bytes that are copied over the link
_TOUCHED = 256 << 20  # bytes that are copied within the GPU
_ROUNDS = 3


@cache
def find() -> tuple[CudaDevice, ...]:
    """Every GPU, in order; none where cuda.core or a driver is missing."""
    try:
        library = ctypes.CDLL("libcuda.so.1")  # what cuda.core looks for, and waits for
        from cuda import core
        from cuda.bindings import driver
        from cuda.core._utils.cuda_utils import CUDAError, handle_return

        launch = ctypes.cast(library.cuLaunchKernel, ctypes.c_void_p).value or 0
        return usable(
            core.Device.get_all_devices(), core, driver, launch, CUDAError, handle_return
        )
    except Exception:  # no driver, no package, no GPU
        return ()


def usable(
    devices: Sequence[Any], core: Any, driver: Any, launch: int, failure: type[BaseException],
    fail: Callable[[tuple[Any, ...]], object],
) -> tuple[CudaDevice, ...]:  # fmt: skip
    """Those of which anything is known: one that is broken hides no other."""
    locks, found = page_locks(driver), []
    for device in devices:
        with suppress(Exception):
            found.append(CudaDevice(device, core, driver, launch, locks, failure, fail))
    return tuple(found)


def page_locks(driver: Any) -> PageLocks:
    """Page-locked memory, for every GPU.

    Memory dies in any thread, at any time: that GPU stays the thread's which is. Errors have nobody
    to go to then: of a GPU that is lost, say, or in a process that was forked.
    """
    done, host = driver.CUresult.CUDA_SUCCESS, driver.CUmemorytype.CU_MEMORYTYPE_HOST
    kind = driver.CUpointer_attribute.CU_POINTER_ATTRIBUTE_MEMORY_TYPE
    contexts: dict[int, Any] = {}  # those that locked memory, by its address

    def lock(address: int, count: int) -> bool:
        locked = bool(driver.cuMemHostRegister(address, count, _OF_ALL_GPUS)[0] == done)
        if locked:
            contexts[address] = driver.cuCtxGetCurrent()[1]
        return locked

    def unlock(address: int) -> None:
        if driver.cuCtxPushCurrent(contexts.pop(address))[0] == done:
            driver.cuMemHostUnregister(address)
            driver.cuCtxPopCurrent()

    def is_locked(address: int) -> bool:
        result, found = driver.cuPointerGetAttribute(kind, address)
        return bool(result == done and found == int(host))

    return PageLocks(lock, unlock, is_locked)


class CudaDevice(Memory):
    """One NVIDIA GPU: see `weft.runtime.devices.protocol.Device`.

    Parameters
    ----------
    device : cuda.core.Device
    core, driver : module
        cuda.core, and cuda.bindings.driver for what that has not.
    launch : int
        The address of the driver's cuLaunchKernel.
    locks : PageLocks
        Those of all GPUs.
    failure : type
        What cuda.core raises where the driver fails.
    fail : function
        Raises that for what a function of `driver` has returned.
    """

    def __init__(
        self, device: Any, core: Any, driver: Any, launch: int, locks: PageLocks,
        failure: type[BaseException], fail: Callable[[tuple[Any, ...]], object],
    ) -> None:  # fmt: skip
        self.core, self.driver, self.launch = core, driver, launch
        self.locks = locks
        self.device = device
        self.memory = int(driver.cuDeviceTotalMem(device.device_id)[1])
        properties = device.properties
        self.items = properties.multiprocessor_count * _ITEMS_OF_UNIT
        # What it is called a driver does not say in a process that was forked.
        self._called = f"{device.name}, {properties.multiprocessor_count} multiprocessors"
        self.slots: int | None = None
        self.failures = (failure,)
        self._fail = fail
        super().__init__(f"cuda:{device.device_id}", self.memory * 4 // 5)
        self._loaded: dict[str, CudaSegment] = {}
        self._rates: Rates | None = None
        self.launch_config = lru_cache(_CONFIGS)(self._launch_config)

    # What is made on a GPU takes some of its memory, and time: only where that GPU is used.

    @cached_property
    def pool(self) -> Any:
        """Where its memory comes from."""
        self.enter()
        return self.core.DeviceMemoryResource(self.device.device_id)

    @cached_property
    def pinned(self) -> Any:
        """Where page-locked memory comes from."""
        self.enter()
        return self.core.LegacyPinnedMemoryResource()

    @cached_property
    def stream(self) -> Any:
        """What allocations are ordered on."""
        self.enter()
        return self.device.create_stream()

    def _launch_config(self, groups: int, items: int) -> Any:
        return self.core.LaunchConfig(grid=groups, block=items)

    def describe(self) -> str:
        """The GPU and its memory."""
        return f"{self.name}: {self._called}, {format_bytes(self.memory)}"

    @property
    def rates(self) -> Rates:
        """How quick it is, measured when it is first asked for."""
        if self._rates is None:
            self._rates = _measure(self)
        return self._rates

    # ------------------------------------------------------------ code

    def load(self, segment: Segment) -> CudaSegment:
        """The segment, with what this process has compiled of it."""
        found = self._loaded.get(segment.source)
        if found is None or (found.segment is not segment and found.segment != segment):
            found = self._loaded[segment.source] = CudaSegment(self, segment)
        return found

    def build(self, programs: Sequence[str]) -> list[Any]:
        """The object code of programs; those that no cache has are compiled side by side."""
        self.enter()
        if len(programs) > 1:
            from concurrent.futures import ThreadPoolExecutor

            with ThreadPoolExecutor(min(len(programs), runtime_threads.threads())) as pool:
                cubins = list(pool.map(self._cubin, programs))
        else:
            cubins = list(map(self._cubin, programs))
        return list(map(self.core.ObjectCode.from_cubin, cubins))

    def _cubin(self, program: str) -> bytes:
        """What a program is compiled to, through the cache of cubins; by any thread."""
        core, architecture = self.core, f"sm_{self.device.arch}"
        key = key_of(program, architecture, "fma=False")
        cached = open_cache().load(key, ".cubin")
        if cached is not None:
            return cached
        options = core.ProgramOptions(arch=architecture, fma=False, std="c++17")
        try:
            code = bytes(core.Program(program, "c++", options).compile("cubin").code)
        except Exception as error:
            raise CompileError(
                f"{self.name} refuses generated code: {in_short(error)}",
                advice='compute it on the CPU: wf.config(devices=["cpu"]), and report this',
            ) from error
        with suppress(OSError):  # a full disk costs time, not results
            open_cache().save(key, ".cubin", code)
        return code

    # ------------------------------------------------------------ memory and streams

    def enter(self) -> None:
        """Make it the GPU of the calling thread."""
        self.check_process()
        try:
            self.device.set_current()
        except self.failures as error:
            raise self.error("the choice of it", error) from error

    def make_buffer(self, count: int) -> Any:
        """A buffer of so many bytes, from the pool."""
        self.enter()
        buffer = self.pool.allocate(count, stream=self.stream)
        self.stream.sync()  # from now on it is there for every stream
        return buffer

    def make_slot(self) -> Slot:
        """A stream without buffers."""
        self.enter()
        try:
            return Slot(self)
        except self.failures as error:
            raise self.error("making a stream", error) from error

    def copy(self, target: Any, source: Any, stream: Any) -> None:
        """Queue a copy between buffers of one size: of the GPU's, or page-locked."""
        target.copy_from(source, stream=stream)

    def copy_rows(
        self, way: str, buffer: Any, offset: int, address: int, rows: Rows, stream: Any
    ) -> None:
        """Queue a copy of rows that lie apart on the host, in page-locked memory.

        Raises
        ------
        Exception
            Of `failures`.
        """
        driver = self.driver
        here, there = ("src", "dst") if way == "in" else ("dst", "src")
        copied = driver.CUDA_MEMCPY3D()
        given = {
            f"{here}MemoryType": driver.CUmemorytype.CU_MEMORYTYPE_HOST,
            f"{here}Host": address, f"{here}Pitch": rows.pitch,
            f"{here}Height": rows.plane_pitch // rows.pitch,
            f"{there}MemoryType": driver.CUmemorytype.CU_MEMORYTYPE_DEVICE,
            f"{there}Device": int(buffer.handle) + offset, f"{there}Pitch": rows.bytes,
            f"{there}Height": rows.count,
            "WidthInBytes": rows.bytes, "Height": rows.count, "Depth": rows.planes,
        }  # fmt: skip
        for name, value in given.items():
            setattr(copied, name, value)
        self.check(driver.cuMemcpy3DAsync(copied, stream.handle)[0])

    def check(self, status: int) -> None:
        """Raise what a call of the driver's own has failed with."""
        if status:
            self._fail((self.driver.CUresult(status),))

    @property
    def piece(self) -> int:
        """Bytes of page-locked memory that a copy takes at once."""
        return piece_bytes(self.host_limit)

    def page_locked(self, results: Sequence[int]) -> int:
        """Bytes of the host's memory that a slot's copies go through: `results` have so many."""
        landing = sum(min(count, self.piece) for count in results)
        return IN_TURN * self.piece + 2 * landing  # of two runs, one behind the other

    def takes(self, array: NDArray) -> bool:
        """Any array: copies go through page-locked memory, to which elements come one by one."""
        return bool(array.dtype.isnative)

    def error(self, what: str, error: BaseException) -> WeftError:
        """What a failed call becomes."""
        full, lost = self.is_full(error), _LOST in str(error)
        return failure(self.name, what, error, out_of_memory=full, lost=lost)

    def is_full(self, error: BaseException) -> bool:
        """Whether its memory is full: after a wrong address, say, allocations fail as all else."""
        return isinstance(error, MemoryError) or _OUT_OF_MEMORY in str(error)


class CudaSegment(Loaded["CudaDevice"]):
    """A segment for a GPU. What a run launches is compiled before the first one that does.

    Most kernels of a segment are forms for other sizes; of a stage that is only planned, all are.
    """

    def __init__(self, device: CudaDevice, segment: Segment) -> None:
        super().__init__(device, segment, self._laid_out)
        self._programs = kernel_texts.apart(segment.source)
        self._codes: list[Any] = []
        self._kernels: dict[str, Any] = {}
        self._lock = threading.Lock()

    def kernel(self, name: str) -> Any:
        """The kernel of a name."""
        if name not in self._kernels:
            self._compile([name])
        return self._kernels[name]

    def prepare(self, integers: Sequence[int]) -> bool:
        """Compile what a run with these integers launches; whether anything was to be compiled.

        Raises
        ------
        CompileError
            When the compiler refuses the text.
        """
        before = len(self._kernels)
        self.launches.of(values_of(self.device, self.segment, integers))
        return len(self._kernels) > before

    def _compile(self, names: Iterable[str]) -> None:
        """Compile kernels, if they are not."""
        with self._lock:
            missing = [name for name in names if name not in self._kernels]
            codes = self.device.build([self._programs[name] for name in missing])
            self._codes += codes
            for name, code in zip(missing, codes, strict=True):
                self._kernels[name] = code.get_kernel(name)

    def _laid_out(self, values: dict[str, int]) -> LaunchList | None:
        """The launches of a run, laid out for C; their kernels are compiled.

        None where the host has to wait for what decides about them, or has no C.
        """
        segment = self.segment
        self._compile(sorted(launch_counts.launched(segment.steps, values)))
        found = launches.listed(segment.steps, values, _LONG) if CpuDevice.available() else None
        buffers = len(segment.params) + len(segment.results) + 2  # the workspace, and failures
        return None if found is None else LaunchList(found, self._address, buffers)

    def _address(self, name: str) -> int:
        return int(self.kernel(name).handle)

    def hold(
        self, inputs: Mapping[int, NDArray], flanks: Sequence[FlankPlace] = (), room: int = 0
    ) -> HeldArrays:  # fmt: skip
        self.device.enter()
        return super().hold(inputs, flanks, room)

    def start(
        self, integers: Sequence[int], inputs: Sequence[NDArray], results: Sequence[NDArray],
        held: HeldArrays | None = None, behind: Run[Any] | None = None,
        after: Sequence[Run[Any]] = (),
    ) -> Run[Any]:  # fmt: skip
        """Queue copies in, launches, copies out; see `weft.runtime.devices.runs.begin`."""
        self.device.enter()
        return begin(CudaRun(self, integers, inputs, results, held, behind), after)


def _measure(device: CudaDevice) -> Rates:
    """The rates of a GPU; those of none in particular where it has no memory to measure."""
    properties = device.device.properties
    operations = properties.multiprocessor_count * properties.clock_rate * 1e3 * _EACH_CYCLE
    usual = Rates(
        10e9, 10e9, 300e9, _LAUNCH, _BOX, 2, True, operations, _COPY, _START,
        contracting=_CONTRACTING, processors=properties.multiprocessor_count,
    )  # fmt: skip
    count = min(_MEASURED, device.limit // 4)
    touched = max(min(_TOUCHED, device.limit // 4), count)
    if min(count, touched) < 64 << 10:
        return usual
    slots: list[Any] = []
    try:
        for _ in range(2):
            slots.append(device.take_slot())
            slots[-1].release()
        one, two = slots
        first, second = one.fit([touched, touched], ["measuring", "measuring"])
        given, found = (one.part(one.staging(k, count)[0], 0, count) for k in range(2))
        target, source = (one.part(buffer, 0, count) for buffer in (first, second))

        def seconds(*copies: tuple[Any, Any, Any]) -> float:
            measured = []
            for _ in range(_ROUNDS):
                start = perf_counter()
                for to, of, slot in copies:
                    device.copy(to, of, slot.stream)
                for *_, slot in copies:
                    slot.finish()
                measured.append(perf_counter() - start)
            return max(min(measured), 1e-9)

        copy_in, copy_out = (target, given, one), (found, source, two)
        into, out = seconds(copy_in), seconds(copy_out)
        both, within = seconds(copy_in, copy_out), seconds((second, first, one))
    except Exception as error:  # what is wrong with it, its use will tell
        if not isinstance(error, (*device.failures, DeviceError, MemoryError, MemoryLimitError)):
            raise
        return usual
    finally:
        for slot in slots:
            slot.release()
            device.give_back(slot)
    return replace(
        usual, copy_in=count / into, copy_out=count / out, memory=2 * touched / within,
        duplex=min(max(into, out) / both, 1.0),
    )  # fmt: skip
