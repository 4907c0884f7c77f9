"""flatten: a kernel that holds one parallel expression, as one over both spaces.

    let r = kernel (i < n) { let s = reduce (; j < m) { x[i, j] } with add; in s }
 => let r = reduce (i < n; j < m) { x[i, j] } with add

Removes: kernels whose body is a kernel (or its transpose), reduction or scan, after at most a
    few cheap operations, which are then done at every index.
Adds: their dimensions to what they held.
Requires: nothing.
Ensures: the same bits. Programs written with nested maps fuse as those on whole arrays do.
"""

from __future__ import annotations

from dataclasses import replace

from weft.fun import nodes as fun
from weft.fun import walk
from weft.passes.reads import work

# So much work (in additions) on one index of the outer space may be repeated at each inner one.
_REPEATED = 4


def flatten(program: fun.Program) -> fun.Program:
    """The program with kernels merged with what is all that they hold."""
    body = _level(program.body)
    return program if body is program.body else replace(program, body=body)


def _level(body: fun.Body) -> fun.Body:
    return walk.with_statements(body, tuple(map(_let, body.statements)))


def _let(let: fun.Let) -> fun.Let:
    if not walk.bodies(let.expr):
        return let
    expr = walk.map_bodies(let.expr, _level)
    if isinstance(expr, fun.Kernel):
        expr = _flat(expr)
    return let if expr == let.expr else replace(let, expr=expr)


def _flat(outer: fun.Kernel) -> fun.Expr:
    """The kernel and its last statement as one expression, where the rest is cheap."""
    if not outer.body.statements:
        return outer
    *before, last = _unpermuted(outer.body.statements)
    inner = last.expr
    if not isinstance(inner, fun.Kernel | fun.Reduce | fun.Scan):
        return outer
    if isinstance(inner, fun.Reduce) and inner.counter:
        return outer
    if last.pattern != outer.body.results or work(fun.Body(tuple(before), ())) > _REPEATED:
        return outer
    # What is around the inner body must not depend on the outer index.
    own = {r.index.name for r in outer.space}
    own |= {var.name for let in before for var in let.pattern}
    around = replace(inner, body=fun.Body((), ()))
    if own & walk.used_names(around):
        return outer
    space = outer.space + inner.space
    body = fun.Body((*before, *inner.body.statements), inner.body.results)
    return replace(inner, space=space, body=body)


def _unpermuted(statements: tuple[fun.Let, ...]) -> tuple[fun.Let, ...]:
    """The statements, the last two of which may be a kernel and its transpose: one kernel.

    let a = kernel (i < n, j < m) { .. }; let b = permute a (1, 0)
        => let b = kernel (j < m, i < n) { .. }
    """
    if len(statements) < 2:
        return statements
    *before, made, last = statements
    match made.expr, last.expr:
        case fun.Kernel() as kernel, fun.Permute(array, axes) if (
            (array,) == made.pattern and len(kernel.space) == len(axes)
        ):
            space = tuple(kernel.space[axis] for axis in axes)
            return (*before, replace(last, expr=replace(kernel, space=space)))
    return statements


def joined(kernel: fun.Kernel) -> fun.Kernel:
    """The kernel merged with the kernels that are all that it holds."""
    while True:
        flat = _flat(kernel)
        if not isinstance(flat, fun.Kernel) or flat is kernel:
            return kernel
        kernel = flat
