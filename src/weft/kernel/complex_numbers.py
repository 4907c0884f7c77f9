"""Calls of Python's `cmath`: functions of complex numbers, whatever numbers they are given."""

from __future__ import annotations

import ast
from typing import Any

from weft import functions
from weft.functions.interoperability import _RENAMED
from weft.kernel.frame import Frame
from weft.kernel.numbers import as_complex, as_float, weak
from weft.ops.dtypes import DType


def call(frame: Frame, node: ast.Call, name: str, arguments: list[Any]) -> Any:
    """A function of `cmath`, which gives Python's numbers."""
    if name == "rect":
        radius, angle = map(as_float, arguments)
        return as_complex(radius * functions.cos(angle), radius * functions.sin(angle))
    if name in ("phase", "polar"):
        (z,) = map(as_complex, arguments)
        phase = weak(functions.atan2(z.imag, z.real), DType.F64)
        return phase if name == "phase" else (weak(functions.abs(z), DType.F64), phase)
    own = getattr(functions, _RENAMED.get(name, name), None)
    if own is None:
        frame.refuse(node, f"cmath.{name}", "a function that weft has: see dir(weft)")
    z, *base = map(as_complex, arguments)
    return functions.log(z) / functions.log(*base) if base and name == "log" else own(z, *base)
