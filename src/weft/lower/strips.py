"""Kernels whose lanes are their last index although their bodies are not straight-line.

A strip is a run of lanes. Straight-line statements become simd loops over it; scalars that
live from one of these to a later one are kept in small arrays. Between them stand, with
all lanes of the strip side by side,

- reductions (sums of columns): rows one after another, 32 of them to a grain, grains
  combined by a binary counter of strips;
- loops: in a `while`, lanes that have ended keep their values until the last one ends.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from dataclasses import field

from weft.errors import InternalError
from weft.fun import nodes as fun
from weft.fun import walk
from weft.fun.vector_math import has_vector_math
from weft.imp import nodes as imp
from weft.imp.nodes import machine
from weft.lower import bounds, fetching, reductions, shapes
from weft.lower.bodies import scalar_results
from weft.lower.emitter import Emitter
from weft.lower.past_caches import LARGE
from weft.lower.prefetch import Prefetcher, streams
from weft.lower.rows import LANES, simd, whole_vectors
from weft.lower.strip_bodies import loops_freely
from weft.ops.dtypes import DType
from weft.records import dataclass
from weft.sizes import ZERO, as_poly, product

COLUMNS = 1024  # lanes of a strip where rows are added up, or more,
TOTALS = 1 << 14  # as long as their totals take no more bytes
LEVELS = 32

Store = Callable[[list[imp.Expr]], None]


@dataclass(slots=True)
class Strip:
    """Lanes from `base` on: `count` of them, at most `width`."""

    lane: str
    base: imp.Expr
    count: imp.Expr
    width: int
    clamped: bool  # `count` is whole vectors; lanes past `last` repeat it
    last: imp.Expr
    varying: set[str]  # FUN scalars that differ between lanes
    kept: dict[str, imp.Pointer] = field(default_factory=dict)  # those that are in arrays


# ---------------------------------------------------------------- one row, strip by strip


def lower_row(
    e: Emitter, lane: str, lower: imp.Expr, upper: imp.Expr, body: fun.Body, store: Store
) -> None:
    """The body for lower <= lane < upper; `store` writes its results at the lane."""
    free = loops_freely(body)
    clamped = free or has_vector_math(body)
    if not clamped and lower == imp.ZERO and isinstance(upper, imp.Const):
        count = int(upper.value.real)
        if 0 < count <= COLUMNS:  # one strip, whose loops the C compiler can unroll
            strip = Strip(lane, imp.ZERO, upper, count, False, imp.integer(count - 1), {lane})
            whole_strip(e, strip, body, upper, store)
            return
    width = LANES if clamped else _width(body)
    base = e.unit.integer("j")
    with e.loop(base, lower, upper, step=width, hoist=True):
        left = e.declare(machine("-", upper, base))
        valid = e.declare(machine("min", imp.integer(width), left))
        strip = Strip(
            lane=lane,
            base=base,
            count=whole_vectors(e, body, valid) if clamped else valid,
            width=width,
            clamped=clamped,
            last=e.declare(machine("-", valid, imp.ONE)),
            varying={lane},
        )
        whole_strip(e, strip, body, valid, store)


def _width(body: fun.Body) -> int:
    """Lanes of a strip: longer runs of memory are read faster, but totals stay in the cache."""
    reduces = [let.expr for let in walk.statements(body) if isinstance(let.expr, fun.Reduce)]
    totals = sum(atom.type.dtype.itemsize for reduce in reduces for atom in reduce.neutral)
    width = TOTALS // max(totals, 1)
    return COLUMNS if width < 2 * COLUMNS else 1 << (min(width, 4 * COLUMNS).bit_length() - 1)


def whole_strip(e: Emitter, strip: Strip, body: fun.Body, valid: imp.Expr, store: Store) -> None:
    """The body for each lane of a strip, of which so many are there; `store` writes its results."""
    results = lower_body(e, strip, body)
    var = e.unit.integer("l")
    with simd(e, var, imp.ZERO, valid):
        e.bind(strip.lane, e.declare(machine("+", strip.base, var)))
        store([_value(e, strip, atom, var) for atom in results])


def lower_body(e: Emitter, strip: Strip, body: fun.Body) -> tuple[fun.Atom, ...]:
    """The statements over the strip; results that vary are in the strip's arrays."""
    results = {a.name for a in body.results if isinstance(a, fun.Var)}
    needed: list[set[str]] = []  # names that later statements use
    later = set(results)
    for let in reversed(body.statements):
        needed.append(set(later))
        later |= walk.used_names(let.expr)
    needed.reverse()
    group: list[fun.Let] = []
    for let, wanted in zip(body.statements, needed, strict=True):
        e.place = let.place or e.place
        used = walk.used_names(let.expr)
        whole = isinstance(let.expr, fun.Reduce | fun.Loop) and not _straight(let)
        if not whole and not used & strip.varying:
            e.unit.statement(e, let)  # the same in all lanes
            continue
        strip.varying |= {var.name for var in let.pattern}
        if not whole:
            group.append(let)
            continue
        _phase(e, strip, group, wanted | used)
        group = []
        if isinstance(let.expr, fun.Reduce):
            _reduce(e, strip, let, let.expr)
        else:
            assert isinstance(let.expr, fun.Loop)
            _loop(e, strip, let, let.expr)
    _phase(e, strip, group, results)
    return body.results


def _straight(let: fun.Let) -> bool:
    return shapes.is_flat(fun.Body((let,), ()))


def _lanes(e: Emitter, strip: Strip, var: imp.Var, names: Iterable[str]) -> None:
    """Inside a simd loop over the strip: the lane's index, and its kept scalars."""
    place: imp.Expr = var
    if strip.clamped:
        place = e.declare(machine("min", var, strip.last))
    e.bind(strip.lane, e.declare(machine("+", strip.base, place)))
    for name in sorted(names):
        pointer = strip.kept.get(name)
        if pointer is not None:
            e.bind(name, e.declare(imp.Load(pointer, var), depth=e.depth))


def _value(e: Emitter, strip: Strip, atom: fun.Atom, var: imp.Var) -> imp.Expr:
    if isinstance(atom, fun.Var) and atom.name in strip.kept:
        return e.declare(imp.Load(strip.kept[atom.name], var), depth=e.depth)
    return e.atom(atom)


def keep(e: Emitter, strip: Strip, name: str, dtype: DType) -> imp.Pointer:
    """An array for a scalar that varies; declared before the loop that fills it."""
    pointer = strip.kept[name] = e.local(dtype, strip.width, "strip")
    strip.varying.add(name)
    return pointer


def _phase(e: Emitter, strip: Strip, group: list[fun.Let], wanted: set[str]) -> None:
    """Straight-line statements in one simd loop; what is wanted later is kept."""
    used = set().union(*(walk.used_names(let.expr) for let in group)) if group else set()
    made = [var for let in group for var in let.pattern if var.name in wanted]
    arrays = {var.name: e.local(var.type.dtype, strip.width, "strip") for var in made}
    if not arrays:
        return
    var = e.unit.integer("l")
    with simd(e, var, imp.ZERO, strip.count):
        _lanes(e, strip, var, used)
        for let in group:
            e.place = let.place or e.place
            e.unit.statement(e, let)
        for name, pointer in arrays.items():
            e.emit(imp.Store(pointer, var, e.scalars[name]))
    strip.kept.update(arrays)


# ---------------------------------------------------------------- reductions


def _reduce(e: Emitter, strip: Strip, let: fun.Let, reduce: fun.Reduce) -> None:
    """Rows in order, 32 to a grain, grains by a binary counter of strips."""
    dtypes = [var.type.dtype for var in let.pattern]
    totals = [keep(e, strip, var.name, var.type.dtype) for var in let.pattern]
    if _one_grain(e, reduce):
        _fill(e, strip, totals, [e.atom(atom) for atom in reduce.neutral])
        with _rows(e, reduce):
            _row(e, strip, reduce, totals)
        return
    stacks = [e.local(dtype, LEVELS * strip.width, "stack") for dtype in dtypes]
    count = e.mutable(DType.I64, imp.ZERO, "count")
    neutral = [e.atom(atom) for atom in reduce.neutral]
    _fill(e, strip, totals, neutral)
    width = strip.count  # levels of the stack lie one after another

    def push() -> None:
        level = e.mutable(DType.I64, imp.ZERO, "level")
        with reductions.while_(e, reductions.is_set(count, level)):
            e.depths[level.name] = e.depth
            base = e.declare(machine("*", level, width))
            _combine(e, strip, reduce.operator, stacks, base, totals)
            e.emit(imp.Assign(level, machine("+", level, imp.ONE)))
        top = e.unit.integer("top")
        e.emit(imp.Declare(top, machine("*", level, width)))
        var = e.unit.integer("l")
        with simd(e, var, imp.ZERO, strip.count):
            for stack, total, value in zip(stacks, totals, neutral, strict=True):
                e.emit(imp.Store(stack, machine("+", top, var), imp.Load(total, var)))
                e.emit(imp.Store(total, var, value))
        e.emit(imp.Assign(count, machine("+", count, imp.ONE)))

    _grains(e, strip, reduce, lambda: _row(e, strip, reduce, totals), push)
    level = e.mutable(DType.I64, imp.ZERO, "level")
    with reductions.while_(e, machine("!=", machine(">>", count, level), imp.ZERO)):
        e.depths[level.name] = e.depth
        with e.branch(reductions.is_set(count, level)):
            base = e.declare(machine("*", level, width), depth=e.depth)
            _combine(e, strip, reduce.operator, stacks, base, totals)
        e.emit(imp.Assign(level, machine("+", level, imp.ONE)))


def _grains(
    e: Emitter, strip: Strip, reduce: fun.Reduce, row: Callable[[], None],
    push: Callable[[], None],
) -> None:  # fmt: skip
    """`row` for each reduced index, `push` after each grain of them."""
    grain = imp.integer(1 if reduce.counter else reductions.ROWS)
    if len(reduce.space) == 1 and not reduce.counter:
        (r,) = reduce.space
        extent, start, index = e.named(r.extent), e.unit.integer("g"), e.unit.integer("i")
        with (
            e.index(r.index.name, imp.ZERO, ZERO, r.extent),
            e.loop(start, imp.ZERO, extent, step=reductions.ROWS),
        ):
            end = e.declare(machine("min", extent, e.declare(machine("+", start, grain))))
            with e.loop(index, start, end, in_turn=_in_turn(e, strip, reduce)):
                e.bind(r.index.name, index)
                row()
            push()
        return
    filled = e.mutable(DType.I64, imp.ZERO, "filled")

    def push_filled() -> None:
        push()
        e.emit(imp.Assign(filled, imp.ZERO))

    with _rows(e, reduce):
        row()
        e.emit(imp.Assign(filled, machine("+", filled, imp.ONE)))
        with e.branch(machine("==", filled, grain)):
            push_filled()
    with e.branch(machine("!=", filled, imp.ZERO)):
        push_filled()


@contextmanager
def _rows(e: Emitter, reduce: fun.Reduce) -> Iterator[None]:
    """Loops over the reduced dimensions."""
    with ExitStack() as loops:
        for r in reduce.space:
            loops.enter_context(e.index(r.index.name, imp.ZERO, ZERO, r.extent))
            row = e.unit.integer("i")
            loops.enter_context(e.loop(row, imp.ZERO, e.named(r.extent)))
            e.bind(r.index.name, row)
        yield


def _one_grain(e: Emitter, reduce: fun.Reduce) -> bool:
    """Whether there are never more rows than a grain has: then there is nothing to count."""
    if reduce.counter:
        return False
    limits = bounds.extremes(e, product(r.extent for r in reduce.space), largest=True)
    return any(limit.is_constant and limit.constant <= reductions.ROWS for limit in limits)


def _in_turn(e: Emitter, strip: Strip, reduce: fun.Reduce) -> imp.Expr | None:
    """Whether rows are better read one after the other: short ones of large arrays may be."""
    limit = fetching.fetching().in_turn
    if not limit:
        return None
    extent = e.ranges[strip.lane][1]
    lane = fun.Range(fun.Var(strip.lane, fun.Scalar(DType.I64)), extent)
    read = [
        stream.array
        for stream in streams(e, reduce.body, lane, reduce.space[-1].index.name)
        if stream.following is None
    ]
    sizes = [product(array.shape) * array.dtype.itemsize for array in read]
    if not sizes or not as_poly(sum(sizes)).variables() <= e.unit.sizes:
        return None
    row = extent * max(array.dtype.itemsize for array in read)
    short = machine("<", e.named(row), imp.integer(limit))
    large = machine(">=", e.named(as_poly(sum(sizes))), imp.integer(LARGE))
    return e.declare(machine("&&", e.declare(short), e.declare(large)))


@contextmanager
def _asked_for(
    e: Emitter, strip: Strip, reduce: fun.Reduce
) -> Iterator[tuple[imp.Expr, imp.Expr]]:
    """Around the code for the lanes from begin to end: what they read some rows later is asked."""
    row = reduce.space[-1].index.name
    lane = fun.Range(fun.Var(strip.lane, fun.Scalar(DType.I64)), e.ranges[strip.lane][1])
    prefetcher = Prefetcher(e, reduce.body, lane, row)
    asked = prefetcher.at_once(strip.width)
    if asked == strip.width:
        prefetcher.rows(row, strip.base, strip.count, strip.count)
        yield imp.ZERO, strip.count
        return
    begin = e.unit.integer("begin")
    with e.loop(begin, imp.ZERO, strip.count, step=asked, hoist=True):
        above = e.declare(machine("+", begin, imp.integer(asked)))
        end = e.declare(machine("min", strip.count, above))
        first = e.declare(machine("+", strip.base, begin))
        prefetcher.rows(row, first, e.declare(machine("-", end, begin)), strip.count)
        yield begin, end


def _row(e: Emitter, strip: Strip, reduce: fun.Reduce, totals: Sequence[imp.Pointer]) -> None:
    """One row added to the totals: in simd loops over all lanes where the body is straight-line."""
    flat = shapes.is_flat(reduce.body)
    results: tuple[fun.Atom, ...] = ()
    if not flat:
        results = lower_body(e, strip, reduce.body)
    used = walk.free_names(reduce.body)
    var = e.unit.integer("l")
    parts: AbstractContextManager[tuple[imp.Expr, imp.Expr]] = nullcontext((imp.ZERO, strip.count))
    if flat and not reduce.counter and fetching.fetching().columns:
        parts = _asked_for(e, strip, reduce)
    with parts as (begin, end), simd(e, var, begin, end):
        _lanes(e, strip, var, used if flat else ())
        if flat:
            values = scalar_results(e, reduce.body)
        else:
            values = [_value(e, strip, atom, var) for atom in results]
        left = [e.declare(imp.Load(total, var), depth=e.depth) for total in totals]
        combined = reductions.combine(e, reduce.operator, left, values)
        for total, value in zip(totals, combined, strict=True):
            e.emit(imp.Store(total, var, value))


def _combine(
    e: Emitter,
    strip: Strip,
    operator: fun.Lambda,
    stacks: Sequence[imp.Pointer],
    base: imp.Expr,
    totals: Sequence[imp.Pointer],
) -> None:
    """total = operator(stack at the level, total), lane by lane."""
    var = e.unit.integer("l")
    with simd(e, var, imp.ZERO, strip.count):
        at = machine("+", base, var)
        left = [e.declare(imp.Load(stack, at), depth=e.depth) for stack in stacks]
        right = [e.declare(imp.Load(total, var), depth=e.depth) for total in totals]
        combined = reductions.combine(e, operator, left, right)
        for total, value in zip(totals, combined, strict=True):
            e.emit(imp.Store(total, var, value))


def _fill(
    e: Emitter, strip: Strip, pointers: Sequence[imp.Pointer], values: Sequence[imp.Expr]
) -> None:
    var = e.unit.integer("l")
    with simd(e, var, imp.ZERO, strip.count):
        for pointer, value in zip(pointers, values, strict=True):
            e.emit(imp.Store(pointer, var, value))


# ---------------------------------------------------------------- loops


def _loop(e: Emitter, strip: Strip, let: fun.Let, loop: fun.Loop) -> None:
    """Parameters in arrays; a lane that has ended keeps its values."""
    states = [e.local(param.type.dtype, strip.width, "state") for param in loop.params]
    initial = {a.name for a in loop.initial if isinstance(a, fun.Var)}
    var = e.unit.integer("l")
    with simd(e, var, imp.ZERO, strip.count):
        _lanes(e, strip, var, initial)
        for state, atom in zip(states, loop.initial, strict=True):
            e.emit(imp.Store(state, var, e.atom(atom)))
    for param, state in zip(loop.params, states, strict=True):
        strip.kept[param.name] = state
        strip.varying.add(param.name)
    match loop.form:
        case fun.For(index, lower, upper):
            if (lower.variables() | upper.variables()) & strip.varying:
                raise InternalError("lower: rounds of a loop that differ between lanes")
            row = e.unit.integer("i")
            with (
                e.loop(row, e.named(lower), e.named(upper)),
                e.index(index.name, row, lower, upper),
            ):
                _round(e, strip, loop.body, states)
        case fun.While(condition):
            _while(e, strip, loop, condition, states)
    for bound, state in zip(let.pattern, states, strict=True):
        strip.kept[bound.name] = state
        strip.varying.add(bound.name)


def _round(e: Emitter, strip: Strip, body: fun.Body, states: Sequence[imp.Pointer]) -> None:
    """The body, whose results become the states: each lane's own, so at once if it is flat."""
    flat = shapes.is_flat(body)
    results = () if flat else lower_body(e, strip, body)
    var = e.unit.integer("l")
    with simd(e, var, imp.ZERO, strip.count):
        if flat:
            _lanes(e, strip, var, walk.free_names(body))
            values = scalar_results(e, body)
        else:
            values = [_value(e, strip, atom, var) for atom in results]
        for state, value in zip(states, values, strict=True):
            e.emit(imp.Store(state, var, value))


def _while(
    e: Emitter,
    strip: Strip,
    loop: fun.Loop,
    condition: fun.Body,
    states: Sequence[imp.Pointer],
) -> None:
    used = walk.free_names(condition) | walk.free_names(loop.body)
    going = e.mutable(DType.I32, imp.Const(1, DType.I32), "going")
    with reductions.while_(e, machine("!=", going, imp.Const(0, DType.I32))):
        e.emit(imp.Poll())
        e.emit(imp.Assign(going, imp.Const(0, DType.I32)))
        var = e.unit.integer("l")
        with simd(e, var, imp.ZERO, strip.count, (("|", going),)):
            _lanes(e, strip, var, used | {p.name for p in loop.params})
            before = [e.scalars[param.name] for param in loop.params]
            (goes,) = scalar_results(e, condition)
            values = [
                e.declare(imp.Select(goes, new, old))
                for old, new in zip(before, scalar_results(e, loop.body), strict=True)
            ]
            for state, value in zip(states, values, strict=True):
                e.emit(imp.Store(state, var, value))
            bit = imp.Select(goes, imp.Const(1, DType.I32), imp.Const(0, DType.I32))
            e.emit(imp.Assign(going, machine("|", going, bit)))
