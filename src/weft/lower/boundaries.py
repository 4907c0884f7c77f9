"""Boundary rules of reads: the index mapped back inside, as `numpy.pad` does."""

from __future__ import annotations

from functools import partial
from typing import assert_never

from weft.fun import nodes as fun
from weft.imp import nodes as imp
from weft.imp.nodes import machine
from weft.lower import bounds
from weft.lower.emitter import Emitter
from weft.lower.masks import Ends
from weft.lower.unit import memory
from weft.sizes import Poly, Size


def resolve(
    e: Emitter, access: fun.Index
) -> tuple[tuple[Size, ...], list[tuple[imp.Expr, imp.Expr]]]:
    """Indices inside the array; and conditions for it, with what a read gives where they fail.

    Where the emitter is in the interior of the innermost dimension, rules on it are void;
    those on outer dimensions are resolved where those indices vary. In a vector with masks,
    indices are inside where the conditions hold.
    """
    if not any(access.boundary):
        return access.indices, []
    indices: list[Size] = []
    outside: list[tuple[imp.Expr, imp.Expr]] = []
    for index, rule in zip(access.indices, access.boundary, strict=True):
        if rule is None or (e.interior and e.lane in index.variables()):
            indices.append(index)
            continue
        if e.ends is not None and e.ends.name in index.variables():
            indices.append(index)
            _masked(e, e.ends, access, index, rule, outside)
            continue
        value = e.named(index)
        lower, upper = e.named(rule.lower), e.named(rule.upper)
        mapped = e.declare(_map(e, rule.kind, value, lower, upper), "b")
        name = e.unit.fresh("boundary.")
        e.bind(name, mapped)
        indices.append(Poly.var(name))
        if rule.kind == "constant":
            within = machine("&&", machine(">=", value, lower), machine("<", value, upper))
            outside.append((e.declare(within, "c"), constant(rule)))
    return tuple(indices), outside


def mapped(e: Emitter, rule: fun.Boundary, index: imp.Expr) -> imp.Expr:
    """Where a rule brings an index."""
    return e.declare(_map(e, rule.kind, index, e.named(rule.lower), e.named(rule.upper)), "b")


def _masked(
    e: Emitter, ends: Ends, access: fun.Index, index: Size, rule: fun.Boundary,
    outside: list[tuple[imp.Expr, imp.Expr]],
) -> None:  # fmt: skip
    """In a vector with masks: the conditions for an index that follows its lanes."""
    above = partial(ends.index, e, "greater_equal", index, e.named(rule.lower))
    below = partial(ends.index, e, "less", index, e.named(rule.upper))
    if rule.kind == "constant":
        within = machine("&&", e.declare(above()), e.declare(below()))
        outside.append((e.declare(within, "c"), constant(rule)))
        return
    first, last = _at_ends(e, ends, access)
    if not bounds.holds(e, index - rule.lower):
        outside.insert(0, (e.declare(above(), "c"), first))
    if not bounds.holds(e, rule.upper - 1 - index):
        outside.insert(0, (e.declare(below(), "c"), last))


def constant(rule: fun.Boundary) -> imp.Const:
    assert rule.value is not None
    return imp.Const(rule.value.value, rule.value.dtype)


def _at_ends(e: Emitter, ends: Ends, access: fun.Index) -> list[imp.Expr]:
    """What the "edge" rules give at the first and the last element of a vector with masks."""
    lane = ends.name
    here, found = e.scalars[lane], []
    e.ends = None
    for element in (ends.begin, ends.last):
        e.bind(lane, element)
        indices, _ = resolve(e, access)
        pointer, index = e.address(memory(access.array), indices)
        depth = max(e.depth_of(index), e.floor, e.depths.get("@" + access.array.name, 0))
        found.append(e.declare(imp.Load(pointer, index), depth=depth))
    e.bind(lane, here)
    e.ends = ends
    return found


def _map(
    e: Emitter, kind: fun.BoundaryKind, index: imp.Expr, lower: imp.Expr, upper: imp.Expr
) -> imp.Expr:
    match kind:
        case "edge" | "constant":
            return machine(
                "max", lower, e.declare(machine("min", index, machine("-", upper, imp.ONE)))
            )
        case "wrap":
            extent = e.declare(machine("-", upper, lower))
            return machine("+", lower, _modulo(e, machine("-", index, lower), extent))
        case "symmetric":
            extent = e.declare(machine("-", upper, lower))
            around = e.declare(machine("+", extent, extent))
            folded = _modulo(e, machine("-", index, lower), around)
            back = e.declare(machine("-", machine("-", around, imp.ONE), folded))
            return machine("+", lower, e.declare(machine("min", folded, back)))
        case "reflect":
            last = e.declare(machine("-", machine("-", upper, lower), imp.ONE))
            around = e.declare(machine("max", imp.ONE, e.declare(machine("+", last, last))))
            folded = _modulo(e, machine("-", index, lower), around)
            back = e.declare(machine("-", around, folded))
            within = e.declare(machine("min", folded, back))
            return machine("+", lower, e.declare(machine("min", within, last)))
        case _:
            assert_never(kind)


def _modulo(e: Emitter, index: imp.Expr, extent: imp.Expr) -> imp.Expr:
    """index mod extent, rounding down."""
    rest = e.declare(machine("%", index, extent))
    return e.declare(
        imp.Select(machine("<", rest, imp.ZERO), e.declare(machine("+", rest, extent)), rest)
    )
