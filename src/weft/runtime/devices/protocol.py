"""What devices offer to those who run segments on them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any, NoReturn, Protocol

import numpy as np
import numpy.typing as npt

from weft.errors import ArgumentError, InternalError, OutOfBoundsError, called
from weft.plan.code import FlankPlace, Held, Pending, Rates
from weft.plan.segment import Segment
from weft.records import dataclass

NDArray = npt.NDArray[Any]

FIRST_FAILURE = 16
"""The code of a segment's first failure; what is below is the device's own."""

FAILURE_BYTES = 24
"""Of a run's record of the first failure: code, index, extent."""


@dataclass(slots=True)
class Statistics:
    """What a device has done.

    The CPU copies nothing, and its memory is the host's: of it, launches alone are counted.

    Attributes
    ----------
    launches : int
        Of kernels; on the CPU, of segments, each box of one for itself.
    copies_in, copies_out, bytes_in, bytes_out : int
    boxes : int
        Copies, among those, of parts of larger arrays as they lie there.
    bytes_packed : int
        Of arrays that the host has packed, or unpacked, for a copy.
    peak_bytes : int
        The most memory ever in use.
    """

    launches: int = 0
    copies_in: int = 0
    copies_out: int = 0
    bytes_in: int = 0
    bytes_out: int = 0
    boxes: int = 0
    bytes_packed: int = 0
    peak_bytes: int = 0


class Device(Protocol):
    """A device that programs run on: the CPU, some of its cores, or one with memory of its own.

    Attributes
    ----------
    name : str
        As in `weft.config`: "cpu", "cpu:0", "opencl:0".
    is_processor : bool
        Whether it is a CPU.
    threads : int
        Of the host: on the CPU those that compute; others have them copy to and from memory that
        they cannot.
    limit : int
        Bytes that may be allocated on it; on the CPU of the host's memory.
    slots : int or None
        Runs that are to be under way at once; None: as many as is quickest.
    statistics : Statistics
    """

    name: str
    is_processor: bool
    threads: int
    limit: int
    slots: int | None
    statistics: Statistics

    def load(self, segment: Segment) -> Any:
        """The segment for this device.

        Raises
        ------
        CompileError
            When the device's compiler refuses the text: here, or where a run needs it first.
        """

    def describe(self) -> str:
        """The name, what the device is, and its memory or threads."""


class Accelerator(Device, Protocol):
    """A device with memory of its own, which runs segments while the host does something else.

    (A CPU may be one, as OpenCL's are.)

    Attributes
    ----------
    items : int
        Work items of a launch whose items have memory of their own, at most ("threads").
    host_limit : int
        Bytes of the host's memory that may be in use.
    together : int
        Small boxes that the host does best to begin one after another, once as many have ended.
    """

    items: int
    together: int
    host_limit: int

    @property
    def rates(self) -> Rates:
        """How quick it is, measured when it is first asked for."""

    def takes(self, array: NDArray) -> bool:
        """Whether it copies an array as it lies, and back to there, without packing it."""

    def page_locked(self, results: Sequence[int]) -> int:
        """Bytes of the host's memory that a slot's copies go through: `results` have so many."""

    def load(self, segment: Segment) -> LoadedSegment:
        """The segment for this device."""


class LoadedSegment(Protocol):
    """A segment for an accelerator, of which at least what has run is compiled."""

    segment: Segment

    @property
    def device(self) -> Accelerator:
        """Where it is."""

    def hold(
        self, inputs: Mapping[int, NDArray], flanks: Sequence[FlankPlace] = (), room: int = 0
    ) -> Held:  # fmt: skip
        """Copy inputs, by their positions, that several runs share; make room for flanks."""

    def prepare(self, integers: Sequence[int]) -> bool:
        """Compile what a run with these integers needs; whether anything was to be compiled."""

    def start(
        self,
        integers: Sequence[int],
        inputs: Sequence[NDArray],
        results: Sequence[NDArray],
        held: Any = None,
        behind: Any = None,
        after: Sequence[Any] = (),
    ) -> Pending:
        """Queue copies in, launches, copies out; arrays stay as they are until it has ended.

        What is `held` (from `hold`) is not copied again. It takes the memory that the run it is
        queued `behind` (from `start`) has, once that one has ended; runs of `after` end before it
        begins.
        """


def raise_failure(segment: Segment, code: int, index: int, extent: int) -> NoReturn:
    """The error that a failure's code stands for."""
    if not 0 <= code - FIRST_FAILURE < len(segment.failures):
        raise InternalError(f"segment {segment.entry} ended with status {code}")
    failure = segment.failures[code - FIRST_FAILURE]
    if failure.kind == "collision":
        raise ArgumentError(
            f"an update of {called(failure.array)} meets an element twice, at the indices {index} "
            f"and {extent} in row-major order",
            "an LMAD that meets no element twice",
            "update an LMAD that does not overlap itself",
            failure.place,
        )
    if failure.from_end and index < 0:
        index -= extent
    raise OutOfBoundsError(
        f"index {index} is outside axis {failure.axis} of {called(failure.array)}, "
        f"which has {extent} elements",
        f"{-extent if failure.from_end else 0} <= index < {extent}",
        place=failure.place,
    )


@dataclass(frozen=True, slots=True)
class Rows:
    """An array as rows of neighbouring bytes, the same way apart, in planes that are.

    `count`, `pitch` and `planes`, `plane_pitch` are 1 and the size of what is inside where there
    is one row or plane.
    """

    bytes: int
    count: int
    pitch: int
    planes: int
    plane_pitch: int

    def begins(self) -> Iterator[int]:
        """Where each row begins, in bytes after the first one."""
        for plane in range(self.planes):
            for row in range(self.count):
                yield plane * self.plane_pitch + row * self.pitch


def rows_of(array: NDArray) -> Rows | None:
    """How an array lies in a larger one; None where it is no box of rows in planes.

    Neighbouring dimensions that lie one after another are one. A plane's pitch has to be a
    multiple of a row's, which OpenCL demands.
    """
    if not array.size or not array.dtype.isnative:
        return None
    return _rows_of(array.itemsize, array.shape, array.strides)


@lru_cache(1024)
def _rows_of(itemsize: int, shape: tuple[int, ...], strides: tuple[int, ...]) -> Rows | None:
    dims = [(itemsize, 1)]  # extent and stride, the innermost first: that of bytes
    for extent, stride in zip(shape[::-1], strides[::-1], strict=True):
        inner, step = dims[-1]
        if extent == 1:
            continue
        if stride == inner * step:
            dims[-1] = inner * extent, step
        else:
            dims.append((extent, stride))
    (count, _), *outer = dims
    (rows, pitch), (planes, plane_pitch) = [*outer, (1, 0), (1, 0)][:2]
    pitch = pitch if outer else count
    plane_pitch = plane_pitch if len(outer) > 1 else rows * pitch
    if len(outer) > 2 or pitch < count or plane_pitch < rows * pitch or plane_pitch % pitch:
        return None
    return Rows(count, rows, pitch, planes, plane_pitch)


def row_major(array: NDArray) -> NDArray:
    """The array as a device takes it: row-major, native, aligned; itself where it is that."""
    return np.require(array, array.dtype.newbyteorder("="), ["C", "A"])
