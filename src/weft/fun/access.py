"""Array accesses of the interpreter: bounds, boundaries, slices.

Index arrays here are ints, or int64 arrays that broadcast together.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np

from weft.errors import OutOfBoundsError, Place

Numbers: TypeAlias = Any  # int, or an int64 ndarray
Mask: TypeAlias = Any  # None (all active), or a bool ndarray


def inside(
    index: Numbers, extent: Numbers, mask: Mask, array: str, axis: int, place: Place | None
) -> Numbers:
    """The index, checked where active, and made safe where not."""
    if type(index) is int and type(extent) is int:
        if 0 <= index < extent:
            return index
        if mask is None or mask.any():
            raise out_of_bounds(index, extent, array, axis, place)
        return 0
    bad = np.logical_or(np.less(index, 0), np.greater_equal(index, extent))
    if not bad.any():
        return index
    active = bad if mask is None else np.logical_and(bad, mask)
    if active.any():
        where = np.unravel_index(int(np.argmax(active)), active.shape)
        first = np.broadcast_to(index, active.shape)[where]
        limit = np.broadcast_to(extent, active.shape)[where]
        raise out_of_bounds(int(first), int(limit), array, axis, place)
    return np.where(bad, 0, index)


def out_of_bounds(
    index: int, extent: int, array: str, axis: int, place: Place | None
) -> OutOfBoundsError:
    return OutOfBoundsError(
        f"index {index} is out of bounds for axis {axis} of {array}, whose extent is {extent}",
        f"0 <= index < {extent}",
        "",
        place,
    )


def reflect_index(kind: str, index: Numbers, lower: Numbers, upper: Numbers) -> Numbers:
    """The index inside `lower <= index < upper` whose element `numpy.pad` would repeat."""
    extent = np.maximum(np.subtract(upper, lower), 1)
    at = np.subtract(index, lower)
    match kind:
        case "edge":
            at = np.clip(at, 0, extent - 1)
        case "wrap":
            at = np.mod(at, extent)
        case "symmetric":
            at = np.mod(at, 2 * extent)
            at = np.minimum(at, 2 * extent - 1 - at)
        case "reflect":
            period = np.maximum(2 * extent - 2, 1)
            at = np.mod(at, period)
            at = np.minimum(at, period - at)
            at = np.where(extent == 1, 0, at)
        case _:
            raise AssertionError(kind)
    return np.add(at, lower)


def span_slice(start: int, extent: int, step: int) -> slice:
    """The slice of the elements start + k * step for 0 <= k < extent."""
    if extent == 0:
        return slice(0, 0, 1)
    stop = start + step * extent
    if step < 0 and stop < 0:
        return slice(start, None, step)
    return slice(start, stop, step)


def span_inside(start: int, extent: int, step: int, limit: int) -> bool:
    """Whether all elements of a span lie in a dimension of extent `limit`."""
    if extent == 0:
        return True
    last = start + step * (extent - 1)
    return 0 <= start < limit and 0 <= last < limit


def along(extent: int, axis: int, rank: int) -> np.ndarray[Any, np.dtype[np.int64]]:
    """0, 1, ..., extent - 1 along one axis of `rank`."""
    index = np.arange(extent)
    return index if rank == 1 else index.reshape((1,) * axis + (extent,) + (1,) * (rank - axis - 1))


def batch_index(shape: Sequence[int], rank: int) -> list[Numbers]:
    """For each leading dimension in `shape`, an index that goes along it (0 where it is 1)."""
    return [0 if n == 1 else along(n, axis, rank) for axis, n in enumerate(shape)]
