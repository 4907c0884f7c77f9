"""What the planner and the runtime ask of the places where data lives."""

from __future__ import annotations

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
        """Boxes must be aligned to these extents (None: any box)."""

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
class FileSink(Protocol):
    """A sink that may be a plain file: its elements are bytes of it, in row-major order."""

    def file(self) -> tuple[int, int] | None:
        """The descriptor, and the byte of element [0, ..., 0]; None where it is no such file."""

    def refusal(self, error: OSError) -> Exception:
        """What a write to the file that failed is reported as."""
