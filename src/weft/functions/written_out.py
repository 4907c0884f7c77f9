"""Library routines within loops, branches and combinators, where nothing is called: written out.

Few elements go through a network of exchanges, of which compilers make vectors; more are merged.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from weft.array import Array
from weft.frontend import graph, indexing, layout, operations
from weft.frontend.graph import Node, make
from weft.functions import elimination, exchanges
from weft.functions.arguments import length_of
from weft.functions.combinators import map as mapped
from weft.functions.control import fori_loop, while_loop
from weft.functions.creation import empty_like, iota
from weft.functions.elementwise import logical_and, logical_or, minimum, where
from weft.functions.order import Order, follows, precedes
from weft.ops.dtypes import DType

_FEW = 16  # exchanges of neighbours, n^2 / 2, gain on merging up to there


def written_out(routine: str, options: dict[str, Any], inputs: tuple[Node, ...]) -> Node | None:
    """What a library routine gives; None where it is not written out."""
    match routine:
        case "det":
            return elimination.determinants(*inputs)
        case "inv":
            return elimination.solutions(inputs[0], None)
        case "solve":
            return elimination.solutions(*inputs)
    if any(node.dtype.is_complex for node in inputs):
        return None
    match routine:
        case "sort":
            return _sorted(inputs[0], False, options["descending"])
        case "argsort":
            return _sorted(inputs[0], True, options["descending"])
        case "partition":
            return _sorted(inputs[0], False, False)
    return None


def _sorted(rows: Node, places: bool, descending: bool) -> Node:
    """Rows in order along the last axis, or where their elements were; equal ones keep theirs."""
    length, last = rows.shape[-1], len(rows.shape) - 1
    arrays = (rows, iota(rows.shape, last)) if places else (rows,)
    order = follows if descending else precedes
    if not length.is_constant or length.value > _FEW:
        return _each_row(lambda *given: _merged(given, order), arrays)
    if length.value < 2:
        return arrays[-1]
    columns = exchanges.columns(arrays, length.value)
    columns = exchanges.exchanged(columns, exchanges.neighbours(length.value), order)
    parts = tuple(layout.expand(column[-1], last) for column in columns)
    return make(operations.Concat(last), parts, rows.shape, parts[0].dtype)


# ---------------------------------------------------------------- many elements


def _each_row(function: Callable[..., Node], arrays: tuple[Node, ...]) -> Node:
    if len(arrays[0].shape) == 1:
        return function(*arrays)
    each: Array = mapped(
        lambda *rows: Array(_each_row(function, tuple(row._node for row in rows))),
        *map(Array, arrays),
    )
    return each._node


def _merged(given: tuple[Node, ...], order: Order) -> Node:
    """Vectors in the order of the first: runs of 1, 2, 4... elements, merged by twos."""
    length = given[0].shape[0]
    count = length_of(length)

    def merge(state: tuple[Array, tuple[Array, ...]]) -> tuple[Array, tuple[Array, ...]]:
        width, source = state

        def element(k: Array, runs: Any) -> Any:
            """The next element of two runs: of the left one, unless the right one's precedes."""
            left, right, target = runs
            start = k & -(width + width)
            begins = k == start
            left, right = where(begins, k, left), where(begins, k + width, right)
            middle, end = minimum(start + width, count), minimum(start + width + width, count)
            near = [_element(x, minimum(left, count - 1)) for x in source]
            far = [_element(x, minimum(right, count - 1)) for x in source]
            sooner = Array(order(far[0]._node, near[0]._node))
            taken = logical_and(right < end, logical_or(left >= middle, sooner))
            put = tuple(
                Array(indexing.put(x._node, k._node, where(taken, b, a)._node))
                for x, a, b in zip(target, near, far, strict=True)
            )
            return where(taken, left, left + 1), where(taken, right + 1, right), put

        zero = Array(graph.scalar_constant(0, DType.I64))
        *_, merged = fori_loop(0, length, element, (zero, zero, tuple(map(empty_like, source))))
        return width + width, merged

    one = Array(graph.scalar_constant(1, DType.I64))
    start = (one, tuple(map(Array, given)))
    ordered: tuple[Array, ...] = while_loop(lambda state: state[0] < count, merge, start)[1]
    return ordered[-1]._node


def _element(vector: Array, index: Array) -> Array:
    """An element at an index that is not negative."""
    return Array(indexing.gather(vector._node, [0], [index._node], 0))
