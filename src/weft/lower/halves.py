"""Parts of the rows and columns of a tile, of which a half plane wants some."""

from __future__ import annotations

from dataclasses import replace

from weft.imp import nodes as imp
from weft.imp.nodes import machine
from weft.lower.emitter import Emitter
from weft.records import dataclass
from weft.sizes import ONE, Size


@dataclass(frozen=True, slots=True)
class Part:
    """From `lower` to below `upper`, of which `first` to `last` are read."""

    lower: imp.Expr
    upper: imp.Expr
    first: imp.Expr
    last: imp.Expr


def wanted(e: Emitter, fact: Size, name: str, part: Part, other: str, others: Part) -> Part:
    """The part whose fact (>= 0) holds for some index of the other part."""
    if fact.degree(name) == 0:
        e.bind(name, imp.ZERO)
    e.bind(other, others.last if fact.coefficient(other) == ONE else others.first)
    rest = e.named(fact.without(name))
    if fact.coefficient(name) == ONE:
        first = machine("max", part.first, e.declare(machine("-", imp.ZERO, rest)))
        return replace(part, first=e.declare(first))
    if fact.coefficient(name) == -ONE:
        return replace(part, last=e.declare(machine("min", part.last, rest)))
    # The index does not matter: all of the part, or nothing.
    none = e.declare(machine("-", part.first, imp.ONE))
    holds = machine(">=", rest, imp.ZERO)
    return replace(part, last=e.declare(imp.Select(holds, part.last, none)))
