"""The NumPy side of scalar operations where NumPy has no function, or not a total one."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
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
    """A rounding function that leaves integers and booleans as they are."""

    def rounded(argument: Any) -> Any:
        return argument if np.asarray(argument).dtype.kind in "biu" else function(argument)

    return rounded


def select(condition: Any, yes: Any, no: Any) -> Any:
    return np.where(condition, yes, no)[()]


def make_complex(real: Any, imaginary: Any) -> Any:
    real, imaginary = np.broadcast_arrays(real, imaginary)
    whole = np.empty(real.shape, np.complex64 if real.dtype == np.float32 else np.complex128)
    whole.real, whole.imag = real, imaginary
    return whole[()]


def fused_multiply_add(a: Any, b: Any, c: Any) -> Any:
    """a * b + c, rounded once.

    Exact products and sums of two floats, and rounding to odd what is lost of them: S. Boldo and
    G. Melquiond, "Emulation of FMA and correctly rounded sums: proved algorithms using rounding to
    odd", IEEE Transactions on Computers 57 (2008). Fractions, where they overflow or underflow.
    """
    a, b, c = np.broadcast_arrays(a, b, c)
    if a.dtype == np.float32:
        exact = a.astype(np.float64) * b.astype(np.float64)
        return _sum_to_odd(exact, c.astype(np.float64)).astype(np.float32)[()]
    product = np.asarray(a * b)
    high_a, high_b = _high(a), _high(b)
    low_a, low_b = a - high_a, b - high_b
    lost = low_a * low_b - (((product - high_a * high_b) - low_a * high_b) - high_a * low_b)
    added = c + lost
    total = product + added
    least = _sum_to_odd(_sum_error(c, lost, added), _sum_error(product, added, total))
    found = np.asarray(total + least)
    finite = np.isfinite(a) & np.isfinite(b)
    simple = ~finite | (a == 0) | (b == 0) | ~np.isfinite(c)
    found = np.where(simple, np.where(finite & ~np.isfinite(c), c, product + c), found)
    large = np.maximum(np.maximum(abs(a), abs(b)), np.maximum(abs(product), abs(c))) > 2.0**990
    by_hand = ~simple & (large | (abs(product) < 2.0**-900))
    for place in zip(*np.nonzero(np.atleast_1d(by_hand)), strict=True):
        at = place if found.ndim else ()
        found[at] = _exactly(*(Fraction(float(x[at])) for x in (a, b, c)))
    return found[()]


def _exactly(a: Fraction, b: Fraction, c: Fraction) -> float:
    """a * b + c as the nearest float."""
    exact = a * b + c
    try:
        return float(exact)
    except OverflowError:
        return math.inf if exact > 0 else -math.inf


def _high(a: Any) -> Any:
    """The upper half of the digits (Veltkamp's splitting)."""
    scaled = a * 134217729.0
    return scaled - (scaled - a)


def _sum_error(a: Any, b: Any, total: Any) -> Any:
    """The rounding error of total = a + b (Knuth's two-sum)."""
    virtual = total - a
    return (a - (total - virtual)) + (b - virtual)


def _sum_to_odd(a: Any, b: Any) -> Any:
    """a + b in double precision; of the two floats around it, where it is none, the odd one.

    So a second rounding sees that something was lost.
    """
    total = np.asarray(a + b)
    error = _sum_error(a, b, total)
    inexact = np.isfinite(total) & (error != 0) & ((total.view(np.int64) & 1) == 0)
    towards = np.where(error > 0, np.inf, -np.inf)
    return np.where(inexact, np.nextafter(total, towards), total)


def by_element(function: Callable[[float], float]) -> Function:
    """A function of `math` on arrays, in double precision, with the argument's dtype."""

    def applied(argument: Any) -> Any:
        array = np.asarray(argument)
        values = np.fromiter(map(function, array.ravel().tolist()), np.float64, array.size)
        return values.reshape(array.shape).astype(array.dtype)[()]

    return applied


erf = by_element(math.erf)
erfc = by_element(math.erfc)
