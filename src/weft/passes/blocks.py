"""blocks: a loop over blocks of rounds, and over the rounds of each, as one over all rounds.

    for b from 0 to l {                                  for i from 0 to m {
      for i from b * n to min((b + 1) * n, m) { v }  =>    let b = floor_divide(i, n)
    }                                                      v }

Removes: a loop whose body is scalars and a loop over a block, each right after the block before.
Adds: the number of the block, by a division.
Requires: whether the blocks reach the end `m` is proved, or known by the sizes of a call.
Ensures: the same rounds in the same order.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from weft.fun import nodes as fun
from weft.fun import walk
from weft.fun.builder import Names, polynomial
from weft.ops.dtypes import DType
from weft.passes.knowledge import Knowledge
from weft.passes.versions import bound_in
from weft.sizes import Poly, Size, as_poly

_I64 = fun.Scalar(DType.I64)


def joined_blocks(
    let: fun.Let, sizes: Mapping[str, Size], known: Knowledge, names: Names
) -> fun.Let | None:
    """The loop over all rounds; None where a loop is none over blocks.

    Parameters
    ----------
    sizes : mapping of str to Size
        What integers of the program are.
    """
    loop = let.expr
    assert isinstance(loop, fun.Loop)
    if not isinstance(loop.form, fun.For) or not loop.body.statements:
        return None
    *before, last = loop.body.statements
    inner, form = last.expr, loop.form
    if not isinstance(inner, fun.Loop) or not isinstance(inner.form, fun.For):
        return None
    if inner.initial != loop.params or last.pattern != loop.body.results:
        return None
    params = {param.name for param in loop.params}
    if not all(isinstance(s.expr, walk.SCALARS) for s in before) or any(
        walk.used_names(statement.expr) & params for statement in before
    ):
        return None
    block = form.index.name
    first = inner.form.lower
    if first.degree(block) != 1:
        return None
    width = first.coefficient(block)
    begin, end = (first.substitute({block: at}) for at in (form.lower, form.upper))
    free = {block, *bound_in(loop.body), *params}
    upper = _end(inner.form.upper, first + width, end, _Integers(loop.body, sizes), known)
    if upper is None or (begin.variables() | upper.variables() | width.variables()) & free:
        return None
    if not known.nonnegative(width - 1):
        return None
    rest, divisor = (fun.Var(names.fresh("s"), _I64) for _ in range(2))
    start = Poly.var(inner.form.index.name) - first.substitute({block: as_poly(0)})
    number = [
        fun.Let((rest,), fun.SizeValue(start), let.place),
        fun.Let((divisor,), fun.SizeValue(width), let.place),
        fun.Let((form.index,), fun.Apply("floor_divide", (rest, divisor)), let.place),
    ]
    renamed = dict(zip((p.name for p in inner.params), loop.params, strict=True))
    body = walk.Substitution(renamed).body(inner.body)
    whole = fun.Body((*number, *before, *body.statements), body.results)
    all_rounds = fun.For(inner.form.index, begin, upper)
    return replace(let, expr=fun.Loop(loop.params, loop.initial, all_rounds, whole))


def _end(
    upper: Size, following: Size, end: Size, integers: _Integers, known: Knowledge
) -> Size | None:
    """Where all blocks end, if each ends where the one that follows begins, or at a common end."""
    if upper == following:
        return end
    bounds = integers.bounds(upper)
    if following not in bounds:
        return None
    (limit,) = [bound for bound in bounds if bound != following] or [following]
    if known.nonnegative(end - limit):
        return limit
    return end if known.nonnegative(limit - end) else None


class _Integers:
    """What integers of a body are, as sizes."""

    def __init__(self, body: fun.Body, sizes: Mapping[str, Size]) -> None:
        self.bound, self.sizes = bound_in(body), sizes

    def bounds(self, upper: Size) -> list[Size]:
        """Of what two sizes it is the smaller one."""
        let = self.bound.get(upper.variable or "")
        match let.expr if let is not None else None:
            case fun.Apply("minimum", operands):
                return [self.size(atom) for atom in operands]
        return []

    def size(self, atom: fun.Atom) -> Size:
        if isinstance(atom, fun.Const):
            return as_poly(int(atom.value.real))
        let = self.bound.get(atom.name)
        found = None if let is None else polynomial(let.expr, self.size)
        return self.sizes.get(atom.name, Poly.var(atom.name)) if found is None else found
