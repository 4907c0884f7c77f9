"""`math.gamma` and `math.lgamma`, written in Python: interpreted as a user's function is.

By Lanczos' approximation, with the coefficients and in the cases of CPython's own.
"""

from __future__ import annotations

import ast
import math
from typing import Any

import numpy as np

from weft import functions
from weft.array import Array
from weft.kernel.frame import Frame
from weft.kernel.numbers import as_float

_G = 6.024680040776729583740234375
_G_LESS_HALF = 5.524680040776729583740234375
_NUMERATOR = (
    23531376880.41076, 42919803642.6491, 35711959237.35567, 17921034426.03721,
    6039542586.352028, 1439720407.3117216, 248874557.86205417, 31426415.585400194,
    2876370.6289353725, 186056.26539522350, 8071.672002365816, 210.82427775157935,
    2.5066282746310002,
)  # fmt: skip
_DENOMINATOR = (
    0.0, 39916800.0, 120543840.0, 150917976.0, 105258076.0, 45995730.0, 13339535.0, 2637558.0,
    357423.0, 32670.0, 1925.0, 66.0, 1.0,
)  # fmt: skip
_UPWARDS = tuple(zip(_NUMERATOR, _DENOMINATOR, strict=True))
_DOWNWARDS = _UPWARDS[::-1]
_OF_WHOLE = np.array([float(math.factorial(n)) for n in range(23)])


def _sum(x: Any) -> Any:
    above, below = 0.0, 0.0
    if x < 5.0:
        for a, b in _DOWNWARDS:
            above, below = above * x + a, below * x + b
    else:
        for a, b in _UPWARDS:
            above, below = above / x + a, below / x + b
    return above / below


def _sine_of_pi(x: Any) -> Any:
    """sin(pi * x), of no negative number."""
    y = math.fmod(x, 2.0)
    if y < 0.25:
        return math.sin(math.pi * y)
    if y < 0.75:
        return math.cos(math.pi * (y - 0.5))
    if y < 1.25:
        return math.sin(math.pi * (1.0 - y))
    if y < 1.75:
        return -math.cos(math.pi * (y - 1.5))
    return math.sin(math.pi * (y - 2.0))


for _helper in (_sum, _sine_of_pi):
    _helper.interpreted = _helper  # type: ignore[attr-defined]


def gamma(x: Any) -> Any:
    size = abs(x)
    if x == math.floor(x) and 1 <= x <= 23:
        return _OF_WHOLE[int(x) - 1]
    if size < 1e-20:
        return 1.0 / x
    if size > 200.0:
        return math.inf if x > 0 else -0.0 / _sine_of_pi(size) if x < 0 else x
    y = size + _G_LESS_HALF
    lost = (y - size) - _G_LESS_HALF if size > _G_LESS_HALF else (y - _G_LESS_HALF) - size
    lost = lost * _G / y
    root = y ** (size / 2.0 - 0.25)
    series, power = _sum(size), math.exp(y)
    if x < 0:
        found = -math.pi / _sine_of_pi(size) / size * power / series
        return (found - lost * found) / root / root
    found = series / power
    return (found + lost * found) * root * root


def lgamma(x: Any) -> Any:
    size = abs(x)
    if x == 1.0 or x == 2.0:
        return 0.0
    if size == math.inf:
        return math.inf
    if size < 1e-20:
        return -math.log(size)
    found = math.log(_sum(size)) - _G
    found += (size - 0.5) * (math.log(size + _G - 0.5) - 1.0)
    if x < 0:
        sine = math.log(abs(_sine_of_pi(size)))
        found = math.log(math.pi) - sine - math.log(size) - found
    return found


def call(frame: Frame, node: ast.Call, name: str, argument: Any) -> Any:
    """What one of them gives; Python has none of zero and of whole numbers below it.

    Minus infinity is one of these to `math.gamma` alone.
    """
    x = as_float(argument)
    if isinstance(x, Array):
        held = (x > 0) | (x != functions.floor(x)) | (x != x)
        if name == "lgamma":
            held |= x == -math.inf
        error = ValueError("math domain error")
        frame.trace.assertions.note(frame.memory, held, error, frame.place(node))
    return frame.trace.call(frame.trace, {"gamma": gamma, "lgamma": lgamma}[name], [x], {})
