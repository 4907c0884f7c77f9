"""The element of a contraction as a sum of products, each of left, right and common factors."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from weft.fun import nodes as fun
from weft.fun.contractions import Contraction
from weft.passes.versions import bound_in
from weft.records import dataclass

MOST = 4  # terms of a sum that is taken apart


@dataclass(frozen=True, slots=True)
class Term:
    """A product of scalars that are the same in all rounds and elements, and of both sides' values.

    `negative`: what is added is its negative.
    """

    scalars: tuple[fun.Atom, ...] = ()
    left: tuple[fun.Var, ...] = ()
    right: tuple[fun.Var, ...] = ()
    negative: bool = False


def terms(found: Contraction, leaves: Collection[str]) -> list[Term] | None:
    """The products whose sum the element is; None where it is no such sum.

    Parameters
    ----------
    found : Contraction
    leaves : collection of str
        Values of the reduction's body that are factors, and are not taken apart.
    """
    (result,) = found.reduce.body.results
    made = _Terms(found, leaves).of(result)
    if made is None or len(made) > MOST or not all(term.left and term.right for term in made):
        return None
    return made


class _Terms:
    def __init__(self, found: Contraction, leaves: Collection[str]) -> None:
        self.leaves = leaves
        self.bound = bound_in(found.reduce.body)
        right = {v.name for let in found.right.statements for v in let.pattern}
        left = {v.name for let in found.left.statements for v in let.pattern}
        self.left, self.right = left - right, right - left
        indices = (found.row, found.column, found.reduce.space[0])
        self.indices = {r.index.name for r in indices}

    def of(self, atom: fun.Atom) -> list[Term] | None:
        """The terms of a value."""
        if isinstance(atom, fun.Const):
            return [Term((atom,))]
        if atom.name in self.leaves:
            if atom.name in self.left:
                return [Term(left=(atom,))]
            return [Term(right=(atom,))] if atom.name in self.right else None
        let = self.bound.get(atom.name)
        if let is None:
            return None if atom.name in self.indices else [Term((atom,))]
        if not isinstance(let.expr, fun.Apply):
            return None
        parts = [self.of(operand) for operand in let.expr.arguments]
        known = [part for part in parts if part is not None]
        if len(known) != len(parts):
            return None
        match let.expr.operation:
            case "add":
                return known[0] + known[1]
            case "subtract":
                return known[0] + [replace(t, negative=not t.negative) for t in known[1]]
            case "negative":
                return [replace(t, negative=not t.negative) for t in known[0]]
            case "multiply":
                return _multiplied(*known)
            case _:
                return None


def _multiplied(first: list[Term], second: list[Term]) -> list[Term] | None:
    """Of two sums one has a single term; where the other has more, that is of scalars alone."""
    if len(first) > 1:
        first, second = second, first
    (one,) = first[:1]
    if len(first) > 1 or (len(second) > 1 and (one.left or one.right)):
        return None
    return [
        Term(
            (*one.scalars, *term.scalars), (*one.left, *term.left), (*one.right, *term.right),
            one.negative != term.negative,
        )
        for term in second
    ]  # fmt: skip
