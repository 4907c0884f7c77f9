"""Places in an ordered vector."""

from __future__ import annotations

from typing import Any

from weft.array import Array
from weft.errors import ArgumentError, ShapeError, user_place
from weft.frontend import extent as extents
from weft.frontend import graph, indexing, layout
from weft.frontend.elementwise import apply, as_dtype, common_dtype
from weft.frontend.graph import Node
from weft.functions.arguments import array_node, length_of
from weft.functions.combinators import map as mapped
from weft.functions.control import fori_loop, while_loop
from weft.functions.elementwise import logical_and, minimum, where
from weft.functions.library_calls import library_call
from weft.functions.order import precedes
from weft.ops.dtypes import DType

__all__ = ["searchsorted"]


def searchsorted(x1: Any, x2: Any, /, side: str = "left", sorter: Any = None) -> Array:
    """Where values would be inserted into a sorted vector.

    Parameters
    ----------
    x1 : vector
        Sorted; NaN comes last.
    x2 : array
        The values.
    side : {"left", "right"}
        Before or behind elements that are equal to a value.
    sorter : vector of integers, optional
        What sorts `x1`.

    Returns
    -------
    Array
        int64, of the shape of `x2`.

    Raises
    ------
    ArgumentError
        For another side.
    ShapeError
        For other than one dimension.
    UnsupportedError
        For complex numbers within a loop, branch or combinator.
    """
    if side not in ("left", "right"):
        raise ArgumentError(f"side {side!r}", '"left" or "right"', place=user_place())
    ordered, values = array_node(x1), array_node(x2)
    if len(ordered.shape) != 1:
        raise ShapeError(
            f"searchsorted in an array of shape {layout.values(ordered.shape)}", "one dimension",
            place=user_place(),
        )  # fmt: skip
    if sorter is not None:
        ordered = indexing.gather(ordered, [0], [as_dtype(array_node(sorter), DType.I64)], 0)
    dtype = common_dtype((ordered, values))
    shape = values.shape
    flat = layout.reshape(as_dtype(values, dtype), (extents.product(shape),))
    ordered = as_dtype(ordered, dtype)
    if dtype.is_complex:
        options = (("side", side),)
        found = library_call("searchsorted", options, (ordered, flat), flat.shape, DType.I64)
    else:
        found = _searched(ordered, flat, side)
    return Array(layout.reshape(found, shape))


def _searched(ordered: Node, values: Node, side: str) -> Node:
    """By powers of two, from the largest: as many rounds for each value, for vectors of them."""
    length = length_of(ordered.shape[0])
    zero, one = (Array(graph.scalar_constant(number, DType.I64)) for number in (0, 1))
    rounds = while_loop(lambda count: (length >> count) > 0, lambda count: count + 1, zero)

    def place(value: Array) -> Array:
        def further(k: Array, before: Array) -> Array:
            """How many elements are before the value, of which the highest bits are known."""
            wished = before + (one << (rounds - 1 - k))
            last = minimum(wished, length) - 1
            here = indexing.gather(ordered, [0], [last._node], 0)
            is_behind = Array(_lies_before(here, value._node, side))
            return where(logical_and(wished <= length, is_behind), wished, before)

        found: Array = fori_loop(0, rounds, further, zero)
        return found

    found: Array = mapped(place, Array(values))
    return found._node


def _lies_before(here: Node, value: Node, side: str) -> Node:
    """Whether the place of a value is behind this element."""
    return precedes(here, value) if side == "left" else apply("logical_not", precedes(value, here))
