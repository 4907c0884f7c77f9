"""Kernels: tiles over the pool at the top, plain loops inside of other kernels."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from functools import partial

from weft.fun import nodes as fun
from weft.fun import walk
from weft.imp import nodes as imp
from weft.imp.nodes import machine
from weft.lower import (
    far_rows,
    few_columns,
    merging,
    narrow_rows,
    past_caches,
    rows,
    several_rows,
    shapes,
    spaces,
    stencil_rows,
    strip_bodies,
    strips,
    tails,
)
from weft.lower.bodies import lower_body, side
from weft.lower.emitter import Emitter
from weft.lower.repeats import Target
from weft.lower.turned_rows import TurnedRows
from weft.lower.unit import memory
from weft.sizes import ONE, ZERO, Poly, Size

BLOCK = 256  # columns of a tile where rows of one array are columns of another;
NARROW = 64  # where those share sets of the first cache
PAGE = 4096  # bytes: what is so far apart, or a multiple of that, does


def lower_kernel(e: Emitter, let: fun.Let) -> None:
    kernel = let.expr
    assert isinstance(kernel, fun.Kernel)
    scalars = all(isinstance(atom.type, fun.Scalar) for atom in kernel.body.results)
    flat = scalars and shapes.is_flat(kernel.body)
    innermost = kernel.space[-1].index.name
    in_strips = scalars and not flat and strip_bodies.suits(kernel.body, innermost)
    free = strip_bodies.loops_freely(kernel.body)
    space = fused(e, let, kernel) if flat else kernel.space
    outer, lane, extent = space[:-1], space[-1].index.name, space[-1].extent
    nested = e.in_tile or e.serial
    crossing = flat and crosses(let, space)
    with ExitStack() as scopes:
        for r in kernel.space:
            # Of fused dimensions the last index runs over all of their elements.
            scopes.enter_context(e.index(r.index.name, imp.ZERO, ZERO, r.extent))

        def one_by_one(lower: imp.Expr, upper: imp.Expr) -> None:
            _one_by_one(e, let, kernel, lower, upper)

        def strip(along: str, lower: imp.Expr, upper: imp.Expr) -> None:
            strips.lower_row(
                e, along, lower, upper, kernel.body, lambda values: store(e, let, values)
            )

        def row(lower: imp.Expr, upper: imp.Expr) -> None:
            if flat:
                if not nested and not crossing:
                    past_caches.lower_row(e, let, space, lower, upper)
                    return
                if space == kernel.space:
                    far_rows.ask(e, let, kernel)
                rows.lower_row(
                    e, lane, lower, upper, kernel.body, lambda values: store(e, let, values),
                    targets=_targets(let, kernel), short=nested and not extent.is_constant,
                )  # fmt: skip
                return
            if in_strips:
                strip(lane, lower, upper)
                return
            together = 1 if nested else several_rows.count(e, kernel)
            if together > 1:
                several_rows.lower_rows(e, let, lower, upper, together, one_by_one)
            else:
                one_by_one(lower, upper)

        def along_last() -> None:
            if nested:
                spaces.nest(e, outer, lambda: row(imp.ZERO, e.named(extent)))
                return
            several, narrow, most, order = None, None, None, outer
            if crossing:
                most = _columns(e, let, space)
                turned = TurnedRows.of(kernel, space)
                if turned is not None:
                    several, order = _turned(e, let, turned), turned.order
                    most = imp.Select(several.when, imp.integer(turned.columns), most)
                    most = e.declare(most)
            elif flat:
                several = _side_by_side(e, let, space)
                narrow = _narrow(e, let, space)
            spaces.parallel_rows(
                e, order, extent, weight, label, row, least=least, most=most, several=several,
                narrow=narrow,
            )  # fmt: skip

        def along_another(space: tuple[fun.Range, ...]) -> None:
            last = space[-1]
            strip_along = partial(strip, last.index.name)
            if nested:
                spaces.nest(e, space[:-1], lambda: strip_along(imp.ZERO, e.named(last.extent)))
                return
            spaces.parallel_rows(
                e, space[:-1], last.extent, weight, label, strip_along, least=least
            )

        weight = shapes.cost(kernel.body)
        label = spaces.describe("map", kernel.space, let.pattern)
        least = strips.COLUMNS if in_strips and not free else 1
        turn = few_columns.turned(e, kernel) if in_strips and not free else None
        if turn is None:
            along_last()
        else:
            worth = few_columns.is_worth(e, kernel, turn)
            e.either(worth, lambda: along_another(turn.space), along_last)
    for var in let.pattern:
        e.depths["@" + var.name] = e.depth


def _side_by_side(e: Emitter, let: fun.Let, space: tuple[fun.Range, ...]) -> spaces.Several | None:
    """How many rows of a straight-line kernel are done at once, and what does them."""
    kernel = let.expr
    assert isinstance(kernel, fun.Kernel)
    together = stencil_rows.count(kernel, space)
    if together == 1:
        return None
    name = space[-2].index.name
    bodies = stencil_rows.bodies(kernel, name, together)

    def rows_(lower: imp.Expr, upper: imp.Expr) -> None:
        (first, last), checks = e.ranges[name], dict(e.unit.checks)
        e.ranges[name] = first, last - (together - 1)  # each has its followers
        past_caches.lower_rows(e, let, space, lower, upper, bodies)
        e.ranges[name] = first, last
        e.unit.checks = checks  # those of a row by itself say as much

    return spaces.Several(together, rows_)


def _narrow(e: Emitter, let: fun.Let, space: tuple[fun.Range, ...]) -> spaces.Several | None:
    """What does a row of a straight-line kernel where rows are short, and when they are."""
    kernel, lane = let.expr, space[-1].index.name
    assert isinstance(kernel, fun.Kernel)
    vectors = narrow_rows.vectors(e, kernel, lane)
    if len(space) == 1 or vectors is None:
        return None
    width, every = vectors.width, vectors.every
    when = narrow_rows.are_narrow(e, space[-1].extent, width)

    def write(values: list[imp.Expr]) -> None:
        store(e, let, values)

    def row(lower: imp.Expr, upper: imp.Expr) -> None:
        var = e.unit.integer("j")
        with e.loop(var, lower, upper, step=width, hoist=True):
            rows.masked(e, lane, var, upper, width, (kernel.body,), write, every=every)

    return spaces.Several(1, row, when)


def _turned(e: Emitter, let: fun.Let, turned: TurnedRows) -> spaces.Several:
    """Rows of a straight-line kernel that read columns."""
    kernel = turned.kernel

    def rows_(lower: imp.Expr, upper: imp.Expr) -> None:
        def row(body: fun.Body) -> None:
            rows.lower_row(
                e, turned.lane, lower, upper, body, lambda values: store(e, let, values),
                targets=_targets(let, kernel),
            )  # fmt: skip

        turned.lower(e, lower, upper, row)

    return spaces.Several(turned.together, rows_, turned.is_worth_it(e))


def lower_box(
    e: Emitter, let: fun.Let, box: Sequence[tuple[imp.Expr, imp.Expr]],
    ranges: Sequence[tuple[Size, Size]],
) -> None:  # fmt: skip
    """A kernel of scalars for lower <= index < upper in each dimension, near a core.

    `ranges` are what no box of the kernel goes beyond.
    """
    kernel = let.expr
    assert isinstance(kernel, fun.Kernel)
    flat = shapes.is_flat(kernel.body)
    *outer, lane = kernel.space
    in_strips = not flat and strip_bodies.suits(kernel.body, lane.index.name)

    def store_here(values: list[imp.Expr]) -> None:
        store(e, let, values)

    with ExitStack() as scopes:
        for r, (least, most) in zip(kernel.space, ranges, strict=True):
            scopes.enter_context(e.index(r.index.name, imp.ZERO, least, most))
        for dim, (lower, upper) in zip(outer, box[:-1], strict=True):
            index = e.unit.integer("i")
            scopes.enter_context(e.loop(index, lower, upper, hoist=True))
            e.bind(dim.index.name, index)
        first, last = box[-1]
        last = e.declare(machine("max", first, last))  # a row may be empty, but no less
        if flat:
            lower_part(e, let, lane.index.name, (first, last))
        elif in_strips:
            strips.lower_row(e, lane.index.name, first, last, kernel.body, store_here)
        else:
            _one_by_one(e, let, kernel, first, last)
    for var in let.pattern:
        e.depths["@" + var.name] = e.depth


def lower_part(
    e: Emitter, let: fun.Let, lane: str, part: tuple[imp.Expr, imp.Expr]
) -> None:
    """A straight-line kernel on a part of a row, near a core; outer indices are known."""
    kernel = let.expr
    assert isinstance(kernel, fun.Kernel)

    def row(body: fun.Body) -> None:
        rows.lower_row(
            e, lane, *part, body, lambda values: store(e, let, values),
            targets=_targets(let, kernel), near=True,
        )  # fmt: skip

    _by_conditions_of_rows(e, lane, kernel.body, row)


def _by_conditions_of_rows(
    e: Emitter, lane: str, body: fun.Body, row: Callable[[fun.Body], None]
) -> None:
    """`row` of a body; of each side of it apart, where it is a branch that is a row's alone.

    for j { if c(i) { f(i, j) } else { g(i, j) } }
        =>  if c(i) { for j { f(i, j) } } else { for j { g(i, j) } }
    """
    before, last = body.statements[:-1], body.statements[-1:]
    branch = last[0].expr if last else None
    if not isinstance(branch, fun.If) or body.results != last[0].pattern:
        row(body)
        return
    needed: list[fun.Let] = []
    names = {branch.condition.name} if isinstance(branch.condition, fun.Var) else set()
    for let in reversed(before):
        if not names & {var.name for var in let.pattern}:
            continue
        used = walk.used_names(let.expr)
        if lane in used or not isinstance(let.expr, fun.Apply | fun.SizeValue):
            row(body)
            return
        needed.append(let)
        names |= used
    for let in reversed(needed):
        e.unit.statement(e, let)
    condition = branch.condition
    facts = e.comparisons.get(condition.name) if isinstance(condition, fun.Var) else None
    sides = []
    for number, inner in enumerate((branch.then, branch.otherwise)):
        with side(e, None if facts is None else facts[number]) as statements:
            whole = fun.Body((*before, *inner.statements), inner.results)
            _by_conditions_of_rows(e, lane, whole, row)
        sides.append(tuple(statements))
    e.emit(imp.If(e.atom(condition), sides[0], sides[1]))


def _one_by_one(
    e: Emitter, let: fun.Let, kernel: fun.Kernel, lower: imp.Expr, upper: imp.Expr
) -> None:
    """The points lower <= last index < upper: what is not straight-line of them in turn."""
    lane = kernel.space[-1].index.name
    parts = tails.parts(kernel.body)
    if parts is not None:
        tails.lower_row(e, lane, lower, upper, parts, lambda values: store(e, let, values))
        return
    var = e.unit.integer("i")
    with e.loop(var, lower, upper):
        e.bind(lane, var)
        lower_results(e, let, kernel)


def lower_results(e: Emitter, let: fun.Let, kernel: fun.Kernel) -> None:
    """The body at one index, its results written to the kernel's."""
    results = lower_body(e, kernel.body)
    indices = tuple(Poly.var(r.index.name) for r in kernel.space)
    for var, result in zip(let.pattern, results, strict=True):
        # Memory has been introduced so that arrays are made where they are wanted.
        if isinstance(result.type, fun.Scalar):
            e.store(memory(var), indices, e.atom(result))


def store(e: Emitter, let: fun.Let, values: list[imp.Expr]) -> None:
    """A kernel's results at its indices, which are known."""
    assert isinstance(let.expr, fun.Kernel)
    for (array, indices), value in zip(_targets(let, let.expr), values, strict=True):
        e.store(array, indices, value)


def _targets(let: fun.Let, kernel: fun.Kernel) -> list[Target]:
    """Where a kernel of scalars writes them."""
    indices = tuple(Poly.var(r.index.name) for r in kernel.space)
    return [(memory(var), indices) for var in let.pattern]


def _addresses(let: fun.Let, kernel: fun.Kernel) -> list[Size]:
    """Where a kernel writes its scalars and reads elements, in elements of their blocks."""
    addresses = [
        array.index.apply(indices)
        for array, indices in _targets(let, kernel)
        if len(array.shape) == len(indices)
    ]
    return addresses + merging.reads(kernel.body)


def crosses(let: fun.Let, space: tuple[fun.Range, ...]) -> bool:
    """Whether neighbours along an outer index are neighbours in memory, as in a transposition."""
    assert isinstance(let.expr, fun.Kernel)
    *outer, last = space
    return any(
        p.coefficient(last.index.name) not in (ZERO, ONE)
        and any(p.coefficient(r.index.name) == ONE for r in outer)
        for p in _addresses(let, let.expr)
    )


def _columns(e: Emitter, let: fun.Let, space: tuple[fun.Range, ...]) -> imp.Expr:
    """The columns of a tile, whose lines are to stay in the first cache from row to row."""
    assert isinstance(let.expr, fun.Kernel)
    lane = space[-1].index.name
    reads = [one.expr for one in walk.statements(let.expr.body) if isinstance(one.expr, fun.Index)]
    places = _targets(let, let.expr) + [(memory(read.array), read.indices) for read in reads]
    apart = dict.fromkeys(
        array.index.apply(indices).coefficient(lane) * array.dtype.itemsize
        for array, indices in places
        if len(array.shape) == len(indices)
    )
    chosen: imp.Expr = imp.integer(BLOCK)
    for step in apart:
        if step.variables() and step.variables() <= e.scalars.keys():
            within = e.declare(machine("&", e.named(step), imp.integer(PAGE - 1)))
            share = machine("==", within, imp.ZERO)
            chosen = e.declare(imp.Select(share, imp.integer(NARROW), chosen))
    return chosen


def fused(e: Emitter, let: fun.Let, kernel: fun.Kernel) -> tuple[fun.Range, ...]:
    """The space with dimensions merged that one index walks as all of theirs do.

    The last index of those runs over all of their elements; the others stay 0.
    """
    addresses = _addresses(let, kernel)
    fixed = merging.fixed(e, kernel.space, kernel.body)
    merged: list[fun.Range] = []
    for left in reversed(kernel.space):
        if merged and merging.walk_as_one(left, merged[-1], fixed, addresses):
            right = merged[-1]
            merged[-1] = fun.Range(right.index, left.extent * right.extent)
        else:
            merged.append(left)
    return tuple(reversed(merged))
