"""lengthen: iterated stencils that wrap around, on arrays longer by what their rounds reach.

    let y = loop (v = x) for k from 0 to t { kernel (i < n) { f(v[i - r: wrap], ..) } }
 => let w = kernel (i < n + 2*m) { x[i - m: wrap] }        -- m = t*r
    let u = loop (v = w) for k from 0 to t { kernel (i < n + 2*m) { f(v[i - r: edge], ..) } }
    let y = kernel (i < n) { u[i + m] }

Where ends are neighbours no box is like another; lengthened, they are boxes as all others, and only
what lies beyond the ends, m indices at each, is read and computed twice.

Removes: loops that wrap around their first dimension and do not fit the limit. Adds: for each a
kernel an array that it begins with or reads near its index, a loop that does not wrap, and a kernel
of its results (one, so that they are cut alike). Requires: index values along that dimension are
used in reads alone, and all of its boundary rules wrap. Ensures the same bits.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from weft.fun import nodes as fun
from weft.fun import walk
from weft.fun.builder import Builder, Names
from weft.fun.stencils import Stencil, Windows, on_windows, stencil_of
from weft.plan.loops import is_counted, rows_that_fit
from weft.sizes import ZERO, Poly, Size


def lengthen(program: fun.Program, sizes: Mapping[str, int], limit: int) -> fun.Program:
    """The program with those loops lengthened whose buffers take more than `limit` bytes."""
    names = Names.of(program)
    statements: list[fun.Let] = []
    for let in program.body.statements:
        stencil = stencil_of(let.expr) if isinstance(let.expr, fun.Loop) else None
        if stencil is not None and _suits(let, stencil, sizes, limit):
            statements += _lengthened(let, stencil, names)
        else:
            statements.append(let)
    return replace(program, body=fun.Body(tuple(statements), program.body.results))


def _suits(let: fun.Let, stencil: Stencil, sizes: Mapping[str, int], limit: int) -> bool:
    if not stencil.wraps[0] or not isinstance(let.expr, fun.Loop):
        return False
    if not is_counted(stencil, sizes):
        return False
    extent = int(stencil.shape[0].evaluate(sizes))
    margin = int(_margin(stencil).evaluate(sizes))
    return (
        rows_that_fit(stencil, sizes, limit) < extent
        and margin <= extent
        and all(isinstance(var.type, fun.Array) for var in let.pattern)
        and all(isinstance(atom, fun.Var) for atom in let.expr.initial)
        and all(
            _wraps_alone(inner.expr)
            for inner in let.expr.body.statements
            if isinstance(inner.expr, fun.Kernel)
        )
    )


def _margin(stencil: Stencil) -> Size:
    return stencil.rounds * stencil.reach[0]


def _wraps_alone(kernel: fun.Kernel) -> bool:
    """Whether the first index is used in reads alone, and their rules on it all wrap."""
    first = kernel.space[0].index.name
    if any(isinstance(a, fun.Var) and a.name == first for a in kernel.body.results):
        return False
    for let in walk.statements(kernel.body):
        expr = let.expr
        if isinstance(expr, fun.Index):
            for index, rule in zip(expr.indices, expr.boundary, strict=False):
                if rule is not None and rule.kind != "wrap" and first in index.variables():
                    return False
            continue
        atoms, sizes, _ = walk.operands(expr)
        if any(isinstance(atom, fun.Var) and atom.name == first for atom in atoms):
            return False
        if any(first in size.variables() for size in sizes):
            return False
    return True


def _lengthened(let: fun.Let, stencil: Stencil, names: Names) -> list[fun.Let]:
    loop = let.expr
    assert isinstance(loop, fun.Loop)
    assert isinstance(loop.form, fun.For)
    margin, rank = _margin(stencil), len(stencil.shape)
    builder = Builder(names)
    builder.place = let.place
    initial = tuple(
        _longer(builder, var, tuple(range(rank)), margin)
        for var in loop.initial
        if isinstance(var, fun.Var)
    )
    given = {
        name: _longer(builder, var, axes, margin) for name, (var, axes) in stencil.given.items()
    }
    lows = (-margin, *(ZERO,) * (rank - 1))
    extents = (stencil.shape[0] + 2 * margin, *stencil.shape[1:])
    form = fun.For(builder.index("k"), ZERO, stencil.rounds)
    windows = Windows(initial, given, lows, extents)
    found = on_windows(loop, windows, builder, form, loop.form.lower)
    made = builder.statements.pop()
    builder.statements.append(replace(made, expr=_without_wraps(made.expr)))
    space = tuple(fun.Range(builder.index("i"), extent) for extent in stencil.shape)
    inner = builder.inner()
    inside = [_read(inner, long, space, 0, margin) for long in found]
    kernel = fun.Kernel(space, inner.body(inside))
    return [*builder.statements, fun.Let(let.pattern, kernel, let.place)]


def _read(
    builder: Builder, var: fun.Var, space: Sequence[fun.Range], axis: int, offset: Size,
    rule: fun.Boundary | None = None,
) -> fun.Var:  # fmt: skip
    """The element of an array at the indices of a space, shifted along an axis."""
    indices = [Poly.var(dim.index.name) for dim in space]
    indices[axis] = indices[axis] + offset
    rules = tuple(rule if axis == d else None for d in range(len(indices))) if rule else ()
    read = fun.Index(var, tuple(indices), rules)
    return builder.let(read, fun.Scalar(var.type.dtype), var.name)


def _longer(
    builder: Builder, var: fun.Var, axes: Sequence[int | None], margin: Size
) -> fun.Var:
    """An array with `margin` indices more before and after the dimension that follows the first."""
    if 0 not in axes:
        return var
    at = axes.index(0)
    shape = list(walk.type_sizes(var.type))
    rule = fun.Boundary("wrap", ZERO, shape[at])
    shape[at] = shape[at] + 2 * margin
    space = tuple(fun.Range(builder.index("i"), extent) for extent in shape)
    inner = builder.inner()
    element = _read(inner, var, space, at, -margin, rule)
    type_ = fun.Array(var.type.dtype, tuple(shape))
    return builder.let(fun.Kernel(space, inner.body([element])), type_, var.name)


def _without_wraps(expr: fun.Expr) -> fun.Expr:
    """The loop of kernels whose reads do not wrap around the first dimension."""

    def kernels(body: fun.Body) -> fun.Body:
        done = []
        for let in body.statements:
            found = let.expr
            if isinstance(found, fun.Kernel):
                found = replace(found, body=_ending(found.body, found.space[0].index.name))
            done.append(replace(let, expr=found))
        return fun.Body(tuple(done), body.results)

    return walk.map_bodies(expr, kernels)


def _ending(body: fun.Body, first: str) -> fun.Body:
    """The body with its reads near the index `first` ending where their arrays do."""
    done = []
    for let in body.statements:
        expr = walk.map_bodies(let.expr, lambda inner: _ending(inner, first))
        if isinstance(expr, fun.Index) and expr.boundary:
            rules = tuple(
                replace(rule, kind="edge") if rule is not None and first in index.variables()
                else rule
                for index, rule in zip(expr.indices, expr.boundary, strict=True)
            )  # fmt: skip
            expr = replace(expr, boundary=rules)
        done.append(replace(let, expr=expr))
    return fun.Body(tuple(done), body.results)
