"""store_scalars: inside a kernel, one element is a scalar until it is where it belongs.

    let t = kernel (i < 1) { .. in s }           ..
    let y = update x[k, 0 for 1] = t      =>     let y = update x[k, 0 for 1] = s

Removes: kernels of one element whose results are elements of updates, or are read at 0.
Adds: their statements in place of them.
Requires: a checked program, after fusion.
Ensures: the same values. Outside of kernels, statements are left as they are: on a device a scalar
    there would be read by the host.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from weft.fun import nodes as fun
from weft.fun import walk
from weft.ops.dtypes import DType
from weft.sizes import ONE, ZERO

_ZERO = fun.Const(0, DType.I64)


def store_scalars(program: fun.Program) -> fun.Program:
    """The program with single elements of kernels inside of kernels as scalars."""
    body = walk.in_kernels(program.body, _inside)
    return program if body is program.body else replace(program, body=body)


def _inside(body: fun.Body) -> fun.Body:
    """A body inside of a kernel."""
    uses = _other_uses(body)
    scalars: dict[str, fun.Atom] = {}
    renamed = walk.Substitution()
    statements: list[fun.Let] = []
    for let in body.statements:
        let = walk.map_let(let, _inside)
        single = _single(let.expr)
        if single is not None and not any(uses[var.name] for var in let.pattern):
            for r in single.space:
                renamed.bind(r.index.name, _ZERO)
            inner = renamed.body(single.body)
            statements += inner.statements
            names = (var.name for var in let.pattern)
            scalars |= dict(zip(names, inner.results, strict=True))
            continue
        match let.expr:
            case fun.Update(value=fun.Var(name)) as update if name in scalars:
                let = replace(let, expr=replace(update, value=scalars[name]))
            case fun.Index(array) if array.name in scalars:
                renamed.bind(let.pattern[0].name, scalars[array.name])
                continue
            case _:
                pass
        statements.append(renamed.let(let) if renamed.atoms else let)
    if not scalars:
        return walk.with_statements(body, statements)
    return fun.Body(tuple(statements), tuple(map(renamed.atom, body.results)))


def _single(expr: fun.Expr) -> fun.Kernel | None:
    """A kernel of one element, which scalar operations compute."""
    if not isinstance(expr, fun.Kernel) or any(r.extent != ONE for r in expr.space):
        return None
    straight = all(isinstance(let.expr, walk.SCALARS) for let in expr.body.statements)
    types = (result.type for result in expr.body.results)
    return expr if straight and all(isinstance(t, fun.Scalar) for t in types) else None


def _other_uses(body: fun.Body) -> Counter[str]:
    """How often each variable is used but as the value of an update, or by a read of its first."""
    uses = Counter(walk.uses(body))
    for let in body.statements:
        match let.expr:
            case fun.Update(value=fun.Var(name)):
                uses[name] -= 1
            case fun.Index(array, indices, boundary) if (
                not any(boundary) and all(index == ZERO for index in indices)
            ):
                uses[array.name] -= 1
            case _:
                pass
    return uses
