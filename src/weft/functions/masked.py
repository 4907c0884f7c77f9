"""What masks select, computed where it is: how many elements that are, no program knows."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from weft.array import Array, asarray
from weft.functions.arguments import inexact, typed_inexact
from weft.functions.creation import arange
from weft.functions.data_types import astype
from weft.functions.elementwise import abs, isnan, maximum, sqrt, where
from weft.functions.manipulation import broadcast_to
from weft.functions.searching import argmax
from weft.functions.statistical import all, any, count_nonzero, greatest, least, max, min, prod, sum


def filled(array: Array, mask: Array, value: object) -> Array:
    """The array with a value where the mask selects nothing."""
    return where(mask, array, value)


def _first(array: Array, mask: Array, best: Array) -> Array:
    """Where among what is selected the first element is that is the best one, or NaN as that is."""
    flat, selected = array.reshape(-1), mask.reshape(-1)
    met = flat == best if array.dtype.kind in "biu" else (flat == best) | isnan(flat)
    place = argmax(selected & met)
    before = arange(flat.shape[0]) < place
    return count_nonzero(selected & before)


def mean_where(
    x: object, where: object, axis: object = None, dtype: object = None, keepdims: bool = False
) -> Array:
    """The mean, along axes, of the elements where something holds; NaN of none."""
    array, mask = _typed(x, where, dtype)
    return _mean_along(array, mask, axis, keepdims)


def var_where(
    x: object, where: object, axis: object = None, dtype: object = None,
    ddof: float = 0, keepdims: bool = False,
) -> Array:  # fmt: skip
    """The variance, along axes, of the elements where something holds: by two passes."""
    array, mask = _typed(x, where, dtype)
    apart = abs(array - _mean_along(array, mask, axis, True))
    squares = sum(filled(apart * apart, mask, 0), axis=axis, keepdims=keepdims)
    count = count_nonzero(mask, axis=axis, keepdims=keepdims)
    return squares / astype(maximum(count - ddof, 0), squares.dtype)


def std_where(
    x: object, where: object, axis: object = None, dtype: object = None,
    ddof: float = 0, keepdims: bool = False,
) -> Array:  # fmt: skip
    """The standard deviation, as `var_where`."""
    return sqrt(var_where(x, where, axis, dtype, ddof, keepdims))


MOMENTS: dict[str, Callable[..., Array]] = {"mean": mean_where, "std": std_where, "var": var_where}
"""NumPy's with `where`."""


def _typed(x: object, where: object, dtype: object) -> tuple[Array, Array]:
    array = Array(typed_inexact(x, dtype))
    return array, broadcast_to(_is_true(asarray(where)), array.shape)


def _mean_along(array: Array, mask: Array, axis: object, keepdims: bool) -> Array:
    summed = sum(filled(array, mask, 0), axis=axis, keepdims=keepdims)
    count = count_nonzero(mask, axis=axis, keepdims=keepdims)
    return summed / astype(count, array.real.dtype)


def _median(array: Array, mask: Array) -> Array:
    """NaN where any is, and of nothing, as NumPy's."""
    from weft.functions.nan_quantiles import nanmedian  # which sorts: more than sums need

    array = inexact(array)
    found = nanmedian(filled(array, mask, math.nan))
    return where(any(mask & isnan(array)), math.nan, found)


def quantile(array: Array, mask: Array, q: object) -> Array:
    """As `_median`, of a share, or of several."""
    from weft.functions.nan_quantiles import nanquantile

    array = inexact(array)
    found = nanquantile(filled(array, mask, math.nan), q)
    return where(any(mask & isnan(array)), math.nan, found)


def _is_true(array: Array) -> Array:
    return astype(array, np.dtype(bool))


REDUCTIONS: dict[str, Callable[[Array, Array], Array]] = {
    "sum": lambda array, mask: sum(filled(array, mask, 0)),
    "prod": lambda array, mask: prod(filled(array, mask, 1)),
    "any": lambda array, mask: any(mask & _is_true(array)),
    "all": lambda array, mask: all(~mask | _is_true(array)),
    "count_nonzero": lambda array, mask: count_nonzero(filled(array, mask, 0)),
    "max": lambda array, mask: max(filled(array, mask, least(array._node.dtype))),
    "min": lambda array, mask: min(filled(array, mask, greatest(array._node.dtype))),
    "argmax": lambda array, mask: _first(array, mask, REDUCTIONS["max"](array, mask)),
    "argmin": lambda array, mask: _first(array, mask, REDUCTIONS["min"](array, mask)),
    "median": _median,
    **MOMENTS,
}
"""Of an array and a mask of its shape; the greatest and least of nothing are the dtype's ends."""

ALONG: dict[str, Callable[[Array, Array, int], Array]] = {
    "sum": lambda array, mask, axis: sum(filled(array, mask, 0), axis=axis),
    "prod": lambda array, mask, axis: prod(filled(array, mask, 1), axis=axis),
    "any": lambda array, mask, axis: any(mask & _is_true(array), axis=axis),
    "all": lambda array, mask, axis: all(~mask | _is_true(array), axis=axis),
    "count_nonzero": lambda array, mask, axis: count_nonzero(filled(array, mask, 0), axis=axis),
    "max": lambda array, mask, axis: max(filled(array, mask, least(array._node.dtype)), axis=axis),
    "min": lambda array, mask, axis: min(
        filled(array, mask, greatest(array._node.dtype)), axis=axis
    ),
    **MOMENTS,
}
"""Likewise, along an axis."""
