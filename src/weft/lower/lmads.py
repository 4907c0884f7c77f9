"""Updates at LMADs: inside of the array, and no element twice.

Either is proved here, left to the launch, or checked before the update.
"""

from __future__ import annotations

from weft.fun import nodes as fun
from weft.imp import nodes as imp
from weft.imp.nodes import machine
from weft.lmad import Lmad
from weft.lmad.sets import is_injective
from weft.lower import bounds
from weft.lower.emitter import Emitter
from weft.lower.unit import memory
from weft.ops.dtypes import DType
from weft.plan.segment import CollisionCheck
from weft.sizes import Poly, Size


def check_update(e: Emitter, update: fun.LmadUpdate) -> None:
    """The checks that an update needs."""
    lmad = known(e, update.offset, update.dims)
    check_bounds(e, lmad, update.array)
    _check_collisions(e, lmad, update.array.name)


def known(e: Emitter, offset: Size, dims: tuple[tuple[Size, Size], ...]) -> Lmad:
    """The LMAD with int64 scalars replaced by what they are known to be."""
    return Lmad(
        bounds.expand(e, offset),
        tuple((bounds.expand(e, n), bounds.expand(e, stride)) for n, stride in dims),
    )


def check_bounds(e: Emitter, lmad: Lmad, array: fun.Var) -> None:
    """0 <= least and greatest < extent, where there are elements."""
    (extent,) = memory(array).shape
    indices = [e.unit.fresh("at.") for _ in lmad.dims]
    outer, e.ranges = e.ranges, dict(e.ranges)
    for name, (count, _) in zip(indices, lmad.dims, strict=True):
        e.ranges[name] = (Poly.var(name) * 0, count)
    index = lmad.apply(tuple(map(Poly.var, indices)))
    done = bounds.inside(e, index, extent) or bounds.launch_check(e, array.name, 0, index, extent)
    e.ranges = outer
    if done:
        return
    filled: imp.Expr = imp.Const(True, DType.BOOL)
    least = greatest = e.named(lmad.offset)
    for count, stride in lmad.dims:
        filled = machine("&&", filled, machine(">", e.named(count), imp.ZERO))
        span = e.named((count - 1) * stride)
        rising = machine(">=", e.named(stride), imp.ZERO)
        least = machine("+", least, imp.Select(rising, imp.ZERO, span))
        greatest = machine("+", greatest, imp.Select(rising, span, imp.ZERO))
    with e.branch(filled):
        for end in (least, greatest):
            bounds.require(e, array.name, 0, e.declare(end, depth=e.depth), e.named(extent))


def _check_collisions(e: Emitter, lmad: Lmad, array: str) -> None:
    prover = e.unit.prover()
    for name, (lower, upper) in e.ranges.items():
        prover = prover.within(name, lower, upper - 1)
    if is_injective(lmad, prover):
        return
    nonempty = bounds.counts(e)
    sizes = (*nonempty, *lmad.shape, *lmad.strides)
    if not e.conditional and all(size.variables() <= e.unit.sizes for size in sizes):
        known = lmad.offset.variables() <= e.unit.sizes
        offset = lmad.offset if known else lmad.offset * 0
        e.unit.collisions[CollisionCheck(offset, lmad.dims, nonempty, array, e.place)] = None
    else:
        _search_collision(e, lmad, array)


def _search_collision(e: Emitter, lmad: Lmad, array: str) -> None:
    """Looks at every difference of two indices: of a changing LMAD the launch knows too little.

    for d0 from 0 to n0, d1 from 1 - n1 to n1, ...: d * strides = 0 only if d = 0
    """
    code = e.unit.failure(array, 0, e.place, "collision")
    extents = [e.named(extent) for extent in lmad.shape]
    strides = [e.named(stride) for stride in lmad.strides]

    def search(axis: int, moved: imp.Expr, left: imp.Expr, right: imp.Expr, same: imp.Expr) -> None:
        if axis == len(extents):
            again = machine("==", moved, imp.ZERO)
            different = imp.Apply("logical_not", (same,), DType.BOOL)
            e.emit(imp.If(machine("&&", again, different), (imp.Fail(code, left, right),)))
            return
        step, extent = e.unit.integer("d"), extents[axis]
        lower = imp.ZERO if axis == 0 else machine("-", imp.integer(1), extent)
        with e.loop(step, lower, extent):
            rising = machine(">=", step, imp.ZERO)
            up = imp.Select(rising, step, imp.ZERO)
            down = imp.Select(rising, imp.ZERO, machine("-", imp.ZERO, step))
            search(
                axis + 1,
                machine("+", moved, machine("*", step, strides[axis])),
                machine("+", machine("*", left, extent), up),
                machine("+", machine("*", right, extent), down),
                machine("&&", same, machine("==", step, imp.ZERO)),
            )

    filled: imp.Expr = imp.Const(True, DType.BOOL)
    for extent in extents:
        filled = machine("&&", filled, machine(">", extent, imp.ZERO))
    with e.branch(filled):
        search(0, imp.ZERO, imp.ZERO, imp.ZERO, imp.Const(True, DType.BOOL))
