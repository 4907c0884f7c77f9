"""What masks select, computed where it is: how many elements that are, no program knows."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from weft.array import Array
from weft.functions.data_types import astype
from weft.functions.elementwise import abs, sqrt, where
from weft.functions.statistical import all, any, count_nonzero, greatest, least, max, min, prod, sum


def filled(array: Array, mask: Array, value: object) -> Array:
    """The array with a value where the mask selects nothing."""
    return where(mask, array, value)


def _mean(array: Array, mask: Array) -> Array:
    array = _inexact(array)
    return sum(filled(array, mask, 0)) / astype(count_nonzero(mask), array.real.dtype)


def _variance(array: Array, mask: Array) -> Array:
    """By two passes, as NumPy's."""
    array = _inexact(array)
    apart = abs(array - _mean(array, mask))
    return _mean(apart * apart, mask)


def _inexact(array: Array) -> Array:
    return array if array.dtype.kind in "fc" else astype(array, np.dtype(np.float64))


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
    "mean": _mean,
    "var": _variance,
    "std": lambda array, mask: sqrt(_variance(array, mask)),
}
"""Of an array and a mask of its shape; the greatest and least of nothing are the dtype's ends."""
