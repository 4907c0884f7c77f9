"""fold_within: few terms are folded where a reduction of such totals reads them.

    let d = reduce (i < n, j < m; k < 3) { .. } with add
    let s = reduce (i < n; j < m) { let x = d[i, j] .. } with minimum
 => let s = reduce (i < n; j < m) { let x = reduce (; k < 3) { .. } with add .. } with minimum

Such as the least of a point's distances to others. The terms are straight-line code, and all is
where totals are few, of which lanes over `i` are made then; `d` would be written and read, and is
larger than the points.

Removes: reductions with kept dimensions whose results one reduction reads, each element once.
Adds: the reduction of one element in that one.
Requires: a fused program.
Ensures: the same bits, since few elements are folded from left to right. No update stands in
    between, which would have to leave what the reduction reads.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from math import prod

from weft.fun import nodes as fun
from weft.fun import walk
from weft.fun.builder import Names
from weft.fun.vector_math import has_vector_math
from weft.ops.dtypes import DType
from weft.sizes import ONE

_FEW = 16  # elements of a dimension that is reduced, or terms of each of many totals,
_TERMS = 256  # and elements of all dimensions that are, which are written out


def fold_within(program: fun.Program) -> fun.Program:
    """The program with reductions of few terms within those of few of their results."""
    body = _Fold(program).body(program.body)
    return program if body is program.body else replace(program, body=body)


class _Fold:
    def __init__(self, program: fun.Program) -> None:
        self.program = program
        self.names: Names | None = None

    def fresh(self, name: str) -> str:
        if self.names is None:
            self.names = Names.of(self.program)
        return self.names.fresh(name)

    def body(self, body: fun.Body) -> fun.Body:
        """A body, and what it holds."""
        statements = [walk.map_let(let, self.body) for let in body.statements]
        if sum(isinstance(let.expr, fun.Reduce) for let in statements) > 1:
            uses = Counter(walk.uses(fun.Body(tuple(statements), body.results)))
            for number in reversed(range(len(statements))):
                user = _user(statements, number, uses)
                if user is not None:
                    statements[user] = self.folded(statements[number], statements[user])
                    del statements[number]
        return walk.with_statements(body, statements)

    def folded(self, made: fun.Let, user: fun.Let) -> fun.Let:
        """The reduction `user`, with those that `made` its elements in place of their reads."""
        inner, outer = made.expr, user.expr
        assert isinstance(inner, fun.Reduce)
        assert isinstance(outer, fun.Reduce)
        kept = len(inner.space) - inner.reduced
        reads = _reads(outer, {var.name for var in made.pattern})
        index = {r.index.name: r.index for r in outer.space}
        here = walk.Substitution({
            r.index.name: index.get(at.variable or "", fun.Const(0, DType.I64))
            for r, at in zip(inner.space[:kept], next(iter(reads.values())).indices, strict=True)
        })  # fmt: skip
        read = {site.array.name: outer.body.statements[at].pattern[0] for at, site in reads.items()}
        pattern = tuple(
            read.get(var.name) or fun.Var(self.fresh(var.name), fun.Scalar(var.type.dtype))
            for var in made.pattern
        )
        total = fun.Let(pattern, here.expr(replace(inner, space=inner.space[kept:])), made.place)
        statements: list[fun.Let] = []
        for position, let in enumerate(outer.body.statements):
            if position == min(reads):
                statements.append(total)
            if position not in reads:
                statements.append(let)
        body = fun.Body(tuple(statements), outer.body.results)
        return replace(user, expr=replace(outer, body=body))


def _user(statements: Sequence[fun.Let], number: int, uses: Counter[str]) -> int | None:
    """The reduction that takes the results of one of few terms, if nothing else does."""
    let = statements[number]
    inner = let.expr
    if not isinstance(inner, fun.Reduce) or inner.reduced == len(inner.space):
        return None
    terms = _terms(inner)
    names = {var.name for var in let.pattern}
    if terms is None:
        return None
    for position in range(number + 1, len(statements)):
        expr = statements[position].expr
        if isinstance(expr, fun.Update | fun.LmadUpdate | fun.Scatter | fun.Loop | fun.If):
            return None
        if names.isdisjoint(walk.used_names(expr)):
            continue
        if not isinstance(expr, fun.Reduce) or expr.counter:
            return None
        fits = _may_hold(expr, terms) and _reads_once(expr, inner, names, uses)
        return position if fits else None
    return None


def _may_hold(reduce: fun.Reduce, terms: int) -> bool:
    """Whether a reduction may have so many terms in place of each element that it reads."""
    totals = _terms(reduce)
    if totals is not None and reduce.reduced < len(reduce.space):
        return totals * terms <= _TERMS
    return terms <= _FEW and _is_flat(reduce.body) and _is_flat(reduce.operator.body)


def _terms(reduce: fun.Reduce) -> int | None:
    """How many elements a reduction combines, where it is written out for lanes."""
    reduced = [r.extent for r in reduce.space[len(reduce.space) - reduce.reduced :]]
    if not all(extent.is_constant and 0 < extent.constant <= _FEW for extent in reduced):
        return None
    if has_vector_math(reduce.body) or not all(map(_is_flat, (reduce.body, reduce.operator.body))):
        return None
    total = prod(extent.constant for extent in reduced)
    for let in reduce.body.statements:
        if isinstance(let.expr, fun.Reduce):
            inside = _terms(let.expr)
            if inside is None:
                return None
            total *= inside
    return total


def _is_flat(body: fun.Body) -> bool:
    return all(isinstance(let.expr, (*walk.SCALARS, fun.Reduce)) for let in body.statements)


def _reads(reduce: fun.Reduce, names: set[str]) -> dict[int, fun.Index]:
    """The reads of these arrays among the statements of a body, by their places."""
    return {
        position: let.expr
        for position, let in enumerate(reduce.body.statements)
        if isinstance(let.expr, fun.Index) and let.expr.array.name in names
    }


def _reads_once(
    outer: fun.Reduce, inner: fun.Reduce, names: set[str], uses: Counter[str]
) -> bool:
    """Whether it reads each element of these arrays at one index, and nothing else does."""
    reads = list(_reads(outer, names).values())
    if not reads or len(reads) != sum(uses[name] for name in names):
        return False
    (indices, *others) = {read.indices for read in reads}
    if others or any(any(read.boundary) for read in reads):
        return False
    if len({read.array.name for read in reads}) != len(reads):
        return False
    kept = walk.kept(inner)
    extents = {r.index.name: r.extent for r in outer.space if r.extent != ONE}
    for r, index in zip(kept, indices, strict=True):
        if index.is_constant:
            if r.extent != ONE:
                return False
        elif extents.pop(index.variable or "", None) != r.extent:
            return False
    return not extents
