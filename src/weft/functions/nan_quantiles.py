"""NumPy's quantiles that leave out NaN: rows are sorted, NaN last, and read where parts end."""

from __future__ import annotations

import math
from typing import Any

from weft.array import Array, asarray
from weft.frontend import lengths
from weft.functions.creation import full
from weft.functions.data_types import astype, result_type
from weft.functions.distributions import between, of_hundred, require_parts, together
from weft.functions.elementwise import floor, isnan, logical_not, maximum, minimum, where
from weft.functions.manipulation import expand_dims, moveaxis
from weft.functions.searching import take_along_axis
from weft.functions.sorting import sort
from weft.functions.statistical import count_nonzero

__all__ = ["nanmedian", "nanpercentile", "nanquantile"]


def nanquantile(a: Any, q: Any, axis: Any = None, *, keepdims: bool = False) -> Array:
    """Values below which parts q of what is not NaN lie: as `quantile`; NaN where all is.

    Parameters
    ----------
    a : array, real
    q : scalar or vector
        From 0 to 1.
    axis : int or tuple of int, optional
        All elements by default.
    keepdims : bool

    Raises
    ------
    ArgumentError
        For a part below 0 or above 1, where q is no lazy array.
    """
    require_parts(q)
    rows, kept = together(a, axis)
    parts = asarray(q)
    shape = (*parts.shape, *rows.shape[:-1])
    is_number = type(q) in (int, float)  # of any dtype, though places are of float64
    dtype = rows.dtype if is_number else result_type(parts.dtype, rows.dtype)
    if lengths.is_just(rows._node.shape[-1], 0):
        found = full(shape, math.nan, dtype=dtype)
    else:
        last = _last(rows)
        place = astype(parts, "float64").ravel() * last[..., None]
        low = astype(floor(place), "int64")
        ordered = sort(rows)
        below = take_along_axis(ordered, low, axis=-1)
        above = take_along_axis(ordered, minimum(low + 1, last[..., None]), axis=-1)
        found = between(below, above, place - floor(place), dtype)
        found = moveaxis(found, -1, 0).reshape(shape)
    return expand_dims(found, tuple(parts.ndim + k for k in kept)) if keepdims else found


def nanpercentile(a: Any, q: Any, axis: Any = None, *, keepdims: bool = False) -> Array:
    """Values below which q percent of what is not NaN lie: as `nanquantile`."""
    return nanquantile(a, of_hundred(q), axis, keepdims=keepdims)


def nanmedian(a: Any, axis: Any = None, *, keepdims: bool = False) -> Array:
    """The middle of what is not NaN, or the mean of the two there; NaN where all is."""
    rows, kept = together(a, axis)
    if lengths.is_just(rows._node.shape[-1], 0):
        found = full(rows.shape[:-1], math.nan, dtype=rows.dtype)
    else:
        last, ordered = _last(rows)[..., None], sort(rows)
        below = take_along_axis(ordered, last // 2, axis=-1)[..., 0]
        above = take_along_axis(ordered, (last + 1) // 2, axis=-1)[..., 0]
        found = where(below == above, below, (below + above) / 2)
    return expand_dims(found, kept) if keepdims else found


def _last(rows: Array) -> Array:
    """Where the last element is, of each row in order, that is not NaN; 0 where none is."""
    return maximum(count_nonzero(logical_not(isnan(rows)), axis=-1) - 1, 0)
