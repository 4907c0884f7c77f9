"""Rounds that keep the least or greatest element so far, and what belongs to it, as a selection.

    let m, p = loop (m1 = m0, p1 = p0) for i from 0 to n {
      let e = a[i]
      let c = greater(e, m1)
      let m2, p2 = if c { in e, i } else { in m1, p1 }
      in m2, p2 }
 => let t, q, _ = reduce (; i < n) { a[i], i, i } with the first of the greatest
    let c = greater(t, m0)
    let m, p = if c { in t, q } else { in m0, p0 }

The first of equal elements is kept, so that zeros have the sign that they have in order; what
compares with nothing is never kept, and stays where it was there before.
"""

from __future__ import annotations

from collections.abc import Sequence

from weft.errors import Place
from weft.fun import nodes as fun
from weft.fun import walk
from weft.fun.builder import Builder, Names
from weft.ops.dtypes import DType
from weft.passes.accumulation import Accumulation, neutral
from weft.passes.versions import bound_in
from weft.records import dataclass

_BOOL = fun.Scalar(DType.BOOL)
_LAST = fun.Const(2**63 - 1, DType.I64)
_TURNED = {
    "less": "greater", "greater": "less", "less_equal": "greater_equal",
    "greater_equal": "less_equal",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Extreme:
    """What a branch of a loop's body keeps.

    Attributes
    ----------
    numbers : tuple of int
        Of the loop's parameters: the extreme itself, and what belongs to it.
    comparison : str
        "greater" or "less".
    branch : fun.Let
    elements : tuple of Atom
        What a round gives each of them.
    after : tuple of fun.Let
        What makes these of the body's scalars.
    """

    numbers: tuple[int, ...]
    comparison: str
    branch: fun.Let
    elements: tuple[fun.Atom, ...]
    after: tuple[fun.Let, ...]

    def of_one_integer(self) -> Accumulation | None:
        """The same as an accumulation, where equal elements are one; None where they are not."""
        (first, *others) = self.elements
        if others or not isinstance(first.type, fun.Scalar) or not first.type.dtype.is_integer:
            return None
        operation = "maximum" if self.comparison == "greater" else "minimum"
        return Accumulation(operation, first.type.dtype, ((first, False),), frozenset())


def extremes(loop: fun.Loop) -> list[Extreme]:
    """Of a loop over scalars, all that its branches keep, if they keep nothing else."""
    if not all(isinstance(param.type, fun.Scalar) for param in loop.params):
        return []
    bound = bound_in(loop.body)
    lets = {
        let.pattern[0].name: let
        for result in loop.body.results
        if isinstance(result, fun.Var) and (let := bound.get(result.name)) is not None
        and isinstance(let.expr, fun.If)
    }  # fmt: skip
    found = [_extreme(loop, let, bound) for let in lets.values()]
    return [one for one in found if one is not None]


def _extreme(loop: fun.Loop, let: fun.Let, bound: dict[str, fun.Let]) -> Extreme | None:
    """What a branch keeps; None where it does something else."""
    branch = let.expr
    assert isinstance(branch, fun.If)
    params = branch.otherwise.results
    numbers = [number for number, result in enumerate(loop.body.results) if result in let.pattern]
    kept = [loop.body.results[number] for number in numbers]
    own = tuple(loop.params[number] for number in numbers)
    if branch.otherwise.statements or tuple(kept) != let.pattern or params != own:
        return None
    test = bound.get(branch.condition.name) if isinstance(branch.condition, fun.Var) else None
    if test is None or not isinstance(test.expr, fun.Apply) or test.expr.operation not in _TURNED:
        return None
    comparison, (element, extreme) = test.expr.operation, test.expr.arguments
    if extreme not in own:
        comparison, element, extreme = _TURNED[comparison], extreme, element
    if extreme not in own or not _compares(extreme.type):
        return None
    if comparison not in ("less", "greater"):  # the last of equal ones: which is, of one integer
        if len(own) > 1 or extreme.type.dtype.kind == "f":
            return None
        comparison = comparison.removesuffix("_equal")
    same, known = _computed(loop.body)
    after = _outside(branch.then, same, known)
    if after is None:
        return None
    results = [same.atom(atom) for atom in branch.then.results]
    first = own.index(extreme)
    order = [first, *(k for k in range(len(own)) if k != first)]
    names = {param.name for param in own}
    others = [other for other in loop.body.statements if other not in (let, test)]
    used = {name for other in (*others, *after) for name in walk.used_names(other.expr)}
    used |= {atom.name for atom in results if isinstance(atom, fun.Var)}
    given = {var.name for var in let.pattern} | {test.pattern[0].name}
    if results[first] != same.atom(element) or used & (names | given):
        return None
    return Extreme(
        tuple(numbers[k] for k in order), comparison, let,
        tuple(results[k] for k in order), tuple(after),
    )  # fmt: skip


def _compares(type_: fun.Type) -> bool:
    return isinstance(type_, fun.Scalar) and type_.dtype.kind in "iuf"


def _computed(body: fun.Body) -> tuple[walk.Substitution, dict[fun.Expr, fun.Var]]:
    """The scalars of a body, of those computed alike the first one."""
    same = walk.Substitution()
    known: dict[fun.Expr, fun.Var] = {}
    for let in body.statements:
        if isinstance(let.expr, walk.SCALARS):
            first = known.setdefault(same.expr(let.expr), let.pattern[0])
            same.bind(let.pattern[0].name, first)
    return same, known


def _outside(
    then: fun.Body, same: walk.Substitution, known: dict[fun.Expr, fun.Var]
) -> list[fun.Let] | None:
    """A branch's statements where nothing branches, but for what is known; None if one may fail."""
    after: list[fun.Let] = []
    for let in then.statements:
        if not isinstance(let.expr, walk.SCALARS):
            return None
        expr = same.expr(let.expr)
        if expr in known:
            same.bind(let.pattern[0].name, known[expr])
        elif isinstance(expr, fun.Index):
            return None
        else:
            after.append(fun.Let(let.pattern, expr, let.place))
    return after


def selection(
    found: Extreme, space: tuple[fun.Range, ...], body: fun.Body, names: Names
) -> fun.Reduce:
    """The reduction that selects, of what rounds give: the elements, and where they are."""
    (first, *_) = body.results
    builder = Builder(names)
    builder.statements += body.statements
    results = list(body.results)
    worst = _worst(found, first)
    if first.type.dtype.kind == "f":
        nothing = builder.let(fun.Apply("not_equal", (first, first)), _BOOL)
        results[0] = builder.let(fun.Apply("where", (nothing, worst, first)), first.type)
    others = [_zero(atom.type.dtype) for atom in results[1:-1]]
    operator = _first_of_the_best(found, [atom.type for atom in results], names)
    return fun.Reduce(space, len(space), builder.body(results), operator, (worst, *others, _LAST))


def _worst(found: Extreme, like: fun.Atom) -> fun.Const:
    return neutral("maximum" if found.comparison == "greater" else "minimum", like.type.dtype)


def _zero(dtype: DType) -> fun.Const:
    return fun.Const(dtype.numpy.type(0).item(), dtype)


def _first_of_the_best(found: Extreme, types: Sequence[fun.Type], names: Names) -> fun.Lambda:
    """Of two elements the better one; the one further ahead if they are equal."""
    sides = [[fun.Var(names.fresh(side), type_) for type_ in types] for side in "ab"]
    (best, *_, place), (other, *_, further) = sides
    builder = Builder(names)
    better = builder.let(fun.Apply(found.comparison, (other, best)), _BOOL)
    equal = builder.let(fun.Apply("equal", (other, best)), _BOOL)
    ahead = builder.let(fun.Apply("less", (further, place)), _BOOL)
    first = builder.let(fun.Apply("logical_and", (equal, ahead)), _BOOL)
    chosen = builder.let(fun.Apply("logical_or", (better, first)), _BOOL)
    results = [
        builder.let(fun.Apply("where", (chosen, right, left)), left.type)
        for left, right in zip(*sides, strict=True)
    ]
    return fun.Lambda((*sides[0], *sides[1]), builder.body(results))


def joined(
    found: Extreme, starts: Sequence[fun.Atom], totals: Sequence[fun.Var],
    patterns: Sequence[fun.Var], place: Place | None, names: Names,
) -> list[fun.Let]:  # fmt: skip
    """What was there before some rounds, or what they select, if that is better."""
    test = fun.Var(names.fresh("c"), _BOOL)
    better = fun.Apply(found.comparison, (totals[0], starts[0]))
    branch = fun.If(test, fun.Body((), tuple(totals)), fun.Body((), tuple(starts)))
    return [fun.Let((test,), better, place), fun.Let(tuple(patterns), branch, place)]
