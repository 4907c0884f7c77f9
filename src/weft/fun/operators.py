"""What can be known of the operators of reductions: whether they commute, and selections.

An operator of comparisons and selections alone is decided by cases: its result depends on
nothing but how the two sides of each component are ordered, so trying every order (with
NaN, where there is one) is a proof.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np

from weft.fun import nodes as fun
from weft.fun import walk
from weft.fun.choosing import chosen_by
from weft.ops import table
from weft.ops.dtypes import DType
from weft.records import dataclass
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


def _commutes_by_cases(operator: fun.Lambda, distinct: int | None = None) -> bool:
    """Whether it does in every case, but where the sides' component `distinct` is the same."""
    components = _components(operator)
    if components is None:
        return False
    count = len(operator.params) // 2
    orders = [_orders(param.type.dtype) for param in operator.params[:count]]
    if distinct is not None:
        orders[distinct] = [order for order in orders[distinct] if order[0] != order[1]]
    cases = list(product(*orders))
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


# ---------------------------------------------------------------- selections


@dataclass(frozen=True, slots=True)
class Selection:
    """A reduction that selects one element by some of its components, of ties the first.

    Attributes
    ----------
    position : int
        The component that is the reduced index itself, plus an offset.
    keys : tuple of int
        The components that are compared.
    better : fun.Lambda
        Of the keys of two elements, the left one standing first: whether the right one is
        selected. It is not where they tie.
    best : fun.Lambda
        Of the keys of two elements, those of the one selected, or ones that tie with them.
    is_extreme : bool
        There is one key, and `best` is `minimum` or `maximum`, which keep NaN.
    """

    position: int
    keys: tuple[int, ...]
    better: fun.Lambda
    best: fun.Lambda
    is_extreme: bool


def selection(reduce: fun.Reduce) -> Selection | None:
    """arg-max and its like: an operator that is proved to select one side whole, by keys alone
    but for ties, where it selects the first position.

    It must be associative, as every operator of a reduction: the keys are then in a weak
    order, and which element is selected does not depend on how elements are grouped.
    """
    operator = reduce.operator
    components = _components(operator)
    position = _position(reduce)
    if components is None or position is None or not _commutes_by_cases(operator, position):
        return None
    better = _better(operator, position)
    if better is None:
        return None
    count = len(operator.params) // 2
    used = {name for let in better.body.statements for name in walk.used_names(let.expr)}
    keys = tuple(
        k for k in range(count)
        if operator.params[k].name in used or operator.params[k + count].name in used
    )  # fmt: skip
    if position in keys or not keys or any(reduce.neutral[k].type.dtype.is_complex for k in keys):
        return None
    params = tuple(operator.params[k + side] for side in (0, count) for k in keys)
    better = fun.Lambda(params, better.body)
    if _ties_both_ways(better):
        return None
    best = _extreme(better)
    return Selection(position, keys, better, best or _choice(better), best is not None)


def _position(reduce: fun.Reduce) -> int | None:
    """The component that is the reduced index itself, plus an offset."""
    index = reduce.space[-1].index.name
    sizes = {
        let.pattern[0].name: let.expr.size
        for let in reduce.body.statements
        if isinstance(let.expr, fun.SizeValue)
    }
    inside = {var.name for let in reduce.body.statements for var in let.pattern}
    for k, result in enumerate(reduce.body.results):
        if not isinstance(result, fun.Var) or result.type.dtype is not DType.I64:
            continue
        size = sizes.get(result.name)
        if result.name == index or (
            size is not None
            and size.degree(index) == 1
            and size.coefficient(index) == ONE
            and not size.variables() & inside  # what data decide need not increase
        ):
            return k
    return None


_DECIDED = {  # of a position on the left that is smaller than the one on the right
    "less": True, "less_equal": True, "greater": False, "greater_equal": False, "equal": False,
    "not_equal": True,
}  # fmt: skip


def _better(operator: fun.Lambda, position: int) -> fun.Lambda | None:
    """Whether the right side is selected where the left one stands first; None where the
    components are not all chosen by one condition.
    """
    chosen = chosen_by(operator)
    if chosen is None:
        return None
    condition, right_if_true = chosen
    statements, known = _decided(operator, position)
    result = known.get(condition.name, condition)
    if not right_if_true:
        names_ = fun.Var(condition.name + ".not", fun.Scalar(DType.BOOL))
        statements.append(fun.Let((names_,), fun.Apply("logical_not", (result,)), None))
        result = names_
    return _only_used(operator.params, statements, (result,))


def _decided(
    operator: fun.Lambda, position: int
) -> tuple[list[fun.Let], dict[str, fun.Atom]]:
    """The operator's statements where the left position is the smaller one, and what is known then.

    less(right position, left position) => False, and so on, folded through logic.
    """
    count = len(operator.params) // 2
    left, right = operator.params[position], operator.params[position + count]
    known: dict[str, fun.Atom] = {}
    statements: list[fun.Let] = []
    for let in operator.body.statements:
        assert isinstance(let.expr, fun.Apply)
        (var,) = let.pattern
        names = [a.name for a in let.expr.arguments if isinstance(a, fun.Var)]
        operation = let.expr.operation
        if names in ([left.name, right.name], [right.name, left.name]) and operation in _DECIDED:
            truth = _DECIDED[operation]
            if names[0] == right.name and operation not in ("equal", "not_equal"):
                truth = not truth
            known[var.name] = fun.Const(truth, DType.BOOL)
            continue
        arguments = tuple(
            known.get(a.name, a) if isinstance(a, fun.Var) else a for a in let.expr.arguments
        )
        folded = _fold(operation, arguments)
        if folded is not None:
            known[var.name] = folded
        else:
            statements.append(fun.Let((var,), fun.Apply(operation, arguments), let.place))
    return statements, known


def in_order(reduce: fun.Reduce) -> fun.Lambda:
    """The operator of one dimension's elements that are combined from the first to the last.

    What it asks of positions is known then, where each result keeps one of the two.
    """
    operator = reduce.operator
    position = _position(reduce) if len(reduce.space) == 1 else None
    made = {let.pattern[0].name: let.expr for let in operator.body.statements}
    if position is None or not all(isinstance(expr, fun.Apply) for expr in made.values()):
        return operator
    count = len(operator.params) // 2
    sides = {operator.params[position].name, operator.params[position + count].name}
    result = operator.body.results[position]
    match made.get(result.name) if isinstance(result, fun.Var) else None:
        case fun.Apply("where", (_, fun.Var(one), fun.Var(other))) if {one, other} == sides:
            statements, known = _decided(operator, position)
        case _:
            return operator
    results = tuple(
        known.get(atom.name, atom) if isinstance(atom, fun.Var) else atom
        for atom in operator.body.results
    )
    return _only_used(operator.params, statements, results)


def apart(reduce: fun.Reduce) -> dict[tuple[int, ...], fun.Reduce]:
    """Components that know nothing of each other, each group of them as a reduction of its own."""
    operator = reduce.operator
    count = len(operator.params) // 2
    of = {param.name: {k % count} for k, param in enumerate(operator.params)}
    for let in operator.body.statements:
        if not isinstance(let.expr, fun.Apply):
            return {tuple(range(count)): reduce}
        names = walk.used_names(let.expr)
        of[let.pattern[0].name] = set().union(*(of.get(name, set()) for name in names))
    groups: list[set[int]] = []
    for k, result in enumerate(operator.body.results):
        own = {k} | (of.get(result.name, set()) if isinstance(result, fun.Var) else set())
        for group in [group for group in groups if group & own]:
            groups.remove(group)
            own |= group
        groups.append(own)
    return {tuple(sorted(group)): _of_components(reduce, sorted(group)) for group in groups}


def _of_components(reduce: fun.Reduce, components: list[int]) -> fun.Reduce:
    operator = reduce.operator
    count = len(operator.params) // 2
    if len(components) == count:
        return reduce
    params = tuple(operator.params[k + side] for side in (0, count) for k in components)
    results = tuple(operator.body.results[k] for k in components)
    return replace(
        reduce,
        body=fun.Body(reduce.body.statements, tuple(reduce.body.results[k] for k in components)),
        operator=_only_used(params, list(operator.body.statements), results),
        neutral=tuple(reduce.neutral[k] for k in components),
    )


def _ties_both_ways(better: fun.Lambda) -> bool:
    """Whether for some keys the right side is selected, and also where they are exchanged."""
    count = len(better.params) // 2
    for case in product(*(_orders(param.type.dtype) for param in better.params[:count])):
        left, right = (
            [param.type.dtype.numpy.type(pair[side])
             for param, pair in zip(better.params[:count], case, strict=True)]
            for side in (0, 1)
        )  # fmt: skip
        if _evaluate(better, [*left, *right])[0] and _evaluate(better, [*right, *left])[0]:
            return True
    return False


def _choice(better: fun.Lambda) -> fun.Lambda:
    """`where(better, right, left)` of each key."""
    count = len(better.params) // 2
    (condition,) = better.body.results
    choices = tuple(
        fun.Let((fun.Var(f"{a.name}.best", a.type),), fun.Apply("where", (condition, b, a)), None)
        for a, b in zip(better.params[:count], better.params[count:], strict=True)
    )
    results = tuple(let.pattern[0] for let in choices)
    return fun.Lambda(better.params, fun.Body((*better.body.statements, *choices), results))


def _extreme(better: fun.Lambda) -> fun.Lambda | None:
    """`_choice`, where it is the minimum or the maximum.

    where(logical_or(less(r, l), logical_and(isnan(r), not isnan(l))), r, l) => minimum(l, r)
    """
    if len(better.params) != 2:
        return None
    dtype = better.params[0].type.dtype
    pairs = [[dtype.numpy.type(value) for value in order] for order in _orders(dtype)]
    chosen = [pair[bool(_evaluate(better, pair)[0])] for pair in pairs]
    for operation in ("minimum", "maximum"):
        values = [table.lookup(operation).numpy(*pair) for pair in pairs]
        if np.array_equal(chosen, values, equal_nan=dtype.is_float):
            result = fun.Var(f"{better.params[0].name}.best", better.params[0].type)
            let = fun.Let((result,), fun.Apply(operation, better.params), None)
            return fun.Lambda(better.params, fun.Body((let,), (result,)))
    return None


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
