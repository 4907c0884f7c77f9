"""What can be known of the operators of reductions: whether they commute, and a special case.

An operator of comparisons and selections alone is decided by cases: its result depends on
nothing but how the two sides of each component are ordered, so trying every order (with
NaN, where there is one) is a proof.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np

from weft.fun import nodes as fun
from weft.fun import walk
from weft.ops import table
from weft.ops.dtypes import DType
from weft.sizes import ONE

_COMMUTATIVE = frozenset(
    [
        "add",
        "multiply",
        "maximum",
        "minimum",
        "fmax",
        "fmin",
        "logical_and",
        "logical_or",
        "logical_xor",
        "bitwise_and",
        "bitwise_or",
        "bitwise_xor",
    ]
)
_COMPARISONS = frozenset(["less", "less_equal", "greater", "greater_equal", "equal", "not_equal"])
_LOGICAL = frozenset(["logical_and", "logical_or", "logical_xor", "logical_not"])


def is_componentwise(operator: fun.Lambda) -> bool:
    """Whether the operator applies one commutative operation to each component."""
    count = len(operator.params) // 2
    statements, results = operator.body.statements, operator.body.results
    if not len(statements) == len(results) == count:
        return False
    for k, (let, result) in enumerate(zip(statements, results, strict=True)):
        expr = let.expr
        if not isinstance(expr, fun.Apply) or expr.operation not in _COMMUTATIVE:
            return False
        pair = (operator.params[k], operator.params[k + count])
        if let.pattern[0] != result or expr.arguments not in (pair, pair[::-1]):
            return False
    return True


def is_commutative(operator: fun.Lambda) -> bool:
    """Whether it is proved that the operator's sides may be exchanged."""
    return is_componentwise(operator) or _commutes_by_cases(operator)


def _commutes_by_cases(operator: fun.Lambda) -> bool:
    components = _components(operator)
    if components is None:
        return False
    count = len(operator.params) // 2
    cases = list(product(*(_orders(param.type.dtype) for param in operator.params[:count])))
    columns = [
        [np.array([case[k][side] for case in cases], operator.params[k].type.dtype.numpy)
         for k in range(count)]
        for side in (0, 1)
    ]  # fmt: skip
    straight = _evaluate(operator, [*columns[0], *columns[1]])
    exchanged = _evaluate(operator, [*columns[1], *columns[0]])
    return all(
        np.array_equal(a, b, equal_nan=a.dtype.kind == "f")
        for a, b in zip(straight, exchanged, strict=True)
    )


def _components(operator: fun.Lambda) -> dict[str, int] | None:
    """Of an operator of comparisons and selections, the component of each value; else None."""
    count = len(operator.params) // 2
    of = {param.name: k % count for k, param in enumerate(operator.params)}
    truths: set[str] = set()  # what comparisons gave
    for let in operator.body.statements:
        if not isinstance(let.expr, fun.Apply):
            return None
        names = [a.name for a in let.expr.arguments if isinstance(a, fun.Var)]
        (var,) = let.pattern
        operation = let.expr.operation
        if len(names) != len(let.expr.arguments):
            return None
        if operation in _COMPARISONS or operation == "isnan":
            if not all(name in of for name in names) or len({of[name] for name in names}) != 1:
                return None
            truths.add(var.name)
        elif operation in _LOGICAL:
            if not all(name in truths for name in names):
                return None
            truths.add(var.name)
        elif operation == "where":
            condition, *chosen = names
            if condition not in truths or not all(name in of for name in chosen):
                return None
            if of[chosen[0]] != of[chosen[1]]:
                return None
            of[var.name] = of[chosen[0]]
        else:
            return None
    results = operator.body.results
    if not all(isinstance(r, fun.Var) and of.get(r.name) == k for k, r in enumerate(results)):
        return None
    return of


def _orders(dtype: DType) -> list[tuple[Any, Any]]:
    """Every way in which two values of a dtype can be ordered."""
    if dtype is DType.BOOL or dtype.is_complex:
        return [(0, 0), (0, 1), (1, 0), (1, 1)]
    orders: list[tuple[Any, Any]] = [(1, 2), (2, 1), (1, 1)]
    if dtype.is_float:
        orders += [(1, np.nan), (np.nan, 1), (np.nan, np.nan)]
    return orders


def _evaluate(operator: fun.Lambda, arguments: list[Any]) -> list[Any]:
    values = {p.name: a for p, a in zip(operator.params, arguments, strict=True)}
    for let in operator.body.statements:
        assert isinstance(let.expr, fun.Apply)
        inputs = [values[a.name] for a in let.expr.arguments if isinstance(a, fun.Var)]
        values[let.pattern[0].name] = table.lookup(let.expr.operation).numpy(*inputs)
    return [values[r.name] for r in operator.body.results if isinstance(r, fun.Var)]


# ---------------------------------------------------------------- positions


@dataclass(frozen=True, slots=True)
class Positional:
    """A reduction that selects elements, one component of which is their position.

    Within a lane elements come in increasing order, so comparisons of that component are
    decided: `later` is the operator where the left side stands first, on positions that
    are int32 (of blocks in a grain).
    """

    component: int
    later: fun.Lambda


def positional(reduce: fun.Reduce) -> Positional | None:
    """arg-max and its like, where the body's component is the reduced index itself (plus an
    offset) and the operator is commutative by cases."""
    operator = reduce.operator
    components = _components(operator)
    if components is None or is_componentwise(operator):
        return None
    index = reduce.space[-1].index.name
    sizes = {
        let.pattern[0].name: let.expr.size
        for let in reduce.body.statements
        if isinstance(let.expr, fun.SizeValue)
    }
    for k, result in enumerate(reduce.body.results):
        if not isinstance(result, fun.Var) or result.type.dtype is not DType.I64:
            continue
        size = sizes.get(result.name)
        if result.name == index or (
            size is not None and size.degree(index) == 1 and size.coefficient(index) == ONE
        ):
            return Positional(k, _later(operator, components, k))
    return None


_DECIDED = {  # of a position on the left that is smaller than the one on the right
    "less": True, "less_equal": True, "greater": False, "greater_equal": False, "equal": False,
    "not_equal": True,
}  # fmt: skip


def _later(operator: fun.Lambda, components: dict[str, int], component: int) -> fun.Lambda:
    """less(right position, left position) => False, and so on, folded through logic."""
    count = len(operator.params) // 2
    left, right = operator.params[component], operator.params[component + count]
    known: dict[str, fun.Atom] = {}
    statements: list[fun.Let] = []

    def retyped(var: fun.Var) -> fun.Var:
        if components.get(var.name) == component:
            return fun.Var(var.name, fun.Scalar(DType.I32))
        return var

    for let in operator.body.statements:
        assert isinstance(let.expr, fun.Apply)
        arguments = tuple(
            known.get(a.name, retyped(a)) if isinstance(a, fun.Var) else a
            for a in let.expr.arguments
        )
        (var,) = let.pattern
        names = [a.name for a in let.expr.arguments if isinstance(a, fun.Var)]
        pair = names in ([left.name, right.name], [right.name, left.name])
        if pair and let.expr.operation in _DECIDED:
            truth = _DECIDED[let.expr.operation]
            if names[0] == right.name and let.expr.operation not in ("equal", "not_equal"):
                truth = not truth
            known[var.name] = fun.Const(truth, DType.BOOL)
            continue
        folded = _fold(let.expr.operation, arguments)
        if folded is not None:
            known[var.name] = folded
        else:
            expr = fun.Apply(let.expr.operation, arguments)
            statements.append(fun.Let((retyped(var),), expr, let.place))
    results = tuple(
        known.get(r.name, retyped(r)) if isinstance(r, fun.Var) else r
        for r in operator.body.results
    )
    return _only_used(tuple(map(retyped, operator.params)), statements, results)


def _fold(operation: str, arguments: tuple[fun.Atom, ...]) -> fun.Atom | None:
    """The atom that a logical operation or selection of constants is."""
    truths = [a.value if isinstance(a, fun.Const) else None for a in arguments]
    match operation:
        case "logical_not" if truths[0] is not None:
            return fun.Const(not truths[0], DType.BOOL)
        case "logical_and" | "logical_or":
            dominant = operation == "logical_or"
            for truth, other in ((truths[0], arguments[1]), (truths[1], arguments[0])):
                if truth is not None:
                    return fun.Const(dominant, DType.BOOL) if bool(truth) == dominant else other
        case "where" if truths[0] is not None:
            return arguments[1] if truths[0] else arguments[2]
    return None


def _only_used(
    params: tuple[fun.Var, ...], statements: list[fun.Let], results: tuple[fun.Atom, ...]
) -> fun.Lambda:
    used = {r.name for r in results if isinstance(r, fun.Var)}
    kept: list[fun.Let] = []
    for let in reversed(statements):
        if let.pattern[0].name in used:
            kept.append(let)
            used |= walk.used_names(let.expr)
    return fun.Lambda(params, fun.Body(tuple(reversed(kept)), results))
