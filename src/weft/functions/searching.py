"""Searching functions."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

from weft.array import Array, asarray
from weft.array.keys import with_room_for_places
from weft.errors import ArgumentError, DTypeError, ShapeError, TracingError, user_place
from weft.frontend import extent as extents
from weft.frontend import graph, indexing, layout, lengths, operations
from weft.frontend.elementwise import apply
from weft.frontend.graph import Lambda, Node, Scope, make, parameter, scalar_constant
from weft.functions.arguments import array_node, one_axis
from weft.functions.creation import iota
from weft.functions.statistical import greatest, keep_dimensions, kept_shape, least
from weft.ops.dtypes import DType

__all__ = ["argmax", "argmin", "argwhere", "nonzero", "take", "take_along_axis"]

_LAST = 2**63 - 1  # after every index: the neutral element's


@cache
def _better(dtype: DType, comparison: str) -> Lambda:
    """Of two (value, index) the better one: NaN before all, the first of equals."""
    with graph.apart():
        scope = Scope(None)
        left, left_index, right, right_index = params = tuple(
            parameter(name, (), kind, scope)
            for name, kind in (("value", dtype), ("index", DType.I64)) * 2
        )
        better = apply(comparison, right, left)
        same = apply("equal", right, left)
        if dtype.is_float:
            right_nan, left_nan = apply("not_equal", right, right), apply("not_equal", left, left)
            better = apply(
                "logical_or",
                better,
                apply("logical_and", right_nan, apply("logical_not", left_nan)),
            )
            same = apply("logical_or", same, apply("logical_and", right_nan, left_nan))
        earlier = apply("logical_and", same, apply("less", right_index, left_index))
        chosen = apply("logical_or", better, earlier)
        value = apply("where", chosen, right, left)
        return Lambda(params, (value, apply("where", chosen, right_index, left_index)), scope)


def _arg(x: Any, axis: Any, keepdims: bool, comparison: str) -> Array:
    node = array_node(x)
    if node.dtype.is_complex:
        raise DTypeError("argmax or argmin of complex numbers", "real ones", place=user_place())
    shape = node.shape
    if axis is None:
        node = layout.reshape(node, (extents.product(shape),))
        along, axes = 0, tuple(range(len(shape)))
    else:
        along = one_axis(axis, len(shape))
        axes = (along,)
    name = "argmax" if comparison == "greater" else "argmin"
    numpys = f"attempt to get {name} of an empty sequence"
    lengths.require_any(node.shape[along], shape, "argmax or argmin", numpys)
    worst = least(node.dtype) if comparison == "greater" else greatest(node.dtype)
    neutral = (scalar_constant(worst, node.dtype), scalar_constant(_LAST, DType.I64))
    kept = kept_shape(node.shape, (along,))
    best = make(
        operations.Reduce((along,), 2, ""), (node, iota(node.shape, along), *neutral), (), None,
        lambdas=(_better(node.dtype, comparison),), types=((kept, node.dtype), (kept, DType.I64)),
    )  # fmt: skip
    return Array(keep_dimensions(graph.pick(best, 1), shape, axes, keepdims))


def argmax(x: Any, /, axis: int | None = None, *, keepdims: bool = False) -> Array:
    """The index of the maximum along an axis: of the first one, or of the first NaN.

    Raises
    ------
    ShapeError
        Of no elements.
    """
    return _arg(x, axis, keepdims, "greater")


def argmin(x: Any, /, axis: int | None = None, *, keepdims: bool = False) -> Array:
    """The index of the minimum along an axis: of the first one, or of the first NaN."""
    return _arg(x, axis, keepdims, "less")


def known_values(x: Any, what: str) -> Any:
    """The values of an array whose result's size they decide: computed now.

    Raises
    ------
    TracingError
        In a function being traced, where there are none.
    """
    return with_known_values(x, what)._implicit(what)


def with_known_values(x: Any, what: str) -> Array:
    """An array whose values can be computed now; raises as `known_values`."""
    array = x if isinstance(x, Array) else asarray(x)
    if array._node.abstract:
        raise TracingError(
            f"{what} in a function being traced: the size of its result is unknown",
            "functions whose result's size follows from the shapes",
            "wf.where and reductions, or call it outside the function",
            place=user_place(),
        )
    return array


def nonzero(x: Any, /) -> tuple[Array, ...]:
    """The indices of elements that are not zero (computes `x` now)."""
    values = known_values(x, "nonzero()")
    if not values.ndim:
        raise ShapeError("nonzero of a scalar", "one dimension or more", place=user_place())
    places = np.nonzero(with_room_for_places(values, "nonzero()"))
    return tuple(asarray(index) for index in places)


def argwhere(x: Any, /) -> Array:
    """The indices of elements that are not zero, as rows (computes `x` now)."""
    values = known_values(x, "argwhere()")
    return asarray(np.argwhere(with_room_for_places(values, "argwhere()")))


def take(x: Any, indices: Any, /, axis: int | None = None) -> Array:
    """Sub-arrays at indices of an axis.

    Parameters
    ----------
    x : array
    indices : array of integers
        Negative ones count from the end.
    axis : int, optional
        May be left out of an array of one dimension alone.

    Raises
    ------
    OutOfBoundsError
        When run, for indices outside the axis.
    """
    node, where = array_node(x), array_node(indices)
    if axis is None:
        if len(node.shape) != 1:
            raise ArgumentError(
                f"no axis of {len(node.shape)} dimensions", "axis=...", place=user_place()
            )
        axis = 0
    along = one_axis(axis, len(node.shape))
    key = (slice(None),) * along + (where,)
    return Array(indexing.get(node, key))


def take_along_axis(x: Any, indices: Any, /, axis: int = -1) -> Array:
    """Elements at indices of an axis, the other indices being the element's own."""
    node, where = array_node(x), array_node(indices)
    along = one_axis(axis, len(node.shape))
    rank = len(node.shape)
    shape = list(where.shape)
    for a in range(rank):
        if a != along and not lengths.is_just(node.shape[a], 1):
            shape[a] = node.shape[a]
    where = layout.broadcast(where, tuple(shape))
    keys = [where if a == along else _own(node, a, tuple(shape)) for a in range(rank)]
    return Array(indexing.get(node, tuple(keys)))


def _own(node: Node, axis: int, shape: Any) -> Node:
    if lengths.is_just(node.shape[axis], 1):
        return layout.broadcast(scalar_constant(0, DType.I64), shape)
    return iota(shape, axis)
