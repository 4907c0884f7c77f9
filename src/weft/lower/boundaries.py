"""Boundary rules of reads: the index mapped back inside, as `numpy.pad` does."""

from __future__ import annotations

from typing import assert_never

from weft.fun import nodes as fun
from weft.imp import nodes as imp
from weft.imp.nodes import machine
from weft.lower.emitter import Emitter
from weft.sizes import Poly, Size


def resolve(
    e: Emitter, access: fun.Index
) -> tuple[tuple[Size, ...], list[tuple[imp.Expr, fun.Const]]]:
    """Indices inside the array; and, for each "constant" rule, when it is inside, and its value.

    Where the emitter is in the interior of the innermost dimension, rules on it are void;
    those on outer dimensions are resolved where those indices vary.
    """
    if not any(access.boundary):
        return access.indices, []
    indices: list[Size] = []
    outside: list[tuple[imp.Expr, fun.Const]] = []
    for index, rule in zip(access.indices, access.boundary, strict=True):
        if rule is None or (e.interior and e.lane in index.variables()):
            indices.append(index)
            continue
        value = e.named(index)
        lower, upper = e.named(rule.lower), e.named(rule.upper)
        mapped = e.declare(_map(e, rule.kind, value, lower, upper), "b")
        name = e.unit.fresh("boundary.")
        e.bind(name, mapped)
        indices.append(Poly.var(name))
        if rule.kind == "constant":
            assert rule.value is not None
            within = machine("&&", machine(">=", value, lower), machine("<", value, upper))
            outside.append((e.declare(within, "c"), rule.value))
    return tuple(indices), outside


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
