"""Indices that count from the end where they are negative, as NumPy's: which names they have."""

from __future__ import annotations

from collections.abc import Iterator

from weft.fun import nodes as fun
from weft.fun import walk


def counted_from_end(body: fun.Body) -> frozenset[str]:
    """The names of where(i < 0, i + n, i), also as another dtype."""
    bound = {
        var.name: let.expr for let in walk.statements(body) for var in let.pattern
        if isinstance(let.expr, fun.Apply | fun.Cast)
    }  # fmt: skip

    def expr_of(atom: fun.Atom) -> fun.Expr | None:
        return bound.get(atom.name) if isinstance(atom, fun.Var) else None

    def found() -> Iterator[str]:
        for name, given in bound.items():
            expr: fun.Expr | None = given
            if isinstance(expr, fun.Cast):
                expr = expr_of(expr.argument)
            if not isinstance(expr, fun.Apply) or expr.operation != "where":
                continue
            condition, moved, own = expr.arguments
            test, sum_ = expr_of(condition), expr_of(moved)
            if (
                isinstance(test, fun.Apply) and test.operation == "less"
                and test.arguments[0] == own and isinstance(test.arguments[1], fun.Const)
                and isinstance(sum_, fun.Apply) and sum_.operation == "add"
                and own in sum_.arguments
            ):  # fmt: skip
                yield name

    return frozenset(found())
