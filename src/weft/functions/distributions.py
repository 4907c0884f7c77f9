"""NumPy's functions of how values are distributed: quantiles, covariances."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from weft.array import Array, asarray
from weft.errors import ArgumentError, ShapeError, user_place
from weft.frontend import lengths
from weft.frontend.guards import forget_guards
from weft.functions.arguments import axes_of, inexact, length_of, one_axis
from weft.functions.creation import full
from weft.functions.data_types import astype, result_type
from weft.functions.elementwise import (
    clip,
    conj,
    floor,
    isnan,
    logical_or,
    maximum,
    minimum,
    sqrt,
    where,
)
from weft.functions.joining import diag
from weft.functions.manipulation import concat, expand_dims, moveaxis, permute_dims
from weft.functions.order_statistics import Neighbours, neighbours, with_known_lengths
from weft.functions.searching import take
from weft.functions.sorting import partitioned
from weft.functions.statistical import max as greatest
from weft.functions.statistical import mean
from weft.functions.statistical import min as least
from weft.functions.statistical import sum as total

__all__ = [
    "average", "corrcoef", "cov", "median", "percentile", "ptp", "quantile",
]  # fmt: skip


def average(a: Any, axis: Any = None, weights: Any = None, *, keepdims: bool = False) -> Array:
    """The mean along axes, or that of weighted elements.

    Parameters
    ----------
    a : array
    axis : int or tuple of int, optional
        All axes by default.
    weights : array, optional
        Of the shape of a, or of the lengths of the axes in their order.
    keepdims : bool

    Raises
    ------
    ShapeError
        For weights of another shape.
    """
    array = inexact(a)
    if weights is None:
        return mean(array, axis=axis, keepdims=keepdims)
    factors = _spread(asarray(weights), array, axis)
    summed = total(array * factors, axis=axis, keepdims=keepdims)
    return summed / total(inexact(factors), axis=axis, keepdims=keepdims)


def _spread(weights: Array, array: Array, axis: Any) -> Array:
    """Weights of all elements; those along some axes with a length of 1 along the others."""
    if lengths.agree_all(weights._node.shape, array._node.shape):
        return weights
    given = () if axis is None else axis if isinstance(axis, tuple | list) else (axis,)
    axes = [one_axis(one, array.ndim) for one in given]
    if not axes or not lengths.agree_all(
        weights._node.shape, [array._node.shape[k] for k in axes]
    ):
        forget_guards()
        raise ShapeError(
            f"weights of shape {weights.shape}", f"{array.shape}, or the lengths of the axes",
            place=user_place(),
        )  # fmt: skip
    turned = permute_dims(weights, sorted(range(len(axes)), key=axes.__getitem__))
    return turned.reshape([n if k in axes else 1 for k, n in enumerate(array.shape)])


def ptp(a: Any, axis: Any = None, *, keepdims: bool = False) -> Array:
    """The largest less the smallest element along axes."""
    return greatest(a, axis=axis, keepdims=keepdims) - least(a, axis=axis, keepdims=keepdims)


# ---------------------------------------------------------------- quantiles


def quantile(a: Any, q: Any, axis: Any = None, *, keepdims: bool = False) -> Array:
    """Values below which parts q of the elements lie, between neighbours linearly.

    Parameters
    ----------
    a : array, real
    q : scalar or vector
        From 0 to 1.
    axis : int or tuple of int, optional
        All elements by default.
    keepdims : bool

    Returns
    -------
    Array
        Along a vector q first. NaN where there is one.

    Raises
    ------
    ArgumentError
        For a part below 0 or above 1, where q is no lazy array.
    """
    require_parts(q)
    rows, kept = together(a, axis)
    length = rows._node.shape[-1]
    parts = asarray(q)
    known = None
    is_number = type(q) in (int, float)  # of any dtype, though places are of float64
    if is_number and length.is_constant:
        known = math.floor(float(q) * (length.value - 1))
    last = length_of(rows.shape[-1]) - 1
    place = astype(parts, "float64") * last
    low = astype(floor(place), "int64")
    high = minimum(low + 1, last)
    apart = (place - floor(place)).reshape((*parts.shape, *(1,) * (rows.ndim - 1)))
    dtype = rows.dtype if is_number else result_type(parts.dtype, rows.dtype)
    near = neighbours(rows, low if known is None else known)
    if near is None:
        ordered = _ordered(rows, [low, high, last])
        near = take(ordered, low, axis=0), take(ordered, high, axis=0), ordered[-1]
    below, above, one = near
    found = between(below, above, apart, dtype)
    found = where(isnan(one), one, found)
    return expand_dims(found, tuple(parts.ndim + k for k in kept)) if keepdims else found


def require_parts(q: Any) -> None:
    """Refuse parts of the elements that there are not, where they are known."""
    if not isinstance(q, Array) and not np.all((np.asarray(q) >= 0) & (np.asarray(q) <= 1)):
        raise ArgumentError(f"a quantile at {q}", "parts from 0 to 1", place=user_place())


def between(below: Array, above: Array, apart: Array, dtype: Any) -> Array:
    """What lies a part (in float64) of the way from one to the other, in a dtype."""
    # from the nearer one, so that between equal ones there is no other
    step, near, far = above - below, astype(apart, dtype), astype(1 - apart, dtype)
    found = where(apart < 0.5, below + step * near, above - step * far)
    return where(logical_or(apart == 0, below == above), below, found)  # infinite ones, too


def together(a: Any, axis: Any) -> tuple[Array, tuple[int, ...]]:
    """Rows of the elements along axes, and the axes."""
    array = inexact(a)
    axes = axes_of(axis, array.ndim)
    array = Array(with_known_lengths(array._node, axes))
    kept = array.ndim - len(axes)
    moved = moveaxis(array, axes, tuple(range(kept, array.ndim)))
    return moved.reshape((*moved.shape[:kept], math.prod(moved.shape[kept:]))), axes


def _ordered(rows: Array, places: Sequence[Any]) -> Array:
    """Rows, along the first axis, that hold at places what they would hold in order."""
    where_to = concat([asarray(place).ravel() for place in places])
    return moveaxis(Array(partitioned(rows._node, where_to._node)), -1, 0)


def percentile(a: Any, q: Any, axis: Any = None, *, keepdims: bool = False) -> Array:
    """Values below which q percent of the elements lie: as `quantile`."""
    return quantile(a, of_hundred(q), axis, keepdims=keepdims)


def of_hundred(q: Any) -> Any:
    """Percent as parts."""
    return np.asarray(q) / 100 if isinstance(q, tuple | list) else q / 100


def median(a: Any, axis: Any = None, *, keepdims: bool = False) -> Array:
    """The middle of the ordered elements along axes, or the mean of the two there; NaN of none."""
    rows, kept = together(a, axis)
    if lengths.is_just(rows._node.shape[-1], 0):
        found = full(rows.shape[:-1], math.nan, dtype=rows.dtype)
    else:
        below, above, one = _middle(rows)
        found = where(below == above, below, (below + above) / 2)
        found = where(isnan(one), one, found)
    return expand_dims(found, kept) if keepdims else found


def _middle(rows: Array) -> Neighbours:
    """The element in the middle of rows, or the two; and NaN if there is one."""
    length = rows.shape[-1]
    middle = (length - 1) // 2, length // 2
    known = rows._node.shape[-1]
    if known.is_constant:
        found = neighbours(rows, (known.value - 1) // 2)
        odd: Any = known.value % 2 == 1
    else:
        found = neighbours(rows, length_of(middle[0]))
        odd = length_of(length) % 2 == 1
    if found is None:
        ordered = _ordered(rows, [length_of(place) for place in (*middle, length - 1)])
        return ordered[middle[0]], ordered[middle[1]], ordered[-1]
    below, above, one = found
    return below, where(odd, below, above), one


# ---------------------------------------------------------------- covariances


def cov(
    m: Any, y: Any = None, rowvar: bool = True, bias: bool = False, ddof: int | None = None
) -> Array:
    """The covariances of variables.

    Parameters
    ----------
    m : array
        Of one dimension or two: variables by samples, or samples by variables.
    y : array, optional
        Further variables, of as many samples.
    rowvar : bool
        Whether each row is a variable, and not each column.
    bias : bool
        Whether sums are divided by the number of samples, and not by one less.
    ddof : int, optional
        What is subtracted from the number of samples, in place of `bias`.

    Raises
    ------
    ShapeError
        For more than two dimensions.
    """
    given = [asarray(variables) for variables in (m, y) if variables is not None]
    for array in given:
        if array.ndim > 2:
            raise ShapeError(f"cov of {array.ndim} dimensions", "1 or 2", place=user_place())
    exact = result_type(*given, "float64")
    parts = [
        astype(array.reshape((1, -1)) if array.ndim < 2 else array if rowvar else array.T, exact)
        for array in given
    ]
    rows = parts[0] if y is None else concat(parts, axis=0)
    apart = rows - mean(rows, axis=1, keepdims=True)
    less = (0 if bias else 1) if ddof is None else ddof
    samples = astype(maximum(length_of(rows.shape[1]) - less, 0), apart.dtype)
    found = apart @ conj(apart.T) / samples
    return found.reshape(()) if rows.shape[0] == 1 else found


def corrcoef(x: Any, y: Any = None, rowvar: bool = True) -> Array:
    """The correlation coefficients of variables: as `cov`, of spreads of 1."""
    covariances = cov(x, y, rowvar)
    if covariances.ndim == 0:
        return covariances / covariances
    spreads = sqrt(diag(covariances).real)
    found = covariances / spreads[:, None] / spreads[None, :]
    return clip(found, -1, 1) if found.dtype.kind == "f" else found
