"""What to do in place of what is not compiled."""

from __future__ import annotations

import builtins
from typing import Any

_FUNCTIONS: tuple[tuple[Any, str], ...] = (
    (builtins.print, "return what is to be printed, or WEFT_DISABLE=1 to run plain Python"),
    (builtins.input, "read it outside, and pass it"),
    (builtins.map, "a loop, or the function of an array"),
    (builtins.filter, "a loop, or x[condition]"),
)


def in_place_of(function: Any) -> str:
    """What to do in place of a call of a function."""
    outside = "compute it outside, and pass the result"
    return next((advice for known, advice in _FUNCTIONS if known is function), outside)


def to_go_over(value: Any) -> str:
    """What a loop may go over in place of a value."""
    if isinstance(value, str):
        return "np.frombuffer(text.encode(), np.uint8), as an argument"
    if isinstance(value, dict | set):
        return "a tuple of what it holds, as an argument"
    return "range(n)"
