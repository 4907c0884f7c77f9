"""Statements for a part of what they compute: narrower variables, spaces, indices, results."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from weft.fun import nodes as fun
from weft.fun import walk
from weft.sizes import Size


def read_part(
    read: fun.Index | fun.Slice, part: fun.Var, lowers: Mapping[int, Size]
) -> fun.Index | fun.Slice:
    """The read from a part of its array that begins at an index of each axis.

    x[i, j]  =>  part[i - lower, j]
    """
    if isinstance(read, fun.Index):
        indices, boundary = list(read.indices), list(read.boundary)
        for axis, lower in lowers.items():
            indices[axis] = indices[axis] - lower
            rule = boundary[axis] if boundary else None
            if rule is not None:
                boundary[axis] = replace(rule, lower=rule.lower - lower, upper=rule.upper - lower)
        return fun.Index(part, tuple(indices), tuple(boundary))
    dims = list(read.dims)
    for axis, lower in lowers.items():
        dim = dims[axis]
        moved = replace(dim, start=dim.start - lower) if isinstance(dim, fun.Span) else dim - lower
        dims[axis] = moved
    return fun.Slice(part, tuple(dims))


def with_reads(
    expr: fun.Expr, read: Callable[[fun.Index | fun.Slice], fun.Expr | None],
    atom: Callable[[fun.Atom], fun.Atom],
) -> fun.Expr:  # fmt: skip
    """The expression with some reads replaced, where `read` gives another, and its atoms."""
    if isinstance(expr, fun.Index | fun.Slice):
        found = read(expr)
        if found is not None:
            return found

    def body(inner: fun.Body) -> fun.Body:
        statements = tuple(
            fun.Let(let.pattern, with_reads(let.expr, read, atom), let.place)
            for let in inner.statements
        )
        return fun.Body(statements, tuple(map(atom, inner.results)))

    return walk.map_expr(expr, walk.Mapper(atom, lambda s: s, body, lambda v: v))


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
