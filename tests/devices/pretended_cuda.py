"""A stand-in for cuda.core where there is no GPU: its interface, on the host's memory.

Streams do nothing until they are waited for, so that what is used too early, or freed too
early, is found. Kernels are the CUDA C++ that Weft prints, compiled for the host and called for
every thread of a block in some order, up to each barrier. Arguments are checked as
cuda.core checks them, and addresses as a GPU does: after one that is no multiple of the bytes that
are loaded or stored there, every call fails.
"""

from __future__ import annotations

import ctypes
import functools
import re
import shutil
import subprocess
import tempfile
import threading
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from enum import IntEnum
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest import mock

import numpy as np
import pytest
from printers.nvrtc import accept

from weft.runtime.devices import cuda
from weft.runtime.devices.cuda import CudaDevice

HERE = Path(__file__).with_suffix("")  # what the C++ texts are called
COMPILER = (
    "g++", "-O1", "-w", "-fPIC", "-std=c++20", "-ffp-contract=off", "-fsanitize=alignment,bounds"
)  # fmt: skip
_MOST_ARGUMENTS = 40  # MOST there


class CUDAError(Exception):
    """What the driver's failures are."""


numbered: list[Any] = [None]
"""Streams and kernels by their handles."""


def number(thing: Any) -> int:
    """A handle for a driver's caller in C."""
    numbered.append(thing)
    return len(numbered) - 1


class Context:
    """Whether the GPU still computes: after an error of a kernel it never does again."""

    lost = ""

    @classmethod
    def lose(cls) -> None:
        cls.lost = "CUDA_ERROR_MISALIGNED_ADDRESS: the process must be terminated and relaunched"
        cls.check()

    @classmethod
    def check(cls) -> None:
        if cls.lost:
            raise CUDAError(cls.lost)


class Current(threading.local):
    """The GPU of a thread: what is made, it is made for that one."""

    device: Device | None = None
    before: Device | None = None  # another was pushed onto it


current = Current()
computing = threading.Lock()
"""A kernel's threads have places of the whole process."""
preparing = threading.Lock()


class Stream:
    """Commands in order, run when somebody waits."""

    def __init__(self, device: Device) -> None:
        Context.check()
        self.device = device
        self.waiting: list[Callable[[], None]] = []
        self.run = 0
        self.builder: GraphBuilder | None = None  # that captures what is queued
        self.handle = number(self)

    def queue(self, command: Callable[[], None]) -> None:
        if self.builder is None:
            self.waiting.append(command)
        else:
            self.builder.queue(command)

    def sync(self) -> None:
        self.run_until(self.run + len(self.waiting))

    def run_until(self, count: int) -> None:
        """Run commands until so many have been run since the beginning."""
        Context.check()
        while self.run < count:
            command = self.waiting.pop(0)
            command()
            self.run += 1

    def wait(self, event: Event) -> None:
        self.queue(lambda: event.stream.run_until(event.before))

    def record(self, event: Any = None, options: Any = None) -> Event:
        assert options is None or isinstance(options, EventOptions)
        assert self.device is current.device, "an event of another GPU than its stream"
        Context.check()
        return Event(self, self.run + len(self.waiting))

    def create_graph_builder(self) -> GraphBuilder:
        return GraphBuilder(self)


class Event:
    def __init__(self, stream: Stream, before: int) -> None:
        self.stream = stream
        self.before = before
        self.polls = 0

    @property
    def is_done(self) -> bool:
        Context.check()
        self.polls += 1
        if self.polls > 2:
            self.stream.sync()
        return not self.stream.waiting

    def sync(self) -> None:
        self.stream.run_until(self.before)

    def __sub__(self, other: Event) -> float:
        assert all(each.stream.run >= each.before for each in (self, other)), "a time to come"
        return 0.0


class EventOptions:
    def __init__(self, timing_enabled: bool = False) -> None:
        self.timing_enabled = timing_enabled


class GraphBuilder:
    """Commands that a graph is made of."""

    def __init__(self, stream: Stream) -> None:
        self.stream = stream
        self.commands: list[Callable[[], None]] = []
        self.building = False

    def begin_building(self, mode: str = "relaxed") -> GraphBuilder:
        assert mode in ("global", "thread_local", "relaxed")
        self.building, self.stream.builder = True, self
        return self

    def queue(self, command: Callable[[], None]) -> None:
        assert self.building
        self.commands.append(command)

    def end_building(self) -> GraphBuilder:
        self.building, self.stream.builder = False, None
        return self

    def complete(self) -> Graph:
        assert not self.building
        return Graph(self.commands)

    def close(self) -> None:
        self.commands = []


class Graph:
    launches = 0

    def __init__(self, commands: list[Callable[[], None]]) -> None:
        self.commands: list[Callable[[], None]] | None = list(commands)

    def launch(self, stream: Stream) -> None:
        assert isinstance(stream, Stream)
        Graph.launches += 1

        def run() -> None:
            assert self.commands is not None, "a graph is closed before it has run"
            for command in self.commands:
                command()

        stream.queue(run)

    def close(self) -> None:
        self.commands = None


class Buffer:
    """Bytes of the host's memory."""

    def __init__(self, handle: int, size: int, owner: Any, device: int | None = None) -> None:
        self.handle, self.size, self.owner, self.device = handle, size, owner, device

    @staticmethod
    def from_handle(ptr: int, size: int, mr: Any = None, owner: Any = None) -> Buffer:
        assert isinstance(ptr, int)
        return Buffer(ptr, size, owner)

    def copy_from(self, src: Buffer, *, stream: Stream) -> None:
        assert isinstance(src, Buffer)
        assert isinstance(stream, Stream)
        if src.size != self.size:
            raise ValueError("buffer sizes mismatch")
        stream.queue(lambda: ctypes.memmove(self.open(), src.open(), self.size) and None)

    def copy_to(self, dst: Buffer, *, stream: Stream) -> Buffer:
        dst.copy_from(self, stream=stream)
        return dst

    def open(self) -> int:
        """The address, of memory that is not closed."""
        root = self
        while isinstance(root.owner, Buffer):
            root = root.owner
        assert root.owner is not None, "memory is used after it was closed"
        return self.handle

    def close(self, stream: Stream | None = None) -> None:
        Context.check()
        assert current.device is not None, "no GPU is the thread's"
        if stream is None:
            self.owner = None
        else:
            stream.queue(self.free)

    def free(self) -> None:
        self.owner = None


allocated: weakref.WeakValueDictionary[int, Buffer] = weakref.WeakValueDictionary()
"""By their addresses, those that were closed too."""


class Resource:
    """Where buffers come from."""

    def __init__(self, device: int | None = None) -> None:
        self.device = device  # None: of the host
        self.fails = False

    def allocate(self, size: int, *, stream: Stream | None = None) -> Buffer:
        Context.check()
        assert current.device is not None, "no GPU is the thread's"
        if self.fails:
            raise CUDAError("CUDA_ERROR_OUT_OF_MEMORY: no memory")
        memory = np.full(size, 0xA5, np.uint8)
        made = Buffer(memory.ctypes.data, size, memory, self.device)
        allocated[memory.ctypes.data] = made
        return made


class Prelude:
    """What all kernels are compiled after, and what runs them: compiled once."""

    def __init__(self) -> None:
        self.folder = tempfile.TemporaryDirectory()
        self.header = Path(shutil.copy(HERE.with_suffix(".h"), self.folder.name))
        self.library = self.header.with_suffix(".so")
        header = ["-x", "c++-header", str(self.header), "-o", f"{self.header}.gch"]
        library = ["-shared", str(HERE.with_suffix(".cpp")), "-o", str(self.library)]
        for command in (header, library):
            subprocess.run([*COMPILER, *command], check=True)
        loaded = ctypes.CDLL(str(self.library))
        self.run_grid = loaded.run_grid
        self.misaligned, self.outside = (
            ctypes.c_int.in_dll(loaded, flag) for flag in ("misaligned", "outside")
        )


def prelude() -> Prelude:
    """The same for all threads, of which several may be the first."""
    with preparing:
        return _prelude()


@functools.cache
def _prelude() -> Prelude:
    return Prelude()


def was_set(flag: ctypes.c_int) -> bool:
    """Whether a kernel has set a flag, which is taken back."""
    found, flag.value = bool(flag.value), 0
    return found


class Kernel:
    def __init__(self, library: ctypes.CDLL, name: str, signature: str) -> None:
        self.name = name
        self.function = ctypes.cast(getattr(library, name), ctypes.c_void_p)
        self.kinds = ["*" in parameter for parameter in signature.split(",")]
        self.handle = number(self)


class ObjectCode:
    def __init__(self, code: bytes) -> None:
        self.code = code
        source = code.decode()
        bounds = r"(?:__launch_bounds__\([^)]*\) )?"
        self.signatures = dict(
            re.findall(rf"__global__ void {bounds}(\w+)\(([^)]*)\)", source)
        )
        with tempfile.TemporaryDirectory() as folder:
            text, library = Path(folder) / "kernels.cpp", Path(folder) / "kernels.so"
            text.write_text(source)
            before = ["-include", str(prelude().header)]
            files = [str(text), str(prelude().library), "-o", str(library)]
            subprocess.run([*COMPILER, "-shared", *before, *files], check=True)
            self.library = ctypes.CDLL(str(library))

    @staticmethod
    def from_cubin(code: bytes) -> ObjectCode:
        return ObjectCode(code)

    def get_kernel(self, name: str) -> Kernel:
        return Kernel(self.library, name, self.signatures[name])


class Program:
    def __init__(self, code: str, code_type: str, options: Any) -> None:
        assert code_type == "c++"
        assert options.arch == "sm_80"
        assert not options.fma
        self.text = code

    def compile(self, target_type: str) -> SimpleNamespace:
        assert target_type == "cubin"
        accept(self.text)
        return SimpleNamespace(code=self.text.encode())


def launch(stream: Any, config: Any, kernel: Kernel, *arguments: Any) -> None:
    """Queue a kernel, its arguments checked."""
    assert isinstance(stream, Stream)
    assert isinstance(kernel, Kernel)
    assert len(arguments) == len(kernel.kinds)
    assert stream.device is current.device, "a kernel for another GPU than the thread's"
    Context.check()
    for argument, is_pointer in zip(arguments, kernel.kinds, strict=True):
        assert isinstance(argument, Buffer if is_pointer else np.int64), argument
        if is_pointer:
            assert argument.device == stream.device.device_id, "memory of another GPU"

    def run() -> None:
        values = [a.open() if isinstance(a, Buffer) else int(a) for a in arguments]
        assert len(values) <= _MOST_ARGUMENTS
        words = (ctypes.c_longlong * _MOST_ARGUMENTS)(*values)
        with computing:
            host = prelude()
            parted = host.run_grid(kernel.function, words, config.grid, config.block)
            outside, misaligned = was_set(host.outside), was_set(host.misaligned)
        assert not parted, f"some threads of {kernel.name} ended where others met at a barrier"
        assert not outside, f"{kernel.name}: outside of an array of a block's"
        if misaligned:
            Context.lose()

    stream.queue(run)


@ctypes.CFUNCTYPE(
    ctypes.c_int32, ctypes.c_void_p, *[ctypes.c_uint32] * 7, ctypes.c_void_p,
    ctypes.POINTER(ctypes.POINTER(ctypes.c_int64)), ctypes.c_void_p,
)  # fmt: skip
def launch_kernel(
    kernel: int, groups: int, groups_y: int, groups_z: int, items: int, items_y: int, items_z: int,
    shared: int, stream: int, parameters: Any, extra: Any,
) -> int:  # fmt: skip
    """The driver's function that C calls; 1: it is refused."""
    try:
        assert (groups_y, groups_z, items_y, items_z, shared, extra) == (1, 1, 1, 1, 0, None)
        found = numbered[kernel]
        words = [parameters[k][0] for k in range(len(found.kinds))]
        given = [
            allocated[word] if is_pointer else np.int64(word)
            for word, is_pointer in zip(words, found.kinds, strict=True)
        ]
        config = SimpleNamespace(grid=groups, block=items)
        core.launch(numbered[stream], config, found, *given)
    except CUDAError:
        return 2
    except (AssertionError, LookupError):
        return 1
    return 0


class Device:
    name = "Pretended GPU"
    arch = "80"

    def __init__(self, number: int = 0) -> None:
        self.device_id = number
        self.properties = SimpleNamespace(multiprocessor_count=1, clock_rate=1_000_000)

    def set_current(self) -> None:
        Context.check()
        current.device = self

    def create_stream(self) -> Stream:
        assert current.device is self
        return Stream(self)


class Driver:
    """What is used of cuda.bindings.driver: page-locked memory, and copies of rows.

    Memory is page-locked where it was registered, and copies of rows need it to be.
    """

    CUresult = IntEnum("CUresult", {
        "CUDA_SUCCESS": 0, "CUDA_ERROR_INVALID_VALUE": 1, "CUDA_ERROR_MISALIGNED_ADDRESS": 2,
    })  # fmt: skip
    CUmemorytype = SimpleNamespace(CU_MEMORYTYPE_HOST=1, CU_MEMORYTYPE_DEVICE=2)
    CUpointer_attribute = SimpleNamespace(CU_POINTER_ATTRIBUTE_MEMORY_TYPE=2)
    CUDA_MEMCPY3D = SimpleNamespace

    def __init__(self) -> None:
        self.registered: dict[int, int] = {}
        self.refuses = False
        self.rows = 0  # copies of such

    def cuDeviceTotalMem(self, device: int) -> tuple[Any, int]:  # noqa: N802
        return self.CUresult.CUDA_SUCCESS, 1 << 30

    def cuMemHostRegister(self, address: int, count: int, flags: int) -> tuple[Any]:  # noqa: N802
        assert flags == 1
        assert current.device is not None
        if self.refuses or address in self.registered:
            return (self.CUresult.CUDA_ERROR_INVALID_VALUE,)
        self.registered[address] = count
        return (self.CUresult.CUDA_SUCCESS,)

    def cuMemHostUnregister(self, address: int) -> tuple[Any]:  # noqa: N802
        assert current.device is not None
        del self.registered[address]
        return (self.CUresult.CUDA_SUCCESS,)

    def cuCtxGetCurrent(self) -> tuple[Any, Any]:  # noqa: N802
        return self.CUresult.CUDA_SUCCESS, current.device

    def cuCtxPushCurrent(self, context: Any) -> tuple[Any]:  # noqa: N802
        current.before, current.device = current.device, context
        return (self.CUresult.CUDA_SUCCESS,)

    def cuCtxPopCurrent(self) -> tuple[Any, Any]:  # noqa: N802
        popped, current.device = current.device, current.before
        return self.CUresult.CUDA_SUCCESS, popped

    def cuPointerGetAttribute(self, kind: int, address: int) -> tuple[Any, int]:  # noqa: N802
        if self.is_locked(address):
            return self.CUresult.CUDA_SUCCESS, 1
        return self.CUresult.CUDA_ERROR_INVALID_VALUE, 0

    def is_locked(self, address: int) -> bool:
        return any(begin <= address < begin + n for begin, n in self.registered.items())

    def cuMemcpy3DAsync(self, copied: Any, stream: int) -> tuple[Any]:  # noqa: N802
        here, there = ("src", "dst") if hasattr(copied, "srcHost") else ("dst", "src")
        assert self.is_locked(getattr(copied, f"{here}Host"))
        assert max(copied.srcPitch, copied.dstPitch) < 1 << 31  # or the driver refuses it
        self.rows += 1

        def run() -> None:
            for plane in range(copied.Depth):
                for row in range(copied.Height):
                    host, device = (
                        base + (plane * getattr(copied, f"{side}Height") + row)
                        * getattr(copied, f"{side}Pitch")
                        for side, base in (
                            (here, getattr(copied, f"{here}Host")),
                            (there, getattr(copied, f"{there}Device")),
                        )
                    )  # fmt: skip
                    ends = (device, host) if here == "src" else (host, device)
                    ctypes.memmove(*ends, copied.WidthInBytes)

        numbered[stream].queue(run)
        return (self.CUresult.CUDA_SUCCESS,)


def handle_return(returned: tuple[Any, ...]) -> None:
    """Raise what a function of the driver has failed with."""
    raise CUDAError(Context.lost or returned[0].name)


def gpus(count: int) -> tuple[CudaDevice, ...]:
    """Devices with a driver of their own."""
    launch = ctypes.cast(launch_kernel, ctypes.c_void_p).value or 0
    failing = CUDAError, handle_return
    return cuda.usable([Device(n) for n in range(count)], core, Driver(), launch, *failing)


@contextmanager
def only_gpu(monkeypatch: pytest.MonkeyPatch, cache: Path) -> Iterator[CudaDevice]:
    """Such a device, as the only GPU; what is compiled for it is nobody else's.

    At the end its memory is accounted for.
    """
    with only_gpus(1, monkeypatch, cache) as (made,):
        yield made


@contextmanager
def only_gpus(
    count: int, monkeypatch: pytest.MonkeyPatch, cache: Path
) -> Iterator[tuple[CudaDevice, ...]]:
    """The same with several of them."""
    if shutil.which("g++") is None:
        pytest.skip("no g++")
    monkeypatch.setenv("WEFT_CACHE_DIR", str(cache))
    monkeypatch.setattr(Context, "lost", "")  # which a test may set
    monkeypatch.setattr(cuda, "_TOUCHED", cuda._MEASURED // 16)  # soon measured
    monkeypatch.setattr(cuda, "_MEASURED", cuda._MEASURED // 16)
    before, made = len(numbered), gpus(count)
    with mock.patch.object(cuda, "find", return_value=made):
        yield made
    for device in made:
        device.trim()
        assert device.used == 0
    for thing in numbered[before:]:
        if isinstance(thing, Stream):
            thing.waiting.clear()  # which hold memory
    del numbered[before:]


core = SimpleNamespace(
    Buffer=Buffer, DeviceMemoryResource=Resource,
    EventOptions=EventOptions, LaunchConfig=SimpleNamespace, LegacyPinnedMemoryResource=Resource,
    ObjectCode=ObjectCode, Program=Program, ProgramOptions=SimpleNamespace, launch=launch,
)  # fmt: skip
