"""Steps that NumPy does: library calls, and views between compiled segments."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from weft.errors import InternalError
from weft.fun import nodes as fun
from weft.fun import walk
from weft.fun.access import span_slice
from weft.ops import routines
from weft.runtime.incore import HostStep
from weft.runtime.memory import host_pool
from weft.runtime.watch import watched
from weft.sizes import Size

NDArray: TypeAlias = npt.NDArray[Any]
Value: TypeAlias = Any


def host_step(let: fun.Let) -> HostStep:
    """A library call, or a view, as NumPy does it."""
    names = tuple(sorted(walk.used_names(let.expr)))
    expr = let.expr
    variables = {a.name: a for a in walk.operands(expr)[0] if isinstance(a, fun.Var)}
    params = tuple(variables[name] for name in names if name in variables)

    constant = None
    if isinstance(expr, fun.Broadcast) and isinstance(expr.array, fun.Const):
        constant = np.asarray(expr.array.value, expr.array.dtype.numpy)

    def allocated(sizes: Mapping[str, int]) -> int:
        if not isinstance(expr, fun.Call):
            return 0
        return sum(
            math.prod(extent.evaluate(sizes) for extent in walk.type_sizes(var.type))
            * var.type.dtype.itemsize
            for var in let.pattern
        )

    def run(
        values: Sequence[Value], sizes: Mapping[str, int], given: Mapping[str, NDArray] | None
    ) -> Sequence[Value]:
        if not isinstance(expr, fun.Call):
            return (view(expr, values[0] if values else constant, sizes),)
        held = dict(zip((param.name for param in params), values, strict=True))
        arguments = [
            held[atom.name]
            if isinstance(atom, fun.Var)
            else np.asarray(atom.value, atom.dtype.numpy)
            for atom in expr.arguments
        ]
        out = tuple(
            given[var.name]
            if given and var.name in given
            else host_pool().empty(
                tuple(extent.evaluate(sizes) for extent in walk.type_sizes(var.type)),
                var.type.dtype.numpy,
            )
            for var in let.pattern
        )
        routine, options = routines.routine(expr.routine), dict(expr.options)
        with watched(arguments):
            return routine.run(*arguments, out=out, place=let.place, **options)

    return HostStep(
        tuple(param.name for param in params), tuple(v.name for v in let.pattern), run, allocated
    )


def view(expr: fun.Expr, value: Value, sizes: Mapping[str, int]) -> Value:
    """A layout change of an array in memory: a view where NumPy has one."""

    def number(size: Size) -> int:
        return size.evaluate(sizes)

    match expr:
        case fun.Slice(_, dims):
            index = tuple(
                span_slice(number(dim.start), number(dim.extent), dim.step)
                if isinstance(dim, fun.Span)
                else number(dim)
                for dim in dims
            )
            return value[index]
        case fun.Permute(_, axes):
            return value.transpose(axes)
        case fun.Reshape(_, shape):
            return value.reshape(tuple(map(number, shape)))
        case fun.Broadcast(_, shape):
            return np.broadcast_to(value, tuple(map(number, shape)))
        case fun.LmadSlice(_, offset, dims):
            places: NDArray = np.asarray(number(offset))
            for extent, stride in dims:
                places = places[..., None] + number(stride) * np.arange(number(extent))
            return value[places]
        case _:
            raise InternalError(f"{type(expr).__name__} is not a layout change")
