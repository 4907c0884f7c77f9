"""Elements that order would bring to a place, where no library routine is called."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import Any, TypeAlias

from weft.array import Array
from weft.frontend import extent as extents
from weft.frontend import graph, layout
from weft.frontend.elementwise import apply
from weft.frontend.graph import Node
from weft.functions import exchanges
from weft.functions.arguments import length_of
from weft.functions.combinators import map as mapped
from weft.functions.control import while_loop
from weft.functions.elementwise import (
    abs,
    isnan,
    logical_and,
    logical_not,
    logical_or,
    negative,
    sqrt,
    where,
)
from weft.functions.library_calls import is_within
from weft.functions.statistical import reduce_node, sum
from weft.ops.dtypes import DType

_FEW = 49  # a window of 7 x 7: networks of more take seconds to compile

_SETTLED = 25  # where lengths are arguments, there is a program for each of so few

Neighbours: TypeAlias = tuple[Array, Array, Array]
"""What is at a place, what at the next, and a number that is NaN if there is one."""


def neighbours(rows: Array, place: Any) -> Neighbours | None:
    """What order would bring to places of rows of floats, and to the next ones.

    None where a library routine is as good: neither few elements and a known place, nor within
    a loop, branch or combinator.

    Parameters
    ----------
    rows : Array
    place : int or Array
        Of several places, results are along the first axis.
    """
    node = rows._node
    length = node.shape[-1]
    if node.dtype.is_complex:
        return None
    if isinstance(place, int) and length.is_constant and 0 < length.value <= _FEW:
        return _of_few(node, place, length.value)
    where_to = place if isinstance(place, Array) else Array(graph.scalar_constant(place, DType.I64))
    return _within(rows, where_to) if is_within(node, where_to._node) else None


def with_known_lengths(node: Node, axes: Sequence[int]) -> Node:
    """An array within a loop whose lengths along axes are part of the program where it is short."""
    shape = [node.shape[axis] for axis in axes]
    count = extents.product(tuple(shape))
    if count.symbols or count.is_constant or not is_within(node):
        return node
    if not extents.at_least(extents.constant(_SETTLED), count):
        return node
    for axis, extent in zip(axes, shape, strict=True):
        if not extent.is_constant:
            length = extents.constant(extent.value)
            extents.require_equal(extent, length)
            node = layout.take_slice(node, axis, layout.ZERO, length)
    return node


def _of_few(rows: Node, place: int, length: int) -> Neighbours:
    given = exchanges.columns((rows,), length)
    one = functools.reduce(_either_nan, (element for (element,) in given))
    ordered = exchanges.exchanged(given, exchanges.merges(length), functools.partial(apply, "less"))
    following = ordered[place + 1 if place + 1 < length else place]
    return Array(ordered[place][0]), Array(following[0]), Array(one)


def _either_nan(left: Node, right: Node) -> Node:
    return apply("where", apply("not_equal", right, right), right, left)


def _within(rows: Array, place: Array) -> Neighbours:
    if place.ndim:
        found: Neighbours = mapped(lambda one: _within(rows, one), place)
        return found
    if rows.ndim > 1:
        found = mapped(lambda row: _within(row, place), rows)
        return found
    return _bisected(rows, place)


def _bisected(row: Array, place: Array) -> Neighbours:
    """By halving the distance of the least and the greatest element that it may be."""
    none = length_of(row._node.shape[0]) == 0
    wrong = logical_or(none, sum(isnan(row)) > 0)
    numbers = logical_not(isnan(row))

    def halved(state: tuple[Array, Array, Array]) -> tuple[Array, Array, Array]:
        low, high, turn = state
        middle = _between(low, high, turn)
        before, behind = row < middle, row > middle
        down = place < sum(before)
        up = place >= sum(row <= middle)
        return (
            where(down, low, where(up, _least(row, behind), middle)),
            where(up, high, where(down, _greatest(row, before), middle)),
            logical_not(turn),
        )

    start = (_least(row, numbers), _greatest(row, numbers), False)
    found: Array = while_loop(lambda state: state[0] < state[1], halved, start)[0]
    again = sum(row <= found) > place + 1
    following = where(again, found, _least(row, row > found))
    return found, following, where(wrong, math.nan, found)


def _between(low: Array, high: Array, turn: Array) -> Array:
    """Half way, in value and in magnitude by turns, since a few elements may be far from others."""
    size = sqrt(abs(low)) * sqrt(abs(high))
    size = where(low > 0, size, where(high < 0, negative(size), 0.0))
    middle = where(turn, size, 0.5 * low + 0.5 * high)
    return where(logical_and(middle >= low, middle <= high), middle, low)  # not of infinite ones


def _least(row: Array, those: Array) -> Array:
    return Array(reduce_node(where(those, row, math.inf)._node, (0,), "minimum", math.inf))


def _greatest(row: Array, those: Array) -> Array:
    return Array(reduce_node(where(those, row, -math.inf)._node, (0,), "maximum", -math.inf))
