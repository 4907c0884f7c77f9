"""One row of a kernel: its innermost index over a range, in vector lanes.

A row is split where boundary rules on its index begin and end to apply: the interior is a
loop without branches, its ends are vectors with masks (`weft.lower.masks`) or single elements.
Where masks cost much and elements may be done twice (`weft.lower.repeats`), the last vector of
the interior ends where that does, and does some elements of the one before again.
Where vector math is called, the row is done in blocks of 64 lanes, the last one as whole vectors
with its indices clamped, so that every element goes through the same vector function.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Literal

from weft.fun import nodes as fun
from weft.fun import walk
from weft.fun.vector_math import has_vector_math
from weft.imp import nodes as imp
from weft.imp.eliminate_loads import eliminate_loads
from weft.imp.nodes import machine
from weft.lower import bounds, half_rows, masks, repeats, shapes
from weft.lower.bodies import scalar_results
from weft.lower.emitter import Emitter
from weft.lower.repeats import Target
from weft.lower.roots import with_roots
from weft.lower.spans import Spans
from weft.lower.stages import in_stages
from weft.lower.vector_lanes import lanes
from weft.ops.dtypes import DType
from weft.records import dataclass
from weft.sizes import ONE, ZERO, Size

LANES = 64
NEAR = 64  # elements from an end of the row that are worth a loop of their own
FEW = 2  # vectors: of short rows with so many, all are with masks

Store = Callable[[list[imp.Expr]], None]


def lower_row(
    e: Emitter,
    lane: str,
    lower: imp.Expr,
    upper: imp.Expr,
    body: fun.Body,
    store: Store,
    *,
    targets: Sequence[Target] = (),
    short: bool = False,
    near: bool = False,
) -> None:
    """A flat body for lower <= lane < upper; `store` writes its results at the lane.

    `targets`: where it writes them, if that is known. `short`: the row is of a kernel inside of
    another, and may be a few vectors long. `near`: what it reads and writes is in a core's own
    cache.
    """
    lower_rows(e, lane, lower, upper, (body,), store, targets=targets, short=short, near=near)


def lower_rows(
    e: Emitter,
    lane: str,
    lower: imp.Expr,
    upper: imp.Expr,
    bodies: Sequence[fun.Body],
    store: Store,
    *,
    targets: Sequence[Target] = (),
    short: bool = False,
    near: bool = False,
) -> None:
    """Flat bodies side by side for lower <= lane < upper; `store` writes all of their results.

    Of several, each obeys the same rules along the lane, and calls no vector math.
    """
    found = half_rows.halves(e, lane, bodies[0]) if len(bodies) == 1 else None
    if found is None:
        _lower_rows(e, lane, lower, upper, bodies, store, targets, short, near)
        return
    below = e.declare(machine("min", upper, e.named(found.border)))
    border = e.declare(machine("max", lower, below))
    for begin, end, half in ((lower, border, found.before), (border, upper, found.after)):
        with bounds.assumed(e, half.facts):
            _lower_rows(e, lane, begin, end, (half.body,), store, targets, short, near)


def _lower_rows(
    e: Emitter, lane: str, lower: imp.Expr, upper: imp.Expr, bodies: Sequence[fun.Body],
    store: Store, targets: Sequence[Target], short: bool, near: bool,
) -> None:  # fmt: skip
    """Of a row that no branch of its bodies parts in two, or of a side of one."""
    body = bodies[0]
    cut = interior(e, lane, body)
    if has_vector_math(body):
        _blocks(e, lane, lower, upper, cut, body, store)
        return
    if cut is None:
        _simd(e, lane, lower, upper, bodies, store, interior=False, near=near)
        return
    base = _row_address(e, lane, targets) if near and e.unit.aligned else None
    row = _Row(e, lane, lower, upper, cut, bodies, store, short, near, base)
    width = masks.lanes(lane, body, short)
    again = None
    if width and targets and masks.are_slow():
        again = repeats.may_repeat(e, lane, targets, bodies)
    if again is None:
        row.with_masks(width)
    elif short:
        length = e.declare(machine("-", upper, lower))
        few = e.declare(machine("<=", length, imp.integer(FEW * width)))
        e.either(few, lambda: row.with_masks(width), lambda: row.with_repeats(again))
    else:
        row.with_repeats(again)


@dataclass(frozen=True, slots=True)
class _Row:
    """Flat bodies side by side for lower <= lane < upper, of which an interior obeys no rules.

    `base`: where its element 0 is written, in elements, if its stores should be aligned.
    """

    e: Emitter
    lane: str
    lower: imp.Expr
    upper: imp.Expr
    cut: tuple[imp.Expr, imp.Expr]
    bodies: Sequence[fun.Body]
    store: Store
    short: bool
    near: bool
    base: imp.Expr | None = None

    def with_masks(self, width: int) -> None:
        """Ends that are vectors of this width with masks, or done one by one where it is 0.

        Of a row near a core the interior begins where a vector is aligned: blocks and trapezoids
        begin anywhere in it, and a store across two cache lines takes as long as two.
        """
        e = self.e
        first = self._first()
        if width:
            above = e.declare(machine("+", first, imp.integer(width - 1)))
            if self.base is None:
                whole = _whole_vectors(e, self.lower, above, width)
                whole = e.declare(machine("+", self.lower, whole))
            else:
                at = e.declare(machine("+", self.base, above))
                over = e.declare(machine("&", at, imp.integer(width - 1)))
                whole = e.declare(machine("-", above, over))
            first = e.declare(machine("min", self.upper, whole))
        last = self._last(first)
        if width:
            last = e.declare(machine("+", first, _whole_vectors(e, first, last, width)))
        with _sides(e, self.lower, first, last, self.upper) as (begin, end):
            if width:
                var = e.unit.integer("j")
                with e.loop(var, begin, end, step=width, hoist=True):
                    masked(e, self.lane, var, end, width, self.bodies, self.store)
            else:
                self._one_by_one(begin, end)
        self._interior(first, last)

    def with_repeats(self, again: imp.Expr) -> None:
        """Ends one by one; an interior that begins and ends with a whole vector.

        Of a row in which it has none, or `again` does not hold, all elements one by one.
        """
        e, width = self.e, masks.lanes(self.lane, self.bodies[0])
        first = self._first()
        last = self._last(first)
        many = machine(">=", e.declare(machine("-", last, first)), imp.integer(width))
        last = e.declare(imp.Select(e.declare(machine("&&", again, many)), last, first))
        with _sides(e, self.lower, first, last, self.upper) as (begin, end):
            self._one_by_one(begin, end)
        until = e.declare(machine("+", first, _whole_vectors(e, first, last, width)))
        piece = e.unit.integer("piece")
        with e.loop(piece, imp.ZERO, imp.integer(2), hoist=True):
            whole = machine("==", piece, imp.ZERO)
            before = e.declare(machine("-", last, imp.integer(width)))
            begin = e.declare(imp.Select(whole, first, before))
            rest = e.declare(imp.Select(machine("==", until, last), begin, last))
            self._interior(begin, e.declare(imp.Select(whole, until, rest)))

    def _first(self) -> imp.Expr:
        e = self.e
        return e.declare(
            machine("min", self.upper, e.declare(machine("max", self.lower, self.cut[0])))
        )

    def _last(self, first: imp.Expr) -> imp.Expr:
        e = self.e
        return e.declare(machine("max", first, e.declare(machine("min", self.upper, self.cut[1]))))

    def _one_by_one(self, begin: imp.Expr, end: imp.Expr) -> None:
        var = self.e.unit.integer("j")
        with self.e.loop(var, begin, end, hoist=True):
            self.e.bind(self.lane, var)
            self.store(_results(self.e, self.bodies))

    def _interior(self, begin: imp.Expr, end: imp.Expr) -> None:
        _simd(
            self.e, self.lane, begin, end, self.bodies, self.store,
            interior=True, short=self.short, near=self.near,
        )  # fmt: skip


def _row_address(e: Emitter, lane: str, targets: Sequence[Target]) -> imp.Expr | None:
    """Where a row's element 0 is written, in elements, as far as stores should be aligned.

    0 of rows of a plane: where these do not begin on a cache line, a row and those that it reads
    above and below never do at once, and limits that differ from row to row cost more than is won.
    Of a solid's rows those in the planes before and after often do. None where it is not known.
    """
    found: set[Size] = set()
    for array, where in targets:
        if len(array.shape) != len(where):
            return None
        address = array.index.apply(where)
        if address.coefficient(lane) != ONE or address.degree(lane) != 1:
            return None
        found.add(address.without(lane) if len(where) > 2 else ZERO)
    if len(found) != 1:
        return None
    (base,) = found
    return e.named(base) if all(name in e.scalars for name in base.variables()) else None


@contextmanager
def _sides(
    e: Emitter, lower: imp.Expr, first: imp.Expr, last: imp.Expr, upper: imp.Expr
) -> Iterator[tuple[imp.Expr, imp.Expr]]:
    """Around the code for a part of a row: what is before its interior, and what is after it."""
    side = e.unit.integer("side")
    with e.loop(side, imp.ZERO, imp.integer(2), hoist=True):
        left = machine("==", side, imp.ZERO)
        yield e.declare(imp.Select(left, lower, last)), e.declare(imp.Select(left, first, upper))


def _whole_vectors(e: Emitter, first: imp.Expr, last: imp.Expr, width: int) -> imp.Expr:
    """The elements of the whole vectors from `first` to `last`."""
    return e.declare(machine("&", e.declare(machine("-", last, first)), imp.integer(-width)))


def _results(e: Emitter, bodies: Sequence[fun.Body]) -> list[imp.Expr]:
    return [value for body in bodies for value in scalar_results(e, body)]


def masked(
    e: Emitter,
    lane: str,
    begin: imp.Var,
    end: imp.Expr,
    width: int,
    bodies: Sequence[fun.Body],
    store: Store,
    *,
    every: bool = False,
) -> None:
    """A vector from `begin` on, of which the lanes before `end` are done.

    `every`: the others may be computed too, of zeros, and are not stored: then the compiler knows
    what it makes of a whole vector, as the maximum of two.
    """
    until = e.declare(machine("min", end, e.declare(machine("+", begin, imp.integer(width)))))
    var = e.unit.integer("l")
    with simd(e, var, imp.ZERO, imp.integer(width), width=width):
        last = e.declare(machine("-", until, imp.ONE))
        e.ends = masks.Ends(lane, var, begin, last, width)
        count = e.declare(machine("-", until, begin))
        within = e.declare(e.ends.compared(e, "less", count))
        spans = e.spans = Spans(e, lane, var, begin, count, width, every=every)
        if every:
            e.bind(lane, e.declare_here(machine("+", begin, var)))
            e.within = within
            values = _results(e, bodies)
            e.within = None
        with e.level(hoist=True) as statements:
            if not every:
                # The element belongs here, as what depends on it is computed where it is one.
                e.bind(lane, e.declare_here(machine("+", begin, var)))
                spans.depth = e.depth
                values = _results(e, bodies)
            store(values)
        spans.fill(e, e.levels[e.depth - 1])
        e.ends = e.spans = None
        e.emit(imp.If(within, tuple(statements)))


def _simd(
    e: Emitter,
    lane: str,
    lower: imp.Expr,
    upper: imp.Expr,
    bodies: Sequence[fun.Body],
    store: Store,
    *,
    interior: bool,
    short: bool = False,
    near: bool = False,
    whole: bool = False,
) -> None:
    var = e.unit.integer("j")
    shared = len(bodies) > 1
    with simd(
        e, var, lower, upper, short=short, wide=near, shared=shared, row=True, whole=whole
    ):
        e.interior, e.lane = interior, lane
        e.bind(lane, var)
        store(_results(e, bodies))


@contextmanager
def simd(
    e: Emitter,
    var: imp.Var,
    lower: imp.Expr,
    upper: imp.Expr,
    combining: tuple[tuple[imp.ReductionOperator, imp.Var], ...] = (),
    *,
    short: bool = False,
    wide: bool = False,
    width: int = 0,
    shared: bool = False,
    row: bool = False,
    whole: bool = False,
    grain: bool = False,
) -> Iterator[None]:
    """A simd loop; indices that data decide are checked after it.

    `wide`: vectors are as wide as they come, since its extent is a multiple of theirs, or since
    lines that rows cross are in a core's own cache. `width`: so many iterations run at once.
    `shared`: of what it does, some reads the same elements. `row`: it is a kernel's row, which may
    be done in stages. `whole`: its extent is a multiple of 64. `grain`: it is at most 64.
    """
    outer, e.watched = e.watched, []
    with e.level(hoist=True) as statements:
        e.depths[var.name] = e.depth
        yield
    watched, e.watched = e.watched, outer
    reductions = list(combining)
    for watch in watched:
        e.emit(imp.Declare(watch.worst, imp.Const(0, watch.worst.dtype), mutable=True))
        reductions.append(("max", watch.worst))
    body = tuple(statements)
    if shared and not watched:
        body = eliminate_loads(body)
    count = 0 if wide else width or lanes(body, short)
    loop = imp.For(var, lower, upper, body, 1, True, tuple(reductions), lanes=count)
    found = in_stages(e.unit, loop, whole=whole) if row else (loop,)
    for statement in with_roots(e.unit, loop) if grain else found:
        e.emit(statement)
    for watch in watched:
        limit = machine("max", watch.extent, imp.ONE)
        worst: imp.Expr = watch.worst
        if worst.dtype is DType.U32:  # of which the upper half are negative numbers
            limit = machine("min", limit, imp.integer(2**31))
            worst = imp.Cast(DType.I32, worst)
        compared = (watch.worst, imp.Cast(watch.worst.dtype, limit))
        outside = imp.Apply("greater_equal", compared, DType.BOOL)
        fail = imp.Fail(watch.code, imp.Cast(DType.I64, worst), watch.extent)
        e.emit(imp.If(outside, (fail,)))


def _blocks(
    e: Emitter,
    lane: str,
    lower: imp.Expr,
    upper: imp.Expr,
    cut: tuple[imp.Expr, imp.Expr] | None,
    body: fun.Body,
    store: Store,
) -> None:
    """One simd loop over the whole blocks of the interior, the others with care.

    The simd loop's extent is a multiple of 64, so that the compiler's scalar remainder of
    it, with its scalar math, is never reached.
    """
    low_bits = imp.integer(LANES - 1)

    def whole(extent: imp.Expr) -> imp.Expr:
        return e.declare(machine("&", extent, imp.integer(-LANES)))

    length = e.declare(machine("-", upper, lower))
    first: imp.Expr = lower
    if cut is None:
        last = e.declare(machine("+", lower, whole(length)))
    else:
        before = e.declare(machine("max", imp.ZERO, e.declare(machine("-", cut[0], lower))))
        until = e.declare(machine("min", length, e.declare(machine("-", cut[1], lower))))
        start = e.declare(machine("min", length, whole(e.declare(machine("+", before, low_bits)))))
        first = e.declare(machine("+", lower, start))
        last = e.declare(machine("+", lower, whole(e.declare(machine("max", imp.ZERO, until)))))
        last = e.declare(machine("max", first, last))
    _simd(e, lane, first, last, (body,), store, interior=cut is not None, whole=True)

    ruled = [] if cut is None else _ruled(lane, body)

    def careful(begin: imp.Expr, end: imp.Expr) -> None:
        block = e.unit.integer("j")
        with e.loop(block, begin, end, step=LANES, hoist=True):
            left = e.declare(machine("-", end, block))
            valid = e.declare(machine("min", imp.integer(LANES), left))
            _careful(e, lane, block, valid, body, ruled, store)

    if cut is None:
        careful(last, upper)
        return
    with _sides(e, lower, first, last, upper) as (begin, end):
        careful(begin, end)


def whole_vectors(e: Emitter, body: fun.Body, valid: imp.Expr) -> imp.Expr:
    """The lanes of a block of which so many are valid: whole vectors, so math is vector math."""
    low_bits = shapes.widest_vector(body) - 1
    if low_bits >= LANES - 1:
        return imp.integer(LANES)
    above = e.declare(machine("+", valid, imp.integer(low_bits)))
    return e.declare(machine("&", above, imp.integer(~low_bits)))


def _ruled(lane: str, body: fun.Body) -> list[fun.Let]:
    """Reads by rules along the lane that divide: no vectors do that, nor what stands beside it."""
    computed = {var.name for let in body.statements for var in let.pattern}
    return [
        let for let in body.statements
        if isinstance(let.expr, fun.Index)
        and not any(computed & index.variables() for index in let.expr.indices)
        and any(
            rule is not None and rule.kind not in ("edge", "constant") and lane in index.variables()
            for index, rule in zip(let.expr.indices, let.expr.boundary, strict=False)
        )
    ]  # fmt: skip


def _careful(
    e: Emitter, lane: str, block: imp.Expr, valid: imp.Expr, body: fun.Body,
    ruled: Sequence[fun.Let], store: Store,
) -> None:  # fmt: skip
    """A block that is not whole, or not all in the interior: results by way of buffers.

    So are the reads that are `ruled`, so that math is vector math, as it is in the interior.
    """
    results = [e.local(atom.type.dtype, LANES) for atom in body.results]
    last = e.declare(machine("-", valid, imp.ONE))
    whole = whole_vectors(e, body, valid)
    read = [e.local(let.pattern[0].type.dtype, LANES) for let in ruled]
    if ruled:
        var = e.unit.integer("l")
        with e.loop(var, imp.ZERO, whole):
            e.bind(lane, e.declare(machine("+", block, e.declare(machine("min", var, last)))))
            for let, buffer in zip(ruled, read, strict=True):
                e.unit.statement(e, let)
                e.emit(imp.Store(buffer, var, e.scalars[let.pattern[0].name]))
    rest = tuple(let for let in body.statements if let not in ruled)
    var = e.unit.integer("l")
    with simd(e, var, imp.ZERO, whole, row=True):
        e.bind(lane, e.declare(machine("+", block, e.declare(machine("min", var, last)))))
        for let, buffer in zip(ruled, read, strict=True):
            e.bind(let.pattern[0].name, e.declare(imp.Load(buffer, var), depth=e.depth))
        values = scalar_results(e, replace(body, statements=rest))
        for buffer, value in zip(results, values, strict=True):
            e.emit(imp.Store(buffer, var, value))
    var = e.unit.integer("l")
    with e.loop(var, imp.ZERO, valid):
        e.bind(lane, e.declare(machine("+", block, var)))
        store([imp.Load(buffer, var) for buffer in results])


def interior(e: Emitter, lane: str, body: fun.Body) -> tuple[imp.Expr, imp.Expr] | None:
    """Where on the row no boundary rule on its index applies; None where there are none.

    None too where a rule cannot be split off: every element then obeys it. Comparisons that
    hold but near the row's ends are rules too: they are true in the interior.
    """
    firsts, lasts = _near_ends(e, lane, body)
    for let in walk.statements(body):
        if not isinstance(let.expr, fun.Index):
            continue
        access = let.expr
        for index, rule in zip(access.indices, access.boundary, strict=False):
            if rule is None or lane not in index.variables():
                continue
            factor, rest = index.coefficient(lane), index.without(lane)
            if index.degree(lane) != 1 or not all(name in e.scalars for name in rest.variables()):
                return None
            if factor == ONE:
                firsts.append(rule.lower - rest)
                lasts.append(rule.upper - rest)
            elif factor == -ONE:
                firsts.append(rest - rule.upper + 1)
                lasts.append(rest - rule.lower + 1)
            else:
                return None
    if not firsts:
        return None
    return _extreme(e, "max", firsts), _extreme(e, "min", lasts)


def _near_ends(e: Emitter, lane: str, body: fun.Body) -> tuple[list[Size], list[Size]]:
    """Limits by comparisons that hold but near the ends; the emitter is told which."""
    firsts: list[Size] = []
    lasts: list[Size] = []
    true: set[str] = set()
    end = e.ranges[lane][1] if lane in e.ranges else None
    for condition, (holds, _) in half_rows.comparisons(e, body).items():
        if end is None or len(holds) != 1 or lane not in holds[0].variables():
            continue
        (fact,) = holds
        factor, rest = fact.coefficient(lane), fact.without(lane)
        if fact.degree(lane) != 1 or not all(name in e.scalars for name in rest.variables()):
            continue
        if factor == ONE and bounds.holds(e, rest + NEAR):
            firsts.append(-rest)
        elif factor == -ONE and bounds.holds(e, rest + 1 - end + NEAR):
            lasts.append(rest + 1)
        else:
            continue
        true.add(condition)
    e.true_inside = frozenset(true)
    if firsts and not lasts:
        lasts.append(end or ONE)
    if lasts and not firsts:
        firsts.append(ZERO)
    return firsts, lasts


def _extreme(e: Emitter, operator: Literal["min", "max"], limits: list[Size]) -> imp.Expr:
    """The largest or smallest; of limits that differ by constants only one is computed."""
    groups: dict[Size, int] = {}
    pick = max if operator == "max" else min
    for limit in limits:
        base = limit - limit.constant
        groups[base] = pick(groups.get(base, limit.constant), limit.constant)
    total: imp.Expr | None = None
    for base, constant in groups.items():
        value = e.named(base + constant)
        total = value if total is None else e.declare(machine(operator, total, value))
    assert total is not None
    return total
