"""Calls of Python's `math`: Weft's functions, or written out where it has none."""

from __future__ import annotations

import ast
from typing import Any

from weft import functions
from weft.functions.interoperability import _RENAMED
from weft.kernel import gamma, real_numbers, whole_numbers
from weft.kernel.frame import Frame
from weft.kernel.numbers import as_float, as_int


def call(frame: Frame, node: ast.Call, name: str, arguments: list[Any]) -> Any:
    """A function of `math`, of weak or strong scalars; whole numbers where Python gives ints."""
    if name in ("floor", "ceil", "trunc"):
        return as_int(getattr(functions, name)(*arguments))
    if name == "fabs":
        return functions.abs(as_float(arguments[0]))
    if name == "fmod":
        return functions.fmod(*map(as_float, arguments))
    if name == "pow":
        return as_float(arguments[0]) ** as_float(arguments[1])
    if name in ("radians", "degrees"):
        return getattr(functions, name)(as_float(arguments[0]))
    if whole_numbers.written_out(name, len(arguments)) is not None:
        return whole_numbers.call(frame, node, name, arguments)
    if name in ("gamma", "lgamma"):
        return gamma.call(frame, node, name, *arguments)
    written = real_numbers.written_out(name, len(arguments))
    if written is not None:
        return frame.trace.call(frame.trace, written, arguments, {})
    own = getattr(functions, {"log": "log", **_RENAMED, **_MATH}.get(name, name), None)
    if own is None:
        frame.refuse(node, f"math.{name}", "a function that weft has: see dir(weft)")
    if name == "log" and len(arguments) == 2:
        return functions.log(arguments[0]) / functions.log(arguments[1])
    return own(*arguments)


_MATH = {
    "acos": "acos", "asin": "asin", "atan": "atan", "pow": "pow", "isnan": "isnan",
    "isinf": "isinf", "isfinite": "isfinite", "copysign": "copysign",
}  # fmt: skip
