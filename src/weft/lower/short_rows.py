"""Rows of at most one grain, reduced without what only longer ones need.

There is nothing to count, and where every lane takes as many elements, lanes stay in registers.
What is left over is done in vectors with masks, where the processor has them: a lane that is
written by itself is not there yet when the fold reads it with its neighbours. A row of at most 8
elements has only as many lanes. The tree is that of `reductions` in each of these ways.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from weft.fun import nodes as fun
from weft.fun.vector_math import has_vector_math
from weft.imp import nodes as imp
from weft.imp.nodes import machine
from weft.lower import masks, narrow_sums, shapes
from weft.lower.emitter import Emitter
from weft.lower.lanes import Element, Lanes, is_short
from weft.lower.prefetch import Prefetcher, around
from weft.lower.rows import LANES

FEW = 8  # elements of a row that is not worth 64 lanes
GRAIN = 1024
CHEAP = 16  # operations of an element: of more, how lanes are kept hardly matters

Way = Callable[[], list[imp.Expr]]


def either(
    e: Emitter, reduce: fun.Reduce, element: Element, part: tuple[imp.Expr, imp.Expr],
    neutral: Sequence[imp.Expr], otherwise: Way,
) -> list[imp.Expr]:  # fmt: skip
    """The reduction over the elements of a part: in the way that suits it, or else `otherwise`."""
    begin, end = part
    r = reduce.space[-1]
    length = e.declare(machine("-", end, begin))
    cost = shapes.cost(reduce.body)
    cheap = cost.is_constant and cost.constant <= CHEAP and not has_vector_math(reduce.body)
    suits = cheap and is_short(reduce.operator) and narrow_sums.narrowed(reduce) is None
    width = masks.lanes(r.index.name, reduce.body) if suits else 0

    def few() -> list[imp.Expr]:
        lanes = Lanes(e, reduce.operator, neutral, FEW)
        if width:
            lanes.masked(element, r.index.name, begin, end, neutral, FEW)
        else:
            lanes.few(element, begin, length)
        return lanes.total()

    def blocks(*, rest: bool) -> list[imp.Expr]:
        prefetcher = Prefetcher(e, reduce.body, r, around(e, r.index.name))
        lanes = Lanes(e, reduce.operator, neutral)
        whole = e.declare(machine("&", length, imp.integer(-LANES)))
        middle = e.declare(machine("+", begin, whole)) if rest else end
        lanes.whole(element, begin, middle, prefetcher)
        if rest:
            lanes.masked(element, r.index.name, middle, end, neutral, min(width, LANES))
        return lanes.total()

    def longer() -> list[imp.Expr]:
        if not suits:
            return otherwise()
        over = e.declare(machine("&", length, imp.integer(LANES - 1)))
        one = machine("<=", length, imp.integer(GRAIN))
        whole = machine("&&", one, machine("==", over, imp.ZERO))
        return one_of(
            e, _optimised(whole), neutral, lambda: blocks(rest=False),
            lambda: one_of(e, _optimised(one), neutral, lambda: blocks(rest=True), otherwise)
            if width else otherwise(),
        )  # fmt: skip

    return one_of(
        e, _optimised(machine("<=", length, imp.integer(FEW))), neutral, few, longer
    )


def _optimised(condition: imp.Expr) -> Callable[[], imp.Expr]:
    return lambda: machine("&&", imp.OPTIMISED, condition)


def one_of(
    e: Emitter, condition: Callable[[], imp.Expr], neutral: Sequence[imp.Expr],
    then: Way, otherwise: Way,
) -> list[imp.Expr]:  # fmt: skip
    """What one of two ways gives, as a condition says that holds before them."""
    state = [e.mutable(value.dtype, value) for value in neutral]
    branches = []
    for way in (then, otherwise):
        with e.level() as statements:
            for var, value in zip(state, way(), strict=True):
                e.emit(imp.Assign(var, value))
        branches.append(tuple(statements))
    e.emit(imp.If(condition(), branches[0], branches[1]))
    return list(state)
