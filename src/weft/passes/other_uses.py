"""Why rounds that seem to combine something with an array do not: for the user to see."""

from __future__ import annotations

from weft.fun import nodes as fun
from weft.fun import walk
from weft.passes.accumulation import OPERATIONS
from weft.passes.dependence import Access
from weft.passes.meetings import called
from weft.records import dataclass

SHOWN = {
    "add": "+=", "multiply": "*=", "minimum": "minimum", "maximum": "maximum", "fmin": "min",
    "fmax": "max", "logical_and": "&=", "logical_or": "|=", "bitwise_and": "&=",
    "bitwise_or": "|=", "bitwise_xor": "^=",
}  # fmt: skip
"""Operators as users write them."""


@dataclass(frozen=True, slots=True)
class Otherwise:
    """Why there is no combination, though there seems to be one: an access that is none.

    Attributes
    ----------
    reason : str
    access : Access
    update : Access
        One that is a combination.
    """

    reason: str
    access: Access
    update: Access


def seeming_update(param: fun.Var, body: fun.Body) -> tuple[str, Access] | None:
    """An update of an array by an operator, as `h[j] += a`: which one, and where."""
    statements = list(walk.statements(body))
    bound = {var.name: let for let in statements for var in let.pattern}
    for let in statements:
        expr = let.expr
        if not isinstance(expr, fun.Update) or called(expr.array) != called(param):
            continue
        made = bound.get(expr.value.name) if isinstance(expr.value, fun.Var) else None
        while made is not None and isinstance(made.expr, fun.Kernel):
            result = made.expr.body.results[0]
            made = bound.get(result.name) if isinstance(result, fun.Var) else None
        step = None if made is None else made.expr
        if not isinstance(step, fun.Apply) or step.operation not in (*OPERATIONS, "subtract"):
            continue
        arguments = step.arguments[: 1 if step.operation == "subtract" else None]
        operands = (bound.get(a.name) for a in arguments if isinstance(a, fun.Var))
        if any(
            own is not None and isinstance(own.expr, fun.Index)
            and called(own.expr.array) == called(param)
            and (isinstance(expr.value.type, fun.Array) or own.expr.indices == expr.dims)
            for own in operands
        ):  # fmt: skip
            access = Access(param.name, expr.dims, (), let.place, True)
            return SHOWN.get(step.operation, "-="), access
    return None
