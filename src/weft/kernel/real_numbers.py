"""Functions of `math` on real numbers, written in Python: interpreted as a user's function is."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from weft.kernel import exact_sums

_HALF = 511
_POWERS = 2.0 ** np.arange(-_HALF, _HALF + 1.0)
_STEPS = (512, 512, 256, 128, 64, 32, 16, 8, 4, 2, 1)


def hypot(*sides: Any) -> Any:
    found = abs(float(sides[0]))
    for side in sides[1:]:
        found = math.hypot(found, side)
    return found


def dist(p: Any, q: Any) -> Any:
    if len(p) != len(q):
        raise ValueError("both points must have the same number of dimensions")
    found = 0.0
    for a, b in zip(p, q):  # noqa: B905 - which is checked
        found = math.hypot(found, float(a) - float(b))
    return found


def isclose(a: Any, b: Any, rel_tol: Any = 1e-9, abs_tol: Any = 0.0) -> Any:
    """Of Python's floats, or its complex numbers."""
    apart, size = abs(a - b), max(abs(a), abs(b))
    return a == b or (size < math.inf and apart <= max(rel_tol * size, abs_tol))


def remainder(x: Any, y: Any) -> Any:
    """Of the quotient that is nearest, the even one of two."""
    size, step = abs(float(x)), abs(float(y))
    over = math.fmod(size, step)
    under = step - over
    if over > under:
        found = -under
    elif over < under:
        found = over
    else:
        found = over - 2.0 * math.fmod(0.5 * (size - over), step)
    return math.copysign(1.0, x) * found


def ldexp(x: Any, i: Any) -> Any:
    """Rounded once: what is subnormal before one of the large factors is nothing after it."""
    i = min(max(i, -2200), 2200)
    part = i - _HALF * int(i / _HALF)  # the small one first
    found = float(x) * _POWERS[part + _HALF]
    i -= part
    for _ in range(4):
        part = min(max(i, -_HALF), _HALF)
        found = found * _POWERS[part + _HALF]
        i -= part
    return found


def frexp(x: Any) -> Any:
    x = float(x)
    m, e = abs(x), 0
    if m > 0 and m < math.inf:
        for step in _STEPS:
            large = m >= 2.0**step
            e = e + step if large else e
            m = m * 2.0**-step if large else m
        for step in _STEPS:
            small = m < 2.0**-step
            e = e - step if small else e
            m = m * 2.0**step if small else m
        if m >= 1.0:
            m, e = m * 0.5, e + 1
        x = math.copysign(m, x)
    return x, e


def written_out(name: str, count: int) -> Callable[..., Any] | None:
    """A function of so many arguments; None where there is none here."""
    if name == "hypot":
        return hypot if count not in (0, 2) else None
    if name == "fsum":
        return exact_sums.fsum
    return _OF.get((name, count))


_OF: dict[tuple[str, int], Callable[..., Any]] = {
    ("dist", 2): dist, ("remainder", 2): remainder, ("ldexp", 2): ldexp, ("frexp", 1): frexp,
}  # fmt: skip
