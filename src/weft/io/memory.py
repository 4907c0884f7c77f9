"""Sources and sinks that live in the process: NumPy arrays and objects that index like them."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from math import prod
from operator import index
from typing import Any

import numpy as np

from weft.errors import ArgumentTypeError, DTypeError, ShapeError, SinkError, SourceError, WeftError
from weft.io.files import Array, box_shape, window
from weft.io.held import held
from weft.io.parts import Held, part_of_object
from weft.plan.protocols import Box, Sink, takes_parts


class MemorySource:
    """A NumPy array, read where it lies."""

    chunks: tuple[int, ...] | None = None

    def __init__(self, array: Array) -> None:
        self._array = array
        self.held = held(array)
        self.shape = array.shape
        self.dtype = array.dtype.newbyteorder("=")

    def direct(self) -> Array | None:
        array = self._array
        if array.dtype != self.dtype or not array.flags.aligned:
            return None
        if any(stride % array.itemsize for stride in array.strides):
            return None
        return array

    def check(self) -> None:
        pass

    def read(self, box: Box, out: Array) -> None:
        np.copyto(out, self._array[box])

    def describe(self) -> str:
        return "memory"

    def __repr__(self) -> str:
        return f"MemorySource({self.shape}, {self.dtype})"


_PIECE = 4 << 20  # bytes of an object to ask for at a time: it makes an array of them


class ObjectSource:
    """Any object with `shape`, `dtype` and `__getitem__`.

    Nothing is known of its safety in threads, so one box is read at a time, by one thread.
    """

    serial = True

    def __init__(self, wrapped: Any, lock: Any = None) -> None:
        self._wrapped = wrapped
        self.held = held(wrapped) or part_of_object(wrapped)
        self.shape, self.dtype = _declared(wrapped)
        self.chunks = object_chunks(wrapped, len(self.shape))
        self._lock = lock or threading.Lock()

    def __getstate__(self) -> dict[str, Any]:
        return {"wrapped": self._wrapped}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__init__(state["wrapped"])  # type: ignore[misc]

    def direct(self) -> Array | None:
        return None

    def check(self) -> None:
        shape, _ = _declared(self._wrapped)
        if shape != self.shape:
            raise SourceError(
                f"{self.describe()} now has shape {shape}", f"{self.shape}", "open it again"
            )

    def read(self, box: Box, out: Array) -> None:
        for piece in _pieces(box, self.chunks, out.dtype.itemsize):
            inside = tuple(
                slice(part.start - side.start, part.stop - side.start)
                for part, side in zip(piece, box, strict=True)
            )
            with self._lock:
                self._read(piece, window(out, inside))

    def _read(self, box: Box, out: Array) -> None:
        try:
            data = np.asarray(self._wrapped[box])
        except WeftError:
            raise
        except Exception as error:
            raise SourceError(
                f"{self.describe()} failed to read {show_box(box)}: {error!r}"
            ) from error
        if not np.can_cast(data.dtype, out.dtype, "same_kind"):
            raise SourceError(
                f"{self.describe()} gave {data.dtype} for {show_box(box)}", f"{out.dtype}"
            )
        if data.shape != out.shape:
            raise SourceError(
                f"{self.describe()} gave shape {data.shape} for {show_box(box)}", f"{out.shape}"
            )
        np.copyto(out, data, casting="same_kind")

    def describe(self) -> str:
        return f"a {type(self._wrapped).__name__} object"

    def __repr__(self) -> str:
        return f"ObjectSource({self.describe()}, {self.shape}, {self.dtype})"


class MemorySink:
    """A NumPy array (or memmap) that the caller owns, written where it lies."""

    chunks: tuple[int, ...] | None = None

    def __init__(self, array: Array) -> None:
        if not array.flags.writeable:
            raise SinkError("the target array is read-only", "a writable array")
        self._array = array
        self.held = held(array)
        self.shape = array.shape
        self.dtype = array.dtype.newbyteorder("=")

    def direct(self) -> Array | None:
        return MemorySource(self._array).direct()

    def write(self, box: Box, data: Array) -> None:
        np.copyto(window(self._array, box), data)

    def done(self, box: Box) -> bool:
        return False

    def finish(self) -> None:
        if isinstance(self._array, np.memmap):
            self._array.flush()

    def abort(self) -> None:
        pass

    def describe(self) -> str:
        name = getattr(self._array, "filename", None)
        return "memory" if name is None else str(name)


class ObjectSink:
    """Any object with `shape`, `dtype` and `__setitem__`; one box is written at a time."""

    def __init__(self, wrapped: Any, lock: Any = None) -> None:
        self._wrapped = wrapped
        self.held = held(wrapped) or part_of_object(wrapped)
        self.shape, self.dtype = _declared(wrapped)
        self.chunks = object_chunks(wrapped, len(self.shape))
        self._lock = lock or threading.Lock()

    def direct(self) -> Array | None:
        return None

    def write(self, box: Box, data: Array) -> None:
        try:
            with self._lock:
                self._wrapped[box] = data
        except Exception as error:
            raise SinkError(
                f"{self.describe()} failed to take {show_box(box)}: {error!r}"
            ) from error

    def done(self, box: Box) -> bool:
        return False

    def finish(self) -> None:
        flush = getattr(self._wrapped, "flush", None)
        if callable(flush):
            flush()

    def abort(self) -> None:
        pass

    def describe(self) -> str:
        return f"a {type(self._wrapped).__name__} object"


class RegionSink:
    """A part of a larger sink: boxes are moved to the region's origin."""

    def __init__(self, sink: Sink, region: Box) -> None:
        self._sink = sink
        self._region = region
        self.shape = box_shape(region)
        self.dtype = sink.dtype
        self.chunks = sink.chunks
        self.takes_parts = takes_parts(sink)
        if sink.chunks is not None:
            for side, chunk, extent in zip(region, sink.chunks, sink.shape, strict=True):
                if side.start % chunk or (side.stop % chunk and side.stop != extent):
                    raise ShapeError(
                        f"the region {show_box(region)} cuts chunks of {sink.describe()}",
                        f"a region aligned to the chunks {sink.chunks}",
                    )

    @property
    def held(self) -> tuple[Held, ...]:
        array = self.direct()
        return held(self._sink if array is None else array)

    def _move(self, box: Box) -> Box:
        return tuple(
            slice(side.start + origin.start, side.stop + origin.start)
            for side, origin in zip(box, self._region, strict=True)
        )

    def direct(self) -> Array | None:
        array = self._sink.direct()
        return None if array is None else window(array, self._region)

    def write(self, box: Box, data: Array) -> None:
        self._sink.write(self._move(box), data)

    def done(self, box: Box) -> bool:
        return self._sink.done(self._move(box))

    def finish(self) -> None:
        self._sink.finish()

    def abort(self) -> None:
        self._sink.abort()

    def describe(self) -> str:
        return f"{self._sink.describe()}[{show_box(self._region)}]"


def _pieces(box: Box, chunks: tuple[int, ...] | None, itemsize: int) -> Iterator[Box]:
    """A box cut into pieces of `_PIECE` bytes, or of whole chunks, along its outer axes."""
    extents, chunks = box_shape(box), chunks or (1,) * len(box)
    size = prod(extents) * itemsize
    axis = next((k for k, n in enumerate(extents) if n > chunks[k]), None)
    if size <= _PIECE or axis is None:
        yield box
        return
    side, chunk = box[axis], chunks[axis]
    step = max(extents[axis] * _PIECE // size // chunk, 1) * chunk
    at = side.start
    while at < side.stop:
        end = min((at // chunk * chunk) + step, side.stop)
        yield from _pieces((*box[:axis], slice(at, end), *box[axis + 1 :]), chunks, itemsize)
        at = end


def _declared(wrapped: Any) -> tuple[tuple[int, ...], np.dtype[Any]]:
    """The shape and the dtype that an object says it has."""
    try:
        shape = tuple(map(index, wrapped.shape))
        dtype = np.dtype(wrapped.dtype).newbyteorder("=")
    except TypeError:
        shape, dtype = (-1,), np.dtype(bool)
    if min(shape, default=0) < 0:
        raise ArgumentTypeError(
            f"a {type(wrapped).__name__} of shape {wrapped.shape!r} and dtype {wrapped.dtype!r}",
            "a shape of ints that are not negative, and a dtype of NumPy",
        )
    return shape, dtype


def object_chunks(wrapped: Any, rank: int) -> tuple[int, ...] | None:
    """The chunk extents that an object declares (Dask's tuples of tuples: the largest)."""
    declared = getattr(wrapped, "chunks", None)
    if not isinstance(declared, (tuple, list)) or len(declared) != rank or not rank:
        return None
    try:
        return tuple(
            max(1, *map(int, side)) if isinstance(side, (tuple, list)) else max(1, int(side))
            for side in declared
        )
    except (TypeError, ValueError):
        return None


def show_box(box: Box) -> str:
    """A box as it would be written between brackets."""
    return ", ".join(f"{side.start}:{side.stop}" for side in box) or "()"


def as_array(value: Any) -> Array | None:
    """The NumPy array that shares memory with an array of another library, or None.

    Raises
    ------
    ArgumentTypeError
        The object offers DLPack but not in the host's memory.
    """
    if isinstance(value, np.ndarray):
        return value
    if not hasattr(value, "__dlpack__"):
        return None
    try:
        return np.from_dlpack(value)
    except (BufferError, RuntimeError, TypeError, ValueError) as error:
        raise ArgumentTypeError(
            f"a {type(value).__name__} that NumPy cannot take over: {error}",
            "an array in host memory", "copy it to the host first",
        ) from error  # fmt: skip


def require_match(
    name: str,
    found: tuple[tuple[int, ...], np.dtype[Any]],
    shape: tuple[int, ...],
    dtype: np.dtype[Any],
) -> None:
    """Raise `ShapeError` or `DTypeError` where a target is not what will be written."""
    if found[0] != shape:
        raise ShapeError(f"the target {name} has shape {found[0]}", f"{shape}, the result's")
    if found[1] != dtype:
        raise DTypeError(
            f"the target {name} holds {found[1]}", f"{dtype}, the result's", "use astype first"
        )
