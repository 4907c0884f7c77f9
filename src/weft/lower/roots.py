"""Roots of the elements of a grain, found beside the divider where that has quotients to find.

    for simd l < 64 { .. let r = sqrt(x); let q = y / r; .. }
        =>  for simd l < 64 { ..; a[l] = x }
            roots of a
            for simd l < 64 { .. let r = a[l]; let q = y / r; .. }

A divider does one vector of roots or quotients after the other. What finds most roots by other
units (`runtime/roots.c`) gives the same bits. It needs a seed that wide vectors alone have.
A text that is quick to compile does without: it has the one loop.
"""

from __future__ import annotations

from weft.imp import nodes as imp
from weft.imp.nodes import machine
from weft.lower.pace import waits_for_divider
from weft.lower.registers import registers
from weft.lower.stages import LANES, Body, Stage
from weft.lower.unit import Unit
from weft.ops.dtypes import DType

_VECTOR = 64  # bytes


def with_roots(unit: Unit, loop: imp.For) -> tuple[imp.Stmt, ...]:
    """A simd loop over at most 64 lanes, with its roots of float64 found apart if it has any."""
    body = Body.of(loop) if registers().bytes == _VECTOR else None
    if body is None or any(body.calls()):
        return (loop,)
    arguments = {
        name: value.arguments[0]
        for name, value in body.values.items()
        if isinstance(value, imp.Apply) and value.operation == "sqrt" and value.dtype is DType.F64
    }
    found = {name: of for name, of in arguments.items() if isinstance(of, imp.Var)}
    found = {name: of for name, of in found.items() if of.name in body.values}
    divided = [value for name, value in body.values.items() if name not in arguments]
    if not found or not any(waits_for_divider(v) and v.dtype is DType.F64 for v in divided):
        return (loop,)
    arrays = {name: unit.pointer("kept", DType.F64) for name in found}
    statements: list[imp.Stmt] = [imp.Local(array, LANES) for array in arrays.values()]
    count = machine("-", loop.upper, loop.lower)
    stage = Stage(unit, loop.var, loop.lower, imp.ZERO, _narrow(count), arrays)
    for name, argument in found.items():
        statements += [stage.loop(body, name, argument), imp.Roots(arrays[name], count)]
    statements.append(stage.loop(body, None))
    if isinstance(count, imp.Const):
        return tuple(statements)
    return (imp.If(imp.OPTIMISED, tuple(statements), (loop,)),)


def _narrow(count: imp.Expr) -> imp.Expr:
    if isinstance(count, imp.Const):
        return imp.Const(count.value, DType.I32)
    return imp.Cast(DType.I32, count)
