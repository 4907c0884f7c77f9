"""NumPy's functions that move elements to other places, and tell places in other ways."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

import numpy as np

from weft.array import Array, asarray
from weft.errors import DTypeError, ShapeError, user_place
from weft.frontend import extent as extents
from weft.frontend import layout
from weft.functions.arguments import NumPyOnlyError, one_axis, shape_of
from weft.functions.creation import arange, zeros
from weft.functions.data_types import astype
from weft.functions.elementwise import clip, remainder
from weft.functions.joining import diag
from weft.functions.manipulation import broadcast_to, concat, moveaxis
from weft.functions.searching import take

__all__ = [
    "delete", "diagflat", "insert", "ravel_multi_index", "resize", "rollaxis", "unravel_index",
]  # fmt: skip


def unravel_index(indices: Any, shape: Any, order: str = "C") -> tuple[Array, ...]:
    """Where elements are by dimensions, of which the flat places are given (and inside): int64.

    Raises
    ------
    DTypeError
        For places that are no integers.
    """
    rest = _numbers_of_places(indices)
    lengths = list(shape) if isinstance(shape, Sequence) else [shape]
    found: list[Array] = []
    for length in lengths[::-1] if order == "C" else lengths:
        found.append(rest % length)
        rest = rest // length
    return tuple(found[::-1] if order == "C" else found)


def ravel_multi_index(
    multi_index: Any, dims: Any, mode: str = "raise", order: str = "C"
) -> Array:
    """The flat places of elements, of which those by dimensions are given: int64.

    Raises
    ------
    NumPyOnlyError
        For mode="raise": whether places are inside is known when they are.
    DTypeError
        For places that are no integers.
    """
    if mode not in ("wrap", "clip"):
        raise NumPyOnlyError(f"mode={mode!r}", "clip or wrap", place=user_place())
    pairs = list(zip(map(_numbers_of_places, multi_index), dims, strict=True))
    found = asarray(np.int64(0))
    for place, length in pairs if order == "C" else pairs[::-1]:
        inside = remainder(place, length) if mode == "wrap" else clip(place, 0, length - 1)
        found = found * length + inside
    return found


def _numbers_of_places(given: Any) -> Array:
    places = asarray(given)
    if places.dtype.kind not in "iu":
        raise DTypeError(f"places of {places.dtype}", "integers", place=user_place())
    return astype(places, np.int64)


def rollaxis(a: Any, axis: int, start: int = 0) -> Array:
    """An axis moved before another."""
    array = asarray(a)
    at = one_axis(axis, array.ndim)
    to = operator.index(start)
    if not -array.ndim <= to <= array.ndim:
        raise ShapeError(f"start {start} of {array.ndim} dimensions", place=user_place())
    to += array.ndim if to < 0 else 0
    return moveaxis(array, at, to - 1 if at < to else to)


def resize(a: Any, new_shape: Any) -> Array:
    """The elements, in order, again and again, in a shape; zeros where there are none."""
    array = asarray(a).ravel()
    shape = shape_of(new_shape)
    total = extents.product(shape)
    if array.shape[0] == 0:
        return zeros(layout.values(shape), dtype=array.dtype)
    return take(array, arange(total) % array.shape[0], axis=0).reshape(layout.values(shape))


def diagflat(v: Any, k: int = 0) -> Array:
    """A matrix with all elements on a diagonal."""
    return diag(asarray(v).ravel(), k)


def _one_place(obj: Any, array: Array, axis: int, what: str) -> int:
    """A place along an axis, known now."""
    length = array.shape[axis]
    if isinstance(obj, Array) or np.ndim(obj) or isinstance(obj, slice | bool):
        raise NumPyOnlyError(f"{what} at {obj!r}", "one place", place=user_place())
    at = operator.index(obj)
    if not -length <= at <= length - (what == "delete"):
        raise IndexError(f"index {at} is out of bounds for axis {axis} with size {length}")
    return at + length if at < 0 else at


def _along(arr: Any, axis: int | None) -> tuple[Array, int]:
    array = asarray(arr)
    return (array.ravel(), 0) if axis is None else (array, one_axis(axis, array.ndim))


def _parts(array: Array, axis: int, at: int, after: int) -> tuple[Array, Array]:
    before = (slice(None),) * axis
    return array[(*before, slice(None, at))], array[(*before, slice(after, None))]


def delete(arr: Any, obj: Any, axis: int | None = None) -> Array:
    """An array without what is at one place of an axis (by default of all elements)."""
    array, along = _along(arr, axis)
    at = _one_place(obj, array, along, "delete")
    return concat(_parts(array, along, at, at + 1), axis=along)


def insert(arr: Any, obj: Any, values: Any, axis: int | None = None) -> Array:
    """An array with values before one place of an axis (by default of all elements)."""
    array, along = _along(arr, axis)
    at = _one_place(obj, array, along, "insert")
    new = asarray(values)
    if axis is None:
        new = new.ravel()
    elif new.ndim:
        raise NumPyOnlyError("insert of arrays along an axis", "a scalar", place=user_place())
    before, after = _parts(array, along, at, at)
    if axis is not None:
        lengths = [1 if k == along else n for k, n in enumerate(array.shape)]
        new = broadcast_to(new, tuple(lengths))
    return concat([before, astype(new, array.dtype), after], axis=along)
