"""Selections of one element by its keys (arg-max and its like): by keys first, then by place.

The elements are taken piece by piece, and of each lane the best keys alone are kept. After a
piece in which some lane became better than the best so far, which is rare in most data, lanes are
folded, and that piece is remembered. At the end the last piece remembered, often still in the
cache, is searched for its first element that is as good. Which element is selected
does not depend on how elements are grouped (`operators.selection`), so that pieces need be no
grains, nor combined by the counter.

Elements that are costly to compute, or that two loops may not compute to the same bits, are
kept in buffers as their piece is made, and the best piece is made again.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from weft.fun import nodes as fun
from weft.fun.operators import Selection
from weft.fun.vector_math import has_vector_math
from weft.imp import nodes as imp
from weft.imp.nodes import machine
from weft.lower import rows, shapes
from weft.lower.bodies import apply_lambda, scalar_results
from weft.lower.emitter import Emitter, frozen
from weft.lower.lanes import Lanes, mask
from weft.lower.prefetch import Prefetcher, around
from weft.lower.rows import LANES, simd
from weft.ops.dtypes import DType

PIECE = 2048  # elements that are searched, in the first-level cache
CHEAP = 16  # operations of an element that is computed again rather than kept

Element = Callable[[imp.Expr], list[imp.Expr]]


def selected(
    e: Emitter,
    reduce: fun.Reduce,
    selection: Selection,
    begin: imp.Expr,
    end: imp.Expr,
    neutral: Sequence[imp.Expr],
) -> list[imp.Expr]:
    """The element selected of begin <= last index < end; the neutral one of none."""
    elements = (_Direct if _is_cheap(reduce.body) else _Buffered)(e, reduce, selection)
    worst = [neutral[k] for k in selection.keys]
    best = [e.mutable(value.dtype, value, "best") for value in worst]
    where = e.mutable(DType.I64, begin, "where")
    start = e.unit.integer("g")

    def until(first: imp.Expr) -> imp.Expr:
        """Where the piece ends that begins at `first`."""
        return e.declare(machine("min", end, machine("+", first, imp.integer(PIECE))))

    lanes = Lanes(e, selection.best, worst)
    with e.loop(start, begin, end, step=PIECE):
        stop = until(start)
        elements.make(start, stop)
        size = e.declare(machine("-", stop, start))
        lanes.accumulate(elements.keys, start, size, elements.prefetcher)
        better = e.mutable(DType.BOOL, imp.Const(True, DType.BOOL), "better")
        with e.branch(machine("!=", start, begin)), frozen(e, best) as left:
            found = lanes.any(lambda keys: apply_lambda(e, selection.better, [*left, *keys])[0])
            e.emit(imp.Assign(better, found))
        with e.branch(better):
            for var, value in zip((*best, where), (*lanes.total(), start), strict=True):
                e.emit(imp.Assign(var, value))
    results = [e.mutable(value.dtype, value) for value in neutral]
    with e.branch(machine("<", begin, end)):
        with frozen(e, [*best, where]) as (*goal, first):
            stop = until(first)
            elements.make(first, stop)
            index = _search(e, selection, elements.keys, goal, first, stop)
        for var, value in zip(results, elements.values(index), strict=True):
            e.emit(imp.Assign(var, value))
    return list(results)


def _search(
    e: Emitter,
    selection: Selection,
    keys: Element,
    goal: Sequence[imp.Expr],
    begin: imp.Expr,
    end: imp.Expr,
) -> imp.Expr:
    """The first index whose keys tie with the goal, which are those of one element at least."""

    def ties(index: imp.Expr) -> imp.Expr:
        (better,) = apply_lambda(e, selection.better, [*keys(index), *goal])
        return imp.Apply("logical_not", (better,), DType.BOOL)

    def equal(index: imp.Expr) -> imp.Expr:
        return imp.Apply("equal", (keys(index)[0], goal[0]), DType.BOOL)

    def is_nan(index: imp.Expr) -> imp.Expr:
        return _is_nan(keys(index)[0])

    at = e.mutable(DType.I64, begin, "at")
    truth = mask(max(value.dtype.numpy.itemsize for value in goal))
    if not selection.is_extreme:
        _find_block(e, ties, truth, at, begin, end)
    elif not goal[0].dtype.is_float:
        _find_block(e, equal, truth, at, begin, end)
    else:
        e.either(
            _is_nan(goal[0]),
            lambda: _find_block(e, is_nan, truth, at, begin, end),
            lambda: _find_block(e, equal, truth, at, begin, end),
        )
    with frozen(e, [at]) as (block,):
        rest = e.declare(machine("-", end, block))
        count = e.declare(machine("min", rest, imp.integer(LANES)))
        first = e.mutable(DType.I32, imp.Const(LANES, DType.I32), "first")
        var = e.unit.integer("l")
        with simd(e, var, imp.ZERO, count, (("min", first),)):
            tie = e.declare(ties(e.declare(machine("+", block, var))))
            here = imp.Select(tie, imp.Cast(DType.I32, var), imp.Const(LANES, DType.I32))
            e.emit(imp.Assign(first, machine("min", first, e.declare(here))))
        offset = e.declare(imp.Cast(DType.I64, first))
        offset = e.declare(machine("min", offset, e.declare(machine("-", count, imp.ONE))))
        return e.declare(machine("+", block, offset))


def _find_block(
    e: Emitter,
    test: Callable[[imp.Expr], imp.Expr],
    truth: DType,
    at: imp.Var,
    begin: imp.Expr,
    end: imp.Expr,
) -> None:
    """Moves `at` to the first block of 64 in which the test holds; to the rest if in none."""
    none, width = imp.Const(0, truth), imp.integer(LANES)
    whole = e.declare(machine("&", e.declare(machine("-", end, begin)), imp.integer(-LANES)))
    block = e.unit.integer("i")
    with e.loop(block, begin, e.declare(machine("+", begin, whole)), step=LANES):
        e.emit(imp.Assign(at, block))
        found = e.mutable(truth, none, "found")
        var = e.unit.integer("l")
        with simd(e, var, imp.ZERO, width, (("|", found),)):
            holds = imp.Cast(truth, test(e.declare(machine("+", block, var))))
            e.emit(imp.Assign(found, machine("|", found, e.declare(holds))))
        with e.branch(machine("!=", found, none)):
            e.emit(imp.Break())
        e.emit(imp.Assign(at, machine("+", block, width)))


def _is_nan(value: imp.Expr) -> imp.Expr:
    return imp.Apply("not_equal", (value, value), DType.BOOL)


def _is_cheap(body: fun.Body) -> bool:
    """Whether elements may be computed again: at little cost, to the same bits."""
    cost = shapes.cost(body)
    return not has_vector_math(body) and cost.is_constant and cost.constant <= CHEAP


class _Direct:
    """Elements computed where they are wanted."""

    def __init__(self, e: Emitter, reduce: fun.Reduce, selection: Selection) -> None:
        self.e, self.reduce, self.selection = e, reduce, selection
        self.name = reduce.space[-1].index.name
        self.prefetcher = Prefetcher(e, reduce.body, reduce.space[-1], around(e, self.name))

    def make(self, begin: imp.Expr, end: imp.Expr) -> None:
        """Makes ready the piece begin <= index < end."""

    def values(self, index: imp.Expr) -> list[imp.Expr]:
        """All components of an element."""
        self.e.bind(self.name, index)
        return scalar_results(self.e, self.reduce.body)

    def keys(self, index: imp.Expr) -> list[imp.Expr]:
        values = self.values(index)
        return [values[k] for k in self.selection.keys]


class _Buffered(_Direct):
    """Elements of one piece, kept in buffers."""

    def __init__(self, e: Emitter, reduce: fun.Reduce, selection: Selection) -> None:
        super().__init__(e, reduce, selection)
        self.buffers = {
            k: e.local(atom.type.dtype, PIECE, "piece")
            for k, atom in enumerate(reduce.body.results)
            if k != selection.position
        }
        self.made = e.mutable(DType.I64, imp.integer(-1), "made")
        self.begin: imp.Expr = imp.ZERO
        position = reduce.body.results[selection.position]
        defined = tuple(let for let in reduce.body.statements if let.pattern == (position,))
        self.position = fun.Body(defined, (position,))
        self.others = fun.Body(
            reduce.body.statements, tuple(reduce.body.results[k] for k in self.buffers)
        )

    def make(self, begin: imp.Expr, end: imp.Expr) -> None:
        e, self.begin = self.e, begin

        def keep(values: list[imp.Expr]) -> None:
            at = e.declare(machine("-", e.scalars[self.name], begin))
            for buffer, value in zip(self.buffers.values(), values, strict=True):
                e.emit(imp.Store(buffer, at, value))

        with e.branch(machine("!=", self.made, begin)):
            rows.lower_row(e, self.name, begin, end, self.others, keep)
            e.emit(imp.Assign(self.made, begin))

    def values(self, index: imp.Expr) -> list[imp.Expr]:
        e = self.e
        at = e.declare(machine("-", index, self.begin))
        values = {
            k: e.declare(imp.Load(buffer, at), depth=e.depth) for k, buffer in self.buffers.items()
        }
        e.bind(self.name, index)
        values[self.selection.position] = scalar_results(e, self.position)[0]
        return [values[k] for k in range(len(values))]
