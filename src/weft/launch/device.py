"""The devices of this process, and what to say where there is no compiler."""

from __future__ import annotations

import warnings

from weft.config import Settings
from weft.errors import ArgumentError
from weft.plan.segment import Dialect, Segment
from weft.runtime.devices import opencl
from weft.runtime.devices.cpu import CpuDevice, LoadedSegment
from weft.runtime.devices.protocol import Device
from weft.runtime.devices.protocol import LoadedSegment as LoadedKernels

CPU = "cpu"
INTERPRETER = ""

device = CpuDevice()
_found = False
_warned = False


def target(current: Settings) -> str:
    """Where programs run: the device that was asked for; without a C compiler, another.

    The first time that there is no compiler for the CPU, a warning says how to get speed.
    """
    name = current.devices[0]
    if name != CPU or have_compiler():
        return name
    others = opencl.find()
    _warn(others[0].name if others else INTERPRETER)
    return others[0].name if others else INTERPRETER


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
    warnings.warn(
        f"Weft found no C compiler and {way}; install gcc or clang, or `pip install weft[cc]`",
        RuntimeWarning,
        stacklevel=2,
    )


def dialect_of(name: str) -> Dialect:
    """What programs for a device are written in."""
    return "opencl" if name.startswith("opencl") else "c"


def find(name: str, current: Settings) -> Device:
    """The device of a name, other than the CPU, under the limit of the settings."""
    for found in opencl.find():
        if found.name == name:
            found.limit = dict(current.device_limits).get(name, found.default_limit)
            return found
    raise ArgumentError(f"there is no device {name!r}", "a name of weft.devices()")


def device_limit(name: str, current: Settings) -> int | None:
    """Bytes that may be allocated on a device; None for the CPU, which has the host's."""
    return None if name in (CPU, INTERPRETER) else find(name, current).limit


def load(segment: Segment, name: str, current: Settings) -> LoadedSegment | LoadedKernels:
    """A segment on the device that its text is for: the CPU, or the one named."""
    return device.load(segment) if segment.dialect == "c" else find(name, current).load(segment)
