"""Gaussian elimination with partial pivoting, where no library routine is called.

Few rows are eliminated number by number, of which compilers make vectors; more in loops.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from contextlib import AbstractContextManager
from contextvars import ContextVar
from typing import TypeAlias

from weft.array import Array
from weft.frontend import extent as extents
from weft.frontend import graph, layout
from weft.frontend.elementwise import broadcast_shapes
from weft.frontend.extent import Extent
from weft.frontend.gathering import gathering
from weft.frontend.graph import Node
from weft.functions.combinators import map as mapped
from weft.functions.control import fori_loop
from weft.functions.creation import eye, iota, ones_like, zeros_like
from weft.functions.data_types import astype
from weft.functions.elementwise import abs as absolute
from weft.functions.elementwise import log, logical_and, sign, sqrt, where
from weft.functions.manipulation import concat, stack
from weft.functions.statistical import all as every
from weft.functions.statistical import sum as total
from weft.ops.dtypes import DType

_FEW = 4  # rows that are eliminated number by number, where there are so many columns at most
_COLUMNS = 8

Rows: TypeAlias = list[list[Array]]
"""Numbers of matrices, or of batches of them."""

Regular: TypeAlias = tuple[Array, str]
"""Whether matrices are regular, or positive definite, and what to say where one is not."""

_regular: ContextVar[list[Regular] | None] = ContextVar("regular", default=None)


def whether_regular() -> AbstractContextManager[list[Regular]]:
    """Gathers whether all matrices were as systems and factors need them in here, and what else."""
    return gathering(_regular)


def are_few(matrices: Node) -> bool:
    """Whether matrices are eliminated number by number."""
    return 0 < _size(matrices.shape[-1]) <= _FEW


def determinants(matrices: Node) -> Node:
    """The products of pivots; exchanged rows turn the sign."""
    size = _size(matrices.shape[-1])
    if not size:
        return _each(matrices, 1, matrices.dtype)
    if size <= _FEW:
        rows, turned = _eliminated(_numbers(matrices, size, size))
        return functools.reduce(Array.__mul__, (rows[k][k] for k in range(size)), turned)._node
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
    if not size:
        return right
    if size <= _FEW and (columns is matrices.shape[-1] or _size(columns) <= _COLUMNS - size):
        width = size if columns is matrices.shape[-1] else columns.value
        solved, regular = _solved_few(matrices, right, size, width)
    else:
        solved, regular = _solved(Array(matrices), Array(right))
    _gather(every(regular), "singular matrix")
    return solved._node


def _gather(regular: Array, otherwise: str) -> None:
    gathered = _regular.get()
    if gathered is not None:
        gathered.append((regular, otherwise))


def signs_and_logarithms(matrices: Node) -> tuple[Node, Node]:
    """Of determinants: their signs, and the logarithms of their magnitudes."""
    if len(matrices.shape) > 2:
        each: tuple[Array, Array] = mapped(
            lambda one: tuple(map(Array, signs_and_logarithms(one._node))), Array(matrices)
        )
        return each[0]._node, each[1]._node
    size = _size(matrices.shape[-1])
    if not size:
        return _each(matrices, 1, matrices.dtype), _each(matrices, 0, matrices.dtype.real)
    if size <= _FEW:
        rows, turned = _eliminated(_numbers(matrices, size, size))
        pivots = [rows[k][k] for k in range(size)]
        signs = functools.reduce(Array.__mul__, map(sign, pivots), turned)
        logs = functools.reduce(Array.__add__, (log(absolute(pivot)) for pivot in pivots))
        return signs._node, logs._node
    swept, product, _ = _swept(Array(matrices), matrices.shape[0], sign)
    logs = mapped(lambda k: log(absolute(swept[k, k])), Array(iota(matrices.shape[:1], 0)))
    return product._node, total(logs)._node


def triangles(matrices: Node) -> Node:
    """L, lower triangles, of L @ L.T.conj(): NaN where a matrix is not positive definite."""
    if not _size(matrices.shape[-1]):
        return matrices
    factors, definite = _factored(Array(matrices))
    _gather(every(definite), "Matrix is not positive definite")
    return factors._node


def _factored(given: Array) -> tuple[Array, Array]:
    if given.ndim > 2:
        found: tuple[Array, Array] = mapped(_factored, given)
        return found
    few = _size(given._node.shape[0])
    if few <= _FEW:
        return _factored_few(_numbers(given._node, few, few))

    def next_row(i: Array, state: tuple[Array, Array]) -> tuple[Array, Array]:
        lower, definite = state

        def entry(j: Array, row: Array) -> Array:
            known = total(row * lower[j].conj())
            return row.at[j].set((given[i, j] - known) / lower[j, j])

        row = fori_loop(0, i, entry, zeros_like(given[i]))
        square = given[i, i].real - total((row * row.conj()).real)
        row = row.at[i].set(astype(sqrt(square), row.dtype))
        return lower.at[i].set(row), logical_and(definite, square > 0)

    size = given._node.shape[0]
    factored: tuple[Array, Array] = fori_loop(0, size, next_row, (zeros_like(given), True))
    return factored


def _factored_few(given: Rows) -> tuple[Array, Array]:
    none = zeros_like(given[0][0])
    rows = [[none] * len(given) for _ in given]
    squares = []
    for i, row in enumerate(rows):
        for j in range(i):
            known = [row[k] * rows[j][k].conj() for k in range(j)]
            row[j] = functools.reduce(Array.__sub__, known, given[i][j]) / rows[j][j]
        lengths = [(row[k] * row[k].conj()).real for k in range(i)]
        squares.append(functools.reduce(Array.__sub__, lengths, given[i][i].real))
        row[i] = astype(sqrt(squares[-1]), none.dtype)
    definite = functools.reduce(logical_and, (square > 0 for square in squares))
    return stack([stack(row, axis=-1) for row in rows], axis=-2), definite


def _each(matrices: Node, value: int, dtype: DType) -> Node:
    """A number for each matrix."""
    return layout.broadcast(graph.scalar_constant(value, dtype), matrices.shape[:-2])


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
    turned = ones_like(rows[0][0])
    for k in range(len(rows)):
        for i in range(k + 1, len(rows)):
            larger = _magnitude(rows[i][k]) > _magnitude(rows[k][k])
            both = list(zip(rows[k], rows[i], strict=True))
            rows[k] = [where(larger, b, a) for a, b in both]
            rows[i] = [where(larger, a, b) for a, b in both]
            turned = where(larger, -turned, turned)
        pivot = _divisor(rows[k][k])
        for i in range(k + 1, len(rows)):
            factor = rows[i][k] / pivot
            rows[i] = [b - factor * a for a, b in zip(rows[k], rows[i], strict=True)]
    return rows, turned


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


def _swept(
    given: Array, size: Extent, factor_of: Callable[[Array], Array] = lambda pivot: pivot
) -> tuple[Array, Array, Array]:
    """Rows of which the first columns are eliminated, the determinant, and whether none is 0.

    `factor_of`: what the product is of in place of pivots.
    """
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
        product = product * factor_of(where(best == k, pivot, -pivot))
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
