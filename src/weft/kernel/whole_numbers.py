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


def comb(n: Any, k: Any) -> Any:
    n, k = int(n), int(k)
    if k > n:
        return 0
    found = 1
    for i in range(1, min(k, n - k) + 1):
        whole, rest = found // i, found % i  # the product may not fit where the quotient does
        found = whole * (n - i + 1) + rest * (n - i + 1) // i
    return found


def perm(n: Any, k: Any) -> Any:
    product = 1
    for i in range(int(k)):
        product *= int(n) - i
    return product


def gcd_of(first: Any, *others: Any) -> Any:
    found = abs(int(first))
    for other in others:
        found = math.gcd(found, other)
    return found


def lcm_of(first: Any, *others: Any) -> Any:
    found = abs(int(first))
    for other in others:
        found = math.lcm(found, other)
    return found


_OF: dict[tuple[str, int], Callable[..., Any]] = {
    ("gcd", 2): gcd, ("lcm", 2): lcm, ("factorial", 1): factorial, ("isqrt", 1): isqrt,
    ("comb", 2): comb, ("perm", 2): perm, ("perm", 1): factorial,
}  # fmt: skip
"""By name and how many arguments."""

_OF_MANY = {"gcd": gcd_of, "lcm": lcm_of}


def written_out(name: str, count: int) -> Callable[..., Any] | None:
    """A function of so many arguments; None where there is none here."""
    return _OF.get((name, count), _OF_MANY.get(name))


_NONE_BELOW_ZERO = {
    "factorial": ["factorial() not defined for negative values"],
    "isqrt": ["isqrt() argument must be nonnegative"],
    "comb": ["n must be a non-negative integer", "k must be a non-negative integer"],
    "perm": ["n must be a non-negative integer", "k must be a non-negative integer"],
}
"""What Python says where an argument is negative."""


def call(frame: Frame, node: ast.Call, name: str, arguments: list[Any]) -> Any:
    """What one of them gives, for numbers of which some are traced."""
    given = [node_of(argument) for argument in arguments]
    if any(argument.shape or not argument.dtype.is_integer for argument in given):
        raise TypeError("what are no whole numbers, where these are asked for")
    for argument, message in zip(arguments, _NONE_BELOW_ZERO.get(name, ()), strict=False):
        held, error = argument >= 0, ValueError(message)
        if isinstance(held, Array):
            frame.trace.assertions.note(frame.memory, held, error, frame.place(node))
        elif not held:
            raise error
    function = written_out(name, len(arguments))
    return frame.trace.call(frame.trace, function, arguments, {})
