"""What the rounds of a loop accumulate: scalars, and elements of arrays."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from weft.errors import Place
from weft.fun import nodes as fun
from weft.fun import walk
from weft.fun.builder import Names
from weft.ops.dtypes import DType
from weft.passes.versions import bound_in
from weft.records import dataclass

OPERATIONS = (
    "add", "multiply", "minimum", "maximum", "fmin", "fmax", "logical_and", "logical_or",
    "bitwise_and", "bitwise_or", "bitwise_xor",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Accumulation:
    """new = operation(old, element) in each round.

    Attributes
    ----------
    operation : str
    dtype : DType
    elements : tuple of (Atom, bool)
        What each step takes, in order, and whether it is subtracted.
    links : frozenset of str
        The steps' names.
    """

    operation: str
    dtype: DType
    elements: tuple[tuple[fun.Atom, bool], ...]
    links: frozenset[str]

    def replaced(self, atom: Callable[[fun.Atom], fun.Atom]) -> Accumulation:
        """The same of what stands for its elements."""
        return replace(self, elements=tuple((atom(one), minus) for one, minus in self.elements))

    def element(self, statements: list[fun.Let], names: Names) -> fun.Atom:
        """What a round adds in all; statements that compute it are appended."""
        total: fun.Atom | None = None
        for atom, subtracted in self.elements:
            element = atom
            if subtracted:
                element = fun.Var(names.fresh("m"), fun.Scalar(self.dtype))
                statements.append(fun.Let((element,), fun.Apply("negative", (atom,))))
            if total is not None:
                joined = fun.Var(names.fresh("j"), fun.Scalar(self.dtype))
                both = fun.Apply(self.operation, (total, element))
                statements.append(fun.Let((joined,), both))
                element = joined
            total = element
        assert total is not None
        return total


def of_scalar(
    param: fun.Var, result: fun.Atom, body: fun.Body, unordered: bool
) -> Accumulation | None:
    """How a loop's body accumulates a scalar; None where it does something else with it.

    `unordered`: rounds have no order, so that floats that do not compare need not be told apart.
    """
    if not isinstance(param.type, fun.Scalar):
        return None
    bound = bound_in(body)
    elements: list[tuple[fun.Atom, bool]] = []  # and whether it is subtracted
    operation, links, last = "", set[str](), result
    while isinstance(last, fun.Var) and last.name != param.name:
        let = bound.get(last.name)
        step = None if let is None else _step(let.expr, bound, param, unordered)
        if step is None or (operation and step[0] != operation):
            return None
        operation, previous, element, negated, test = step
        elements.append((element, negated))
        links |= {last.name, *test}
        last = previous
    if not (operation and isinstance(last, fun.Var) and isinstance(result, fun.Var)):
        return None
    taken = {element.name for element, _ in elements if isinstance(element, fun.Var)}
    given = [atom.name for atom in body.results if isinstance(atom, fun.Var)]
    given.remove(result.name)
    if {*taken, *given, *_uses(body, links)} & {param.name, *links}:
        return None  # s + s, or a step that is used, or given, for something else too
    return Accumulation(operation, param.type.dtype, tuple(elements[::-1]), frozenset(links))


def _step(
    expr: fun.Expr, bound: Mapping[str, fun.Let], param: fun.Var, unordered: bool
) -> tuple[str, fun.Atom, fun.Atom, bool, tuple[str, ...]] | None:
    """(operation, what is accumulated so far, the element, whether it is subtracted, a test)."""
    if not isinstance(expr, fun.Apply):
        return None
    if expr.operation == "subtract":
        return "add", expr.arguments[0], expr.arguments[1], True, ()
    operation: str = expr.operation
    test: tuple[str, ...] = ()
    if operation == "where":
        extreme = _extreme_of(expr, bound, param, unordered)
        if extreme is None:
            return None
        operation, name = extreme
        test = (name,)
    if operation not in OPERATIONS:
        return None
    left, right = expr.arguments[-2:]
    for one, other in ((left, right), (right, left)):
        if _leads_to(one, bound, param):
            return operation, one, other, False, test
    return None


def _extreme_of(
    expr: fun.Apply, bound: Mapping[str, fun.Let], param: fun.Var, unordered: bool
) -> tuple[str, str] | None:
    """Python's `min(a, b)` or `max(a, b)`, where(b < a, b, a), and the name of its test.

    It is an associative operation but for floats that do not compare: these replace nothing,
    as in `fmin`, where rounds have no order.
    """
    test, chosen, other = expr.arguments
    let = bound.get(test.name) if isinstance(test, fun.Var) else None
    assert isinstance(param.type, fun.Scalar)
    if let is None or not (unordered or param.type.dtype.is_integer):
        return None
    operations = ("fmin", "fmax") if param.type.dtype.kind == "f" else ("minimum", "maximum")
    for operation, comparison in zip(operations, ("less", "greater"), strict=True):
        if let.expr == fun.Apply(comparison, (chosen, other)):
            return operation, let.pattern[0].name
    return None


def joined(
    operation: str, start: fun.Atom, total: fun.Atom, var: fun.Var, place: Place | None,
    names: Names,
) -> list[fun.Let]:  # fmt: skip
    """What was there before some rounds and what they accumulate, as `var`.

    A number that compares with nothing, which was there before, stays.
    """
    if operation not in ("fmin", "fmax"):
        return [fun.Let((var,), fun.Apply(operation, (start, total)), place)]
    test = fun.Var(names.fresh("c"), fun.Scalar(DType.BOOL))
    comparison = "less" if operation == "fmin" else "greater"
    return [
        fun.Let((test,), fun.Apply(comparison, (total, start)), place),
        fun.Let((var,), fun.Apply("where", (test, total, start)), place),
    ]


def _leads_to(atom: fun.Atom, bound: Mapping[str, fun.Let], param: fun.Var) -> bool:
    """Whether a value is made of the parameter by operations alone."""
    while isinstance(atom, fun.Var):
        if atom.name == param.name:
            return True
        let = bound.get(atom.name)
        if let is None or not isinstance(let.expr, fun.Apply):
            return False
        nearer = [a for a in let.expr.arguments[-2:] if _leads_to(a, bound, param)]
        if len(nearer) != 1:
            return False
        atom = nearer[0]
    return False


def _uses(body: fun.Body, links: set[str]) -> set[str]:
    """Names that statements use which are no links of the accumulation."""
    used: set[str] = set()
    for let in body.statements:
        if let.pattern[0].name not in links:
            used |= walk.used_names(let.expr)
    return used


def without(body: fun.Body, links: Collection[str]) -> list[fun.Let]:
    """A body's statements that are no steps of accumulations."""
    return [let for let in body.statements if let.pattern[0].name not in links]


def reduction(
    space: tuple[fun.Range, ...], body: fun.Body, sums: Sequence[Accumulation], names: Names
) -> fun.Reduce:
    """All of some accumulations, over all of a space."""
    lefts, rights, lets = [], [], []
    for found in sums:
        type_ = fun.Scalar(found.dtype)
        left, right, both = (fun.Var(names.fresh(base), type_) for base in "abt")
        lets.append(fun.Let((both,), fun.Apply(found.operation, (left, right))))
        lefts.append(left)
        rights.append(right)
    results = tuple(let.pattern[0] for let in lets)
    operator = fun.Lambda((*lefts, *rights), fun.Body(tuple(lets), results))
    neutrals = tuple(neutral(found.operation, found.dtype) for found in sums)
    return fun.Reduce(space, len(space), body, operator, neutrals)


def neutral(operation: str, dtype: DType) -> fun.Const:
    """What an operation leaves as it is."""
    value: Any = 0
    match operation:
        case "add":
            value = -0.0 if dtype.kind == "f" else complex(-0.0, -0.0) if dtype.kind == "c" else 0
        case "multiply":
            value = 1
        case "logical_and":
            value = True
        case "bitwise_and":
            value = True if dtype is DType.BOOL else int(np.array(-1).astype(dtype.numpy))
        case "maximum" | "minimum" | "fmax" | "fmin":
            value = _extreme(dtype, operation in ("maximum", "fmax"))
    if dtype.kind == "b":
        value = bool(value)
    elif dtype.kind == "f":
        value = float(value)
    elif dtype.kind == "c":
        value = complex(value)
    return fun.Const(value, dtype)


def _extreme(dtype: DType, least: bool) -> Any:
    if dtype.kind == "b":
        return not least
    if dtype.is_integer:
        info = np.iinfo(dtype.numpy)
        return int(info.min if least else info.max)
    return -np.inf if least else np.inf


def branch_sums(let: fun.Let, names: Names) -> list[fun.Let]:
    """What a branch accumulates, accumulated after it.

    let t = if c { let u = add(s, x) in u } else { in s }
     => let e = if c { in x } else { in -0.0 }
        let t = add(s, e)
    """
    assert isinstance(let.expr, fun.If)
    sides = [let.expr.then, let.expr.otherwise]
    pattern, after = list(let.pattern), []
    results = [list(side.results) for side in sides]
    for number, var in enumerate(let.pattern):
        for side, other in ((0, 1), (1, 0)):
            same = sides[other].results[number]
            found = None
            if isinstance(same, fun.Var) and same.name not in bound_in(sides[other]):
                found = of_scalar(same, sides[side].results[number], sides[side], False)
            if found is None or not isinstance(same, fun.Var):
                continue
            statements = without(sides[side], found.links)
            results[side][number] = found.element(statements, names)
            results[other][number] = neutral(found.operation, found.dtype)
            sides[side] = fun.Body(tuple(statements), tuple(results[side]))
            pattern[number] = fun.Var(names.fresh("e"), var.type)
            after += joined(found.operation, same, pattern[number], var, let.place, names)
            break
    if not after:
        return [let]
    bodies = [
        fun.Body(side.statements, tuple(own)) for side, own in zip(sides, results, strict=True)
    ]
    chosen = fun.If(let.expr.condition, bodies[0], bodies[1])
    return [fun.Let(tuple(pattern), chosen, let.place), *after]


def apart_sums(let: fun.Let, names: Names) -> list[fun.Let]:
    """A loop that stays accumulates from nothing, so that what is around it can be parallel.

    let t = loop (s1 = s) ..  =>  let r = loop (s1 = -0.0) ..; let t = add(s, r)
    """
    assert isinstance(let.expr, fun.Loop)
    loop, pattern, after = let.expr, list(let.pattern), []
    initial = list(loop.initial)
    for number, (param, result) in enumerate(zip(loop.params, loop.body.results, strict=True)):
        if isinstance(loop.form, fun.While) and param.name in walk.free_names(loop.form.condition):
            continue
        start = loop.initial[number]
        found = None
        if isinstance(start, fun.Var):
            found = of_scalar(param, result, loop.body, unordered=True)
        if found is None:
            continue
        initial[number] = neutral(found.operation, found.dtype)
        pattern[number] = fun.Var(names.fresh("r"), param.type)
        var = let.pattern[number]
        after += joined(found.operation, start, pattern[number], var, let.place, names)
    if not after:
        return [let]
    made = replace(loop, initial=tuple(initial))
    return [fun.Let(tuple(pattern), made, let.place), *after]
