"""Packed copies of parts of memory."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
from numpy.lib.stride_tricks import as_strided

from weft.transfer.trapezoids import PackedRows
from weft.transfer.unions import Union

NDArray: TypeAlias = npt.NDArray[Any]


class _Interface:
    """Memory as NumPy takes it from others; it keeps the arrays alive whose memory it is."""

    def __init__(self, arrays: list[NDArray], low: int, count: int) -> None:
        self.arrays = arrays
        self.__array_interface__ = {
            "data": (low, True), "shape": (count,), "typestr": arrays[0].dtype.str, "version": 3,
        }  # fmt: skip


def bounds(array: NDArray) -> tuple[int, int]:
    """The addresses of an array's first byte, and of the one after its last."""
    return np.lib.array_utils.byte_bounds(array)


def memory_of(arrays: list[NDArray]) -> NDArray:
    """All elements between the first and the last of arrays that share memory, read-only."""
    spans = [bounds(array) for array in arrays]
    low, high = min(s for s, _ in spans), max(e for _, e in spans)
    return np.asarray(_Interface(arrays, low, (high - low) // arrays[0].itemsize))


def pack(union: Union | PackedRows, memory: NDArray, empty: Callable[..., NDArray]) -> NDArray:
    """The elements of a union in its shape, addresses counted from the beginning of `memory`.

    Where they lie one after another this is a view of the memory, else a copy in what
    `empty(shape, dtype)` gives. What the union has beyond `memory` no access meets; there it has
    anything.
    """
    if isinstance(union, PackedRows):
        return union.pack(memory, empty)
    extents, strides = (*union.extents, len(union.residues)), (*union.strides, 1)
    runs = union.residues == tuple(range(len(union.residues)))
    if runs and 0 <= union.base <= memory.size - union.count and _is_contiguous(extents, strides):
        return memory[union.base : union.base + union.count].reshape(union.shape)
    out = empty(union.shape, memory.dtype)
    parts = out.reshape(extents)
    if runs:
        _copy(union.base, extents, strides, memory, parts)
        return out
    for number, residue in enumerate(union.residues):
        _copy(union.base + residue, union.extents, union.strides, memory, parts[..., number])
    return out


def _is_contiguous(extents: tuple[int, ...], strides: tuple[int, ...]) -> bool:
    below = 1
    for extent, stride in zip(reversed(extents), reversed(strides), strict=True):
        if extent > 1 and stride != below:
            return False
        below *= extent
    return True


def _copy(
    base: int, extents: tuple[int, ...], strides: tuple[int, ...], memory: NDArray, out: NDArray
) -> None:
    if not extents:
        out[...] = memory[base]
        return
    below = sum(s * (u - 1) for s, u in zip(strides[1:], extents[1:], strict=True))
    first = max(0, -(base // strides[0]))  # rows before lie outside, in part at least
    last = min(extents[0], (memory.size - 1 - base - below) // strides[0] + 1)
    first, last = min(first, extents[0]), max(last, min(first, extents[0]))
    if last > first:
        start = memory[base + first * strides[0] :]
        steps = tuple(stride * memory.itemsize for stride in strides)
        np.copyto(
            out[first:last], as_strided(start, (last - first, *extents[1:]), steps, writeable=False)
        )
    for rows in (range(first), range(last, extents[0])):
        if len(rows):
            at = base + strides[0] * np.arange(rows.start, rows.stop)
            for stride, extent in zip(strides[1:], extents[1:], strict=True):
                at = at[..., None] + stride * np.arange(extent)
            out[rows.start : rows.stop] = np.take(memory, at, mode="clip")
