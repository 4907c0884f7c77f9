"""Row-major arrays inside files: boxes of them read and written without intermediate copies.

A box of an array is a set of equally long *runs* of consecutive bytes in the file and a set of
*pieces* of consecutive bytes in memory. Runs and pieces are moved by vectored system calls,
which neither fault pages in nor hold the GIL. Where they would be too short for that, whole
spans are read and NumPy picks; a target is mapped and NumPy copies.
"""

from __future__ import annotations

import ctypes
import errno
import itertools
import math
import mmap
import os
from collections.abc import Callable, Iterator
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from weft.plan.protocols import Box
from weft.records import dataclass

Array: TypeAlias = npt.NDArray[Any]

Move: TypeAlias = Callable[[int, list[Array], int], int]
"""`os.preadv` or `os.pwritev`: descriptor, buffers and offset to the number of bytes moved."""

_VECTOR = 1024  # buffers in one system call: Linux's IOV_MAX
_SHORTEST_PIECE = 512  # bytes; below this whole spans are quicker than a system call's vector
_SPAN = 1 << 18  # bytes that are read at once where pieces are short: they stay in the cache


@dataclass(frozen=True, slots=True)
class Extent:
    """Where a row-major array lies in a file: bytes from `offset`."""

    offset: int
    shape: tuple[int, ...]
    dtype: np.dtype[Any]

    @property
    def nbytes(self) -> int:
        return math.prod(self.shape) * self.dtype.itemsize

    @property
    def end(self) -> int:
        return self.offset + self.nbytes


class ShortReadError(OSError):
    """The file ended before the box did."""


def box_shape(box: Box) -> tuple[int, ...]:
    """The extents of a box."""
    return tuple(side.stop - side.start for side in box)


def window(array: Array, index: tuple[slice | int, ...]) -> Array:
    """The view of an array at an index, an array even where no dimension is left."""
    key: Any = (*index, ...)
    found: Array = array[key]
    return found


def whole(shape: tuple[int, ...]) -> Box:
    """The box that covers an array."""
    return tuple(slice(0, extent) for extent in shape)


def row_major_strides(shape: tuple[int, ...], itemsize: int) -> tuple[int, ...]:
    """Byte strides of a contiguous row-major array."""
    strides = [itemsize] * len(shape)
    for axis in range(len(shape) - 2, -1, -1):
        strides[axis] = strides[axis + 1] * max(shape[axis + 1], 1)
    return tuple(strides)


def read_box(descriptor: int, extent: Extent, box: Box, out: Array) -> None:
    """Fill `out` with a box of the array that lies in an open file.

    Raises
    ------
    ShortReadError
        The file ends inside the box.
    """
    if not _transfer(descriptor, extent, box, out, _preadv):
        strides = row_major_strides(extent.shape, extent.dtype.itemsize)
        read_strided(descriptor, extent.offset, strides, extent.dtype, box, out)


def read_strided(
    descriptor: int, first: int, strides: tuple[int, ...], dtype: np.dtype[Any], box: Box,
    out: Array,
) -> None:  # fmt: skip
    """Fill `out` with a box of an array whose elements lie at any byte strides from `first`.

    What the box spans is read in parts of at most `_SPAN` bytes, and what it does not need of
    them is passed over. (Touching mapped pages instead would be a bus error, and the end of
    the process, if the file shrank meanwhile.)

    Raises
    ------
    ShortReadError
        The file ends inside the box.
    """
    if out.size == 0:
        return
    steps = [(side.stop - 1 - side.start) * by for side, by in zip(box, strides, strict=True)]
    origin = first + sum(side.start * by for side, by in zip(box, strides, strict=True))
    low = origin + sum(step for step in steps if step < 0)
    span = origin + sum(step for step in steps if step > 0) + dtype.itemsize - low
    if span > _SPAN and out.size > 1:
        axis = max(range(out.ndim), key=lambda d: abs(steps[d]))
        middle = (box[axis].start + box[axis].stop) // 2
        for part in (slice(box[axis].start, middle), slice(middle, box[axis].stop)):
            piece = (*box[:axis], part, *box[axis + 1 :])
            there = slice(part.start - box[axis].start, part.stop - box[axis].start)
            into = out[(slice(None),) * axis + (there,)]
            read_strided(descriptor, first, strides, dtype, piece, into)
        return
    data = os.pread(descriptor, span, low)
    if len(data) < span:
        raise ShortReadError(errno.ENODATA, "the file ends inside the array")
    np.copyto(out, np.ndarray(out.shape, dtype, data, origin - low, strides))


def write_vector(descriptor: int, buffers: list[Array], offset: int) -> int:
    """Write buffers one behind the other; gives the bytes that were written."""
    return os.pwritev(descriptor, list[Any](buffers), offset)


def write_box(
    descriptor: int, extent: Extent, box: Box, data: Array, move: Move = write_vector
) -> None:
    """Write `data` as a box of the array that lies in an open file.

    The file must already be as long as the array's end. `move`: what writes.
    """
    if not _transfer(descriptor, extent, box, data, move):
        _reserve(descriptor, extent, box)
        np.copyto(window(map_array(descriptor, extent, writable=True), box), data)


def extend(descriptor: int, size: int) -> None:
    """Make a file `size` bytes long, with its disk space reserved where that is cheap.

    Writing into reserved space is a third faster than into a hole, and a full file system
    is found before anything is computed. (`os.posix_fallocate` would write to every block
    where the file system knows no reservation.)
    """
    if size > 0 and _fallocate is not None:
        if _fallocate(descriptor, 0, ctypes.c_int64(0), ctypes.c_int64(size)) == 0:
            return
        number = ctypes.get_errno()
        if number not in (errno.EOPNOTSUPP, errno.ENOSYS, errno.EINVAL):
            raise OSError(number, os.strerror(number))
    os.ftruncate(descriptor, size)


_fallocate = getattr(ctypes.CDLL(None, use_errno=True), "fallocate64", None)


def _reserve(descriptor: int, extent: Extent, box: Box) -> None:
    """Have disk space for a box, since a mapped write without it kills the process."""
    strides = row_major_strides(extent.shape, extent.dtype.itemsize)
    first = sum(side.start * stride for side, stride in zip(box, strides, strict=True))
    last = sum((side.stop - 1) * stride for side, stride in zip(box, strides, strict=True))
    length = last - first + extent.dtype.itemsize
    os.posix_fallocate(descriptor, extent.offset + first, length)


def map_array(descriptor: int, extent: Extent, *, writable: bool) -> Array:
    """The array of an open file as shared mapped memory (it outlives the descriptor)."""
    strides = row_major_strides(extent.shape, extent.dtype.itemsize)
    return map_strided(descriptor, extent, strides, extent.offset, writable=writable)


def map_strided(
    descriptor: int, extent: Extent, strides: tuple[int, ...], first: int, *, writable: bool
) -> Array:
    """A strided array over the bytes of `extent`; element [0, ..., 0] at byte `first`."""
    if extent.nbytes == 0:
        return np.empty(extent.shape, extent.dtype)
    start = extent.offset - extent.offset % mmap.ALLOCATIONGRANULARITY
    access = mmap.ACCESS_WRITE if writable else mmap.ACCESS_READ
    size = os.fstat(descriptor).st_size
    if size < extent.end:
        raise ShortReadError(errno.ENODATA, f"{size} bytes, {extent.end} needed")
    mapped = mmap.mmap(descriptor, extent.end - start, access=access, offset=start)
    return np.ndarray(extent.shape, extent.dtype, mapped, first - start, strides)


def _preadv(descriptor: int, buffers: list[Array], offset: int) -> int:
    return os.preadv(descriptor, list[Any](buffers), offset)


def _transfer(
    descriptor: int,
    extent: Extent,
    box: Box,
    array: Array,
    move: Move,
) -> bool:
    """Move a box by system calls; False where its pieces are too short or need converting."""
    if array.size == 0:
        return True
    if array.dtype != extent.dtype:
        return False
    extents = box_shape(box)
    outer = max(_file_runs(extent.shape, extents), _memory_pieces(array))
    piece = math.prod(extents[outer:]) * array.itemsize
    if piece < _SHORTEST_PIECE and outer:
        return False
    for offset, buffers in _vectors(extent, box, array, outer, piece):
        _move_all(descriptor, buffers, offset, move)
    return True


def _file_runs(shape: tuple[int, ...], extents: tuple[int, ...]) -> int:
    """The number of outer dimensions, one run of the box for each index of them."""
    axis = len(shape)
    while axis > 0 and (axis == len(shape) or extents[axis] == shape[axis]):
        axis -= 1
    return axis


def _memory_pieces(array: Array) -> int:
    """The number of outer dimensions, one contiguous piece of the array for each index."""
    expected = array.itemsize
    axis = array.ndim
    while axis > 0 and (array.shape[axis - 1] == 1 or array.strides[axis - 1] == expected):
        axis -= 1
        expected *= array.shape[axis]
    return axis


def _vectors(
    extent: Extent, box: Box, array: Array, outer: int, piece: int
) -> Iterator[tuple[int, list[Array]]]:
    """File offsets, each with the pieces that follow one another from there."""
    strides = row_major_strides(extent.shape, extent.dtype.itemsize)
    origin = extent.offset + sum(s.start * b for s, b in zip(box, strides, strict=True))
    counts = array.shape[:outer]
    pieces = _bytes(array, (*counts, piece), (*array.strides[:outer], 1))
    if outer == 0:
        yield origin, [pieces]
        return
    step = strides[outer - 1]
    start, buffers = origin, list[Array]()
    for index in itertools.product(*map(range, counts[:-1])):
        offset = origin + sum(i * b for i, b in zip(index, strides, strict=False))
        rows = list(pieces[index])
        if step != piece:
            yield from ((offset + number * step, [row]) for number, row in enumerate(rows))
            continue
        if offset != start + len(buffers) * piece or len(buffers) >= _VECTOR:
            yield from _vectors_of(start, buffers, piece)
            start, buffers = offset, []
        buffers += rows
    yield from _vectors_of(start, buffers, piece)


def _vectors_of(start: int, buffers: list[Array], piece: int) -> Iterator[tuple[int, list[Array]]]:
    """Pieces that follow one another, in lists that one system call takes."""
    for first in range(0, len(buffers), _VECTOR):
        yield start + first * piece, buffers[first : first + _VECTOR]


def _bytes(array: Array, shape: tuple[int, ...], strides: tuple[int, ...]) -> Array:
    """The bytes of an array whose inner dimensions are contiguous."""
    first_element: Any = (0,) * array.ndim + (None,)
    return np.lib.stride_tricks.as_strided(array[first_element].view(np.uint8), shape, strides)


def _move_all(descriptor: int, buffers: list[Array], offset: int, move: Move) -> None:
    """One vectored call, repeated until all of it is moved."""
    while buffers:
        moved = move(descriptor, buffers, offset)
        if moved == 0:
            raise ShortReadError(errno.ENODATA, "the file ends inside the array")
        offset += moved
        while buffers and moved >= buffers[0].size:
            moved -= buffers.pop(0).size
        if moved:
            buffers[0] = buffers[0][moved:]


def chunks_of(box: Box, chunks: tuple[int, ...]) -> Iterator[tuple[tuple[int, ...], Box, Box]]:
    """The chunks that a box touches: index, the part inside the chunk, the part inside the box."""
    ranges = [
        range(side.start // chunk, -(-side.stop // chunk)) if side.stop > side.start else range(0)
        for side, chunk in zip(box, chunks, strict=True)
    ]
    for index in itertools.product(*ranges):
        inside, here = list[slice](), list[slice]()
        for number, side, chunk in zip(index, box, chunks, strict=True):
            low = max(side.start, number * chunk)
            high = min(side.stop, (number + 1) * chunk)
            inside.append(slice(low - number * chunk, high - number * chunk))
            here.append(slice(low - side.start, high - side.start))
        yield index, tuple(inside), tuple(here)
