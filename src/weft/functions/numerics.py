"""NumPy's functions of numerical analysis: differences, integrals, interpolation, products."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from weft.array import Array, asarray
from weft.errors import ArgumentError, DTypeError, ShapeError, user_place
from weft.frontend.elementwise import apply
from weft.functions.arguments import in_floats, inexact
from weft.functions.binary_search import searchsorted
from weft.functions.creation import arange, full, zeros
from weft.functions.data_types import astype, result_type
from weft.functions.elementwise import abs as absolute
from weft.functions.elementwise import (
    atan2,
    clip,
    copysign,
    exp2,
    floor_divide,
    isinf,
    isnan,
    log1p,
    logical_and,
    maximum,
    minimum,
    nearest,
    pow,
    remainder,
    sin,
    trunc,
    where,
)
from weft.functions.linear_algebra import vecdot
from weft.functions.lmads import lmad
from weft.functions.manipulation import concat, flip, moveaxis
from weft.functions.searching import take
from weft.functions.statistical import diff
from weft.functions.statistical import sum as total

__all__ = [
    "angle", "convolve", "correlate", "cross", "deg2rad", "degrees", "divmod", "ediff1d", "fabs",
    "fix", "float_power", "fmod", "gradient", "heaviside", "interp", "iscomplex", "iscomplexobj",
    "isneginf", "isposinf", "isreal", "isrealobj", "kron", "logaddexp2", "modf", "rad2deg",
    "radians", "rint", "round", "sinc", "trapezoid", "unwrap", "vdot",
]  # fmt: skip


# ---------------------------------------------------------------- element by element


def degrees(x: Any, /) -> Array:
    """Angles in degrees, of angles in radians."""
    return in_floats(x)[0] * (180 / math.pi)


def radians(x: Any, /) -> Array:
    """Angles in radians, of angles in degrees."""
    return in_floats(x)[0] * (math.pi / 180)


rad2deg, deg2rad = degrees, radians


def fabs(x: Any, /) -> Array:
    """Absolute values as floats."""
    return absolute(*in_floats(x))


def rint(x: Any, /) -> Array:
    """The nearest integers, the even one of two, as floats."""
    return nearest(in_floats(x)[0])


def round(x: Any, /, decimals: int = 0) -> Array:
    """x to so many decimals, halves to even; to tens and more where `decimals` is negative."""
    if not decimals:
        return nearest(x)
    given = asarray(x)
    if iscomplexobj(given):  # infinite parts stay apart from others
        parts = [round(part, decimals) for part in (given.real, given.imag)]
        return Array(apply("complex", *(part._node for part in parts)))
    scale = 10.0 ** abs(decimals)
    if decimals < 0:
        return astype(nearest(given / scale) * scale, result_type(given, 1))
    return given.copy() if result_type(given).kind in "iu" else nearest(given * scale) / scale


def float_power(x1: Any, x2: Any, /) -> Array:
    """x1 to the power of x2, in float64 or complex128."""
    return pow(*(astype(x, result_type(x, "float64")) for x in map(asarray, (x1, x2))))


def fmod(x1: Any, x2: Any, /) -> Array:
    """The remainder of a division towards zero, which has the sign of x1: C's, exactly."""
    rest = remainder(x1, x2)  # Python's, which has the sign of x2
    x1, x2 = astype(x1, rest.dtype), astype(x2, rest.dtype)
    if rest.dtype.kind == "f":  # of numbers that are not negative, the two are one
        return copysign(remainder(absolute(x1), absolute(x2)), x1)
    return where(logical_and(rest != 0, (rest < 0) != (x1 < 0)), rest - x2, rest)


def divmod(x1: Any, x2: Any, /) -> tuple[Array, Array]:
    """The quotient, rounded down, and the remainder."""
    return floor_divide(x1, x2), remainder(x1, x2)


def modf(x: Any, /) -> tuple[Array, Array]:
    """The fractional and the whole part, each with the sign of x."""
    (array,) = in_floats(x)
    whole = trunc(array)
    return copysign(where(isinf(array), 0.0, array - whole), array), whole


def fix(x: Any) -> Array:
    """Rounded towards zero."""
    return trunc(x)


def heaviside(x1: Any, x2: Any, /) -> Array:
    """0 of negative numbers, 1 of positive ones, x2 of zeros."""
    left, right = in_floats(x1, x2)
    stepped = where(left == 0, right, astype(left > 0, left.dtype))
    return where(isnan(left), left, stepped)


def sinc(x: Any) -> Array:
    """sin(pi x) / (pi x), 1 where x is 0."""
    scaled = math.pi * where(asarray(x) == 0, 1.0e-20, inexact(x))
    return sin(scaled) / scaled


def angle(z: Any, deg: bool = False) -> Array:
    """The angle of complex numbers, in radians or in degrees."""
    array = asarray(z)
    found = atan2(array.imag, array.real) if array.dtype.kind == "c" else atan2(0.0, array)
    return degrees(found) if deg else found


# ---------------------------------------------------------------- differences and integrals


def ediff1d(ary: Any) -> Array:
    """Differences of neighbours of the flattened array."""
    return diff(asarray(ary).ravel())


def gradient(f: Any, /, *varargs: Any, axis: Any = None, edge_order: int = 1) -> Any:
    """Central differences along axes, one-sided ones at the ends.

    Parameters
    ----------
    f : array
    *varargs : scalar or vector
        The distance of samples, or their coordinates, along all axes or each; 1 by default.
    axis : int or tuple of int, optional
        All axes by default.
    edge_order : {1, 2}
        Of the differences at the ends.

    Returns
    -------
    Array, or a tuple of them for several axes

    Raises
    ------
    ArgumentError
        For distances of other axes than there are.
    ShapeError
        For fewer than edge_order + 1 samples along an axis.
    """
    array = inexact(f)
    axes = range(array.ndim) if axis is None else axis if isinstance(axis, tuple) else (axis,)
    if len(varargs) not in (0, 1, len(axes)) or edge_order not in (1, 2):
        raise ArgumentError(
            f"{len(varargs)} distances, edge_order={edge_order}",
            f"1 or {len(axes)} distances, edge_order=1 or 2", place=user_place(),
        )  # fmt: skip
    steps = varargs if len(varargs) == len(axes) else (varargs or (1.0,)) * len(axes)
    found = []
    for along, step in zip(axes, steps, strict=True):
        moved = moveaxis(array, along, 0)
        if moved.shape[0] <= edge_order:
            raise ShapeError(
                f"{moved.shape[0]} samples along axis {along}", f"{edge_order + 1} or more",
                place=user_place(),
            )  # fmt: skip
        slopes = astype(_slopes(moved, step, edge_order), array.dtype)  # NumPy's, whatever steps
        found.append(moveaxis(slopes, 0, along))
    return found[0] if len(found) == 1 else tuple(found)


def _slopes(f: Array, step: Any, edge_order: int) -> Array:
    """The gradient along the first axis, by a distance (a number may be of any dtype) or places."""
    if np.ndim(step) == 0:
        inner = (f[2:] - f[:-2]) / (2.0 * step)
        before = after = ends = (step, step)
    else:
        apart = diff(inexact(step))
        before = after = ends = (apart[0], apart[-1])
        column = apart.reshape((-1, *(1,) * (f.ndim - 1)))
        left, right = column[:-1], column[1:]
        inner = (
            -right / (left * (left + right)) * f[:-2]
            + (right - left) / (left * right) * f[1:-1]
            + left / (right * (left + right)) * f[2:]
        )
        if edge_order == 2:
            before, after = (apart[0], apart[1]), (apart[-1], apart[-2])
    if edge_order == 1:
        first, last = (f[1] - f[0]) / ends[0], (f[-1] - f[-2]) / ends[1]
    else:
        first = _one_sided(f[0], f[1], f[2], *before)
        last = -_one_sided(f[-1], f[-2], f[-3], *after)
    return concat([first[None], inner, last[None]], axis=0)


def _one_sided(at: Array, near: Array, far: Array, left: Any, right: Any) -> Array:
    """The slope at an end of second order: samples at 0, `left`, and `left + right`."""
    whole = left + right
    found: Array = (
        -(2.0 * left + right) / (left * whole) * at
        + whole / (left * right) * near
        - left / (right * whole) * far
    )
    return found


def trapezoid(y: Any, x: Any = None, dx: Any = 1.0, axis: int = -1) -> Array:
    """The integral along an axis by the trapezoidal rule, of samples `dx` apart or at x."""
    samples = moveaxis(asarray(y), axis, -1)
    apart = dx  # a number may be of any dtype
    if x is not None:
        places = asarray(x)
        apart = diff(places if places.ndim == 1 else moveaxis(places, axis, -1))
    return total(apart * (samples[..., 1:] + samples[..., :-1]) / 2.0, axis=-1)


def interp(x: Any, xp: Any, fp: Any, left: Any = None, right: Any = None) -> Array:
    """Linear interpolation between points of which the coordinates increase, in float64.

    Parameters
    ----------
    x : array
        Where.
    xp, fp : vector
        Coordinates, increasing, and values there.
    left, right : scalar, optional
        Before the first and behind the last point; by default their values.
    """
    at, places = astype(x, "float64"), astype(xp, "float64")
    values = astype(fp, result_type(fp, "float64"))
    last = places.shape[0] - 1
    low = clip(searchsorted(places, at, side="right") - 1, 0, last)
    high = minimum(low + 1, last)
    x0, x1 = take(places, low), take(places, high)
    apart = where(low == high, 1.0, x1 - x0)  # behind the last point, neighbours are one

    def between(values: Array) -> Array:
        """From the next point back where NaN would come out, as NumPy does it."""
        y0, y1 = take(values, low), take(values, high)
        slope = (y1 - y0) / apart
        ahead, back = slope * (at - x0) + y0, slope * (at - x1) + y1
        level = where(logical_and(isnan(back), y0 == y1), y0, back)
        return where(at == x0, y0, where(isnan(ahead), level, ahead))

    if values.dtype.kind == "c":
        parts = between(values.real), between(values.imag)
        found = Array(apply("complex", *(part._node for part in parts)))
    else:
        found = between(values)
    found = where(at < places[0], values[0] if left is None else left, found)
    found = where(at > places[-1], values[-1] if right is None else right, found)
    return where(isnan(at), at, found)


# ---------------------------------------------------------------- products


def convolve(a: Any, v: Any, mode: str = "full") -> Array:
    """The discrete convolution of two vectors.

    Parameters
    ----------
    a, v : vector
    mode : {"full", "same", "valid"}
        All places where they overlap, as many as the longer one has in their middle, or those
        where they overlap wholly.

    Raises
    ------
    ShapeError
        For other than vectors, and for empty ones.
    """
    return _slid(asarray(a), flip(asarray(v)), mode, turned=True)


def correlate(a: Any, v: Any, mode: str = "valid") -> Array:
    """The cross-correlation of two vectors; modes as those of `convolve`."""
    return _slid(asarray(a), asarray(v).conj(), mode, turned=False)


def _slid(long: Array, short: Array, mode: str, turned: bool) -> Array:
    """Sums of products while one vector slides along another one."""
    if long.ndim != 1 or short.ndim != 1:
        raise ShapeError(
            f"vectors of {long.ndim} and {short.ndim} dimensions", "1", place=user_place()
        )
    if mode not in ("full", "same", "valid"):
        raise ArgumentError(f"mode {mode!r}", '"full", "same" or "valid"', place=user_place())
    if long.shape[0] == 0 or short.shape[0] == 0:
        raise ShapeError("a vector of no elements", "one or more", place=user_place())
    back = long.shape[0] < short.shape[0]
    if back:
        long, short = (flip(short), flip(long)) if turned else (short, long)
    n, m = long.shape[0], short.shape[0]
    nothing = zeros(m - 1, dtype=long.dtype)
    padded = long if mode == "valid" else concat([nothing, long, nothing])
    first, count = {
        "valid": (0, n - m + 1), "full": (0, n + m - 1),
        "same": ((m - 1) // 2, n),
    }[mode]  # fmt: skip
    products = lmad(padded, first, [(count, 1), (m, 1)]) * short
    if mode != "valid" and products.dtype.kind in "fc":  # NaN times padding is no NaN
        places = first + arange(count)[:, None] + arange(m)
        products = where(logical_and(places >= m - 1, places < n + m - 1), products, 0)
    slid = total(products, axis=1, dtype=products.dtype)
    return flip(slid) if back and not turned else slid


def cross(a: Any, b: Any, axis: int = -1) -> Array:
    """The vector product of vectors of three elements along an axis.

    Raises
    ------
    ShapeError
        For other numbers of elements.
    """
    from weft import linalg

    return linalg.cross(a, b, axis=axis)


def kron(a: Any, b: Any) -> Array:
    """Kronecker's product: each element of a times all of b."""
    left, right = asarray(a), asarray(b)
    rank = max(left.ndim, right.ndim)
    m = (*(1,) * (rank - left.ndim), *left.shape)
    n = (*(1,) * (rank - right.ndim), *right.shape)
    spread = left.reshape([extent for e in m for extent in (e, 1)])
    repeated = right.reshape([extent for e in n for extent in (1, e)])
    return (spread * repeated).reshape([p * q for p, q in zip(m, n, strict=True)])


def vdot(a: Any, b: Any, /) -> Array:
    """The sum of the products of all elements, those of a conjugated."""
    return vecdot(asarray(a).ravel(), asarray(b).ravel())


# ---------------------------------------------------------------- kinds of numbers


def isreal(x: Any, /) -> Array:
    """Whether elements have no imaginary part."""
    array = asarray(x)
    return array.imag == 0 if iscomplexobj(array) else full(array.shape, True)


def iscomplex(x: Any, /) -> Array:
    """Whether elements have an imaginary part."""
    array = asarray(x)
    return array.imag != 0 if iscomplexobj(array) else full(array.shape, False)


def iscomplexobj(x: Any) -> bool:
    """Whether an array is of complex numbers."""
    return bool(asarray(x).dtype.kind == "c")


def isrealobj(x: Any) -> bool:
    """Whether an array is of real numbers."""
    return not iscomplexobj(x)


def isneginf(x: Any, /) -> Array:
    """Whether elements are infinite and negative."""
    return _infinite(x, "isneginf") == -math.inf


def isposinf(x: Any, /) -> Array:
    """Whether elements are infinite and positive."""
    return _infinite(x, "isposinf") == math.inf


def _infinite(x: Any, what: str) -> Array:
    array = asarray(x)
    if array.dtype.kind == "c":
        raise DTypeError(f"{what} of {array.dtype}", "real numbers", place=user_place())
    return inexact(array)


def logaddexp2(x1: Any, x2: Any, /) -> Array:
    """log2(2**x1 + 2**x2)."""
    left, right = in_floats(x1, x2)
    high = maximum(left, right)
    apart = where(left == right, 0, -absolute(left - right))  # of infinite ones, too
    return high + log1p(exp2(apart)) * (1 / math.log(2))


def unwrap(p: Any, discont: Any = None, axis: int = -1, *, period: Any = 2 * math.pi) -> Array:
    """Phases without jumps along an axis: whole periods are added where one is further.

    Parameters
    ----------
    p : array, real
    discont : scalar, optional
        Only jumps of as much are mended; half a period by default, and never less.
    axis : int
    period : scalar
    """
    array = moveaxis(asarray(p), axis, -1)
    jumps = diff(array, axis=-1)
    dtype = result_type(jumps, period)
    whole = dtype.kind in "iu"
    high = period // 2 if whole else period / 2
    least = high if discont is None else discont
    turned = remainder(jumps + high, period) - high
    if not whole or period % 2 == 0:
        turned = where(logical_and(turned == -high, jumps > 0), high, turned)
    mended = where(absolute(jumps) < least, 0, turned - jumps)
    more = astype(array[..., 1:] + astype(mended, dtype).cumsum(-1), dtype)
    return moveaxis(concat([astype(array[..., :1], dtype), more], axis=-1), -1, axis)
