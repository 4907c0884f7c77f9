"""Reductions in a fixed tree, so that bits depend on extents alone.

- The last reduced dimension is cut into grains of 1024 elements. Inside a grain, where the
  operator is plainly commutative, lane l of 64 takes elements l, l + 64, ..., and lanes are
  folded by halves; any other operator combines neighbours, level by level, in order.
- Grains are combined by a binary counter: after grain g, while the low bits of g are 1,
  with the top of the stack; the stack is flushed from its lowest level.
- Rows (of other reduced dimensions) are combined by binary counters likewise. Rows of at
  most 64 elements that lie one after another are one sequence, in tiles of a power of two
  of rows that have at most 65536 elements together.
- A body that is not straight-line gives its elements to a left fold in grains of 32.
- Small constant extents are folded from left to right.
- Sums of narrow integers need no tree: see `narrow_sums`.

Reductions with kept dimensions are kernels over these around a reduction without.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager

from weft.fun import nodes as fun
from weft.fun import operators
from weft.fun.contractions import by_elements
from weft.fun.vector_math import has_vector_math
from weft.imp import nodes as imp
from weft.imp.nodes import machine
from weft.lower import merging, narrow_sums, rows, shapes, short_rows, straight_line
from weft.lower.bodies import apply_lambda, scalar_results
from weft.lower.emitter import Emitter, frozen
from weft.lower.lanes import Lanes
from weft.lower.prefetch import Prefetcher, around
from weft.lower.rows import LANES, simd
from weft.ops.dtypes import DType
from weft.sizes import ZERO

GRAIN = 1024
ROWS = 32
SHORT = 64  # elements of a row that is not worth a grain of its own
TILE = 65536  # elements of a tile of `split_reductions`
LEVELS = 48  # of the stack: 2**48 grains

Values = Sequence[imp.Expr]


def lower_reduce(e: Emitter, let: fun.Let) -> None:
    reduce = let.expr
    assert isinstance(reduce, fun.Reduce)
    kept = len(reduce.space) - reduce.reduced
    if kept:
        outer, e.of_reduction = e.of_reduction, True
        e.unit.statement(e, as_kernel(e, let))
        e.of_reduction = outer
        return
    with ExitStack() as scopes:
        for r in reduce.space:
            scopes.enter_context(e.index(r.index.name, imp.ZERO, ZERO, r.extent))
        if shapes.is_unrolled(reduce):
            results = straight_line.unrolled(e, reduce)
        else:
            serial, e.serial = e.serial, True
            results = _dimension(e, reduce, 0)
            e.serial = serial
    for var, value in zip(let.pattern, results, strict=True):
        e.bind(var.name, value)


def as_kernel(e: Emitter, let: fun.Let) -> fun.Let:
    """A reduction with kept dimensions, as a kernel over these."""
    return by_elements(let, [e.unit.fresh("reduced.") for _ in let.pattern])


def combine(e: Emitter, operator: fun.Lambda, left: Values, right: Values) -> list[imp.Expr]:
    return apply_lambda(e, operator, [*left, *right])


# ---------------------------------------------------------------- the binary counter


class Counter:
    """A stack of subtree results, one for each set bit of the number of pushes."""

    def __init__(self, e: Emitter, operator: fun.Lambda, neutral: Values) -> None:
        self.e, self.operator, self.neutral = e, operator, neutral
        self.count = e.mutable(DType.I64, imp.ZERO, "count")
        self.stacks = [e.local(value.dtype, LEVELS, "stack") for value in neutral]

    def push(self, values: Values) -> None:
        e = self.e
        state = [e.mutable(value.dtype, value) for value in values]
        level = e.mutable(DType.I64, imp.ZERO, "level")
        with while_(e, is_set(self.count, level)):
            tops = [e.declare(imp.Load(stack, level), depth=e.depth) for stack in self.stacks]
            with frozen(e, state) as right:
                for var, value in zip(state, combine(e, self.operator, tops, right), strict=True):
                    e.emit(imp.Assign(var, value))
            e.emit(imp.Assign(level, machine("+", level, imp.ONE)))
        for stack, var in zip(self.stacks, state, strict=True):
            e.emit(imp.Store(stack, level, var))
        e.emit(imp.Assign(self.count, machine("+", self.count, imp.ONE)))

    def total(self, rest: Values | None = None, there: imp.Expr | None = None) -> list[imp.Expr]:
        """The stack combined from its lowest level; the neutral element if it is empty.

        `rest`: what comes after all that was pushed, where it is `there`: less than a push.
        """
        e = self.e
        state = [e.mutable(value.dtype, value) for value in rest or self.neutral]
        level = e.mutable(DType.I64, imp.ZERO, "level")
        none = imp.Const(True, DType.BOOL) if there is None else (
            imp.Apply("logical_not", (there,), DType.BOOL)
        )
        first = e.mutable(DType.BOOL, none, "first")
        with while_(e, machine("!=", machine(">>", self.count, level), imp.ZERO)):
            with e.branch(is_set(self.count, level)):
                tops = [e.declare(imp.Load(stack, level), depth=e.depth) for stack in self.stacks]
                with frozen(e, state) as right:
                    results = combine(e, self.operator, tops, right)
                    for var, top, value in zip(state, tops, results, strict=True):
                        e.emit(imp.Assign(var, imp.Select(first, top, value)))
                e.emit(imp.Assign(first, imp.Const(False, DType.BOOL)))
            e.emit(imp.Assign(level, machine("+", level, imp.ONE)))
        return list(state)


def is_set(count: imp.Expr, level: imp.Expr) -> imp.Expr:
    return machine("!=", machine("&", machine(">>", count, level), imp.ONE), imp.ZERO)


@contextmanager
def while_(e: Emitter, condition: imp.Expr) -> Iterator[None]:
    with e.level() as body:
        yield
    e.emit(imp.While(condition, tuple(body)))


# ---------------------------------------------------------------- dimensions and grains


def _dimension(e: Emitter, reduce: fun.Reduce, position: int) -> list[imp.Expr]:
    """The reduction over the dimensions from `position` on, at the indices chosen so far."""
    r = reduce.space[position]
    extent = e.named(r.extent)
    neutral = [e.atom(atom) for atom in reduce.neutral]
    last = position == len(reduce.space) - 1
    if last and not reduce.counter:
        if not shapes.is_flat(reduce.body):
            return folded(e, reduce, extent, neutral)
        return grains(e, reduce, imp.ZERO, extent, neutral)
    condition = _lie_in_sequence(e, reduce) if position == len(reduce.space) - 2 else None
    if condition is None:
        return _by_rows(e, reduce, position, extent, neutral)
    return short_rows.one_of(
        e, lambda: condition, neutral,
        lambda: _in_sequence(e, reduce, extent, neutral),
        lambda: _by_rows(e, reduce, position, extent, neutral),
    )  # fmt: skip


def _by_rows(
    e: Emitter, reduce: fun.Reduce, position: int, extent: imp.Expr, neutral: Values
) -> list[imp.Expr]:
    """Each row by itself, rows combined by the counter."""
    last = position == len(reduce.space) - 1
    counter = Counter(e, reduce.operator, neutral)
    var = e.unit.integer("i")
    with e.loop(var, imp.ZERO, extent):
        e.bind(reduce.space[position].index.name, var)
        counter.push(
            scalar_results(e, reduce.body) if last else _dimension(e, reduce, position + 1)
        )
    return counter.total()


def _lie_in_sequence(e: Emitter, reduce: fun.Reduce) -> imp.Expr | None:
    """Whether rows are short and lie one after another; None where they never do."""
    left, right = reduce.space[-2:]
    if reduce.counter or not shapes.is_flat(reduce.body):
        return None
    a, b = left.index.name, right.index.name
    if merging.fixed(e, (left, right), reduce.body) & {a, b}:
        return None
    short = machine("<=", e.named(right.extent), imp.integer(SHORT))
    conditions = [short]
    for address in dict.fromkeys(merging.reads(reduce.body)):
        across, along = address.coefficient(a), address.coefficient(b)
        if address.degree(a) > 1 or address.degree(b) > 1 or (across == 0) != (along == 0):
            return None
        if across != along * right.extent:
            conditions.append(machine("==", e.named(across), e.named(along * right.extent)))
    return _all(conditions)


def _all(conditions: Sequence[imp.Expr]) -> imp.Expr:
    """All of them."""
    total = conditions[0]
    for condition in conditions[1:]:
        total = machine("&&", total, condition)
    return total


def _in_sequence(
    e: Emitter, reduce: fun.Reduce, extent: imp.Expr, neutral: Values
) -> list[imp.Expr]:
    """Short rows as one sequence, in tiles of rows that `split_reductions` would make."""
    left, right = reduce.space[-2:]
    length = e.named(right.extent)
    tile = e.mutable(DType.I64, imp.integer(TILE // SHORT), "tile")
    twice = machine("*", machine("+", tile, tile), machine("max", length, imp.ONE))
    with while_(e, machine("<=", twice, imp.integer(TILE))):
        e.emit(imp.Assign(tile, machine("+", tile, tile)))
    counter = Counter(e, reduce.operator, neutral)
    start = e.mutable(DType.I64, imp.ZERO, "row")
    with while_(e, machine("<", start, extent)), frozen(e, [start, tile]) as (first, rows_):
        end = e.declare(machine("min", extent, e.declare(machine("+", first, rows_))))
        e.bind(left.index.name, imp.ZERO)
        begin = e.declare(machine("*", first, length))
        counter.push(grains(e, reduce, begin, e.declare(machine("*", end, length)), neutral))
        e.emit(imp.Assign(start, machine("+", first, rows_)))
    return counter.total()


def folded(e: Emitter, reduce: fun.Reduce, extent: imp.Expr, neutral: Values) -> list[imp.Expr]:
    """Left folds of 32 elements, combined by the counter."""
    counter = Counter(e, reduce.operator, neutral)
    start = e.unit.integer("i")
    with e.loop(start, imp.ZERO, extent, step=ROWS):
        state = [e.mutable(value.dtype, value) for value in neutral]
        end = e.declare(machine("+", start, imp.integer(ROWS)))
        end = e.declare(machine("min", extent, end))
        var = e.unit.integer("i")
        with e.loop(var, start, end):
            e.bind(reduce.space[-1].index.name, var)
            values = scalar_results(e, reduce.body)
            with frozen(e, state) as left:
                for slot, value in zip(
                    state, combine(e, reduce.operator, left, values), strict=True
                ):
                    e.emit(imp.Assign(slot, value))
        counter.push(state)
    return counter.total()


def grains(
    e: Emitter, reduce: fun.Reduce, begin: imp.Expr, end: imp.Expr, neutral: Values
) -> list[imp.Expr]:
    """The straight-line body reduced over begin <= last index < end, grain by grain."""
    selection = operators.selection(reduce)
    if selection is not None:
        from weft.lower.selections import selected

        return selected(e, reduce, selection, begin, end, neutral)
    if not operators.is_commutative(reduce.operator):
        return _in_order(e, reduce, begin, end, neutral)
    if not (e.in_tile and _is_row(e, reduce, end)):
        return _in_lanes(e, reduce, begin, end, neutral)
    return short_rows.either(
        e, reduce, _elements(e, reduce), (begin, end), neutral,
        lambda: _in_lanes(e, reduce, begin, end, neutral),
    )  # fmt: skip


def _is_row(e: Emitter, reduce: fun.Reduce, end: imp.Expr) -> bool:
    """Whether all may be so few elements that 64 lanes are a waste, or a grain.

    Not where they are rows in sequence, or a tile, which a constant limits; vector math is called
    for whole vectors only.
    """
    extent = reduce.space[-1].extent
    if end != e.named(extent) or has_vector_math(reduce.body):
        return False
    if extent.is_constant:
        return extent.constant <= short_rows.FEW
    found = [e.definitions[name] for name in extent.variables() if name in e.definitions]
    cut = [limits for operation, limits in found if operation == "minimum"]
    return not any(limit.is_constant for limits in cut for limit in limits)


def _elements(e: Emitter, reduce: fun.Reduce) -> Callable[[imp.Expr], list[imp.Expr]]:
    """The reduction's elements at an index of its last dimension."""

    def element(index: imp.Expr) -> list[imp.Expr]:
        e.bind(reduce.space[-1].index.name, index)
        return scalar_results(e, reduce.body)

    return element


def _in_lanes(
    e: Emitter, reduce: fun.Reduce, begin: imp.Expr, end: imp.Expr, neutral: Values
) -> list[imp.Expr]:
    """Grains whose elements are combined in lanes."""
    if (narrow := narrow_sums.narrowed(reduce)) is not None:
        return _in_narrow_lanes(e, reduce, narrow, begin, end)
    counter = Counter(e, reduce.operator, neutral)
    name = reduce.space[-1].index.name
    prefetcher = Prefetcher(e, reduce.body, reduce.space[-1], around(e, name))
    with each_grain(e, begin, end) as (start, size):
        lanes = Lanes(e, reduce.operator, neutral)
        lanes.accumulate(_elements(e, reduce), start, size, prefetcher)
        counter.push(lanes.total())
    return counter.total()


def _in_narrow_lanes(
    e: Emitter, reduce: fun.Reduce, narrow: fun.Reduce, begin: imp.Expr, end: imp.Expr
) -> list[imp.Expr]:
    """Long grains that are added up in narrow lanes, and these in one total."""
    (neutral,) = reduce.neutral
    total = e.mutable(neutral.type.dtype, e.atom(neutral), "total")
    r = reduce.space[-1]
    prefetcher = Prefetcher(e, reduce.body, r, around(e, r.index.name))
    with each_grain(e, begin, end, narrow_sums.GRAIN) as (start, size):
        lanes = Lanes(e, narrow.operator, [e.atom(atom) for atom in narrow.neutral])
        lanes.accumulate(_elements(e, narrow), start, size, prefetcher)
        var = e.unit.integer("l")
        with simd(e, var, imp.ZERO, imp.integer(LANES), (("+", total),)):
            (lane,) = lanes.load(var)
            e.emit(imp.Assign(total, machine("+", total, e.declare(imp.Cast(total.dtype, lane)))))
    return [total]


def _in_order(
    e: Emitter, reduce: fun.Reduce, begin: imp.Expr, end: imp.Expr, neutral: Values
) -> list[imp.Expr]:
    """Grains whose neighbours are combined."""
    counter = Counter(e, reduce.operator, neutral)
    with each_grain(e, begin, end) as (start, size):
        counter.push(_neighbours(e, reduce, start, size, neutral))
    return counter.total()


@contextmanager
def each_grain(
    e: Emitter, begin: imp.Expr, end: imp.Expr, length: int = GRAIN
) -> Iterator[tuple[imp.Expr, imp.Expr]]:
    """A loop over grains: where each starts, and how many elements it has."""
    start = e.unit.integer("g")
    with e.loop(start, begin, end, step=length):
        left = e.declare(machine("-", end, start))
        yield start, e.declare(machine("min", imp.integer(length), left))


def _neighbours(
    e: Emitter, reduce: fun.Reduce, start: imp.Expr, size: imp.Expr, neutral: Values
) -> list[imp.Expr]:
    """A grain in order: its values in a buffer, then pairs of neighbours, level by level."""
    buffers = [e.local(value.dtype, GRAIN, "grain") for value in neutral]
    name = reduce.space[-1].index.name
    end = e.declare(machine("+", start, size))

    def keep(values: list[imp.Expr]) -> None:
        at = e.declare(machine("-", e.scalars[name], start))
        for buffer, value in zip(buffers, values, strict=True):
            e.emit(imp.Store(buffer, at, value))

    rows.lower_row(e, name, start, end, reduce.body, keep)
    count = e.mutable(DType.I64, size, "count")
    with while_(e, machine(">", count, imp.ONE)):
        e.depths[count.name] = e.depth
        half = e.declare(machine(">>", count, imp.ONE))
        var = e.unit.integer("l")
        with simd(e, var, imp.ZERO, half):
            even = e.declare(machine("+", var, var))
            odd = machine("+", even, imp.ONE)
            left = [e.declare(imp.Load(b, even), depth=e.depth) for b in buffers]
            right = [e.declare(imp.Load(b, odd), depth=e.depth) for b in buffers]
            for buffer, value in zip(
                buffers, combine(e, reduce.operator, left, right), strict=True
            ):
                e.emit(imp.Store(buffer, var, value))
        rest = e.declare(machine("&", count, imp.ONE))
        with e.branch(machine("!=", rest, imp.ZERO)):
            for buffer in buffers:
                e.emit(imp.Store(buffer, half, imp.Load(buffer, machine("-", count, imp.ONE))))
        e.emit(imp.Assign(count, machine("+", half, rest)))
    return [e.declare(imp.Load(buffer, imp.ZERO), depth=e.depth) for buffer in buffers]
