"""One more element combined into a running value, by fused operations where there are some.

    total + (a * b + c * d)  =>  fma(c, d, fma(a, b, total))

An operator that is no sum of floats is applied as it is.
"""

from __future__ import annotations

from collections import Counter

from weft.fun import nodes as fun
from weft.fun.contractions import Contraction
from weft.imp import nodes as imp
from weft.lower.bodies import apply_lambda, lower_body
from weft.lower.emitter import Emitter


class Accumulation:
    """The joint statements of a contraction, whose sides' values are known to the emitter."""

    def __init__(self, e: Emitter, found: Contraction) -> None:
        self.e, self.reduce = e, found.reduce
        self.joint = {let.pattern[0].name: let for let in found.joint}
        self.uses = Counter(
            atom.name
            for let in found.joint
            for atom in _arguments(let)
            if isinstance(atom, fun.Var)
        )
        self.made: set[str] = set()
        (let,) = self.reduce.operator.body.statements
        assert isinstance(let.expr, fun.Apply)
        self.fused = let.expr.operation == "add" and self.reduce.neutral[0].type.dtype.is_float

    def terms(self) -> tuple[fun.Atom, ...]:
        """What is added one after another: products of the sides' values, else the element.

        Whoever tiles may add the first term to all of its totals, and then the second: so the
        values of one term alone are in registers.
        """
        (result,) = self.reduce.body.results
        terms = self._summands(result)
        products = [self._product(term) for term in terms]
        return terms if all(products) else (result,)

    def operands(self, term: fun.Atom) -> frozenset[str] | None:
        """The sides' values that a term takes; None where it may be all."""
        let = self._product(term)
        names = (a.name for a in _arguments(let) if isinstance(a, fun.Var)) if let else ()
        return frozenset(names) or None

    def of(self, total: imp.Expr, term: fun.Atom | None = None) -> imp.Expr:
        """The total with the element added, or one of its terms."""
        (result,) = self.reduce.body.results
        return self._add(total, result if term is None else term)

    def _summands(self, atom: fun.Atom) -> tuple[fun.Atom, ...]:
        let = self._fusible(atom)
        if let is not None and isinstance(let.expr, fun.Apply) and let.expr.operation == "add":
            return tuple(term for part in _arguments(let) for term in self._summands(part))
        return (atom,)

    def _product(self, atom: fun.Atom) -> fun.Let | None:
        """What makes a product of values that are not made here."""
        let = self._fusible(atom)
        if let is None or not isinstance(let.expr, fun.Apply) or let.expr.operation != "multiply":
            return None
        made = [a for a in _arguments(let) if isinstance(a, fun.Var) and a.name in self.joint]
        return None if made else let

    def _fusible(self, atom: fun.Atom) -> fun.Let | None:
        """What makes a value that is used once, where sums are fused."""
        let = self.joint.get(atom.name) if isinstance(atom, fun.Var) else None
        once = self.fused and let is not None and self.uses[let.pattern[0].name] <= 1
        return let if once else None

    def _add(self, total: imp.Expr, atom: fun.Atom) -> imp.Expr:
        e, let = self.e, self._fusible(atom)
        if let is not None:
            match let.expr:
                case fun.Apply("add", (left, right)):
                    return self._add(self._add(total, left), right)
                case fun.Apply("multiply", (left, right)):
                    factors = (self._value(left), self._value(right), total)
                    return e.declare(imp.Apply("fma", factors, total.dtype))
                case _:
                    pass
        (value,) = apply_lambda(e, self.reduce.operator, [total, self._value(atom)])
        return value

    def _value(self, atom: fun.Atom) -> imp.Expr:
        """An operand, made here where it is a joint value."""
        let = self.joint.get(atom.name) if isinstance(atom, fun.Var) else None
        if let is not None and let.pattern[0].name not in self.made:
            self.made.add(let.pattern[0].name)
            for operand in _arguments(let):
                self._value(operand)
            lower_body(self.e, fun.Body((let,), ()))
        return self.e.atom(atom)


def _arguments(let: fun.Let) -> tuple[fun.Atom, ...]:
    match let.expr:
        case fun.Apply(_, arguments):
            return arguments
        case fun.Cast(_, argument):
            return (argument,)
        case _:
            return ()
