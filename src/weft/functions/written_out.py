"""Library routines within loops, branches and combinators, where nothing is called: written out.

Few elements go through a network of exchanges, of which compilers make vectors; more are merged.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from weft.array import Array
from weft.frontend import graph, indexing, layout, operations
from weft.frontend.graph import Node, make
from weft.functions import elimination, exchanges, orthogonal
from weft.functions.arguments import length_of
from weft.functions.combinators import map as mapped
from weft.functions.control import fori_loop, while_loop
from weft.functions.creation import empty_like, iota
from weft.functions.data_types import astype
from weft.functions.elementwise import logical_and, logical_or, maximum, minimum, where
from weft.functions.order import follows, precedes
from weft.functions.statistical import greatest, least
from weft.ops.dtypes import DType

_FEW = 16  # exchanges of neighbours, n^2 / 2, gain on merging up to there
_RUN = 8  # so many are put in order by exchanges before they are merged


def written_out(routine: str, options: dict[str, Any], inputs: tuple[Node, ...]) -> Node | None:
    """What a library routine gives; None where it is not written out."""
    match routine:
        case "det":
            return elimination.determinants(*inputs)
        case "cholesky":
            return _triangles(inputs[0], options["upper"])
        case "inv":
            return elimination.solutions(inputs[0], None)
        case "solve":
            return elimination.solutions(*inputs)
        case "eigvalsh":
            return orthogonal.rotated(Array(inputs[0]), _places)[0]._node
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


def several_written_out(
    routine: str, options: dict[str, Any], inputs: tuple[Node, ...]
) -> tuple[Node, ...] | None:
    """What a library routine gives that has several results; None where it is not written out."""
    match routine:
        case "slogdet":
            return elimination.signs_and_logarithms(*inputs)
        case "eigh":
            return tuple(x._node for x in orthogonal.rotated(Array(inputs[0]), _places))
        case "qr":
            *_, rows, columns = inputs[0].shape
            shorter = rows if options["wide"] else columns
            inner = rows if options["mode"] == "complete" else shorter
            factors = orthogonal.reflected(Array(inputs[0]), inner, shorter)
            return tuple(factor._node for factor in factors)
    return None


def _triangles(matrices: Node, upper: bool) -> Node:
    if not upper:
        return elimination.triangles(matrices)
    turned = Array(matrices).mT.conj()._node
    return Array(elimination.triangles(turned)).mT.conj()._node


def _places(vector: Array) -> Array:
    return Array(_sorted(vector._node, True, False))


def _sorted(rows: Node, places: bool, descending: bool) -> Node:
    """Rows in order along the last axis, or where their elements were; equal ones keep theirs."""
    length, last = rows.shape[-1], len(rows.shape) - 1
    arrays = (rows, iota(rows.shape, last)) if places else (rows,)
    if not length.is_constant or length.value > _FEW:
        return _each_row(lambda *given: _merged(given, descending), arrays)
    if length.value < 2:
        return arrays[-1]
    columns = exchanges.columns(arrays, length.value)
    order = follows if descending else precedes
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


def _merged(given: tuple[Node, ...], descending: bool) -> Node:
    """Vectors in the order of the first: short runs are put in order, and merged by twos."""
    order = follows if descending else precedes
    count = length_of(given[0].shape[0])
    last = count - 1

    def comes_first(vector: Array, k: Array, other: Array) -> Array:
        (element,), (another,) = _elements((vector,), k), _elements((vector,), other)
        return Array(order(element._node, another._node))

    def merge(state: tuple[Array, tuple[Array, ...]]) -> tuple[Array, tuple[Array, ...]]:
        width, source = state
        twice = width + width

        def two_runs(pair: Array, target: Any) -> Any:
            start = pair * twice
            middle, end = minimum(start + width, count), minimum(start + twice, count)

            def elements(k: Array, state: Any) -> Any:
                """The next of the first half and of the second, from the ends: two chains.

                By arithmetic, since compilers make branches of choices, which are mispredicted.
                """
                left, right, left_end, right_end, target = state
                near, far = left, minimum(right, last)
                taken = logical_or(left >= middle, comes_first(source[0], far, near))
                taken = astype(logical_and(right < end, taken), "int64")
                low = near + (far - near) * taken
                left, right = left + 1 - taken, right + taken
                near, far = maximum(left_end, 0), right_end
                taken = logical_or(right_end < middle, comes_first(source[0], far, near))
                taken = astype(logical_and(left_end >= start, taken), "int64")
                high = far + (near - far) * taken
                left_end, right_end = left_end - taken, right_end - 1 + taken
                target = _put(target, start + k, _elements(source, minimum(low, last)))
                target = _put(target, end - 1 - k, _elements(source, minimum(high, last)))
                return left, right, left_end, right_end, target

            state = (start, middle, middle - 1, end - 1, target)
            return fori_loop(0, (end - start + 1) >> 1, elements, state)[-1]

        pairs = (count + twice - 1) // twice
        return twice, fori_loop(0, pairs, two_runs, tuple(map(empty_like, source)))

    runs = _short_runs(tuple(map(Array, given)), descending)
    start = (Array(graph.scalar_constant(_RUN, DType.I64)), runs)
    ordered: tuple[Array, ...] = while_loop(lambda state: state[0] < count, merge, start)[1]
    return ordered[-1]._node


def _short_runs(source: tuple[Array, ...], descending: bool) -> Any:
    """Runs of a few elements in order, the last one filled up with what comes last."""
    order, dtype = follows if descending else precedes, source[0]._node.dtype
    count = length_of(source[0]._node.shape[0])
    last_of_all = least(dtype) if descending else math.nan if dtype.is_float else greatest(dtype)
    filler = Array(graph.scalar_constant(last_of_all, dtype))

    def run(number: Array, target: Any) -> Any:
        places = [number * _RUN + k for k in range(_RUN)]
        columns = []
        for place in places:
            first, *others = _elements(source, minimum(place, count - 1))
            columns.append((where(place < count, first, filler), *others))
        nodes = [tuple(x._node for x in column) for column in columns]
        ordered = exchanges.exchanged(nodes, exchanges.neighbours(_RUN), order)
        for place, column in reversed(list(zip(places, ordered, strict=True))):
            values = map(Array, column)  # what was filled up is overwritten
            target = _put(target, minimum(place, count - 1), values)
        return target

    return fori_loop(0, (count + _RUN - 1) // _RUN, run, tuple(map(empty_like, source)))


def _elements(vectors: tuple[Array, ...], index: Array) -> list[Array]:
    """Their elements at an index that is not negative."""
    return [Array(indexing.gather(x._node, [0], [index._node], 0)) for x in vectors]


def _put(target: tuple[Array, ...], index: Array, values: Any) -> tuple[Array, ...]:
    return tuple(
        Array(indexing.put(x._node, index._node, value._node))
        for x, value in zip(target, values, strict=True)
    )
