"""NVIDIA GPUs, through cuda.core.

Each run has a stream of its own. What it copies goes through page-locked memory, so that copies
run beside kernels; memory on the GPU comes from a pool. Where the same launches come again and
again, as in the rounds of a loop, they are captured once as a graph, which is then launched.
"""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Mapping, Sequence
from functools import cache
from time import perf_counter
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from weft.errors import CompileError, MemoryLimitError, WeftError
from weft.plan import launches
from weft.plan.code import FlankPlace, Rates
from weft.plan.segment import Segment
from weft.runtime import profile
from weft.runtime.cache import key_of, open_cache
from weft.runtime.devices.memory import Buffers, HeldArrays, Memory, failure, in_short
from weft.runtime.devices.runs import Run, begin
from weft.runtime.memory import format_bytes

NDArray: TypeAlias = npt.NDArray[Any]
Launched: TypeAlias = tuple[str, int, int, tuple[Any, ...]]
"""A launch with its arguments: kernel, groups, items of each, blocks and integers."""

_ITEMS_OF_UNIT = 1024  # work items for each multiprocessor, with memory of their own
_WORTH_GRAPH = 32  # launches that are worth a graph
_CAPTURED = 64  # launches in a graph, about
_PERIODS = 4  # rounds after which launches may come again
_OUT_OF_MEMORY = "OUT_OF_MEMORY"  # in the driver's message
_BOX, _LAUNCH = 1e-4, 5e-6  # seconds that the host takes for a box, and for a launch
_MEASURED = 8 << 20
_ROUNDS = 3


@cache
def find() -> tuple[CudaDevice, ...]:
    """Every GPU, in order; none where cuda.core or a driver is missing."""
    try:
        ctypes.CDLL("libcuda.so.1")  # what cuda.core looks for, and waits for
        from cuda import core
        from cuda.bindings import driver
        from cuda.core._utils.cuda_utils import CUDAError

        return tuple(
            CudaDevice(device, core, int(driver.cuDeviceTotalMem(device.device_id)[1]), CUDAError)
            for device in core.Device.get_all_devices()
        )
    except Exception:  # no driver, no package, no GPU
        return ()


class CudaDevice(Memory):
    """One NVIDIA GPU: see `weft.runtime.devices.protocol.Device`.

    Parameters
    ----------
    device : cuda.core.Device
    core : module
        cuda.core.
    memory : int
        Bytes of its memory.
    failure : type
        What cuda.core raises where the driver fails.
    """

    def __init__(
        self, device: Any, core: Any, memory: int, failure: type[BaseException]
    ) -> None:
        device.set_current()
        self.core = core
        self.device = device
        self.pool = core.DeviceMemoryResource(device.device_id, core.DeviceMemoryResourceOptions())
        self.pinned = core.LegacyPinnedMemoryResource()
        self.stream = device.create_stream()  # allocations are ordered on it
        self.memory = memory
        self.items = device.properties.multiprocessor_count * _ITEMS_OF_UNIT
        self.slots: int | None = None
        self.failures = (failure,)
        super().__init__(f"cuda:{device.device_id}", self.memory * 4 // 5)
        self._loaded: dict[str, CudaSegment] = {}
        self._rates: Rates | None = None

    def describe(self) -> str:
        """The GPU and its memory."""
        properties = self.device.properties
        return (
            f"{self.name}: {self.device.name}, {properties.multiprocessor_count} "
            f"multiprocessors, {format_bytes(self.memory)}"
        )

    @property
    def rates(self) -> Rates:
        """How quick it is, measured when it is first asked for."""
        if self._rates is None:
            self._rates = _measure(self)
        return self._rates

    # ------------------------------------------------------------ code

    def load(self, segment: Segment) -> CudaSegment:
        """The segment, compiled: from this process, from the cache, or now."""
        found = self._loaded.get(segment.source)
        if found is None or (found.segment is not segment and found.segment != segment):
            found = self._loaded[segment.source] = CudaSegment(self, segment)
        return found

    def build(self, source: str) -> Any:
        """The object code of a program, through the cache of cubins."""
        core = self.core
        self.device.set_current()
        architecture = f"sm_{self.device.arch}"
        key = key_of(source, architecture, "fma=False")
        cached = open_cache().load(key, ".cubin")
        if cached is not None:
            return core.ObjectCode.from_cubin(cached)
        options = core.ProgramOptions(arch=architecture, fma=False, std="c++17")
        try:
            code = core.Program(source, "c++", options).compile("cubin")
        except Exception as error:
            raise CompileError(
                f"{self.name} refuses generated code: {in_short(error)}",
                advice='compute it on the CPU: wf.config(devices=["cpu"]), and report this',
            ) from error
        open_cache().save(key, ".cubin", bytes(code.code))
        return code

    # ------------------------------------------------------------ memory and streams

    def make_buffer(self, count: int) -> Any:
        """A buffer of so many bytes, from the pool."""
        self.device.set_current()
        buffer = self.pool.allocate(count, stream=self.stream)
        self.stream.sync()  # from now on it is there for every stream
        return buffer

    def make_slot(self) -> Slot:
        """A stream without buffers."""
        self.device.set_current()
        try:
            return Slot(self)
        except self.failures as error:
            raise self.error("making a stream", error) from error

    def copy(self, target: Any, source: Any, stream: Any) -> None:
        """Queue a copy between buffers of one size, either of them page-locked."""
        target.copy_from(source, stream=stream)

    def takes(self, array: NDArray) -> bool:
        """Any array: copies go through page-locked memory, to which elements come one by one."""
        return bool(array.dtype.isnative)

    def error(self, what: str, error: BaseException) -> WeftError:
        """What a failed call becomes."""
        return failure(self.name, what, error, out_of_memory=_OUT_OF_MEMORY in str(error))


def _like(staged: NDArray, array: NDArray) -> NDArray:
    """Page-locked bytes as a row-major array of another's type."""
    return staged.view(array.dtype).reshape(array.shape)


class Slot(Buffers[CudaDevice]):
    """A stream, buffers on the GPU, and page-locked buffers by what they are for."""

    def __init__(self, device: CudaDevice) -> None:
        super().__init__(device)
        self.stream = device.device.create_stream()
        self.pinned: dict[tuple[int, int], Any] = {}

    def staging(self, number: int, count: int, turn: int = 0) -> tuple[Any, NDArray]:
        """Page-locked memory for so many bytes of the array of a number, and a view of it.

        Runs that are queued one behind the other have memory of their own, in turns.
        """
        buffer = self.pinned.get((number, turn))
        if buffer is None or buffer.size < count:
            if buffer is not None:
                self.stream.sync()  # which may still copy from it
                buffer.close()
            buffer = self.pinned[number, turn] = self.device.pinned.allocate(count)
        memory: Any = (ctypes.c_uint8 * count).from_address(int(buffer.handle))
        return self.part(buffer, 0, count), np.ndarray((count,), np.uint8, memory)

    def part(self, buffer: Any, offset: int, count: int) -> Any:
        """Some bytes of a buffer, as a buffer: copies are between buffers of one size."""
        if offset == 0 and buffer.size == count:
            return buffer
        at = int(buffer.handle) + offset
        return self.device.core.Buffer.from_handle(at, count, owner=buffer)

    def copy_in(
        self, buffer: Any, array: NDArray, number: int, turn: int = 0, offset: int = 0
    ) -> None:
        """Queue a copy to the GPU, so many bytes into the buffer."""
        staged, view = self.staging(number, array.nbytes, turn)
        np.copyto(_like(view, array), array)
        self.device.copy(self.part(buffer, offset, array.nbytes), staged, self.stream)

    def release(self) -> None:
        super().release()
        while self.pinned:
            self.pinned.popitem()[1].close()

    def release_buffer(self, buffer: Any) -> None:
        buffer.close(self.stream)

    def finish(self) -> None:
        self.stream.sync()


class CudaSegment:
    """A segment compiled for a GPU."""

    def __init__(self, device: CudaDevice, segment: Segment) -> None:
        self.device = device
        self.segment = segment
        self._code = device.build(segment.source)
        self._kernels: dict[str, Any] = {}
        self._lock = threading.Lock()

    def kernel(self, name: str) -> Any:
        """The kernel of a name."""
        with self._lock:
            if name not in self._kernels:
                self._kernels[name] = self._code.get_kernel(name)
            return self._kernels[name]

    def hold(
        self, inputs: Mapping[int, NDArray], flanks: Sequence[FlankPlace] = (), room: int = 0
    ) -> HeldArrays:  # fmt: skip
        """Copy inputs, by their positions, that several runs share; make room for flanks.

        `room`: bytes that those runs, and what is held, will take together.

        Raises
        ------
        MemoryLimitError, DeviceError
        """
        self.device.device.set_current()
        return HeldArrays(self.device, self.segment, inputs, flanks, room)

    def start(
        self, integers: Sequence[int], inputs: Sequence[NDArray], results: Sequence[NDArray],
        held: HeldArrays | None = None, behind: Run[Any] | None = None,
        after: Sequence[Run[Any]] = (),
    ) -> Run[Any]:  # fmt: skip
        """Queue copies in, launches, copies out; see `weft.runtime.devices.runs.begin`."""
        self.device.device.set_current()
        return begin(CudaRun(self, integers, inputs, results, held, behind), after)


class CudaRun(Run[CudaDevice]):
    """One run of a segment on a stream."""

    def __init__(
        self, loaded: CudaSegment, integers: Sequence[int], inputs: Sequence[NDArray],
        results: Sequence[NDArray], held: HeldArrays | None, behind: Run[CudaDevice] | None,
    ) -> None:  # fmt: skip
        super().__init__(loaded.device, loaded.segment, integers, inputs, results, held, behind)
        self.loaded = loaded
        self.landings: list[tuple[NDArray, NDArray]] = []  # page-locked, and where it belongs
        self.collected: list[Launched] | None = None  # launches that may become a graph
        self.graphs: list[Any] = []  # those that may still run
        self.timed = profile.recorder is not None
        self.marks: list[tuple[str, str, Any, Any, int]] = []

    # ------------------------------------------------------------ copies

    def copy(
        self, way: str, name: str, number: int, buffer: Any, array: NDArray, offset: int = 0
    ) -> None:
        began = self._time()
        if way == "in":
            self.slot.copy_in(buffer, array, number, self.turn, offset)
        else:
            self._copy_out(number, buffer, offset, array)
        self._timed(f"copy {way} {name}", way, began, array.nbytes)

    def _copy_out(self, number: int, buffer: Any, offset: int, array: NDArray) -> None:
        slot = self.slot
        staged, view = slot.staging(number, array.nbytes, self.turn)
        self.device.copy(staged, slot.part(buffer, offset, array.nbytes), slot.stream)
        self.landings.append((_like(view, array), array))

    def read(self, step: launches.Read, buffer: Any, offset: int) -> NDArray:
        value = np.zeros(1, np.dtype(step.dtype))
        self._copy_out(-3, buffer, offset, value)
        if self.segment.failures:
            self._copy_out(-1, self.buffers[-1], 0, self.failure)
        return value

    def landing(self) -> None:
        for view, array in self.landings:
            np.copyto(array, view)
        self.landings.clear()
        self._close_graphs()

    # ------------------------------------------------------------ launches

    def launch(
        self, step: launches.Launch, items: int, blocks: list[Any], integers: Sequence[int]
    ) -> None:
        groups, given = -(-items // step.group), map(np.int64, integers)
        launched = (step.kernel, groups, step.group, (self.buffers[-1], *blocks, *given))
        if self.collected is not None:
            self.collected.append(launched)
            return
        began = self._time()
        self._launch_on(self.slot.stream, launched)
        self._timed(step.kernel, "compute", began, 0)

    def _launch_on(self, stream: Any, launched: Launched) -> None:
        core, (name, groups, items, arguments) = self.device.core, launched
        config = core.LaunchConfig(grid=groups, block=items)
        core.launch(stream, config, self.loaded.kernel(name), *arguments)

    def steps(self, steps: launches.Steps) -> None:
        for step in steps:
            alone = isinstance(step, launches.Repeat) and _only_launches(step.steps)
            if not alone or self.collected is not None or self.timed:
                super().steps((step,))
                continue
            self.collected = []
            try:
                super().steps((step,))
                collected = self.collected
            finally:
                self.collected = None
            self._launch_all(collected)

    def _launch_all(self, collected: Sequence[Launched]) -> None:
        """Launches one after another; those that come again as a graph."""
        period = _period(collected)
        once = 0 if period is None else period * max(_CAPTURED // period, 1)
        if period is not None and len(collected) >= 2 * once:
            graph = self._captured(collected[:once])
            for _ in range(len(collected) // once):
                graph.launch(self.slot.stream)
            collected = collected[len(collected) // once * once :]
        for launched in collected:
            self._launch_on(self.slot.stream, launched)

    def _captured(self, collected: Sequence[Launched]) -> Any:
        builder = self.slot.stream.create_graph_builder().begin_building("thread_local")
        for launched in collected:
            self._launch_on(builder, launched)
        graph = builder.end_building().complete()
        builder.close()
        self.graphs.append(graph)
        return graph

    def _close_graphs(self) -> None:
        while self.graphs:
            self.graphs.pop().close()

    # ------------------------------------------------------------ events

    def mark(self) -> Any:
        return self.slot.stream.record()

    def follow(self, event: Any) -> None:
        self.slot.stream.wait(event)

    def is_done(self, event: Any) -> bool:
        return bool(event.is_done)

    def complete(self, event: Any) -> None:
        event.sync()

    def abandon(self) -> None:
        super().abandon()
        self._close_graphs()

    def _time(self) -> Any:
        if not self.timed:
            return None
        return self.slot.stream.record(options=self.device.core.EventOptions(timing_enabled=True))

    def _timed(self, name: str, queue: str, began: Any, count: int) -> None:
        if began is not None:
            self.marks.append((name, f"{self.device.name} {queue}", began, self._time(), count))

    def record(self) -> None:
        """What the GPU's clock says of each command, on the host's clock."""
        recorder = profile.recorder
        if recorder is None or not self.marks:
            return
        ended, last = perf_counter(), self.marks[-1][3]
        for name, queue, began, done, count in self.marks:
            start = ended - (last - began) * 1e-3
            recorder.record(name, queue, start, ended - (last - done) * 1e-3, count)


def _only_launches(steps: launches.Steps) -> bool:
    """Whether the host has nothing to wait for."""
    return all(
        isinstance(step, launches.Launch | launches.Define)
        or (isinstance(step, launches.Repeat) and _only_launches(step.steps))
        for step in steps
    )


def _period(collected: Sequence[Launched]) -> int | None:
    """After how many launches the same ones come again, if they are many; None: never."""
    count = len(collected)
    if count < _WORTH_GRAPH:
        return None
    first = collected[0][0]
    starts = [k for k in range(1, count // 2 + 1) if collected[k][0] == first][: 2 * _PERIODS]
    for period in starts:
        if all(_same(a, b) for a, b in zip(collected, collected[period:], strict=False)):
            return period
    return None


def _same(left: Launched, right: Launched) -> bool:
    """Whether two launches are the same."""
    return left[:3] == right[:3] and all(
        a is b or (isinstance(a, np.int64) and isinstance(b, np.int64) and a == b)
        for a, b in zip(left[3], right[3], strict=True)
    )


def _measure(device: CudaDevice) -> Rates:
    """The rates of a GPU; those of none in particular where it has no memory to measure."""
    usual = Rates(10e9, 10e9, 300e9, _LAUNCH, _BOX, 2, True)
    count = min(_MEASURED, device.limit // 4)
    if count < 64 << 10:
        return usual
    device.device.set_current()
    slot = device.take_slot()
    try:
        slot.release()
        first, second = slot.fit([count, count], ["measuring", "measuring"])
        staged, _ = slot.staging(0, count)

        def copied(target: Any, source: Any) -> float:
            found = []
            for _ in range(_ROUNDS):
                start = perf_counter()
                device.copy(slot.part(target, 0, count), source, slot.stream)
                slot.finish()
                found.append(perf_counter() - start)
            return max(min(found), 1e-9)

        into, out = copied(first, staged), copied(staged, first)
        within = copied(second, slot.part(first, 0, count))
    except Exception as error:  # what is wrong with it, its use will tell
        if not isinstance(error, (*device.failures, MemoryError, MemoryLimitError)):
            raise
        return usual
    finally:
        slot.release()
        device.give_back(slot)
    return Rates(count / into, count / out, 2 * count / within, _LAUNCH, _BOX, 2, True)
