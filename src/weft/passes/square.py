"""square: inner loops whose bounds depend on the outer index, over all that they ever reach.

    for i from 0 to n { for j from 0 to i + 1 { v } }
 => for i from 0 to n { for j from 0 to n { if j < i + 1 { v } else { what there is } } }

Removes: dependence of the bounds of loops that are directly in another's body on its index.
Adds: a condition around their bodies.
Requires: bounds linear in the outer index.
Ensures: the same values. A triangle of rounds is then a square, as kernels need it.
"""

from __future__ import annotations

from dataclasses import replace

from weft.fun import nodes as fun
from weft.fun.builder import Names
from weft.fun.contractions import contraction
from weft.ops.dtypes import DType
from weft.passes.flatten import joined
from weft.sizes import Poly, Size

_BOOL, _I64 = fun.Scalar(DType.BOOL), fun.Scalar(DType.I64)


def square(loop: fun.Loop, names: Names) -> fun.Loop | None:
    """The loop with its inner loops squared; None where none is to be."""
    assert isinstance(loop.form, fun.For)
    changed = False
    statements = []
    for let in loop.body.statements:
        made = _squared(let, loop.form, names)
        changed = changed or made is not None
        statements.append(made or let)
    if not changed:
        return None
    return replace(loop, body=fun.Body(tuple(statements), loop.body.results))


def contracts(let: fun.Let) -> bool:
    """Whether a statement's kernel is a contraction, of which half of a square is computed."""
    return isinstance(let.expr, fun.Kernel) and contraction(joined(let.expr)) is not None


def _squared(let: fun.Let, outer: fun.For, names: Names) -> fun.Let | None:
    inner = let.expr
    if not isinstance(inner, fun.Loop) or not isinstance(inner.form, fun.For):
        return None
    form, index = inner.form, outer.index.name
    lower = _extreme(form.lower, outer, least=True)
    upper = _extreme(form.upper, outer, least=False)
    if lower is None or upper is None:
        return None
    tests: list[fun.Let] = []
    own: list[fun.Var] = []
    if index in form.lower.variables():
        own.append(_compared("less_equal", form.lower, Poly.var(form.index.name), tests, names))
    if index in form.upper.variables():
        own.append(_compared("less", Poly.var(form.index.name), form.upper, tests, names))
    if not own:
        return None
    condition = own[0]
    if len(own) == 2:
        condition = fun.Var(names.fresh("c"), _BOOL)
        tests.append(fun.Let((condition,), fun.Apply("logical_and", (own[0], own[1]))))
    chosen = tuple(fun.Var(names.fresh("q"), param.type) for param in inner.params)
    branch = fun.If(condition, inner.body, fun.Body((), inner.params))
    body = fun.Body((*tests, fun.Let(chosen, branch, let.place)), chosen)
    made = fun.Loop(inner.params, inner.initial, fun.For(form.index, lower, upper), body)
    return replace(let, expr=made)


def _extreme(bound: Size, outer: fun.For, least: bool) -> Size | None:
    """The least or the greatest value of a bound over the outer loop's rounds."""
    index = outer.index.name
    if index not in bound.variables():
        return bound
    factor = bound.coefficient(index)
    if bound.degree(index) != 1 or not factor.is_constant:
        return None
    at_first = (factor.constant > 0) == least
    return bound.substitute({index: outer.lower if at_first else outer.upper - 1})


def _compared(
    operation: str, left: Size, right: Size, statements: list[fun.Let], names: Names
) -> fun.Var:
    values = []
    for size in (left, right):
        values.append(fun.Var(names.fresh("s"), _I64))
        statements.append(fun.Let((values[-1],), fun.SizeValue(size)))
    test = fun.Var(names.fresh("c"), _BOOL)
    statements.append(fun.Let((test,), fun.Apply(operation, tuple(values))))
    return test
