"""lengthen: iterated stencils that wrap around, on arrays longer by what their rounds reach.

    let y = loop (v = x) for k from 0 to t { kernel (i < n) { f(v[i - r: wrap], ..) } }
 => let w = kernel (i < n + 2*m) { x[i - m: wrap] }        -- m = t*r
    let u = loop (v = w) for k from 0 to t { kernel (i < n + 2*m) { f(v[i - r: edge], ..) } }
    let y = kernel (i < n) { u[i + m] }

Where ends are neighbours no box is like another; lengthened, they are boxes as all others, and only
what lies beyond the ends, m indices at each, is read and computed twice. Many rounds are several
loops, so that this stays a small part.

Removes: wrap rules along one dimension of loops that do not fit the limit: the first along which
boxes do, if its ends are neighbours. Adds: for each a kernel an array that it begins with or reads
near its index, a loop that does not wrap, and a kernel of its results (one, so that they are cut
alike). Requires: index values along that dimension are used in reads alone, and all of its boundary
rules wrap. Ensures the same bits.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from weft.fun import nodes as fun
from weft.fun import walk
from weft.fun.builder import Builder, Names
from weft.fun.stencils import Stencil, Windows, on_windows, stencil_of
from weft.plan.loops import in_passes, is_counted, rows_that_fit
from weft.plan.unwrap import unwrap
from weft.sizes import ZERO, Poly, Size

_LONG = 8  # a box is so many times as long as a round reaches, or longer,
_PART = 2  # and an array so many times as long as what its rounds reach


def lengthen(program: fun.Program, sizes: Mapping[str, int], limit: int) -> fun.Program:
    """The program with those loops lengthened whose buffers take more than `limit` bytes."""
    names = Names.of(program)
    statements: list[fun.Let] = []
    for let in program.body.statements:
        stencil = stencil_of(let.expr) if isinstance(let.expr, fun.Loop) else None
        axis = None if stencil is None else _axis_of(let, stencil, sizes, limit)
        if stencil is None or axis is None:
            statements.append(let)
            continue
        for part in in_passes(let, stencil, sizes, _passes(stencil, axis, sizes), names):
            assert isinstance(part.expr, fun.Loop)
            found = stencil_of(part.expr)
            assert found is not None
            statements += _lengthened(part, found, axis, sizes, names)
    return replace(program, body=fun.Body(tuple(statements), program.body.results))


def _axis_of(
    let: fun.Let, stencil: Stencil, sizes: Mapping[str, int], limit: int
) -> int | None:
    """The dimension along which a loop is lengthened; None where it is not."""
    if not any(stencil.wraps) or not is_counted(stencil, sizes):
        return None
    if rows_that_fit(stencil, sizes, limit) >= int(stencil.shape[0].evaluate(sizes)):
        return None
    axes = range(len(stencil.shape))
    suiting = [axis for axis in axes if not stencil.wraps[axis] or _suits(let, axis)]

    def is_long(axis: int) -> bool:
        """Whether both a box and the array are much longer than what a round reaches."""
        rows = rows_that_fit(stencil, sizes, limit, axis)
        extent = int(stencil.shape[axis].evaluate(sizes))
        return min(rows, extent) >= _LONG * stencil.reach[axis]

    best = next(filter(is_long, suiting), next(iter(suiting), None))
    if best is None or not stencil.wraps[best]:
        return None
    extent = int(stencil.shape[best].evaluate(sizes))
    return best if stencil.reach[best] <= extent else None


def _passes(stencil: Stencil, axis: int, sizes: Mapping[str, int]) -> int:
    """Of how many loops the rounds are made: what they reach is a small part of the array."""
    rounds, extent = (int(n.evaluate(sizes)) for n in (stencil.rounds, stencil.shape[axis]))
    most = max(extent // (_PART * max(stencil.reach[axis], 1)), 1)
    return max(-(-rounds // most), 1)


def _suits(let: fun.Let, axis: int) -> bool:
    return (
        isinstance(let.expr, fun.Loop)
        and all(isinstance(var.type, fun.Array) for var in let.pattern)
        and all(isinstance(atom, fun.Var) for atom in let.expr.initial)
        and all(
            _wraps_alone(inner.expr, axis)
            for inner in let.expr.body.statements
            if isinstance(inner.expr, fun.Kernel)
        )
    )


def _margin(stencil: Stencil, axis: int) -> Size:
    return stencil.rounds * stencil.reach[axis]


def _wraps_alone(kernel: fun.Kernel, axis: int) -> bool:
    """Whether the index of an axis is used in reads alone, and their rules on it all wrap."""
    own = kernel.space[axis].index.name
    if any(isinstance(a, fun.Var) and a.name == own for a in kernel.body.results):
        return False
    for let in walk.statements(kernel.body):
        expr = let.expr
        if isinstance(expr, fun.Index):
            for index, rule in zip(expr.indices, expr.boundary, strict=False):
                if rule is not None and rule.kind != "wrap" and own in index.variables():
                    return False
            continue
        atoms, sizes, _ = walk.operands(expr)
        if any(isinstance(atom, fun.Var) and atom.name == own for atom in atoms):
            return False
        if any(own in size.variables() for size in sizes):
            return False
    return True


def _lengthened(
    let: fun.Let, stencil: Stencil, axis: int, sizes: Mapping[str, int], names: Names
) -> list[fun.Let]:
    loop = let.expr
    assert isinstance(loop, fun.Loop)
    assert isinstance(loop.form, fun.For)
    margin, rank = _margin(stencil, axis), len(stencil.shape)
    builder = Builder(names)
    builder.place = let.place
    initial = tuple(
        _longer(builder, var, tuple(range(rank)), axis, margin, sizes)
        for var in loop.initial
        if isinstance(var, fun.Var)
    )
    given = {
        name: _longer(builder, var, axes, axis, margin, sizes)
        for name, (var, axes) in stencil.given.items()
    }
    lows, extents = [ZERO] * rank, list(stencil.shape)
    lows[axis], extents[axis] = -margin, stencil.shape[axis] + 2 * margin
    form = fun.For(builder.index("k"), ZERO, stencil.rounds)
    windows = Windows(initial, given, tuple(lows), tuple(extents))
    found = on_windows(loop, windows, builder, form, loop.form.lower)
    made = builder.statements.pop()
    builder.statements.append(replace(made, expr=_without_wraps(made.expr, axis)))
    space = tuple(fun.Range(builder.index("i"), extent) for extent in stencil.shape)
    inner = builder.inner()
    inside = [_read(inner, long, space, axis, margin) for long in found]
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
    builder: Builder, var: fun.Var, axes: Sequence[int | None], axis: int, margin: Size,
    sizes: Mapping[str, int],
) -> fun.Var:  # fmt: skip
    """An array with `margin` indices more before and after the dimension that follows the axis."""
    if axis not in axes:
        return var
    at = axes.index(axis)
    shape = list(walk.type_sizes(var.type))
    rule = fun.Boundary("wrap", ZERO, shape[at])
    shape[at] = shape[at] + 2 * margin
    space = tuple(fun.Range(builder.index("i"), extent) for extent in shape)
    inner = builder.inner()
    element = _read(inner, var, space, at, -margin, rule)
    type_ = fun.Array(var.type.dtype, tuple(shape))
    made = builder.let(fun.Kernel(space, inner.body([element])), type_, var.name)
    if at > 0:  # those of the first axis are unwrapped where that is of use
        made_by = builder.statements.pop()
        builder.statements.append(unwrap(made_by, {var.name}, sizes, builder.names, axis=at))
    return made


def _without_wraps(expr: fun.Expr, axis: int) -> fun.Expr:
    """The loop of kernels whose reads do not wrap around a dimension."""

    def kernels(body: fun.Body) -> fun.Body:
        done = []
        for let in body.statements:
            found = let.expr
            if isinstance(found, fun.Kernel):
                found = replace(found, body=_ending(found.body, found.space[axis].index.name))
            done.append(replace(let, expr=found))
        return fun.Body(tuple(done), body.results)

    return walk.map_bodies(expr, kernels)


def _ending(body: fun.Body, own: str) -> fun.Body:
    """The body with its reads near an index ending where their arrays do."""
    done = []
    for let in body.statements:
        expr = walk.map_bodies(let.expr, lambda inner: _ending(inner, own))
        if isinstance(expr, fun.Index) and expr.boundary:
            rules = tuple(
                replace(rule, kind="edge") if rule is not None and own in index.variables()
                else rule
                for index, rule in zip(expr.indices, expr.boundary, strict=True)
            )  # fmt: skip
            expr = replace(expr, boundary=rules)
        done.append(replace(let, expr=expr))
    return fun.Body(tuple(done), body.results)
