"""How many elements lie where."""

from __future__ import annotations

import builtins
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from weft.array import Array, asarray
from weft.config import settings
from weft.errors import ArgumentError, DTypeError, ShapeError, user_place
from weft.frontend import lengths
from weft.functions.arguments import NumPyOnlyError, inexact, length_of
from weft.functions.binary_search import searchsorted
from weft.functions.creation import linspace, zeros
from weft.functions.data_types import astype
from weft.functions.elementwise import floor, logical_and, maximum, minimum, where
from weft.functions.manipulation import expand_dims, flip, stack
from weft.functions.searching import known_values, take
from weft.functions.statistical import diff
from weft.functions.statistical import max as greatest
from weft.functions.statistical import min as least
from weft.functions.statistical import sum as total

__all__ = ["bincount", "digitize", "histogram", "histogram2d", "histogramdd"]


def histogram(
    a: Any, bins: Any = 10, range: Any = None, density: bool = False, weights: Any = None
) -> tuple[Array, Array]:
    """How many elements lie in each of the intervals between edges, the last one included.

    Parameters
    ----------
    a : array, real
    bins : int or vector
        How many equal intervals, or increasing edges.
    range : (scalar, scalar), optional
        The first and the last of edges of equal intervals; by default the least and the largest
        element.
    density : bool
        Parts of the whole a unit of the axis, in place of numbers.
    weights : array, optional
        What each element counts, in place of 1.

    Returns
    -------
    counts, edges : Array

    Raises
    ------
    ArgumentError
        For fewer than one interval.
    NumPyOnlyError
        For the names of NumPy's ways to choose intervals.
    """
    if isinstance(bins, str):
        raise NumPyOnlyError(f"bins={bins!r}", "a number, or edges", place=user_place())
    values = asarray(a).ravel()
    edges, place = _intervals(values, bins, range)
    count = edges.shape[0] - 1
    counts = _counted(place, count, weights)
    if density:
        counts = counts / diff(edges) / total(counts)
    return counts, edges


def histogram2d(
    x: Any, y: Any, bins: Any = 10, range: Any = None, density: Any = None, weights: Any = None
) -> tuple[Array, Array, Array]:
    """How many points of a plane lie in each rectangle between edges: as `histogramdd`.

    Parameters
    ----------
    x, y : vector
        Coordinates.
    bins : int, vector, or two of them
        Of both coordinates, or of each.
    range : two of (scalar, scalar), optional
    density : bool, optional
    weights : vector, optional

    Returns
    -------
    counts, x_edges, y_edges : Array

    Raises
    ------
    ShapeError
        For coordinates of other lengths.
    ArgumentError
        For fewer than one interval.
    """
    try:
        number = len(bins)
    except TypeError:
        number = 1
    given = bins if number in (1, 2) else (bins, bins)
    counts, (first, second) = histogramdd((x, y), given, range, density, weights)
    return counts, first, second


def histogramdd(
    sample: Any, bins: Any = 10, range: Any = None, density: Any = None, weights: Any = None
) -> tuple[Array, tuple[Array, ...]]:
    """How many points lie in each box between edges, the last ones included.

    Parameters
    ----------
    sample : array of shape (points, dimensions), or a sequence of vectors
        Coordinates; as a sequence, those of each dimension.
    bins : int, or a sequence of int and vectors
        How many equal intervals each dimension has; or for each, that or increasing edges.
    range : sequence of (scalar, scalar) or None, optional
        The first and the last of edges of equal intervals; by default the least and the largest
        coordinate.
    density : bool, optional
        Parts of the whole a unit of volume, in place of numbers.
    weights : vector, optional
        What each point counts, in place of 1.

    Returns
    -------
    counts : Array, float64
    edges : tuple of Array

    Raises
    ------
    ShapeError
        For vectors of other lengths, and as many bins or ranges as there are no dimensions.
    ArgumentError
        For fewer than one interval.
    """
    points = sample if isinstance(sample, tuple | list) else asarray(sample)
    if isinstance(points, Array) and points.ndim == 2:
        points = tuple(points[:, k] for k in builtins.range(points.shape[1]))
    values = [asarray(each) for each in points]
    each_bins = _for_each("bins", bins, len(values))
    each_range = (None,) * len(values) if range is None else range
    each_range = _for_each("range", each_range, len(values))
    edges, inside, place = [], asarray(True), asarray(0)
    for coordinate, some, ends in zip(values, each_bins, each_range, strict=True):
        found, interval = _intervals(coordinate, some, ends)
        count = found.shape[0] - 1
        inside = logical_and(inside, interval < count)
        place = place * count + interval
        edges.append(found)
    shape = tuple(found.shape[0] - 1 for found in edges)
    counts = _counted(where(inside, place, math.prod(shape)), math.prod(shape), weights)
    counts = astype(counts.reshape(shape), "float64")
    if density:
        whole = total(counts)
        for k, found in enumerate(edges):
            counts = counts / expand_dims(diff(found), tuple(builtins.range(1, len(edges) - k)))
        counts = counts / whole
    return counts, tuple(edges)


def _for_each(what: str, given: Any, dimensions: int) -> Sequence[Any]:
    """One for each dimension."""
    if isinstance(given, int | np.integer):
        return (given,) * dimensions
    if len(given) != dimensions:
        raise ShapeError(
            f"{what} of {len(given)} dimensions", f"{dimensions}, as the points have",
            place=user_place(),
        )  # fmt: skip
    return list(given)


def _intervals(values: Array, bins: Any, range: Any) -> tuple[Array, Array]:
    """Edges, and the interval of each value: outside, and of NaN, the one behind the last."""
    even = asarray(bins).ndim == 0
    if even and bins < 1:
        raise ArgumentError(f"{bins} intervals", "one or more", place=user_place())
    edges = _even_edges(values, bins, range) if even else asarray(bins)
    inside = logical_and(values >= edges[0], values <= edges[-1])
    count = edges.shape[0] - 1
    if even:
        place = _even_place(where(inside, values, edges[0]), edges)
    else:
        place = searchsorted(edges, values, side="right") - 1
        place = where(values == edges[-1], count - 1, place)
    return edges, where(inside, place, count)


def _counted(place: Array, count: Any, weights: Any) -> Array:
    """How often each place is there, or the sums of its weights; what is behind the last is not."""
    counted = asarray(1) if weights is None else asarray(weights).ravel()
    return zeros(count + 1, dtype=counted.dtype).at[place].add(counted)[:-1]


def _even_edges(values: Array, bins: Any, range: Any) -> Array:
    """Edges of so many equal intervals."""
    dtype = inexact(values).dtype
    if range is not None:
        given = range
    elif lengths.is_just(values._node.shape[0], 0):
        given = (0.0, 1.0)  # NumPy's, of no elements
    else:
        given = (least(values), greatest(values))
    low, high = (inexact(end) for end in given)
    same = low == high
    return linspace(
        where(same, low - 0.5, low), where(same, high + 0.5, high), bins + 1, dtype=dtype
    )


def _even_place(values: Array, edges: Array) -> Array:
    """In which of equal intervals values lie: where that is computed to be, or beside it.

    By the edges as they are rounded.
    """
    last = edges.shape[0] - 2
    part = (inexact(values) - edges[0]) / (edges[-1] - edges[0])
    place = minimum(astype(floor(part * length_of(last + 1)), "int64"), last)
    place = place - astype(values < take(edges, place), "int64")
    after = logical_and(values >= take(edges, place + 1), place != last)
    return place + astype(after, "int64")


def bincount(x: Any, weights: Any = None, minlength: int = 0, *, length: Any = None) -> Array:
    """How often each number from 0 on is there, or the sums of the weights of its elements.

    Parameters
    ----------
    x : vector of integers
    weights : vector, optional
    minlength : int
        How many numbers are counted at least.
    length : int, optional
        How many are counted: of larger ones nothing is said, and negative ones count as 0. By
        default those to the largest, which computes that now, of a lazy array.

    Raises
    ------
    ArgumentError
        For negative numbers, and a negative `minlength` or `length`.
    DTypeError
        For what is no integer.
    ShapeError
        For other than one dimension, and weights of another length.
    TracingError
        Without a length, in a function being traced, unless `minlength` counts all numbers of an
        unsigned dtype.
    """
    numbers = asarray(x)
    if numbers.ndim != 1:
        raise ShapeError(f"{numbers.ndim} dimensions to count", "one", place=user_place())
    if numbers.dtype.kind not in "biu" and not lengths.is_just(numbers._node.shape[0], 0):
        raise DTypeError(f"numbers of {numbers.dtype} to count", "integers", place=user_place())
    if minlength < 0 or (length is not None and length < 0):
        raise ArgumentError("a negative length", "0 or more", place=user_place())
    if weights is not None:
        weights = astype(weights, "float64")
        if not lengths.agree_all(weights._node.shape, numbers._node.shape):
            raise ShapeError(
                f"weights of shape {weights.shape}", f"{numbers.shape}", place=user_place()
            )
    if length is None and lengths.is_just(numbers._node.shape[0], 0):
        return zeros(minlength, dtype="int64")  # as NumPy's, whatever the weights
    narrow = numbers.dtype.itemsize < 8
    unsigned = narrow and numbers.dtype.kind == "u"
    if length is None and unsigned and minlength > np.iinfo(numbers.dtype).max:
        length = minlength  # there are no larger numbers
    if length is None:
        numbers = _made_once(numbers)
        length = _reach(numbers, minlength)
    places = astype(numbers if narrow else minimum(numbers, length), "int64")
    places = minimum(maximum(places, 0), length)
    return _counted(places, length, weights)


def _made_once(numbers: Array) -> Array:
    """Numbers of which the largest is found before they are counted: computed, where they fit."""
    if numbers._node.abstract or numbers.size * numbers.dtype.itemsize <= settings().limit // 2:
        return asarray(known_values(numbers, "bincount() without length="))
    return numbers


def _reach(numbers: Array, least_length: int) -> int:
    """One more than the largest number, which is found now."""
    ends = astype(stack([least(numbers), greatest(numbers)]), numbers.dtype)
    low, high = known_values(ends, "bincount()").tolist()
    if low < 0:
        raise ArgumentError(
            f"the number {low} to count", "0 or more", "length=n, or numbers that begin at 0",
            user_place(),
        )  # fmt: skip
    return int(max(high + 1, least_length))


def digitize(x: Any, bins: Any, right: bool = False) -> Array:
    """In which interval between edges each element lies: 0 before the first edge.

    Parameters
    ----------
    x : array
    bins : vector
        Increasing or decreasing edges.
    right : bool
        Whether an edge belongs to the interval before it.
    """
    edges = asarray(bins)
    falling = edges[0] > edges[-1]
    ordered = where(falling, flip(edges), edges)
    found = searchsorted(ordered, x, side="left" if right else "right")
    return where(falling, edges.shape[0] - found, found)
