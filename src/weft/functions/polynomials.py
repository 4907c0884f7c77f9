"""NumPy's functions of polynomials: coefficients from the highest power down."""

from __future__ import annotations

from typing import Any

import numpy as np

from weft.array import Array, asarray
from weft.errors import ArgumentError, ShapeError, user_place
from weft.frontend import extent as extents
from weft.functions.arguments import NumPyOnlyError, inexact
from weft.functions.control import fori_loop
from weft.functions.creation import arange, full, ones, zeros
from weft.functions.data_types import astype, result_type
from weft.functions.elementwise import sqrt
from weft.functions.manipulation import concat, stack
from weft.functions.numerics import convolve
from weft.functions.searching import known_values
from weft.functions.statistical import sum

__all__ = [
    "poly", "polyadd", "polyder", "polyfit", "polyint", "polymul", "polysub", "polyval", "roots",
    "vander",
]  # fmt: skip


def polyval(p: Any, x: Any) -> Array:
    """A polynomial's values, of coefficients from the highest power down (Horner's rule)."""
    coefficients, places = asarray(p), asarray(x)
    dtype = result_type(coefficients.dtype, places.dtype)
    at = astype(places, dtype)
    start = full(places.shape, 0, dtype=dtype)
    factors = astype(coefficients, dtype)
    found: Array = fori_loop(0, coefficients.shape[0], lambda k, y: y * at + factors[k], start)
    return found


def poly(seq_of_zeros: Any) -> Array:
    """The coefficients of the polynomial with these zeros, or of a matrix's characteristic one.

    That of complex zeros and of matrices computes them now: whether it is real, they tell.

    Raises
    ------
    ShapeError
        For what is neither a vector nor a square matrix.
    """
    array = asarray(seq_of_zeros)
    if array.ndim > 2 or (array.ndim == 2 and array.shape[0] != array.shape[1]):
        raise ShapeError(
            f"zeros of shape {array.shape}", "a vector, or a square matrix", place=user_place()
        )
    if array.ndim == 2 or array.dtype.kind == "c":
        return asarray(np.poly(known_values(array, "poly()")))
    zero = inexact(array.reshape(-1))
    none = zeros(1, dtype=zero.dtype)
    start = concat([ones(1, dtype=zero.dtype), zeros(zero.shape[0], dtype=zero.dtype)])
    found: Array = fori_loop(
        0, zero.shape[0], lambda k, made: made - zero[k] * concat([none, made[:-1]]), start
    )
    return found


def roots(p: Any) -> Array:
    """The zeros of a polynomial (computes `p` now: how many there are, zero coefficients tell).

    Raises
    ------
    ShapeError
        For coefficients of more than one dimension.
    """
    array = asarray(p)
    if array.ndim > 1:
        raise ShapeError(
            f"coefficients of {array.ndim} dimensions", "one dimension", place=user_place()
        )
    return asarray(np.roots(known_values(array, "roots()")))


def vander(x: Any, N: Any = None, increasing: bool = False) -> Array:  # noqa: N803 - NumPy's
    """The powers of a vector's elements as rows, N of them, falling or increasing.

    Raises
    ------
    ShapeError
        For what is no vector.
    """
    array = asarray(x)
    if array.ndim != 1:
        raise ShapeError(
            f"vander of {array.ndim} dimensions", "one dimension", place=user_place()
        )
    count = extents.integer(array.shape[0] if N is None else N)
    array = astype(array, result_type(array.dtype, "int64"))
    if count <= 0:
        return zeros((array.shape[0], 0), dtype=array.dtype)
    powers = [ones(array.shape, dtype=array.dtype)]
    for _ in range(1, count):
        powers.append(powers[-1] * array)
    return stack(powers if increasing else powers[::-1], axis=1)


def polyfit(
    x: Any, y: Any, deg: Any, rcond: Any = None, full: bool = False, w: Any = None,
    cov: Any = False,
) -> Array:  # fmt: skip
    """The coefficients of the polynomial of a degree that is nearest to y at x.

    Parameters
    ----------
    x : vector
    y : array
        A value, or a row of them, for each element of x.
    deg : int
    rcond : float, optional
        Singular values below this part of the greatest count as zero.
    w : vector, optional
        What the differences are multiplied by before they are squared.

    Raises
    ------
    ShapeError
        For a vector x without elements, and where x, y and w are not as long.
    NumPyOnlyError
        For `full` and `cov`, and several degrees.
    """
    from weft import linalg

    if full or cov is not False or np.ndim(deg):
        raise NumPyOnlyError("polyfit with full, cov or degrees", "one degree", place=user_place())
    degree = extents.integer(deg)
    if degree < 0:
        raise ArgumentError(f"polyfit of degree {degree}", "0 or more", place=user_place())
    places, values = asarray(x) + 0.0, asarray(y) + 0.0
    if places.ndim != 1 or places.shape[0] == 0:
        raise ShapeError(
            f"polyfit at places of shape {places.shape}", "a vector, not empty", place=user_place()
        )
    if not 1 <= values.ndim <= 2 or values.shape[0] != places.shape[0]:
        raise ShapeError(
            f"polyfit of values of shape {values.shape} at {places.shape[0]} places",
            "one value, or one row, for each", place=user_place(),
        )  # fmt: skip
    powers = vander(places, degree + 1)
    if w is not None:
        weights = asarray(w) + 0.0
        if weights.ndim != 1 or weights.shape[0] != places.shape[0]:
            raise ShapeError(
                f"weights of shape {weights.shape}", f"({places.shape[0]},)", place=user_place()
            )
        powers = powers * weights[:, None]
        values = values * (weights if values.ndim == 1 else weights[:, None])
    scale = sqrt(sum(powers * powers, axis=0))
    if rcond is None:
        rcond = places.shape[0] * float(np.finfo(places.dtype).eps)
    found = linalg.lstsq(powers / scale, values, rcond=rcond)[0]
    return (found.T / scale).T


def polyder(p: Any, m: Any = 1) -> Array:
    """The coefficients of a polynomial's derivative, the mth.

    Raises
    ------
    ArgumentError
        For m below 0.
    """
    found = asarray(p)
    for _ in range(_order(m)):
        length = found.shape[0]
        powers = length - 1 - arange(length)
        found = (found * astype(powers, result_type(found.dtype, "int64")))[:-1]
    return found


def polyint(p: Any, m: Any = 1, k: Any = None) -> Array:
    """The coefficients of a polynomial's integral, the mth, with constants k (0 by default).

    Raises
    ------
    ArgumentError
        For m below 0, and for more than one constant, but fewer than m.
    """
    count = _order(m)
    found = inexact(p) if count else asarray(p)
    constants = [0.0 if k is None else k] if np.ndim(k) == 0 else list(k)
    if len(constants) == 1:
        constants *= count
    if len(constants) < count:
        raise ArgumentError(f"{len(constants)} constants", f"{count}", place=user_place())
    for constant in constants[:count]:
        length = found.shape[0]
        last = astype(asarray(constant), found.dtype).reshape((1,))
        found = concat([found / (length - arange(length)), last])
    return found


def _order(m: Any) -> int:
    order = extents.integer(m)
    if order < 0:
        raise ArgumentError(f"order {order}", "0 or more", place=user_place())
    return order


def _as_long(a1: Any, a2: Any) -> tuple[Array, Array]:
    """Coefficients of two polynomials, zeros before those of the shorter one."""
    left, right = asarray(a1).reshape(-1), asarray(a2).reshape(-1)
    more = left.shape[0] - right.shape[0]
    if more > 0:
        right = concat([zeros(more, dtype=right.dtype), right])
    elif more < 0:
        left = concat([zeros(-more, dtype=left.dtype), left])
    return left, right


def polyadd(a1: Any, a2: Any) -> Array:
    """The coefficients of the sum of two polynomials."""
    left, right = _as_long(a1, a2)
    return left + right


def polysub(a1: Any, a2: Any) -> Array:
    """The coefficients of the difference of two polynomials."""
    left, right = _as_long(a1, a2)
    return left - right


def polymul(a1: Any, a2: Any) -> Array:
    """The coefficients of the product of two polynomials (NumPy's begins with none that are 0)."""
    return convolve(asarray(a1).reshape(-1), asarray(a2).reshape(-1))
