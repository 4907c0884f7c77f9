"""Operators that choose one of their sides whole: arg-max and its like."""

from __future__ import annotations

from weft.fun import nodes as fun


def chosen_by(operator: fun.Lambda) -> tuple[fun.Var, bool] | None:
    """The one condition by which all results are chosen, and whether it chooses the right."""
    count = len(operator.params) // 2
    made = {let.pattern[0].name: let.expr for let in operator.body.statements}
    found: set[tuple[fun.Atom, bool]] = set()
    for k, result in enumerate(operator.body.results):
        expr = made.get(result.name) if isinstance(result, fun.Var) else None
        if not isinstance(expr, fun.Apply) or expr.operation != "where":
            return None
        condition, *sides = expr.arguments
        left, right = operator.params[k], operator.params[k + count]
        if sides not in ([left, right], [right, left]):
            return None
        found.add((condition, sides == [right, left]))
    if len(found) != 1:
        return None
    ((condition, right_if_true),) = found
    return (condition, right_if_true) if isinstance(condition, fun.Var) else None
