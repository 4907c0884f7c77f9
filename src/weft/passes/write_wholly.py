"""write_wholly: updates of whole arrays as what is written.

    let y = update x[0 : n] = v     =>  let y = reshape v (n)      where x has n elements
    let y = update x[0 : n] = s     =>  let y = broadcast s (n)    where s is a scalar

Removes: updates of all elements of an array.
Adds: reshapes and broadcasts. A kernel right before that is used for it alone is over the array's
    own extents, where its own are known to be the same.
Requires, ensures: a checked program; the same values.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from weft.fun import nodes as fun
from weft.fun import walk
from weft.passes.flatten import joined
from weft.sizes import ZERO, Size


def write_wholly(body: fun.Body) -> fun.Body:
    """The body with what is put for all of an array as that array."""
    statements: list[fun.Let] = []
    uses = Counter(walk.uses(body))
    for let in body.statements:
        expr = walk.map_bodies(let.expr, write_wholly)
        if isinstance(expr, fun.Update) and isinstance(expr.value, fun.Var):
            shape = expr.array.type.shape if isinstance(expr.array.type, fun.Array) else ()
            if expr.dims == tuple(fun.Span(ZERO, extent) for extent in shape):
                value = expr.value
                if statements and statements[-1].pattern == (value,) and uses[value.name] == 1:
                    statements[-1] = _of_shape(statements[-1], shape)
                    (value,) = statements[-1].pattern
                is_array = isinstance(value.type, fun.Array)
                expr = fun.Reshape(value, shape) if is_array else fun.Broadcast(value, shape)
        statements.append(let if expr is let.expr else replace(let, expr=expr))
    return fun.Body(tuple(statements), body.results)


def _of_shape(let: fun.Let, shape: tuple[Size, ...]) -> fun.Let:
    """A kernel over extents that are known to be those of `shape`, over these: an array's own."""
    if not isinstance(let.expr, fun.Kernel):
        return let
    kernel = joined(let.expr)
    if len(kernel.space) != len(shape):
        return let
    space = tuple(fun.Range(r.index, e) for r, e in zip(kernel.space, shape, strict=True))
    var = fun.Var(let.pattern[0].name, fun.Array(let.pattern[0].type.dtype, shape))
    return replace(let, pattern=(var,), expr=replace(kernel, space=space))
