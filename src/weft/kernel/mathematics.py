"""Calls of Python's `math`: Weft's functions, or written out where it has none."""

from __future__ import annotations

import ast
from typing import Any

from weft import functions
from weft.array import Array, node_of
from weft.functions.interoperability import _RENAMED
from weft.kernel import gamma, real_numbers, whole_numbers
from weft.kernel.frame import Frame
from weft.kernel.numbers import as_float, as_int


def call(frame: Frame, node: ast.Call, name: str, arguments: list[Any]) -> Any:
    """A function of `math`: as in Python, of floats, and a float; an int where Python gives one."""
    if any(isinstance(x, Array) and node_of(x).dtype.is_complex for x in arguments):
        frame.refuse(node, f"math.{name} of a complex number", "a real number", f"cmath.{name}")
    if name in ("floor", "ceil", "trunc"):
        return as_int(getattr(functions, name)(*arguments))
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
    floats = [as_float(x) for x in arguments]
    if name == "log" and len(floats) == 2:
        return functions.log(floats[0]) / functions.log(floats[1])
    return own(*floats)


_MATH = {
    "acos": "acos", "asin": "asin", "atan": "atan", "pow": "pow", "isnan": "isnan",
    "isinf": "isinf", "isfinite": "isfinite", "copysign": "copysign", "fabs": "abs",
}  # fmt: skip
