"""Rows that a branch on their own index parts in two: each side is a loop without the branch.

    for j { if j < c(i) { f(i, j) } else { g(i, j) } }
 => for j below c(i) { f(i, j) }; for j from c(i) on { g(i, j) }

What one side alone reads, as a triangle's mirror image does along columns, is read there alone.
"""

from __future__ import annotations

from dataclasses import replace

from weft.fun import nodes as fun
from weft.fun import walk
from weft.lower.bodies import TRUE, note
from weft.lower.emitter import Emitter
from weft.records import dataclass
from weft.sizes import ONE, Size

Facts = tuple[Size, ...]
"""Polynomials that are >= 0."""


@dataclass(frozen=True, slots=True)
class Half:
    """A body on one side of a border, and what is known there."""

    facts: Facts
    body: fun.Body


@dataclass(frozen=True, slots=True)
class Halves:
    """A row's body before the index `border`, and from it on."""

    border: Size
    before: Half
    after: Half


def halves(e: Emitter, lane: str, body: fun.Body) -> Halves | None:
    """The two sides of a body's first such branch; None where there is none.

    A branch that reads nothing is a selection, for which no loop is worth its ends.
    """
    known = comparisons(e, body)
    for position, let in enumerate(body.statements):
        branch = let.expr
        if not isinstance(branch, fun.If) or not isinstance(branch.condition, fun.Var):
            continue
        sides = known.get(branch.condition.name, ((), ()))
        reads = any(
            isinstance(inner.expr, fun.Index)
            for side in (branch.then, branch.otherwise)
            for inner in walk.statements(side)
        )
        if not reads or not all(len(facts) == 1 for facts in sides):
            continue
        (fact,) = sides[0]
        factor, rest = fact.coefficient(lane), fact.without(lane)
        if fact.degree(lane) != 1 or not all(name in e.scalars for name in rest.variables()):
            continue
        then = Half(sides[0], _chosen(body, position, branch.then))
        otherwise = Half(sides[1], _chosen(body, position, branch.otherwise))
        if factor == ONE:
            return Halves(-rest, otherwise, then)
        if factor == -ONE:
            return Halves(rest + 1, then, otherwise)
    return None


def _chosen(body: fun.Body, position: int, side: fun.Body) -> fun.Body:
    """A body in which a branch is known to go to one side; without its condition, if it may."""
    let = body.statements[position]
    assert isinstance(let.expr, fun.If)
    always = fun.Const(TRUE.value, TRUE.dtype)
    chosen = replace(let, expr=fun.If(always, side, side))
    statements = (*body.statements[:position], chosen, *body.statements[position + 1 :])
    made = replace(body, statements=statements)
    assert isinstance(let.expr.condition, fun.Var)
    name = let.expr.condition.name
    if name in walk.uses(made):
        return made
    kept = [one for one in statements if one.pattern[0].name != name]
    return replace(made, statements=tuple(kept))


def comparisons(e: Emitter, body: fun.Body) -> dict[str, tuple[Facts, Facts]]:
    """A body's own comparisons of indices: what is >= 0 where each holds, and where not."""
    found: dict[str, tuple[Facts, Facts]] = {}
    for let in body.statements:
        var = let.pattern[0]
        note(e, var, let.expr)
        if isinstance(let.expr, fun.Apply) and var.name in e.comparisons:
            found[var.name] = e.comparisons[var.name]
    return found
