"""Iterated stencils: loops whose rounds read at constant offsets from the index.

Such a loop can run on windows of its arrays: after t rounds all is right but for a margin of
t times the reach of a round, where a window ends inside the array.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field, replace

from weft.fun import nodes as fun
from weft.fun import walk
from weft.fun.builder import Builder
from weft.fun.shift import shift
from weft.ops.dtypes import DType
from weft.records import dataclass
from weft.sizes import ONE, ZERO, Poly, Size

_SCALAR = (fun.Apply, fun.Cast, fun.SizeValue)


@dataclass(slots=True)
class Stencil:
    """A loop of kernels over one shape.

    Attributes
    ----------
    shape : tuple of Size
        Of every array that the loop carries or makes.
    rounds : Size
    reach : tuple of int
        For each dimension how far from its index one step reads what the step before made.
    radius : tuple of int
        For each dimension how far from its index one kernel reads what the loop changes.
    wraps : tuple of bool
        The dimensions of which some read leads from either end to the other.
    itemsize : int
        Bytes of one element of all arrays that a step reads and writes.
    operations : int
        Scalar operations of one step on one element, those on indices and conditions apart; of
        branches those of the longest.
    given : dict of str to (fun.Var, axes)
        Arrays from outside that are read near the index: for each of their dimensions the
        dimension of the space that it follows, or None.
    fixed : dict of str to fun.Var
        Arrays from outside that are read at places that do not depend on the index.
    """

    shape: tuple[Size, ...]
    rounds: Size
    reach: tuple[int, ...] = ()
    radius: tuple[int, ...] = ()
    wraps: tuple[bool, ...] = ()
    itemsize: int = 0
    operations: int = 0
    given: dict[str, tuple[fun.Var, tuple[int | None, ...]]] = field(default_factory=dict)
    fixed: dict[str, fun.Var] = field(default_factory=dict)


def stencil_of(loop: fun.Loop) -> Stencil | None:
    """What the loop repeats; None where it is not a stencil.

    It is one if it runs over a range, the arrays that it carries have one shape, and its body
    is scalars and kernels over that shape, whose reads of arrays that the loop changes are at
    constant offsets from their index, and those of others likewise or at fixed places.
    """
    if not isinstance(loop.form, fun.For):
        return None
    params = [param for param in loop.params if isinstance(param.type, fun.Array)]
    arrays = [t for param in params if isinstance(t := param.type, fun.Array)]
    if not arrays or any(t.shape != arrays[0].shape for t in arrays):
        return None
    stencil = Stencil(arrays[0].shape, loop.form.upper - loop.form.lower)
    rank = len(stencil.shape)
    stencil.radius, stencil.wraps = (0,) * rank, (False,) * rank
    reach = {param.name: (0,) * rank for param in params}
    for let in loop.body.statements:
        if isinstance(let.expr, fun.Kernel):
            found = _reach_of(let.expr, reach, stencil)
            if found is None or any(isinstance(r.type, fun.Array) for r in let.expr.body.results):
                return None
            reach.update({var.name: found for var in let.pattern})
        elif not isinstance(let.expr, _SCALAR):
            return None
    results = [r for r in loop.body.results if isinstance(r, fun.Var) and r.name in reach]
    if len(results) < len(params) or len(reach) == len(params):
        return None
    stencil.reach = tuple(max(reach[r.name][d] for r in results) for d in range(rank))
    made = [array.dtype.itemsize for array in arrays]
    around = [var.type.dtype.itemsize for var, _ in stencil.given.values()]
    stencil.itemsize = 2 * sum(made) + sum(around)
    # One array read both near the index and elsewhere has no window.
    return None if stencil.given.keys() & stencil.fixed.keys() else stencil


def _reach_of(
    kernel: fun.Kernel, known: dict[str, tuple[int, ...]], stencil: Stencil
) -> tuple[int, ...] | None:
    """How far a kernel reads; None where it is not over the shape, or reads elsewhere."""
    if tuple(r.extent for r in kernel.space) != stencil.shape:
        return None
    indices = [r.index.name for r in kernel.space]
    reach = [0] * len(indices)
    radius, wraps = list(stencil.radius), list(stencil.wraps)
    for let in walk.statements(kernel.body):
        expr = let.expr
        if isinstance(expr, fun.Index):
            offsets = _offsets(expr, indices)
            if offsets is None or not _joins(expr, offsets, known, stencil):
                return None
            before = known.get(expr.array.name, (0,) * len(indices))
            for axis, offset in offsets:
                if axis is not None:
                    reach[axis] = max(reach[axis], before[axis] + abs(offset))
                    radius[axis] = max(radius[axis], abs(offset))
            for (axis, _), rule in zip(offsets, expr.boundary, strict=False):
                if axis is not None and rule is not None and rule.kind == "wrap":
                    wraps[axis] = True
        elif isinstance(expr, fun.Loop | fun.If):
            continue  # their bodies' statements come by themselves
        elif not isinstance(expr, _SCALAR):
            return None
    stencil.radius, stencil.wraps = tuple(radius), tuple(wraps)
    stencil.operations += _operations(kernel.body)
    return tuple(reach)


def _operations(body: fun.Body) -> int:
    """Scalar operations, of branches those of the one that has the most."""
    count = 0
    for let in body.statements:
        if isinstance(let.expr, fun.Apply):
            dtype = let.pattern[0].type.dtype
            count += dtype is not DType.I64 and dtype.kind != "b"
        inner = map(_operations, walk.bodies(let.expr))
        count += max(inner) if isinstance(let.expr, fun.If) else sum(inner)
    return count


def _offsets(expr: fun.Index, indices: list[str]) -> list[tuple[int | None, int]] | None:
    """For each dimension of a read which index it follows, and at what distance."""
    found: list[tuple[int | None, int]] = []
    for index in expr.indices:
        follows = [d for d, name in enumerate(indices) if name in index.variables()]
        if not follows:
            found.append((None, 0))
            continue
        offset = index - Poly.var(indices[follows[0]])
        if not offset.is_constant:
            return None
        found.append((follows[0], offset.constant))
    return found


def _joins(
    expr: fun.Index, offsets: list[tuple[int | None, int]], known: dict[str, tuple[int, ...]],
    stencil: Stencil,
) -> bool:  # fmt: skip
    """Whether a read fits what is known of its array; notes arrays from outside."""
    axes = tuple(axis for axis, _ in offsets)
    array = expr.array
    shape = walk.type_sizes(array.type)
    rules = expr.boundary or (None,) * len(shape)
    for axis, extent, rule in zip(axes, shape, rules, strict=True):
        if axis is not None and extent != stencil.shape[axis]:
            return False
        if rule is not None and axis is not None and (rule.lower != 0 or rule.upper != extent):
            return False
    if array.name in known:
        # Of a dimension of one element that is at the index.
        return all(
            axis == d or (axis is None and stencil.shape[d] == ONE) for d, axis in enumerate(axes)
        )
    if all(axis is None for axis in axes):
        stencil.fixed[array.name] = array
        return True
    if array.name in stencil.given:
        return stencil.given[array.name][1] == axes
    stencil.given[array.name] = (array, axes)
    return True


# ---------------------------------------------------------------- on windows


@dataclass(frozen=True, slots=True)
class Windows:
    """Parts of the arrays of a stencil, all of one box of its shape.

    Attributes
    ----------
    initial : tuple of fun.Var
        Of what each parameter of the loop begins as.
    given : dict of str to fun.Var
        Of the arrays in `Stencil.given`.
    lows, extents : tuple of Size
        Where the box begins in each dimension, and how long it is.
    """

    initial: tuple[fun.Var, ...]
    given: Mapping[str, fun.Var]
    lows: tuple[Size, ...]
    extents: tuple[Size, ...]


def on_windows(
    loop: fun.Loop, windows: Windows, builder: Builder, form: fun.For, first: Size
) -> tuple[fun.Var, ...]:
    """Emit rounds of a stencil on windows of its arrays.

    Parameters
    ----------
    loop : fun.Loop
        One that `stencil_of` knows.
    windows : Windows
    builder : Builder
        Where the loop is added; every name that it binds is fresh.
    form : fun.For
        The rounds: an index that is free, and its range.
    first : Size
        What the loop's own index is where that of `form` is 0.

    Returns
    -------
    tuple of fun.Var
        The windows after these rounds.
    """
    assert isinstance(loop.form, fun.For)
    params = tuple(
        builder.var(p.name, i.type) for p, i in zip(loop.params, windows.initial, strict=True)
    )
    known = {old.name: new for old, new in zip(loop.params, params, strict=True)}
    known.update(windows.given)
    round_ = {loop.form.index.name: first + Poly.var(form.index.name)}
    body = shift(loop.body, round_, builder.names, builder.names.fresh)
    inner = builder.inner()
    for let in body.statements:
        if not isinstance(let.expr, fun.Kernel):
            inner.statements.append(let)
            continue
        kernel = _kernel_on_windows(let.expr, known, windows, builder)
        for var in let.pattern:
            known[var.name] = fun.Var(var.name, fun.Array(var.type.dtype, windows.extents))
        pattern = tuple(known[var.name] for var in let.pattern)
        inner.statements.append(fun.Let(pattern, kernel, let.place))
    results = tuple(known[r.name] if isinstance(r, fun.Var) else r for r in body.results)
    types = tuple(var.type for var in params)
    new = fun.Loop(params, windows.initial, form, inner.body(results))
    return builder.bind(new, types, "u")


def _kernel_on_windows(
    kernel: fun.Kernel, known: Mapping[str, fun.Var], windows: Windows, builder: Builder
) -> fun.Kernel:
    """A kernel whose reads are in coordinates of windows, its index values in the array's.

    f(i, v[i - 1])  =>  f(low + i, w[i - 1 : edge(0, extent)])
    """
    indices = [r.index.name for r in kernel.space]
    to = {name: Poly.var(name) + low for name, low in zip(indices, windows.lows, strict=True)}
    space = tuple(
        fun.Range(r.index, extent)
        for r, extent in zip(kernel.space, windows.extents, strict=True)
    )
    reads: dict[str, fun.Index] = {}

    def take_out(body: fun.Body) -> fun.Body:
        done = []
        for let in body.statements:
            expr = walk.map_bodies(let.expr, take_out)
            if isinstance(expr, fun.Index) and expr.array.name in known:
                reads[let.pattern[0].name] = _within(expr, known[expr.array.name], indices)
                expr = fun.SizeValue(ZERO)  # until the other indices are shifted
            done.append(fun.Let(let.pattern, expr, let.place))
        return fun.Body(tuple(done), body.results)

    def put_back(body: fun.Body) -> fun.Body:
        done = []
        for let in body.statements:
            found = reads.get(let.pattern[0].name)
            expr = walk.map_bodies(let.expr, put_back) if found is None else found
            done.append(fun.Let(let.pattern, expr, let.place))
        return fun.Body(tuple(done), body.results)

    return fun.Kernel(space, put_back(shift(take_out(kernel.body), to, builder.names)))


def _within(expr: fun.Index, window: fun.Var, indices: Sequence[str]) -> fun.Index:
    """A read of a window: beyond its ends it gives anything, but reads nothing."""
    rules: list[fun.Boundary | None] = []
    shape = walk.type_sizes(window.type)
    for number, (index, extent) in enumerate(zip(expr.indices, shape, strict=True)):
        old = expr.boundary[number] if expr.boundary else None
        if not index.variables() & set(indices) or (old is None and index.variable is not None):
            rules.append(old)
        elif old is None:
            rules.append(fun.Boundary("edge", ZERO, extent))
        else:
            rules.append(replace(old, lower=ZERO, upper=extent))
    boundary = tuple(rules) if any(rule is not None for rule in rules) else ()
    return fun.Index(window, expr.indices, boundary)
