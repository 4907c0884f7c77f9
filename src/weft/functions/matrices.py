"""Diagonals, and products of vectors, as the linear algebra of the standard has them."""

from __future__ import annotations

from typing import Any

from weft import functions as wf
from weft.array import Array
from weft.errors import ShapeError, user_place
from weft.frontend import extent as extents
from weft.frontend import layout, lengths
from weft.frontend.extent import Extent
from weft.functions.arguments import array_node, one_axis


def diagonal(x: Any, /, offset: int = 0) -> Array:
    """The elements x[..., i, i + offset].

    Raises
    ------
    ShapeError
        For fewer than two dimensions.
    """
    array = Array(array_node(x))
    if array.ndim < 2:
        found = f"the diagonal of {array.ndim} dimensions"
        raise ShapeError(found, "2 or more", place=user_place())
    below, right = max(-offset, 0), max(offset, 0)
    rows, columns = array._node.shape[-2:]
    length = extents.smaller(_left(rows, below), _left(columns, right))
    steps = wf.arange(length)
    return array[..., steps + below, steps + right]


def _left(extent: Extent, skipped: int) -> Extent:
    """How much of an extent is left behind `skipped` elements."""
    some = extents.at_least(extent, extents.constant(skipped))
    return extent - skipped if some else extents.constant(0)


def trace(x: Any, /, offset: int = 0, *, dtype: Any = None) -> Array:
    """The sum of a diagonal."""
    return wf.sum(diagonal(x, offset=offset), axis=-1, dtype=dtype)


def cross(x1: Any, x2: Any, /, *, axis: int = -1) -> Array:
    """The cross products of vectors of three elements along an axis.

    Raises
    ------
    ShapeError
        Where one has not three elements along the axis.
    """
    left, right = wf.broadcast_arrays(x1, x2)
    along = one_axis(axis, left.ndim)
    for array in (x1, x2):
        shape = array_node(array).shape
        if not lengths.is_just(shape[one_axis(axis, len(shape))], 3):
            raise ShapeError(
                f"cross of an array of shape {layout.values(shape)}",
                f"three elements along axis {axis}", place=user_place(),
            )  # fmt: skip
    a, b = wf.unstack(left, axis=along), wf.unstack(right, axis=along)
    parts = [a[j] * b[k] - a[k] * b[j] for j, k in ((1, 2), (2, 0), (0, 1))]
    return wf.stack(parts, axis=along)


def outer(x1: Any, x2: Any, /) -> Array:
    """The product of every pair of elements of two vectors.

    Raises
    ------
    ShapeError
        For what is no vector.
    """
    for array in (x1, x2):
        shape = array_node(array).shape
        if len(shape) != 1:
            raise ShapeError(
                f"outer of an array of shape {layout.values(shape)}", "one dimension",
                place=user_place(),
            )  # fmt: skip
    return wf.outer(x1, x2)
