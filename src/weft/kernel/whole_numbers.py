"""Functions of `math` on whole numbers, written in Python: interpreted as a user's function is."""

from __future__ import annotations

import ast
import math
from collections.abc import Callable
from typing import Any

from weft.array import Array, node_of
from weft.kernel.frame import Frame


def gcd(a: Any, b: Any) -> Any:
    a, b = abs(int(a)), abs(int(b))
    while b != 0:
        a, b = b, a % b
    return a


def lcm(a: Any, b: Any) -> Any:
    if a == 0 or b == 0:
        return 0
    return abs(int(a)) // math.gcd(a, b) * abs(int(b))


def factorial(n: Any) -> Any:
    product = 1
    for k in range(2, int(n) + 1):
        product *= k
    return product


def isqrt(n: Any) -> Any:
    n = max(int(n), 0)
    root = int(n**0.5)  # which may be one too much, or too little
    while root > 3037000499 or root * root > n:
        root -= 1
    while root < 3037000499 and (root + 1) * (root + 1) <= n:
        root += 1
    return root


WRITTEN_OUT: dict[tuple[str, int], Callable[..., Any]] = {
    ("gcd", 2): gcd, ("lcm", 2): lcm, ("factorial", 1): factorial, ("isqrt", 1): isqrt,
}  # fmt: skip
"""By name and how many arguments."""

OF_NONE_BELOW_ZERO = {
    "factorial": "factorial() not defined for negative values",
    "isqrt": "isqrt() argument must be nonnegative",
}
"""What Python says where the argument is negative."""


def call(frame: Frame, node: ast.Call, name: str, arguments: list[Any]) -> Any:
    """What one of them gives, for numbers of which some are traced."""
    given = [node_of(argument) for argument in arguments]
    if any(argument.shape or not argument.dtype.is_integer for argument in given):
        raise TypeError("what are no whole numbers, where these are asked for")
    if name in OF_NONE_BELOW_ZERO:
        held, error = arguments[0] >= 0, ValueError(OF_NONE_BELOW_ZERO[name])
        if isinstance(held, Array):
            frame.trace.assertions.note(frame.memory, held, error, frame.place(node))
        elif not held:
            raise error
    return frame.trace.call(frame.trace, WRITTEN_OUT[name, len(arguments)], arguments, {})
