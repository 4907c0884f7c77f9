"""The devices of this process, and what to say where there is no compiler."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from weft.config import Settings
from weft.errors import ArgumentError, warn
from weft.plan.launches import ON_PROCESSOR
from weft.plan.segment import Dialect, Segment
from weft.runtime import blas
from weft.runtime import threads as runtime_threads
from weft.runtime.devices.cpu import WHOLE, CpuDevice, LoadedSegment, cores_of, is_cpu
from weft.runtime.devices.protocol import Accelerator, Device
from weft.runtime.devices.protocol import LoadedSegment as LoadedKernels
from weft.runtime.toolchain import Effort

CPU = WHOLE
INTERPRETER = ""

device = CpuDevice()
_found = False
_warned = False


def targets(current: Settings) -> tuple[str, ...]:
    """The devices that boxes are spread over: all that can run what is compiled."""
    first = target(current)
    if len(current.devices) == 1 or first == INTERPRETER:
        return (first,)
    return tuple(n for n in current.devices if not is_cpu(n) or have_compiler()) or (first,)


def target(current: Settings) -> str:
    """Where programs run that are not spread: the first device, or "cpu" for a part of it.

    Without a C compiler, another one than the CPU. The first time, a warning says how to get
    speed.
    """
    for name in current.devices:
        if not is_cpu(name):
            return name
        if have_compiler():
            return CPU
    from weft.runtime.devices.others import others

    found = others()
    _warn(found[0].name if found else INTERPRETER)
    return found[0].name if found else INTERPRETER


def host_threads(current: Settings) -> int:
    """The threads of what is not spread: one for each core of all CPU devices together."""
    if current.devices[0] == CPU:
        return current.threads or runtime_threads.threads()
    return sum(threads_of(n, current) for n in current.devices if is_cpu(n)) or (
        threads_of(CPU, current)
    )


@contextmanager
def on_own_cores(current: Settings) -> Iterator[None]:
    """Where the device is a part of the CPU: the calling thread, and libraries, on that part."""
    cores = cores_of(current.devices[0])
    if not cores:
        yield
        return
    with blas.at_most(len(cores)), runtime_threads.on_cores(cores if len(cores) == 1 else ()):
        yield


def threads_of(name: str, current: Settings) -> int:
    """The threads of a CPU device."""
    wanted = current.threads or runtime_threads.threads()
    return wanted if name == CPU else min(wanted, len(cores_of(name)))


def have_compiler() -> bool:
    """Whether C can be compiled."""
    global _found
    _found = _found or CpuDevice.available()
    return _found


def _warn(instead: str) -> None:
    global _warned
    if _warned:
        return
    _warned = True
    way = f"runs programs on {instead}" if instead else "interprets programs with NumPy, slowly"
    warn(
        f"Weft found no C compiler and {way}; install gcc or clang, or `pip install weft[cc]`",
        RuntimeWarning,
    )


def dialect_of(name: str) -> Dialect:
    """What programs for a device are written in."""
    for dialect in ("opencl", "cuda"):
        if name.startswith(dialect):
            return dialect
    return "c"


def is_gpu(name: str) -> bool:
    """Whether a device is no processor: it has memory of its own, and no library of the host's."""
    dialect = dialect_of(name)
    if dialect != "opencl":
        return dialect == "cuda"
    from weft.runtime.devices.others import others

    return not any(found.is_processor for found in others() if found.name == name)


def left_out(name: str, optimise: str) -> str:
    """The passes to leave out for a device, and what is known of it beforehand.

    An OpenCL device that is a processor has caches, and no use for GPUs' forms of kernels.
    """
    is_processor = dialect_of(name) == "opencl" and not is_gpu(name)
    return f"{optimise} no-permute-layouts {ON_PROCESSOR}" if is_processor else optimise


def find(name: str, current: Settings) -> Device:
    """The device of a name, told the limit, threads and slots of settings."""
    if not is_cpu(name):
        return accelerator(name, current)
    found = device.part(name)
    limit = current.limit
    found.limit = min(limit, dict(current.device_limits).get(name, limit))
    found.threads = threads_of(name, current)
    return found


def accelerator(name: str, current: Settings) -> Accelerator:
    """`find`, for a device with memory of its own."""
    from weft.runtime.devices.others import others

    for found in others():
        if found.name == name:
            found.limit = dict(current.device_limits).get(name, found.default_limit)
            found.slots = current.slots
            found.threads = host_threads(current)
            found.host_limit = current.limit
            return found
    raise ArgumentError(f"there is no device {name!r}", "a name of weft.devices()")


def device_limit(name: str, current: Settings) -> int | None:
    """Bytes that may be allocated on a device; None for the CPU, which has the host's."""
    return None if is_cpu(name) or name == INTERPRETER else accelerator(name, current).limit


def load(
    segment: Segment, name: str, current: Settings, effort: Effort = Effort.FULL
) -> LoadedSegment | LoadedKernels:
    """A segment on the device that its text is for: the CPU, or the one named.

    The CPU's first calls run what compilers make of it with that effort.
    """
    if segment.dialect == "c":
        return device.part(name if is_cpu(name) else CPU).load(segment, effort)
    return accelerator(name, current).load(segment)


def load_together(segments: Iterable[Segment], effort: Effort) -> None:
    """What is C of several segments that are going to be loaded."""
    device.load_together([segment for segment in segments if segment.dialect == "c"], effort)
