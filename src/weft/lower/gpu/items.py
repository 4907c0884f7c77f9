"""What one work item of a device does: everything inside of a kernel is sequential.

Reductions fold 32 elements from left to right and combine the folds by a binary counter, so
that aligned tiles of a reduction (`weft.passes.split_reductions`) are subtrees of it, and bits
depend on extents alone. (No neutral element goes into a fold: scans have operators of which
none is known.)

On a GPU several elements are computed before they are combined, in the same order
(`weft.lower.gpu.batched`): one after the other would wait for memory as often.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from typing import TypeAlias

from weft.fun import nodes as fun
from weft.imp import nodes as imp
from weft.imp.nodes import machine
from weft.lower import cpu, kernels, reductions, scans, scatters, shapes, spaces, straight_line
from weft.lower.bodies import lower_body, scalar_results
from weft.lower.emitter import Emitter
from weft.lower.gpu import batched
from weft.lower.unit import memory
from weft.sizes import ZERO, Poly

Fold: TypeAlias = Callable[
    [Emitter, fun.Reduce, imp.Expr, imp.Expr, Sequence[imp.Expr]], list[imp.Expr]
]
"""(emitter, reduction, first index, extent, neutral elements): the values there, combined."""


def lower_item(e: Emitter, let: fun.Let) -> None:
    """One statement, by one work item."""
    match let.expr:
        case fun.Kernel():
            _kernel(e, let, let.expr)
        case fun.Reduce():
            _reduce(e, let, let.expr)
        case fun.Scan():
            lower_scan(e, let, let.expr, let.expr.space)
        case fun.Scatter():
            _scatter(e, let, let.expr)
        case _:
            cpu.lower_statement(e, let)
    if isinstance(let.expr, fun.Kernel | fun.Scan | fun.Scatter):
        for var in let.pattern:
            e.depths["@" + var.name] = e.depth


def _kernel(e: Emitter, let: fun.Let, kernel: fun.Kernel) -> None:
    with ExitStack() as scopes:
        for r in kernel.space:
            scopes.enter_context(e.index(r.index.name, imp.ZERO, ZERO, r.extent))
        spaces.nest(e, kernel.space, lambda: kernels.lower_results(e, let, kernel))


# ---------------------------------------------------------------- reductions


def _reduce(e: Emitter, let: fun.Let, reduce: fun.Reduce) -> None:
    if reduce.reduced < len(reduce.space):
        lower_item(e, reductions.as_kernel(e, let))
        return
    with ExitStack() as scopes:
        for r in reduce.space:
            scopes.enter_context(e.index(r.index.name, imp.ZERO, ZERO, r.extent))
        if shapes.is_unrolled(reduce):
            results = straight_line.unrolled(e, reduce)
        else:
            results = reduce_dimension(e, reduce, 0, folded)
    for var, value in zip(let.pattern, results, strict=True):
        e.bind(var.name, value)


def reduce_dimension(
    e: Emitter, reduce: fun.Reduce, position: int, fold: Fold
) -> list[imp.Expr]:
    """The reduction over the dimensions from `position` on, at the indices chosen so far.

    `fold` does the last one, as `folded` does.
    """
    r = reduce.space[position]
    extent = e.named(r.extent)
    neutral = [e.atom(atom) for atom in reduce.neutral]
    last = position == len(reduce.space) - 1
    if last and not reduce.counter:
        return fold(e, reduce, imp.ZERO, extent, neutral)
    counter = reductions.Counter(e, reduce.operator, neutral)
    if last and e.unit.batched and shapes.is_flat(reduce.body):

        def value(at: imp.Expr) -> list[imp.Expr]:
            e.bind(r.index.name, at)
            return scalar_results(e, reduce.body)

        batched.count(counter, extent, value)
        return counter.total()
    var = e.unit.integer("i")
    with e.loop(var, imp.ZERO, extent):
        e.bind(r.index.name, var)
        counter.push(
            scalar_results(e, reduce.body) if last
            else reduce_dimension(e, reduce, position + 1, fold)
        )
    return counter.total()


def folded(
    e: Emitter,
    reduce: fun.Reduce | fun.Scan,
    begin: imp.Expr,
    extent: imp.Expr,
    neutral: Sequence[imp.Expr],
) -> list[imp.Expr]:
    """The body's values at `extent` indices from `begin` on: folds of 32, by the counter."""
    counter = reductions.Counter(e, reduce.operator, neutral)
    start = e.unit.integer("i")
    with e.loop(start, imp.ZERO, extent, step=reductions.ROWS):
        state = [e.mutable(value.dtype, value) for value in neutral]
        after = e.declare(machine("+", start, imp.integer(reductions.ROWS)))
        end = e.declare(machine("min", extent, after))

        def value(at: imp.Expr) -> list[imp.Expr]:
            e.bind(reduce.space[-1].index.name, e.declare(machine("+", begin, at)))
            return scalar_results(e, reduce.body)

        batched.fold(e, reduce, state, start, end, value)
        counter.push(state)
    return counter.total()


# ---------------------------------------------------------------- scans and scatters


def lower_scan(e: Emitter, let: fun.Let, scan: fun.Scan, space: tuple[fun.Range, ...]) -> None:
    """Rows of the dimensions in `space`, which end with the one that is scanned."""
    *outer, last = space
    initial = [e.atom(atom) for atom in scan.initial]

    def row() -> None:
        scan_range(e, let, scan, imp.ZERO, e.named(last.extent), initial)

    with ExitStack() as scopes:
        for r in space:
            scopes.enter_context(e.index(r.index.name, imp.ZERO, ZERO, r.extent))
        spaces.nest(e, tuple(outer), row)


def scan_range(
    e: Emitter,
    let: fun.Let,
    scan: fun.Scan,
    begin: imp.Expr,
    end: imp.Expr,
    initial: Sequence[imp.Expr],
) -> None:
    """A left fold over begin <= last index < end, its values stored."""
    indices = tuple(Poly.var(r.index.name) for r in scan.space)
    carry = [e.mutable(value.dtype, value, "carry") for value in initial]
    var = e.unit.integer("i")
    with e.loop(var, begin, end):
        e.bind(scan.space[-1].index.name, var)
        for result, value in zip(let.pattern, scans.advance(e, scan, carry), strict=True):
            e.store(memory(result), indices, value)


def _scatter(e: Emitter, let: fun.Let, scatter: fun.Scatter) -> None:
    """Writes in the order of the space."""

    def write() -> None:
        values = [e.atom(atom) for atom in lower_body(e, scatter.body)]
        scatters.write(e, let, scatter, values)

    with ExitStack() as scopes:
        for r in scatter.space:
            scopes.enter_context(e.index(r.index.name, imp.ZERO, ZERO, r.extent))
        spaces.nest(e, scatter.space, write)
