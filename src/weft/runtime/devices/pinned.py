"""Page-locked pieces of host memory, which copies to and from a GPU take in turns.

Arrays are copied through them part by part, so that a slot takes no more of the host than a few
pieces, however large the arrays are.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

NDArray: TypeAlias = npt.NDArray[Any]

IN_TURN = 3
"""Pieces that a slot copies through: one that is filled, one on its way, and one that is done."""

_LINE = 64  # bytes that the beginnings of two copies are apart, at least


def piece_bytes(limit: int) -> int:
    """Bytes of a piece, for a limit to the host's memory: copies of more are no quicker."""
    return max(64 << 10, min(8 << 20, limit // 128 // _LINE * _LINE))


def view_of(buffer: Any, count: int) -> NDArray:
    """The first bytes of page-locked memory, which ends when the last view of it does."""
    memory: Any = (ctypes.c_uint8 * count).from_address(int(buffer.handle))
    memory.buffer = buffer  # errors keep some views
    return np.ndarray((count,), np.uint8, memory)


@dataclass(slots=True)
class _Piece:
    buffer: Any
    view: NDArray
    filled: int = 0
    left: Any = None  # the event after the copies that were queued of it


class Ring:
    """Pieces that are filled one after another, and again when their copies are done.

    Parameters
    ----------
    allocate : function
        allocate(bytes) gives page-locked memory.
    mark : function
        mark() gives an event after all that was queued.
    """

    def __init__(self, allocate: Callable[[int], Any], mark: Callable[[], Any]) -> None:
        self._allocate, self._mark = allocate, mark
        self._pieces: list[_Piece] = []  # the one that is filled comes last
        self._bytes = 0

    @property
    def bytes(self) -> int:
        """What the pieces take together."""
        return len(self._pieces) * self._bytes

    def room(self, count: int, piece: int) -> tuple[Any, int, NDArray]:
        """So many bytes of a piece (of `piece` bytes): its memory, where they begin, and a view.

        They are taken until as many as fill two pieces have been asked for, and then until the
        copies that were queued before have been done.
        """
        if (
            self._bytes != piece or not self._pieces  # there was no memory for any
            or self._pieces[-1].filled + count > piece
        ):  # fmt: skip
            self._turn(piece)
        last = self._pieces[-1]
        begin = last.filled
        last.filled = begin + -(-count // _LINE) * _LINE
        return last.buffer, begin, last.view[begin : begin + count]

    def _turn(self, piece: int) -> None:
        if self._pieces:
            self._pieces[-1].left = self._mark()
        if self._bytes != piece:  # the limit is another one
            for each in self._pieces:
                each.left.sync()
            self.release()
            self._bytes = piece
        if len(self._pieces) < IN_TURN:
            buffer = self._allocate(piece)
            self._pieces.append(_Piece(buffer, view_of(buffer, piece)))
            return
        first = self._pieces.pop(0)
        first.left.sync()
        first.filled = 0
        self._pieces.append(first)

    def release(self) -> None:
        """Give the memory back. Requires that nothing is copied from or to it."""
        self._pieces.clear()
        self._bytes = 0


def parts(array: NDArray, most: int) -> Iterator[tuple[int, NDArray]]:
    """An array in parts of at most so many bytes: where each begins, row-major, and itself."""
    if array.nbytes <= most:
        yield 0, array
        return
    if array.flags.c_contiguous:
        flat = array.reshape(-1).view(np.uint8)
        for begin in range(0, len(flat), most):
            yield begin, flat[begin : begin + most]
        return
    row = array[:1].nbytes
    rows = max(most // row, 1)
    for first in range(0, len(array), rows):
        inner = array[first : first + rows] if row <= most else array[first]
        for begin, part in parts(inner, most):
            yield first * row + begin, part
