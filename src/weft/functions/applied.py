"""NumPy's functions that apply others along axes, or to segments; order by several keys."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from weft.array import Array, asarray
from weft.errors import (
    ArgumentError,
    OutOfBoundsError,
    ShapeError,
    TracingError,
    UnsupportedError,
    user_place,
)
from weft.functions import statistical
from weft.functions.arguments import NumPyOnlyError, length_of, one_axis
from weft.functions.combinators import map as mapped
from weft.functions.control import fori_loop
from weft.functions.data_types import astype
from weft.functions.manipulation import expand_dims, moveaxis
from weft.functions.searching import take, take_along_axis
from weft.functions.sorting import argsort

__all__ = ["apply_along_axis", "apply_over_axes", "compress", "extract", "lexsort"]


def apply_along_axis(
    func1d: Callable[..., Any], axis: int, arr: Any, /, *args: Any, **kwargs: Any
) -> Array:
    """What a function gives of each vector along an axis, in its place.

    Parameters
    ----------
    func1d : callable
        Of a vector, and the further arguments; gives a scalar or an array. It is traced once.
    axis : int
    arr : array
    """
    array = asarray(arr)
    along = one_axis(axis, array.ndim)
    rows = moveaxis(array, along, -1)
    others = rows.shape[:-1]
    flat = rows.reshape((math.prod(others), rows.shape[-1]))
    try:
        found = mapped(lambda row: asarray(func1d(row, *args, **kwargs)), flat)
    except (TracingError, UnsupportedError) as error:
        if array._node.abstract:
            raise
        raise NumPyOnlyError("a function that cannot be traced", str(error)) from error
    made = found.reshape((*others, *found.shape[1:]))
    places = range(len(others), made.ndim)
    return moveaxis(made, tuple(places), tuple(range(along, along + len(places))))


def apply_over_axes(func: Callable[..., Any], a: Any, axes: Any) -> Array:
    """What a function of an array and an axis gives, axis after axis, with as many dimensions.

    Raises
    ------
    ShapeError
        For a function that gives neither as many dimensions nor one less.
    """
    array = asarray(a)
    for axis in np.atleast_1d(axes).tolist():
        along = one_axis(axis, array.ndim)
        found = asarray(func(array, along))
        if found.ndim != array.ndim:
            found = expand_dims(found, along)
        if found.ndim != array.ndim:
            raise ShapeError(
                f"a function that gives {found.ndim - 1} dimensions of {array.ndim}",
                "as many, or one less", place=user_place(),
            )  # fmt: skip
        array = found
    return array


def compress(condition: Any, a: Any, axis: int | None = None) -> Array:
    """Sub-arrays along an axis where a condition holds; elements, where no axis is given.

    Raises
    ------
    ShapeError
        For a condition of other than one dimension.
    """
    array = asarray(a)
    if axis is None:
        array, axis = array.ravel(), 0
    along = one_axis(axis, array.ndim)
    held = condition if isinstance(condition, Array) else np.asarray(condition)
    if held.ndim != 1:
        raise ShapeError(
            f"a condition of {held.ndim} dimensions", "one dimension", place=user_place()
        )
    if not isinstance(held, Array):
        return take(array, np.flatnonzero(held), axis=along)
    whole: tuple[Any, ...] = (slice(None),) * along
    short = array[(*whole, slice(None, held.shape[0]))]  # NumPy's conditions may be shorter
    return short[(*whole, astype(held, "bool"))]


def extract(condition: Any, arr: Any) -> Array:
    """The elements where a condition holds, of as many elements."""
    held = asarray(condition).ravel()
    return asarray(arr).ravel()[astype(held, "bool")]


def lexsort(keys: Any, axis: int = -1) -> Array:
    """The indices that sort by the last key, where that is equal by the one before it, and so on.

    Raises
    ------
    ArgumentError
        For no keys.
    """
    given = [asarray(key) for key in keys]
    if not given:
        raise ArgumentError("no keys", "one or more", place=user_place())
    if not given[0].ndim:
        return asarray(np.int64(0))
    order = argsort(given[0], axis=axis)
    for key in given[1:]:
        again = argsort(take_along_axis(key, order, axis=axis), axis=axis)
        order = take_along_axis(order, again, axis=axis)
    return order


SEGMENTED = frozenset({
    "add", "bitwise_and", "bitwise_or", "bitwise_xor", "logical_and", "logical_or", "maximum",
    "minimum", "multiply",
})  # fmt: skip
"""The ufuncs of which Weft has `reduceat`."""


def reduceat(name: str, x: Any, indices: Any, axis: int = 0, dtype: Any = None) -> Array:
    """`np.add.reduceat` and its kin: what lies between each index and the next, reduced.

    Raises
    ------
    OutOfBoundsError
        For indices outside of the axis, where both are known.
    ShapeError
        For indices of other than one dimension.
    """
    from weft import functions

    array, starts = asarray(x), asarray(indices)
    along = one_axis(axis, array.ndim)
    if starts.ndim != 1:
        raise ShapeError(
            f"indices of {starts.ndim} dimensions", "one dimension", place=user_place()
        )
    length = array._node.shape[along]
    if not isinstance(indices, Array) and not length.symbols:
        outside = [k for k in np.ravel(indices).tolist() if not 0 <= k < length.value]
        if outside:
            raise OutOfBoundsError(
                f"a segment at {outside[0]} of {length.value} elements", "a place inside",
                place=user_place(),
            )  # fmt: skip
    if dtype is not None:
        array = astype(array, dtype)
    elif name in ("add", "multiply"):  # as NumPy sums what is narrow
        array = astype(array, (statistical.sum if name == "add" else statistical.prod)(array).dtype)
    elif name.startswith("logical"):
        array = astype(array, "bool")
    rows = moveaxis(array, along, 0)
    starts = astype(starts, "int64")
    count = starts.shape[0]
    if isinstance(count, int) and count == 0:
        return moveaxis(rows[:0], 0, along)
    ends = functions.concat([starts[1:], functions.reshape(length_of(length), (1,))])
    combine = getattr(functions, name)

    def segment(start: Array, end: Array) -> Any:
        return fori_loop(start + 1, end, lambda k, found: combine(found, rows[k]), rows[start])

    return moveaxis(mapped(segment, starts, ends), 0, along)
