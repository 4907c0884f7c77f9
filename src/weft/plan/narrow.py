"""Statements for a part of what they compute: narrower variables, spaces, indices, results."""

from __future__ import annotations

from dataclasses import replace

from weft.fun import nodes as fun
from weft.fun import walk
from weft.sizes import Size


def shift(indices: tuple[Size, ...], axis: int, lower: Size) -> tuple[Size, ...]:
    return (*indices[:axis], indices[axis] - lower, *indices[axis + 1 :])


def windowed_var(var: fun.Var, axis: int, extent: Size) -> fun.Var:
    assert isinstance(var.type, fun.Array)
    shape = (*var.type.shape[:axis], extent, *var.type.shape[axis + 1 :])
    return fun.Var(var.name, replace(var.type, shape=shape))


def with_extent(expr: fun.Expr, dim: int, extent: Size) -> fun.Expr:
    assert isinstance(expr, fun.Kernel | fun.Reduce | fun.Scan | fun.Scatter)
    space = list(expr.space)
    space[dim] = replace(space[dim], extent=extent)
    return replace(expr, space=tuple(space))


def bind_first(expr: fun.Expr, var: fun.Var, value: Size) -> fun.Expr:
    """`let var = value` at the beginning of the body, where it is used."""
    assert isinstance(expr, fun.Kernel | fun.Reduce | fun.Scan | fun.Scatter)
    if var.name not in walk.free_names(expr.body):
        return expr
    first = fun.Let((var,), fun.SizeValue(value))
    return replace(expr, body=replace(expr.body, statements=(first, *expr.body.statements)))


def pruned(kernel: fun.Kernel, kept: list[bool]) -> fun.Kernel:
    """The kernel with some of its results, and without what only the others needed."""
    results = tuple(r for r, keep in zip(kernel.body.results, kept, strict=True) if keep)
    used = {r.name for r in results if isinstance(r, fun.Var)}
    statements: list[fun.Let] = []
    for let in reversed(kernel.body.statements):
        if any(var.name in used for var in let.pattern):
            used |= walk.used_names(let.expr)
            for var in let.pattern:
                used |= {name for size in walk.type_sizes(var.type) for name in size.variables()}
            statements.append(let)
    return fun.Kernel(kernel.space, fun.Body(tuple(reversed(statements)), results))
