"""Bounds of accesses: proved here, left to the launch, or checked in the kernel.

An affine index is taken to its minimum and maximum over the ranges around it, as refined by
conditions on indices, and an index before those that bound it. What the prover cannot discharge
becomes a check at launch, where it holds only size variables and is reached unconditionally.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager

from weft.fun import nodes as fun
from weft.imp import nodes as imp
from weft.imp.nodes import machine
from weft.lower.emitter import Emitter
from weft.lower.unit import Bounds
from weft.ops.dtypes import DType
from weft.sizes import ONE, Poly, Size


def expand(e: Emitter, poly: Size) -> Size:
    """The polynomial with int64 scalars replaced by what they are known to be."""
    while True:
        known = {
            name: e.definitions[name][1][0]
            for name in poly.variables()
            if name in e.definitions and e.definitions[name][0] == "is"
        }
        if not known:
            return poly
        poly = poly.substitute(known)


def extremes(e: Emitter, poly: Size, *, largest: bool) -> list[Size]:
    """Upper (or lower) limits of a polynomial, over size variables alone; maybe none."""
    poly = expand(e, poly)
    # A minimum first: what it is chosen from may depend on the indices that are left. But one
    # that is the end of an index cancels out with it.
    found = _chosen(e, poly, largest=largest)
    index = _innermost(e, poly)
    if index is None:
        return [poly] if found is None else found
    ends = {v for end in e.ranges[index] for v in end.variables() if v in e.definitions}
    if found is not None and not any(poly.degree(name) for name in ends):
        return found
    return [*(found or ()), *_at_the_end(e, poly, index, largest=largest)]


def _chosen(e: Emitter, poly: Size, *, largest: bool) -> list[Size] | None:
    """The limits by what a minimum or maximum in a polynomial is chosen from; None without one."""
    for name in poly.variables():
        definition = e.definitions.get(name)
        if definition is None or poly.degree(name) > 1:
            continue
        factor = poly.coefficient(name)
        grows = e.unit.nonnegative(factor)
        if not grows and not e.unit.nonnegative(-factor):
            return []
        if (definition[0] == "minimum") == (grows == largest):  # min(a, b) <= a, max(a, b) >= a
            return [
                limit
                for choice in definition[1]
                for limit in extremes(e, poly.without(name) + factor * choice, largest=largest)
            ]
        return []
    return None


def _at_the_end(e: Emitter, poly: Size, index: str, *, largest: bool) -> list[Size]:
    """The limits by the first or last value of an index in a polynomial."""
    if poly.degree(index) > 1:
        return []
    factor = poly.coefficient(index)
    lower, upper = e.ranges[index]
    if e.unit.nonnegative(factor):
        limit = upper - 1 if largest else lower
    elif e.unit.nonnegative(-factor):
        limit = lower if largest else upper - 1
    else:
        return []
    return extremes(e, poly.without(index) + factor * limit, largest=largest)


def _innermost(e: Emitter, poly: Size) -> str | None:
    """The index whose range no other index in a polynomial has as an end.

    Where a condition bounds an outer index by an inner one, that is the outer one.
    """
    names = [name for name in reversed(e.ranges) if poly.degree(name)]
    bounding = {v for name in names for end in e.ranges[name] for v in end.variables()}
    return next((name for name in names if name not in bounding), None)


def _positive(e: Emitter, lower: Size) -> bool:
    """Whether `lower >= 0`, perhaps by one of the conditions that hold here."""
    if e.unit.nonnegative(lower):
        return True
    if any(e.unit.nonnegative(limit) for limit in extremes(e, lower, largest=False)):
        return True
    return any(
        e.unit.nonnegative(limit)
        for condition in e.known
        for limit in extremes(e, lower - condition, largest=False)
    )


def holds(e: Emitter, poly: Size) -> bool:
    """Whether `poly >= 0` is proved, whichever operand minima and maxima in it come to."""
    poly = expand(e, poly)
    for name in poly.variables():
        definition = e.definitions.get(name)
        if definition is None or poly.degree(name) > 1:
            continue
        factor = poly.coefficient(name)
        if not factor.is_constant:
            return False
        # 1 - max(a, b) >= 0 if both 1 - a and 1 - b are; 1 - min(a, b) if one of them is.
        both = (definition[0] == "minimum") == (factor.constant > 0)
        choices = (holds(e, poly.without(name) + factor * c) for c in definition[1])
        return all(choices) if both else any(choices)
    return any(e.unit.nonnegative(limit) for limit in extremes(e, poly, largest=False))


def inside(e: Emitter, index: Size, extent: Size) -> bool:
    """Whether 0 <= index < extent is proved here."""
    return _positive(e, index) and _positive(e, extent - 1 - index)


def proved(e: Emitter, access: fun.Index) -> bool:
    """Whether an access is in bounds, or its boundary rules bring it there."""
    assert isinstance(access.array.type, fun.Array)
    rules = access.boundary or (None,) * len(access.indices)
    return all(
        rule is not None or inside(e, index, extent)
        for index, extent, rule in zip(access.indices, access.array.type.shape, rules, strict=True)
    )


def check(e: Emitter, access: fun.Index) -> list[tuple[int, Size, Size]]:
    """Leaves to the launch what it can prove; the rest is (axis, index, extent) to check here."""
    assert isinstance(access.array.type, fun.Array)
    rules = access.boundary or (None,) * len(access.indices)
    dynamic = []
    for axis, (index, extent) in enumerate(
        zip(access.indices, access.array.type.shape, strict=True)
    ):
        if rules[axis] is not None or inside(e, index, extent):
            continue
        by_launch = launch_check(e, access.array.name, axis, index, extent)
        if not by_launch and not _foreseen(e, index, extent):
            dynamic.append((axis, index, extent))
    return dynamic


def _tightest(e: Emitter, index: Size, *, largest: bool) -> tuple[Size, ...]:
    """The limits of an index that hold only sizes, and that no other is known to improve."""

    def improves(limit: Size, other: Size) -> bool:
        return e.unit.nonnegative(other - limit if largest else limit - other)

    best: list[Size] = []
    for limit in extremes(e, index, largest=largest):
        if limit.variables() <= e.unit.sizes and not any(improves(b, limit) for b in best):
            best = [*(other for other in best if not improves(limit, other)), limit]
    return tuple(best)


def launch_check(e: Emitter, array: str, axis: int, index: Size, extent: Size) -> bool:
    """Leaves 0 <= index < extent to the launch; False where the launch does not know enough."""
    if e.conditional:
        return False
    low = _tightest(e, index, largest=False)
    high = _tightest(e, index, largest=True)
    if not low or not high:
        return False
    nonempty = counts(e)
    if not all(p.variables() <= e.unit.sizes for p in (extent, *nonempty)):
        return False
    e.unit.checks[Bounds(low, high, extent, nonempty, array, axis, e.place)] = None
    return True


def _foreseen(e: Emitter, index: Size, extent: Size) -> bool:
    """Whether a launch may find out that 0 <= index < extent, and is to (`Unit.foreseen`)."""
    if e.unit.foreseen is None or not extent.variables() <= e.unit.sizes:
        return False
    low, high = (_tightest(e, index, largest=largest) for largest in (False, True))
    if not low or not high:
        return False
    facts = (low[0], extent - 1 - high[0])
    e.unit.foreseen |= {fact: None for fact in facts if not e.unit.nonnegative(fact)}
    return True


def counts(e: Emitter) -> tuple[Size, ...]:
    """How long the ranges are that are not known to be non-empty."""
    lengths = (above - below for below, above in e.ranges.values())
    return tuple(dict.fromkeys(n for n in lengths if not holds(e, n - 1)))


def refine(e: Emitter, conditions: Iterable[Size]) -> dict[str, tuple[Size, Size]]:
    """The ranges of indices where all of the conditions are >= 0.

    Those of inner indices first; none depends on itself.
    """
    ranges = dict(e.ranges)
    for condition in conditions:
        for name in reversed(e.ranges):
            if condition.degree(name) != 1:
                continue
            factor, rest = condition.coefficient(name), condition.without(name)
            lower, upper = ranges[name]
            if _depend(e, ranges, rest, name):
                continue
            if factor == ONE and e.unit.nonnegative(-rest - lower):
                ranges[name] = (-rest, upper)
            elif factor == -ONE and e.unit.nonnegative(upper - rest - 1):
                ranges[name] = (lower, rest + 1)
    return ranges


def _depend(
    e: Emitter, ranges: Mapping[str, tuple[Size, Size]], size: Size, name: str
) -> bool:
    """Whether what a size comes to depends on an index, by ranges and what scalars are."""
    found: set[str] = set()
    pending = set(size.variables())
    while pending:
        one = pending.pop()
        if one not in found:
            found.add(one)
            _, choices = e.definitions.get(one, ("", ()))
            pending.update(*(size.variables() for size in (*ranges.get(one, ()), *choices)))
    return name in found


@contextmanager
def assumed(e: Emitter, conditions: tuple[Size, ...]) -> Iterator[None]:
    """Inside, all of the conditions are >= 0: ranges say so where they can.

    What they do not say is still a condition, so that a launch knows less than the code here.
    """
    before = e.ranges, e.known, e.conditional
    said = all(
        refine(e, (condition,)) != e.ranges or holds(e, condition) for condition in conditions
    )
    e.ranges, e.known = refine(e, conditions), e.known + conditions
    e.conditional = e.conditional or not said
    yield
    e.ranges, e.known, e.conditional = before


def within(e: Emitter, index: imp.Expr, extent: imp.Expr) -> imp.Expr:
    return machine("&&", machine(">=", index, imp.ZERO), machine("<", index, extent))


def require(e: Emitter, array: str, axis: int, index: imp.Expr, extent: imp.Expr) -> None:
    """Fails where an index is outside of its array; in a simd loop, after it."""
    if e.watched is not None:
        e.watch(index, extent, array, axis)
        return
    outside = imp.Apply("logical_not", (within(e, index, extent),), DType.BOOL)
    fail = imp.Fail(e.unit.failure(array, axis, e.place, index=index), index, extent)
    e.emit(imp.If(outside, (fail,)))


def nonnegative(poly: Poly) -> bool:
    """Sizes are at least 0, so a sum of products of them is: what needs no prover."""
    return all(factor >= 0 for factor in poly.terms.values())
