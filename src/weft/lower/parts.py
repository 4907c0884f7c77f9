"""Parts of arrays that are taken or overwritten: inside of their arrays.

Proved here, left to the launch, or checked as early as their indices are known: what is put
into a part may have been made in it before (`weft.mem.short_circuit`).
"""

from __future__ import annotations

from weft.fun import nodes as fun
from weft.fun import walk
from weft.imp import nodes as imp
from weft.imp.nodes import machine
from weft.lower import bounds, lmads
from weft.lower.emitter import Emitter
from weft.lower.unit import memory
from weft.ops.dtypes import DType
from weft.sizes import ZERO, Poly, Size

_PARTS = (fun.Update, fun.Slice, fun.LmadUpdate, fun.LmadSlice)


def checks(body: fun.Body) -> dict[int, list[fun.Let]]:
    """The statements about parts, by the first one at which all of their indices are known."""
    bound = {v.name: at for at, let in enumerate(body.statements, 1) for v in let.pattern}
    found: dict[int, list[fun.Let]] = {}
    for let in body.statements:
        if isinstance(let.expr, _PARTS):
            _, sizes, _ = walk.operands(let.expr)
            extents = memory(let.expr.array).shape
            names = frozenset[str]().union(*(size.variables() for size in (*sizes, *extents)))
            found.setdefault(max((bound.get(name, 0) for name in names), default=0), []).append(let)
    return found


def check(e: Emitter, let: fun.Let) -> None:
    """The check of one of them."""
    outer, e.place = e.place, let.place or e.place
    match let.expr:
        case fun.Update(array, dims) | fun.Slice(array, dims):
            _check_spans(e, array, dims)
        case fun.LmadUpdate() as update:
            lmads.check_update(e, update)
        case fun.LmadSlice(array, offset, lmad_dims):
            lmads.check_bounds(e, lmads.known(e, offset, lmad_dims), array)
        case _:
            pass
    e.place = outer


def _check_spans(e: Emitter, array: fun.Var, dims: tuple[fun.Span | Size, ...]) -> None:
    """0 <= index < extent of each dimension, where there are elements."""
    shape = memory(array).shape
    ranges, e.ranges = e.ranges, dict(e.ranges)
    indices: list[Size] = []
    for dim in dims:
        if isinstance(dim, fun.Span):
            name = e.unit.fresh("at.")
            e.ranges[name] = (ZERO, dim.extent)
            indices.append(dim.start + dim.step * Poly.var(name))
        else:
            indices.append(dim)
    missing = [
        axis
        for axis, (index, extent) in enumerate(zip(indices, shape, strict=True))
        if not bounds.inside(e, index, extent)
        and not bounds.launch_check(e, array.name, axis, index, extent)
    ]
    e.ranges = ranges
    if not missing:
        return
    filled: imp.Expr = imp.Const(True, DType.BOOL)
    for dim in dims:
        if isinstance(dim, fun.Span):
            filled = machine("&&", filled, machine(">", e.named(dim.extent), imp.ZERO))
    with e.branch(filled):
        for axis in missing:
            for end in _ends(dims[axis]):
                bounds.require(e, array.name, axis, e.named(end), e.named(shape[axis]))


def _ends(dim: fun.Span | Size) -> tuple[Size, ...]:
    if isinstance(dim, fun.Span):
        return dim.start, dim.start + dim.step * (dim.extent - 1)
    return (dim,)
