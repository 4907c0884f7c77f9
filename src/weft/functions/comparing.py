"""NumPy's functions that compare arrays as wholes or nearly, and choose among them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from weft.array import Array, asarray
from weft.errors import ArgumentError, user_place
from weft.functions.arguments import NumPyOnlyError, inexact
from weft.functions.data_types import astype, finfo, result_type
from weft.functions.elementwise import abs as absolute
from weft.functions.elementwise import isfinite, isnan, logical_and, logical_or, remainder, where
from weft.functions.manipulation import broadcast_arrays, broadcast_to
from weft.functions.statistical import all as all_of

__all__ = [
    "allclose", "array_equal", "choose", "isclose", "nan_to_num", "piecewise", "select",
]  # fmt: skip


def isclose(
    a: Any, b: Any, rtol: Any = 1e-05, atol: Any = 1e-08, equal_nan: bool = False
) -> Array:  # fmt: skip
    """Whether |a - b| <= atol + rtol * |b|, element by element; infinities where they are equal."""
    left, right = inexact(a), inexact(b)
    near = absolute(left - right) <= atol + rtol * absolute(right)
    close = logical_or(logical_and(near, isfinite(right)), left == right)
    return logical_or(close, logical_and(isnan(left), isnan(right))) if equal_nan else close


def allclose(
    a: Any, b: Any, rtol: Any = 1e-05, atol: Any = 1e-08, equal_nan: bool = False
) -> Array:  # fmt: skip
    """Whether `isclose` holds of all elements."""
    return all_of(isclose(a, b, rtol, atol, equal_nan))


def array_equal(a1: Any, a2: Any) -> Array:
    """Whether arrays have one shape, and equal elements everywhere."""
    left, right = asarray(a1), asarray(a2)
    if left.ndim != right.ndim or any(
        m != n for m, n in zip(left.shape, right.shape, strict=True)
    ):
        return asarray(False)
    return all_of(left == right)


def select(condlist: Sequence[Any], choicelist: Sequence[Any], default: Any = 0) -> Array:
    """Of each place, the choice of the first condition that holds; `default` where none does.

    Raises
    ------
    ArgumentError
        Unless there is a choice for each condition, and one or more.
    """
    if len(condlist) != len(choicelist) or not condlist:
        raise ArgumentError(
            f"{len(condlist)} conditions and {len(choicelist)} choices", "one for each",
            place=user_place(),
        )  # fmt: skip
    dtype = result_type(*choicelist, default)
    chosen = asarray(default, dtype=dtype)
    for condition, choice in zip(reversed(condlist), reversed(choicelist), strict=True):
        chosen = where(condition, asarray(choice, dtype=dtype), chosen)
    return chosen


def piecewise(x: Any, condlist: Any, funclist: Any, /, *args: Any) -> Array:
    """At each element what belongs to the last condition that holds: a value, or f(x, ...).

    Parameters
    ----------
    x : array
    condlist : list of boolean arrays of the shape of x, or one of them
    funclist : list of functions or scalars
        As many; one more is for where none holds (0 without it). Functions get all of x.
    """
    array = asarray(x)
    several = isinstance(condlist, list | tuple) or asarray(condlist).ndim > 1
    alone = not several or (asarray(condlist[0]).ndim == 0 and array.ndim > 0)
    conditions = [asarray(one) for one in ([condlist] if alone else condlist)]
    count = len(funclist)
    if count not in (len(conditions), len(conditions) + 1):
        raise ArgumentError(
            f"{count} functions for {len(conditions)} conditions",
            f"{len(conditions)} or {len(conditions) + 1}", place=user_place(),
        )  # fmt: skip

    def value(of: Any) -> Array:
        return astype(asarray(of(array, *args) if callable(of) else of), array.dtype)

    found = value(funclist[-1] if count > len(conditions) else 0)
    for condition, of in zip(conditions, funclist, strict=False):
        found = where(condition, value(of), found)
    return broadcast_to(found, array.shape)


def choose(a: Any, choices: Any, mode: str = "raise") -> Array:
    """At each element that of the choices, by number: choices[a[i]][i].

    Raises
    ------
    NumPyOnlyError
        For mode="raise": whether numbers are inside is known when they are.
    """
    if mode not in ("wrap", "clip"):
        raise NumPyOnlyError(f"choose with mode={mode!r}", "clip or wrap", place=user_place())
    dtype = result_type(*choices)
    places, *arrays = broadcast_arrays(a, *(asarray(choice, dtype=dtype) for choice in choices))
    count = len(arrays)
    if mode == "wrap":
        places = remainder(places, count)
    found = arrays[-1]
    for number in reversed(range(count - 1)):
        found = where(places <= number, arrays[number], found)
    return found


def nan_to_num(x: Any, *, nan: Any = 0.0, posinf: Any = None, neginf: Any = None) -> Array:
    """Numbers for what is none: `nan`, and the largest floats, or others, for infinities."""
    array = asarray(x)
    if array.dtype.kind == "c":
        parts = (nan_to_num(p, nan=nan, posinf=posinf, neginf=neginf)
                 for p in (array.real, array.imag))  # fmt: skip
        real, imaginary = parts
        return real + imaginary * asarray(1j, dtype=array.dtype)
    if array.dtype.kind != "f":
        return array.copy()
    limits = finfo(array.dtype)
    infinite = array == asarray(float("inf"), dtype=array.dtype)
    array = where(infinite, limits.max if posinf is None else posinf, array)
    infinite = array == asarray(float("-inf"), dtype=array.dtype)
    array = where(infinite, limits.min if neginf is None else neginf, array)
    return where(isnan(array), nan, array)
