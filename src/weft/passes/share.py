"""share: the same expression computed once (common subexpressions).

    let a = exp(x); let b = exp(x); let c = a + b   =>   let a = exp(x); let c = a + a

Removes: statements whose expression, up to the names it binds, a statement before it in the
    same or an outer body already has.
Adds: nothing.
Requires: a checked program.
Ensures: the same values. An expression of an inner body is not moved out of it.
"""

from __future__ import annotations

from dataclasses import replace

from weft.fun import nodes as fun
from weft.fun import walk
from weft.passes.algebra import COMMUTATIVE
from weft.records import dataclass


def share(program: fun.Program) -> fun.Program:
    """The program with repeated expressions replaced by the first one's results."""
    body = _Share().body(program.body)
    return program if body is program.body else replace(program, body=body)


def share_scalars(program: fun.Program) -> fun.Program:
    """The program with scalars computed once, as where elements of arrays are."""
    body = _Share(scalars=True).body(program.body)
    return program if body is program.body else replace(program, body=body)


@dataclass(slots=True)
class _Known:
    """A statement, and what it has in common with its equals once another looks like one."""

    let: fun.Let
    key: object = None


class _Share:
    def __init__(self, scalars: bool = False) -> None:
        self.scalars = scalars  # alone
        # By how they look, innermost last.
        self.known: list[dict[object, list[_Known]]] = []
        self.renamed = walk.Substitution()

    def body(self, body: fun.Body) -> fun.Body:
        self.known.append({})
        statements = []
        changed = False
        for let in body.statements:
            new = self.let(let)
            changed = changed or new is not let
            if new is not None:
                statements.append(new)
        self.known.pop()
        results = tuple(map(self.renamed.atom, body.results))
        if not changed and results == body.results:
            return body
        return fun.Body(tuple(statements), results)

    def let(self, let: fun.Let) -> fun.Let | None:
        expr = let.expr
        renamed = self.renamed
        if renamed.atoms or walk.bodies(expr):
            expr = walk.map_expr(
                expr, walk.Mapper(renamed.atom, renamed.size, self.body, renamed.binder)
            )
        look = _look(expr)
        key = None
        two = isinstance(expr, fun.Empty) or (  # soon they hold different things
            self.scalars and not isinstance(expr, walk.SCALARS)
        )
        for known in () if two else reversed(self.known):
            for same in known.get(look, ()):
                key = key or _key(expr)
                same.key = same.key or _key(same.let.expr)
                if same.key == key:
                    for var, first in zip(let.pattern, same.let.pattern, strict=True):
                        renamed.bind(var.name, first)
                    return None
        if expr != let.expr:
            pattern = tuple(map(renamed.binder, let.pattern))
            let = fun.Let(pattern, expr, let.place)
        self.known[-1].setdefault(look, []).append(_Known(let, key))
        return let


def _look(expr: fun.Expr) -> object:
    """What is quickly told of an expression, and alike for those of one key."""
    bodies = walk.bodies(expr)
    if not bodies:
        return _key(expr)
    return type(expr), tuple(len(body.statements) for body in bodies)


def _key(expr: fun.Expr) -> object:
    """What two expressions have in common when they differ in bound names at most."""
    if isinstance(expr, fun.Apply) and expr.operation in COMMUTATIVE:
        left, right = expr.arguments
        if _order(left) > _order(right):
            return fun.Apply(expr.operation, (right, left))
    if not walk.bodies(expr):
        return expr
    return _Canonical().expr(expr)


def _order(atom: fun.Atom) -> str:
    return atom.name if isinstance(atom, fun.Var) else repr(atom.value)


class _Canonical(walk.Substitution):
    """Bound names replaced by their numbers, places dropped."""

    def __init__(self) -> None:
        super().__init__(fresh=self._number)
        self.count = 0

    def _number(self, _: str) -> str:
        self.count += 1
        return f"%{self.count}"

    def let(self, let: fun.Let) -> fun.Let:
        expr = self.expr(let.expr)
        return fun.Let(tuple(map(self.binder, let.pattern)), expr)
