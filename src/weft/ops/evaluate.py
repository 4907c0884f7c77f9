"""The NumPy side of scalar operations where NumPy has no function, or not a total one."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import wraps
from typing import Any

import numpy as np

Function = Callable[..., Any]


def quiet(function: Function) -> Function:
    """The function without warnings of division by zero, overflow or invalid values."""

    @wraps(function)
    def silent(*arguments: Any) -> Any:
        with np.errstate(all="ignore"):
            return function(*arguments)

    return silent


def integer_power(base: Any, exponent: Any) -> Any:
    """`numpy.power`; negative exponents give 1 / base**-exponent rounded towards zero."""
    base, exponent = np.asarray(base), np.asarray(exponent)
    if exponent.dtype.kind == "u" or not np.any(exponent < 0):
        return np.power(base, exponent)[()]
    odd = np.where(exponent & 1, base, np.ones_like(base))
    units = np.where(base == 1, base, np.where(base == -1, odd, np.zeros_like(base)))
    return np.where(exponent < 0, units, np.power(base, np.maximum(exponent, 0)))[()]


def power(base: Any, exponent: Any) -> Any:
    return (integer_power if np.asarray(base).dtype.kind in "iu" else np.power)(base, exponent)


def identity(argument: Any) -> Any:
    return argument


def rounding(function: Function) -> Function:
    """A rounding function that leaves integers as they are."""

    def rounded(argument: Any) -> Any:
        return argument if np.asarray(argument).dtype.kind in "iu" else function(argument)

    return rounded


def select(condition: Any, yes: Any, no: Any) -> Any:
    return np.where(condition, yes, no)[()]


def make_complex(real: Any, imaginary: Any) -> Any:
    real, imaginary = np.broadcast_arrays(real, imaginary)
    whole = np.empty(real.shape, np.complex64 if real.dtype == np.float32 else np.complex128)
    whole.real, whole.imag = real, imaginary
    return whole[()]


def fused_multiply_add(a: Any, b: Any, c: Any) -> Any:
    """a * b + c, rounded once for float32 and (but for ties within an ULP) for float64."""
    a, b, c = np.broadcast_arrays(a, b, c)
    if a.dtype == np.float32:
        exact = a.astype(np.float64) * b.astype(np.float64)
        total = exact + c
        error = _sum_error(exact, c.astype(np.float64), total)
        # Round to odd, so that the second rounding sees that something was lost.
        even = (np.asarray(total).view(np.int64) & 1) == 0
        inexact = np.isfinite(total) & (error != 0) & even
        towards = np.where(error > 0, np.inf, -np.inf)
        return np.where(inexact, np.nextafter(total, towards), total).astype(np.float32)[()]
    product = a * b
    high_a, high_b = _high(a), _high(b)
    low_a, low_b = a - high_a, b - high_b
    product_error = low_a * low_b - (
        ((product - high_a * high_b) - low_a * high_b) - high_a * low_b
    )
    total = product + c
    corrected = total + (product_error + _sum_error(product, c, total))
    wide = (a.astype(np.longdouble) * b + c).astype(a.dtype)  # where a * b overflows
    return np.where(np.isfinite(corrected), corrected, wide)[()]


def _high(a: Any) -> Any:
    """The upper half of the digits (Veltkamp's splitting)."""
    scaled = a * 134217729.0
    return scaled - (scaled - a)


def _sum_error(a: Any, b: Any, total: Any) -> Any:
    """The rounding error of total = a + b (Knuth's two-sum)."""
    virtual = total - a
    return (a - (total - virtual)) + (b - virtual)


def by_element(function: Callable[[float], float]) -> Function:
    """A function of `math` on arrays, in double precision, with the argument's dtype."""

    def applied(argument: Any) -> Any:
        array = np.asarray(argument)
        values = np.fromiter(map(function, array.ravel().tolist()), np.float64, array.size)
        return values.reshape(array.shape).astype(array.dtype)[()]

    return applied


erf = by_element(math.erf)
erfc = by_element(math.erfc)
