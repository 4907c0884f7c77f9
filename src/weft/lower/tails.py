"""Vector math on what a kernel's reductions give, for 64 points at once.

    for i { s = reduce (j) f(i, j); y[i] = exp(s) }
        =>  for i by 64 { for l { s[l] = reduce (j) f(i + l, j) }  for l { y[i + l] = exp(s[l]) } }

The vector functions take less than a fourth of the time of the scalar ones, of which a layer of a
network needs as many as it has rows.
"""

from __future__ import annotations

from weft.fun import nodes as fun
from weft.fun import walk
from weft.fun.vector_math import has_vector_math
from weft.imp import nodes as imp
from weft.imp.nodes import machine
from weft.lower import bodies, shapes, strips
from weft.lower.emitter import Emitter
from weft.lower.rows import LANES, whole_vectors
from weft.records import dataclass


@dataclass(frozen=True, slots=True)
class Parts:
    """A body in two: what is done point by point, and what is made of that, straight-line."""

    head: fun.Body  # its results are what the tail uses of it
    tail: fun.Body


def parts(body: fun.Body) -> Parts | None:
    """Those of a body that calls vector math on scalars alone; None of any other."""
    if not all(isinstance(atom.type, fun.Scalar) for atom in body.results):
        return None
    needed: set[str] = set()
    head: list[fun.Let] = []
    tail: list[fun.Let] = []
    for let in reversed(body.statements):
        made = {var.name for var in let.pattern}
        if made & needed or not shapes.is_flat(fun.Body((let,), ())):
            needed |= walk.used_names(let.expr)
            head.append(let)
        else:
            tail.append(let)
    after = fun.Body(tuple(reversed(tail)), body.results)
    if not head or not has_vector_math(after):
        return None
    used = {a.name for a in body.results if isinstance(a, fun.Var)}
    used = used.union(*(walk.used_names(let.expr) for let in tail))
    kept = [var for let in head for var in let.pattern if var.name in used]
    if not all(isinstance(var.type, fun.Scalar) for var in kept):
        return None
    return Parts(fun.Body(tuple(reversed(head)), tuple(kept)), after)


def lower_row(
    e: Emitter, lane: str, lower: imp.Expr, upper: imp.Expr, parts: Parts, store: strips.Store
) -> None:
    """The body for lower <= lane < upper; `store` writes its results at the lane."""
    base = e.unit.integer("j")
    with e.loop(base, lower, upper, step=LANES):
        valid = e.declare(machine("min", imp.integer(LANES), machine("-", upper, base)))
        whole = whole_vectors(e, parts.tail, valid)
        last = e.declare(machine("-", valid, imp.ONE))
        strip = strips.Strip(lane, base, whole, LANES, clamped=True, last=last, varying={lane})
        kept = {
            var.name: strips.keep(e, strip, var.name, var.type.dtype)
            for var in parts.head.results
            if isinstance(var, fun.Var)
        }
        point = e.unit.integer("l")
        with e.loop(point, imp.ZERO, valid):
            e.bind(lane, e.declare(machine("+", base, point)))
            bodies.lower_body(e, parts.head)
            for name, pointer in kept.items():
                e.emit(imp.Store(pointer, point, e.scalars[name]))
        point = e.unit.integer("l")
        with e.loop(point, valid, whole):
            for pointer in kept.values():
                e.emit(imp.Store(pointer, point, imp.Load(pointer, last)))
        strips.whole_strip(e, strip, parts.tail, valid, store)
