"""NumPy's functions of how numbers are made: divisors, bits, powers of two; and Bessel's."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from weft.array import Array, asarray
from weft.errors import DTypeError, user_place
from weft.frontend import layout
from weft.functions.arguments import in_floats, inexact
from weft.functions.combinators import map as mapped
from weft.functions.control import while_loop
from weft.functions.creation import full_like
from weft.functions.data_types import astype, result_type
from weft.functions.elementwise import abs as absolute
from weft.functions.elementwise import (
    copysign,
    exp,
    floor_divide,
    isfinite,
    logical_and,
    maximum,
    minimum,
    nextafter,
    sqrt,
    where,
)
from weft.functions.manipulation import broadcast_arrays

__all__ = ["bitwise_count", "frexp", "gcd", "i0", "lcm", "ldexp", "spacing"]


# ---------------------------------------------------------------- whole numbers


def gcd(x1: Any, x2: Any, /) -> Array:
    """The greatest common divisor of each pair of integers.

    Raises
    ------
    DTypeError
        For anything but integers.
    """
    left, right, dtype = _whole("gcd", x1, x2)
    return astype(_divisor(left, right), dtype)


def lcm(x1: Any, x2: Any, /) -> Array:
    """The least common multiple of each pair of integers; 0 where one is.

    Raises
    ------
    DTypeError
        For anything but integers.
    """
    left, right, dtype = _whole("lcm", x1, x2)
    divisor = _divisor(left, right)
    return astype(floor_divide(left, maximum(divisor, 1)) * right, dtype)


def _whole(what: str, x1: Any, x2: Any) -> tuple[Array, Array, np.dtype[Any]]:
    """Two arguments of one shape without their signs, as unsigned integers; and their dtype."""
    dtype = result_type(x1, x2)
    if dtype.kind not in "iu":
        raise DTypeError(f"{what} of {dtype}", "integers", place=user_place())
    left, right = broadcast_arrays(_unsigned(astype(x1, dtype)), _unsigned(astype(x2, dtype)))
    return left, right, dtype


def _unsigned(x: Array) -> Array:
    """Absolute values, in a dtype that holds that of the least integer, too."""
    return astype(absolute(x), np.dtype(f"u{x.dtype.itemsize}"))


def _divisor(left: Array, right: Array) -> Array:
    """Euclid's algorithm at each element."""
    if left.ndim:
        flat = mapped(_of_two, left.reshape(-1), right.reshape(-1))
        return Array(layout.reshape(flat._node, left._node.shape))
    return _of_two(left, right)


def _of_two(left: Array, right: Array) -> Array:
    found, _ = while_loop(lambda two: two[1] != 0, lambda two: (two[1], two[0] % two[1]),
                          (left, right))  # fmt: skip
    return found  # type: ignore[no-any-return]


def bitwise_count(x: Any, /) -> Array:
    """How many bits of the absolute value of each integer are 1, as uint8.

    Raises
    ------
    DTypeError
        For anything but integers and booleans.
    """
    array = asarray(x)
    if array.dtype.kind not in "biu":
        raise DTypeError(f"bitwise_count of {array.dtype}", "integers", place=user_place())
    if array.dtype.kind == "b":
        return astype(array, "uint8")
    bits = astype(_unsigned(array), "uint64" if array.dtype.itemsize == 8 else "uint32")
    width = 8 * bits.dtype.itemsize

    def repeated(byte: int) -> Any:
        return bits.dtype.type(int.from_bytes(bytes([byte]) * (width // 8), "little"))

    bits = bits - ((bits >> 1) & repeated(0x55))  # counts of 2 bits, then of 4, then of bytes
    bits = (bits & repeated(0x33)) + ((bits >> 2) & repeated(0x33))
    bits = (bits + (bits >> 4)) & repeated(0x0F)
    return astype((bits * repeated(0x01)) >> (width - 8), "uint8")


# ---------------------------------------------------------------- floats

_MOST = {4: 7, 8: 10}
"""By bytes of a float: of steps by 2**(2**k), the least k that is too much."""
_TIMES = 5
"""How many of the largest of its steps `ldexp` does, to go from the least to the greatest float."""


def ldexp(x1: Any, x2: Any, /) -> Array:
    """x1 times 2 to the power of x2, rounded once.

    Raises
    ------
    DTypeError
        For complex numbers, and powers that are no integers.
    """
    (array,), powers = in_floats(x1), asarray(x2)
    if array.dtype.kind == "c" or not np.can_cast(powers.dtype, np.int64):
        raise DTypeError(
            f"ldexp of {array.dtype} and {powers.dtype}", "floats and integers of int64",
            place=user_place(),
        )  # fmt: skip
    most = _MOST[array.dtype.itemsize] - 1
    whole = 2**most - 1  # a power that floats have, either sign
    ends = astype(powers, "int64")
    powers = astype(maximum(minimum(ends, _TIMES * whole), -_TIMES * whole), "int32")
    size = absolute(powers)
    number = array.dtype.type
    # the small factor first: what the others then make subnormal is nothing after the next one
    factor = full_like(powers, 1, dtype=array.dtype)
    for k in range(most):
        factor = factor * where((size % whole) >> k & 1 == 1, number(2.0 ** 2**k), number(1))
    found = array * where(powers < 0, 1 / factor, factor)
    step = where(powers < 0, number(2.0**-whole), number(2.0**whole))
    for k in range(_TIMES):
        found = found * where(size >= (k + 1) * whole, step, number(1))
    return found


def frexp(x: Any, /) -> tuple[Array, Array]:
    """Numbers from 1/2 to 1, and the powers of two (int32) that they are of.

    Raises
    ------
    DTypeError
        For complex numbers.
    """
    (array,) = in_floats(x)
    if array.dtype.kind == "c":
        raise DTypeError(f"frexp of {array.dtype}", "floats", place=user_place())
    number, steps = array.dtype.type, range(_MOST[array.dtype.itemsize] - 1, -1, -1)
    usual = logical_and(isfinite(array), array != 0)
    rest, power = where(usual, absolute(array), number(0.5)), full_like(array, 0, dtype="int32")
    for up in (True, False):
        for k in steps if up else (steps[0], *steps):  # subnormal ones are farther from 1
            by = number(2.0 ** 2**k)
            far = rest >= by if up else rest < 1 / by
            rest = where(far, rest / by if up else rest * by, rest)
            power = power + where(far, np.int32(2**k if up else -(2**k)), np.int32(0))
    above = rest >= 1
    rest, power = where(above, rest / 2, rest), power + astype(above, "int32")
    return where(usual, copysign(rest, array), array), power


def spacing(x: Any, /) -> Array:
    """How far the next float away from zero is, with the sign of x; NaN of infinite ones.

    Raises
    ------
    DTypeError
        For complex numbers.
    """
    (array,) = in_floats(x)
    if array.dtype.kind == "c":
        raise DTypeError(f"spacing of {array.dtype}", "floats", place=user_place())
    end = array.dtype.type(math.inf)
    return nextafter(array, where(array < 0, -end, end)) - array


def i0(x: Any) -> Array:
    """The modified Bessel function of the first kind, of order 0.

    By the sums of Chebyshev polynomials that NumPy and Cephes have.

    Raises
    ------
    DTypeError
        For complex numbers.
    """
    array = inexact(x)
    if array.dtype.kind == "c":
        raise DTypeError(f"i0 of {array.dtype}", "real numbers", place=user_place())
    size = absolute(array)
    large = maximum(size, 8)
    near = _chebyshev(size / 2 - 2, _SMALL)
    far = _chebyshev(32 / large - 2, _LARGE) / sqrt(large)
    return exp(size) * where(size <= 8, near, far)


def _chebyshev(x: Array, coefficients: tuple[float, ...]) -> Array:
    last: Any = coefficients[0]
    before: Any = 0.0
    for coefficient in coefficients[1:]:
        last, before, far = x * last - before + coefficient, last, before
    found: Array = 0.5 * (last - far)
    return found


_SMALL = (
    -4.4153416464793395e-18, 3.3307945188222384e-17, -2.431279846547955e-16,
    1.715391285555133e-15, -1.1685332877993451e-14, 7.676185498604936e-14,
    -4.856446783111929e-13, 2.95505266312964e-12, -1.726826291441556e-11,
    9.675809035373237e-11, -5.189795601635263e-10, 2.6598237246823866e-09,
    -1.300025009986248e-08, 6.046995022541919e-08, -2.670793853940612e-07,
    1.1173875391201037e-06, -4.4167383584587505e-06, 1.6448448070728896e-05,
    -5.754195010082104e-05, 0.00018850288509584165, -0.0005763755745385824,
    0.0016394756169413357, -0.004324309995050576, 0.010546460394594998,
    -0.02373741480589947, 0.04930528423967071, -0.09490109704804764,
    0.17162090152220877, -0.3046826723431984, 0.6767952744094761,
)
_LARGE = (
    -7.233180487874754e-18, -4.830504485944182e-18, 4.46562142029676e-17,
    3.461222867697461e-17, -2.8276239805165836e-16, -3.425485619677219e-16,
    1.7725601330565263e-15, 3.8116806693526224e-15, -9.554846698828307e-15,
    -4.150569347287222e-14, 1.54008621752141e-14, 3.8527783827421426e-13,
    7.180124451383666e-13, -1.7941785315068062e-12, -1.3215811840447713e-11,
    -3.1499165279632416e-11, 1.1889147107846439e-11, 4.94060238822497e-10,
    3.3962320257083865e-09, 2.266668990498178e-08, 2.0489185894690638e-07,
    2.8913705208347567e-06, 6.889758346916825e-05, 0.0033691164782556943,
    0.8044904110141088,
)
