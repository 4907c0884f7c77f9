"""Gaussian elimination with partial pivoting, where no library routine is called.

Few rows are eliminated number by number, of which compilers make vectors; more in loops.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TypeAlias

from weft.array import Array
from weft.frontend import extent as extents
from weft.frontend import layout
from weft.frontend.elementwise import broadcast_shapes
from weft.frontend.extent import Extent
from weft.frontend.graph import Node
from weft.functions.combinators import map as mapped
from weft.functions.control import fori_loop
from weft.functions.creation import eye, ones_like, zeros_like
from weft.functions.data_types import astype
from weft.functions.elementwise import abs as absolute
from weft.functions.elementwise import logical_and, where
from weft.functions.manipulation import concat, stack
from weft.functions.statistical import all as every
from weft.functions.statistical import sum as total

_FEW = 4  # rows that are eliminated number by number, where there are so many columns at most
_COLUMNS = 8

Rows: TypeAlias = list[list[Array]]
"""Numbers of matrices, or of batches of them."""

_regular: ContextVar[list[Array] | None] = ContextVar("regular", default=None)


@contextmanager
def whether_regular() -> Iterator[list[Array]]:
    """Gathers whether all matrices were regular by which systems are solved in here."""
    found: list[Array] = []
    token = _regular.set(found)
    try:
        yield found
    finally:
        _regular.reset(token)


def determinants(matrices: Node) -> Node:
    """The products of pivots; exchanged rows turn the sign."""
    size = _size(matrices.shape[-1])
    if size <= _FEW:
        rows, sign = _eliminated(_numbers(matrices, size, size))
        return functools.reduce(Array.__mul__, (rows[k][k] for k in range(size)), sign)._node
    if len(matrices.shape) > 2:
        each: Array = mapped(lambda one: Array(determinants(one._node)), Array(matrices))
        return each._node
    return _swept(Array(matrices), matrices.shape[0])[1]._node


def solutions(matrices: Node, right: Node | None) -> Node:
    """Those of systems of equations: of a singular matrix, what is not finite.

    Parameters
    ----------
    matrices : Node
    right : Node or None
        Matrices of as many rows, by batches that broadcast; None for those of units.
    """
    if right is None:
        unit = eye(Array(matrices).shape[-1], dtype=matrices.dtype.numpy)
        right = layout.broadcast(unit._node, matrices.shape)
    batch = broadcast_shapes([matrices.shape[:-2], right.shape[:-2]], "solve")
    matrices = layout.broadcast(matrices, (*batch, *matrices.shape[-2:]))
    right = layout.broadcast(right, (*batch, *right.shape[-2:]))
    size = _size(matrices.shape[-1])
    columns = right.shape[-1]
    if size <= _FEW and (columns is matrices.shape[-1] or _size(columns) <= _COLUMNS - size):
        width = size if columns is matrices.shape[-1] else columns.value
        solved, regular = _solved_few(matrices, right, size, width)
    else:
        solved, regular = _solved(Array(matrices), Array(right))
    gathered = _regular.get()
    if gathered is not None:
        gathered.append(every(regular))
    return solved._node


def _size(extent: Extent) -> int:
    """A length that is part of the program where it is small; larger than all such, else."""
    few = extents.constant(_COLUMNS)
    if extent.symbols or not extents.at_least(few, extent):
        return _COLUMNS + 1
    extents.require_equal(extent, extents.constant(extent.value))
    return extent.value


# ---------------------------------------------------------------- number by number


def _numbers(matrices: Node, rows: int, columns: int) -> Rows:
    def at(node: Node, k: int) -> Node:
        return layout.point(node, len(matrices.shape) - 2, extents.constant(k))

    return [[Array(at(at(matrices, i), j)) for j in range(columns)] for i in range(rows)]


def _eliminated(given: Rows) -> tuple[Rows, Array]:
    """What is on and above the diagonal then; the sign that exchanged rows give."""
    rows = list(given)
    sign = ones_like(rows[0][0])
    for k in range(len(rows)):
        for i in range(k + 1, len(rows)):
            larger = _magnitude(rows[i][k]) > _magnitude(rows[k][k])
            both = list(zip(rows[k], rows[i], strict=True))
            rows[k] = [where(larger, b, a) for a, b in both]
            rows[i] = [where(larger, a, b) for a, b in both]
            sign = where(larger, -sign, sign)
        pivot = _divisor(rows[k][k])
        for i in range(k + 1, len(rows)):
            factor = rows[i][k] / pivot
            rows[i] = [b - factor * a for a, b in zip(rows[k], rows[i], strict=True)]
    return rows, sign


def _solved_few(matrices: Node, right: Node, size: int, width: int) -> tuple[Array, Array]:
    left, given = _numbers(matrices, size, size), _numbers(right, size, width)
    rows, _ = _eliminated([a + b for a, b in zip(left, given, strict=True)])
    found: Rows = []  # from the last row up
    for i in reversed(range(size)):
        values = rows[i][size:]
        for j, known in zip(reversed(range(size)), found, strict=False):
            values = [b - rows[i][j] * x for b, x in zip(values, known, strict=True)]
        found.append([b / rows[i][i] for b in values])
    regular = functools.reduce(logical_and, (rows[k][k] != 0 for k in range(size)))
    return stack([stack(row, axis=-1) for row in reversed(found)], axis=-2), regular


def _magnitude(x: Array) -> Array:
    return absolute(x.real) + absolute(x.imag) if x.dtype.kind == "c" else absolute(x)


def _divisor(pivot: Array) -> Array:
    """Below a pivot that is 0 there are zeros alone: determinants are 0 then, not NaN."""
    return where(pivot == 0, 1, pivot)


# ---------------------------------------------------------------- in loops


def _swept(given: Array, size: Extent) -> tuple[Array, Array, Array]:
    """Rows of which the first columns are eliminated, the determinant, and whether none is 0."""
    columns = given.shape[1]

    def sweep(k: Array, state: tuple[Array, Array, Array]) -> tuple[Array, Array, Array]:
        rows, product, regular = state

        def larger(i: Array, found: tuple[Array, Array]) -> tuple[Array, Array]:
            best, most = found
            own = _magnitude(rows[i, k])
            return where(own > most, i, best), where(own > most, own, most)

        best, _ = fori_loop(k + 1, size, larger, (k, _magnitude(rows[k, k])))
        place = astype(best, "uint64")  # is not counted from the end

        def exchanged(j: Array, rows: Array) -> Array:
            lower, upper = rows[place, j], rows[k, j]
            return rows.at[place, j].set(upper).at[k, j].set(lower)

        rows = fori_loop(k, columns, exchanged, rows)
        pivot = rows[k, k]

        def reduced(i: Array, rows: Array) -> Array:
            factor = rows[i, k] / _divisor(pivot)
            return rows.at[i, k:].set(rows[i, k:] - factor * rows[k, k:])

        rows = fori_loop(k + 1, size, reduced, rows)
        product = product * where(best == k, pivot, -pivot)
        return rows, product, logical_and(regular, pivot != 0)

    one = ones_like(given[0, 0])
    found: tuple[Array, Array, Array] = fori_loop(0, size, sweep, (given, one, True))
    return found


def _solved(matrices: Array, right: Array) -> tuple[Array, Array]:
    if matrices.ndim > 2:
        found: tuple[Array, Array] = mapped(_solved, matrices, right)
        return found
    size = matrices._node.shape[0]
    swept, _, regular = _swept(concat([matrices, right], axis=1), size)
    count = matrices.shape[0]
    factors, given = swept[:, :count], swept[:, count:]

    def substitute(k: Array, x: Array) -> Array:
        i = count - 1 - k
        row = factors[i]
        known = total(row[:, None] * x, axis=0)
        return x.at[i].set((given[i] - known) / row[i])

    solved: Array = fori_loop(0, size, substitute, zeros_like(right))
    return solved, regular
