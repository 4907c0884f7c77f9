"""Smaller programs that still fail: `shrink(case, fails)`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

from programs.random_data import Case
from weft.fun import nodes as fun
from weft.fun import walk
from weft.fun.check import check
from weft.fun.interpret import interpret


def shrink(case: Case, fails: Callable[[Case], bool]) -> Case:
    """A case without a statement or result that could be left out, and that still fails.

    Statements are removed at any depth; what they bound becomes another array of the same
    type, zeros, or a constant.
    """
    done = False
    while not done:
        done = True
        for body in _smaller(case.program.body, case.program.params, whole=True):
            smaller = replace(case, program=replace(case.program, body=body))
            if _is_sound(smaller) and fails(smaller):
                case, done = smaller, False
                break
    return case


def _is_sound(case: Case) -> bool:
    try:
        check(case.program)
        interpret(case.program, case.arguments, case.sizes)
    except Exception:
        return False
    return True


def _smaller(body: fun.Body, scope: tuple[fun.Var, ...], whole: bool = False) -> Iterator[fun.Body]:
    """Bodies with one thing less."""
    if whole and len(body.results) > 1:
        for number in range(len(body.results)):
            yield replace(body, results=body.results[:number] + body.results[number + 1 :])
    for position, let in enumerate(body.statements):
        before, after = body.statements[:position], body.statements[position + 1 :]
        yield fun.Body((*before, *after), body.results)
        for atoms in _instead(let, scope):
            rest = walk.Substitution(atoms).body(fun.Body(after, body.results))
            yield fun.Body((*before, *rest.statements), rest.results)
        for expr in (*_plainer(let), *_inside(let.expr, scope)):
            yield replace(body, statements=(*before, replace(let, expr=expr), *after))
        scope = (*scope, *let.pattern)


def _instead(let: fun.Let, scope: tuple[fun.Var, ...]) -> Iterator[dict[str, fun.Atom]]:
    """What may stand for the variables that a statement binds."""
    if len(let.pattern) != 1:
        return
    (var,) = let.pattern
    if isinstance(var.type, fun.Scalar):
        zero = {"b": False, "f": 0.0, "c": 0j}.get(var.type.dtype.kind, 0)
        yield {var.name: fun.Const(zero, var.type.dtype)}
    for other in scope:
        if other.type == var.type and isinstance(var.type, fun.Array):
            yield {var.name: other}


def _plainer(let: fun.Let) -> Iterator[fun.Expr]:
    """An array of zeros."""
    if len(let.pattern) == 1 and not isinstance(let.expr, fun.Broadcast):
        (var,) = let.pattern
        if isinstance(var.type, fun.Array) and not var.type.dtype.is_complex:
            number = 0.0 if var.type.dtype.is_float else 0
            yield fun.Broadcast(fun.Const(number, var.type.dtype), var.type.shape)


def _inside(expr: fun.Expr, scope: tuple[fun.Var, ...]) -> Iterator[fun.Expr]:
    """The expression with a body made smaller; operators stay associative."""
    scope = (*scope, *(var for var in walk.operands(expr)[2]))
    for number, body in enumerate(walk.bodies(expr)):
        if isinstance(expr, fun.Reduce | fun.Scan) and body is expr.operator.body:
            continue
        for smaller in _smaller(body, scope):
            bodies = list(walk.bodies(expr))
            bodies[number] = smaller
            rest = iter(bodies)
            yield walk.map_bodies(expr, lambda _, rest=rest: next(rest))  # type: ignore[misc]
