"""What the planner and the runtime ask of the places where data lives."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Protocol, TypeGuard, runtime_checkable

import numpy as np
import numpy.typing as npt

Box = tuple[slice, ...]
"""One `slice(start, stop)` (step 1, both given) for each dimension."""


@runtime_checkable
class Source(Protocol):
    """An array that can be read box by box. Opening one reads no data."""

    @property
    def shape(self) -> tuple[int, ...]: ...

    @property
    def dtype(self) -> np.dtype[Any]: ...

    @property
    def chunks(self) -> tuple[int, ...] | None:
        """Extents that reads are best aligned to; None where any box costs the same."""

    def direct(self) -> npt.NDArray[Any] | None:
        """The whole array as addressable memory, without a copy (memory, a mapped file).

        None where data must be read into buffers.
        """

    def check(self) -> None:
        """Raise `SourceError` if the data has gone or shrunk since it was opened."""

    def read(self, box: Box, out: npt.NDArray[Any]) -> None:
        """Fill `out` (of the box's extents) with the box; may be called from any thread."""

    def describe(self) -> str:
        """Where the data is, for `repr`, `explain` and errors: `"big.npy"`, `"memory"`."""


@runtime_checkable
class SerialSource(Source, Protocol):
    """A source that one thread reads: a thread's allocator keeps some of what it has freed."""

    serial: bool


@runtime_checkable
class DecodingSource(Source, Protocol):
    """A source that decodes whole chunks, whatever part of them is wanted."""

    decoding: int
    """Bytes that one read holds besides what it fills: a chunk as it is stored, and decoded."""


def decoded_chunks(value: object) -> tuple[int, ...] | None:
    """The chunks that a source decodes whole; None where only what is wanted is read."""
    decodes = is_source(value) and isinstance(value, DecodingSource) and value.decoding > 0
    return value.chunks if decodes else None  # type: ignore[attr-defined]


READERS = 4
_HELD = 4 << 20
"""Bytes that reads may hold without a plan that counts them, as those of objects may."""


def readers_of(source: Source, limit: int) -> int:
    """How many threads read a source at once: one where more would take much of the limit."""
    many = READERS * source.decoding if isinstance(source, DecodingSource) else 0
    return 1 if isinstance(source, SerialSource) or many > limit // 4 else READERS


def held_by_reads(sources: Iterable[Source], limit: int) -> int:
    """Bytes that reads of sources hold at once, beyond what needs no counting."""
    alone = together = 0
    for source in sources:
        if isinstance(source, DecodingSource):
            if readers_of(source, limit) == 1:
                alone = max(alone, source.decoding)
            else:
                together = max(together, READERS * source.decoding)
    return max(0, alone + together - _HELD)


def is_source(value: object) -> TypeGuard[Source]:
    """Whether data is a source, and no array: to ask a protocol alone takes 20 microseconds."""
    return not isinstance(value, np.ndarray) and isinstance(value, Source)


@runtime_checkable
class Sink(Protocol):
    """An array that is written box by box, each element once."""

    @property
    def shape(self) -> tuple[int, ...]: ...

    @property
    def dtype(self) -> np.dtype[Any]: ...

    @property
    def chunks(self) -> tuple[int, ...] | None:
        """Boxes must be aligned to these extents (None: any box); but see `PartsSink`."""

    def direct(self) -> npt.NDArray[Any] | None:
        """The destination as writable memory, where writing there is as good as `write`."""

    def write(self, box: Box, data: npt.NDArray[Any]) -> None:
        """Write one box; may be called from any thread, for disjoint boxes at once."""

    def done(self, box: Box) -> bool:
        """Whether an earlier, interrupted run completed this box (for `resume`)."""

    def finish(self) -> None:
        """All boxes are written: publish the result under its final name."""

    def abort(self) -> None:
        """Leave nothing under the final name (resumable sinks keep completed chunks)."""

    def describe(self) -> str: ...


@runtime_checkable
class PartsSink(Protocol):
    """A sink with chunks of which boxes may have parts, along one axis: they are put together."""

    @property
    def takes_parts(self) -> bool:
        """Whether it is one: one that is a part of another depends on that."""


def takes_parts(sink: Sink) -> bool:
    """Whether boxes may have parts of a sink's chunks."""
    return isinstance(sink, PartsSink) and sink.takes_parts


@runtime_checkable
class FileSink(Protocol):
    """A sink that may be a plain file: its elements are bytes of it, in row-major order."""

    def file(self) -> tuple[int, int] | None:
        """The descriptor, and the byte of element [0, ..., 0]; None where it is no such file."""

    def refusal(self, error: OSError) -> Exception:
        """What a write to the file that failed is reported as."""
