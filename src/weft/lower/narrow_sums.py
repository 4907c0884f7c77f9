"""Sums of bytes and the like, in lanes as narrow as the elements.

    s = reduce (j) from 0 { i64(x[j]) }, x of bool
        =>  for each 4096 { lane: i8[64] = x[j] + x[j + 64] + ..; s = s + i64(lanes) }

A vector holds eight times as many bytes as sums of 64 bits. Integers wrap, so any order gives the
same, and no tree is needed: a grain is as long as its lanes cannot overflow.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from weft.fun import nodes as fun
from weft.fun import operators
from weft.lower.lanes import mask
from weft.ops.dtypes import DType

GRAIN = 4096
_UNSIGNED = {DType.I16: DType.U16, DType.I32: DType.U32}


def narrowed(reduce: fun.Reduce) -> fun.Reduce | None:
    """The sum of a grain with narrow lanes; None for another reduction, or one of wide elements."""
    if len(reduce.neutral) != 1 or not operators.is_componentwise(reduce.operator):
        return None
    (combined,) = reduce.operator.body.statements
    (result,) = reduce.body.results
    if not reduce.body.statements or not _adds(combined) or reduce.neutral[0] != _zero(result.type):
        return None
    *before, last = reduce.body.statements
    wide = last.expr
    if last.pattern != (result,) or not isinstance(wide, fun.Cast) or not wide.dtype.is_integer:
        return None
    computed = [var.type.dtype for let in before for var in let.pattern]
    lane = _lane(wide.argument.type.dtype, computed)
    if lane is None or lane.numpy.itemsize >= wide.dtype.numpy.itemsize:
        return None
    return _with_lanes(reduce, before, wide, lane)


def _adds(let: fun.Let) -> bool:
    return isinstance(let.expr, fun.Apply) and let.expr.operation == "add"


def _zero(type_: fun.Type) -> fun.Const:
    return fun.Const(0, type_.dtype)


def _lane(element: DType, computed: Sequence[DType]) -> DType | None:
    """What holds the sum of a lane in a grain, and is as wide as what elements are made of."""
    widest = max((dtype.numpy.itemsize for dtype in computed), default=1)
    if element.kind == "b":
        return mask(widest)
    if not element.is_integer or element.numpy.itemsize > 2:
        return None
    lane = mask(max(2 * element.numpy.itemsize, widest))
    return lane if element.is_signed else _UNSIGNED.get(lane)


def _with_lanes(
    reduce: fun.Reduce, before: Sequence[fun.Let], wide: fun.Cast, lane: DType
) -> fun.Reduce:
    """The same with lanes' dtype for the sum's."""
    scalar = fun.Scalar(lane)

    def of(var: fun.Var) -> fun.Var:
        return fun.Var(var.name, scalar)

    last = reduce.body.statements[-1]
    result = of(last.pattern[0])
    body = fun.Body(
        (*before, replace(last, pattern=(result,), expr=fun.Cast(lane, wide.argument))), (result,)
    )
    (combined,) = reduce.operator.body.statements
    left, right = map(of, reduce.operator.params)
    total = of(combined.pattern[0])
    adds = replace(combined, pattern=(total,), expr=fun.Apply("add", (left, right)))
    operator = fun.Lambda((left, right), fun.Body((adds,), (total,)))
    return replace(reduce, body=body, operator=operator, neutral=(_zero(scalar),))
