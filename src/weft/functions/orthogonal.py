"""Factors of reflections and rotations, where no library routine is called."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from weft.array import Array
from weft.frontend.extent import Extent
from weft.functions.arguments import length_of
from weft.functions.combinators import map as mapped
from weft.functions.control import fori_loop, while_loop
from weft.functions.creation import eye, iota, tril, triu, zeros
from weft.functions.data_types import astype
from weft.functions.elementwise import abs as absolute
from weft.functions.elementwise import logical_and, logical_or, sqrt, where
from weft.functions.statistical import sum as total

_SWEEPS = 60  # rotations of all pairs: a few more than 10 are ever needed

Pair = tuple[Array, Array]


def reflected(matrix: Array, inner: Extent, shorter: Extent) -> Pair:
    """Q and R of Q @ R = matrix: `inner` columns and rows; `shorter` is the shorter side.

    By Householder's reflections, with LAPACK's signs (`geqr2`, `larfg`).
    """
    if matrix.ndim > 2:
        each: Pair = mapped(lambda one: reflected(one, inner, shorter), matrix)
        return each
    rows, dtype = matrix._node.shape[0], matrix.dtype
    place = Array(iota((rows,), 0))

    def reflect(k: Array, state: tuple[Array, Array, Array]) -> tuple[Array, Array, Array]:
        left, vectors, factors = state
        column, pivot = left[:, k], left[k, k]
        below = total(where(place > k, _square(column), 0.0))
        there = logical_or(below > 0, pivot.imag != 0) if pivot.dtype.kind == "c" else below > 0
        length = sqrt(_square(pivot) + below)
        first = where(pivot.real < 0, length, -length)
        factor = where(there, (first - pivot) / where(there, first, 1.0), 0.0)
        scaled = column / where(there, pivot - first, 1.0)
        vector = where(place > k, scaled, where(place == k, 1.0, 0.0))
        vector = astype(vector, dtype)
        left = _mirrored(left, vector, factor.conj())
        return left, vectors.at[:, k].set(vector), factors.at[k].set(astype(factor, dtype))

    start = matrix, zeros((rows, shorter), dtype=dtype), zeros((shorter,), dtype=dtype)
    found: tuple[Array, Array, Array] = fori_loop(0, shorter, reflect, start)
    left, vectors, factors = found

    def undo(step: Array, square: Array) -> Array:
        k = length_of(shorter) - 1 - step
        return _mirrored(square, vectors[:, k], factors[k])

    square: Array = fori_loop(0, shorter, undo, eye(rows, inner, dtype=dtype))
    return square, triu(left[:inner])


def _square(x: Array) -> Array:
    return (x * x.conj()).real


def _mirrored(rows: Array, vector: Array, factor: Array) -> Array:
    """rows - factor * vector @ (vector.T.conj() @ rows)"""
    along = total(vector.conj()[:, None] * rows, axis=0)
    return rows - (factor * vector)[:, None] * along


def rotated(matrix: Array, in_order: Callable[[Array], Array]) -> Pair:
    """Eigenvalues, ascending, and eigenvectors, of a matrix whose lower triangle is given.

    By Jacobi's rotations, row by row (Golub and Van Loan, *Matrix Computations*, section 8.5).
    `in_order`: the places of a vector's elements, the least one's first.
    """
    if matrix.ndim > 2:
        each: Pair = mapped(lambda one: rotated(one, in_order), matrix)
        return each
    size = matrix._node.shape[0]
    count = length_of(size)
    eps = float(np.finfo(matrix.dtype).eps)
    whole = tril(matrix) + tril(matrix, k=-1).conj().mT
    if matrix.dtype.kind == "c":
        whole = where(eye(size) > 0, astype(whole.real, matrix.dtype), whole)
    enough = eps * sqrt(total(_square(whole)))

    def goes_on(state: tuple[Array, Array, Array]) -> Array:
        sweep, rows, _ = state
        return logical_and(sweep < _SWEEPS, sqrt(total(_square(tril(rows, k=-1)))) > enough)

    def sweep_over(state: tuple[Array, Array, Array]) -> tuple[Array, Array, Array]:
        sweep, rows, vectors = state

        def row(p: Array, pair: Pair) -> Pair:
            found: Pair = fori_loop(p + 1, count, lambda q, pair: _turned(p, q, *pair), pair)
            return found

        return sweep + 1, *fori_loop(0, count - 1, row, (rows, vectors))

    start: Any = (0, whole, eye(size, dtype=matrix.dtype))
    _, rows, vectors = while_loop(goes_on, sweep_over, start)
    values = mapped(lambda k: rows[k, k].real, Array(iota((size,), 0)))
    order = in_order(values)
    return values[order], vectors[order].mT


def _turned(p: Array, q: Array, rows: Array, vectors: Array) -> Pair:
    """A rotation in the plane of two axes, after which they are apart; vectors are rows."""
    beside = rows[p, q]
    far = absolute(beside)
    apart = far > 0
    phase = where(apart, beside / where(apart, far, 1.0), 1.0)
    angle = (rows[q, q] - rows[p, p]).real / (2 * where(apart, far, 1.0))
    steep = 1 / (absolute(angle) + sqrt(angle * angle + 1))
    tangent = where(apart, where(angle < 0, -steep, steep), 0.0)
    cosine = 1 / sqrt(tangent * tangent + 1)
    sine = tangent * cosine * phase

    def mixed(upper: Array, lower: Array, sine: Array) -> Pair:
        return cosine * upper - sine * lower, sine.conj() * upper + cosine * lower

    left, right = mixed(rows[:, p], rows[:, q], sine.conj())
    rows = rows.at[:, p].set(left).at[:, q].set(right)
    upper, lower = mixed(rows[p], rows[q], sine)
    rows = rows.at[p].set(upper).at[q].set(lower)
    upper, lower = mixed(vectors[p], vectors[q], sine.conj())
    return rows, vectors.at[p].set(upper).at[q].set(lower)
