"""reduce_ahead: what a round reduces first is reduced where the round before made it.

    loop (v = x) for k from 0 to t {
      let s = reduce (; i < n, j < m) { v[i, j] }
      let y = kernel (i < n, j < m) { f(v, s) at i, j }
      in y
    }
 => let s0 = reduce (; i < n, j < m) { x[i, j] }
    loop (v = x, s = s0) for k from 0 to t {
      let y, p = kernel (i < n) {
        let r = kernel (j < m) { f(v, s) at i, j }
        let q = reduce (; j < m) { r[j] }
        in r, q
      }
      let z = reduce counter (; i < n) { p[i] }
      in y, z
    }

Removes: a pass over an array in each round, since a row is reduced while it is in the cache.
Adds: a reduction before the loop (that after the last round is not used).
Requires: a fused program; rows of more than 64 elements, which `when` sees to (shorter ones are
    combined as one sequence).
Ensures: the same bits, by the tree (docs/design/bits.md).

The reduction is over all of an array that the loop carries, and of nothing else that a round
changes; it is of scalar operations, which are total, so that it may be done once more. What the
round gives for the array is a kernel over the same space.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TypeAlias

from weft.fun import nodes as fun
from weft.fun import walk
from weft.fun.builder import Builder, Names
from weft.fun.contractions import contraction
from weft.passes.nest import by_rows
from weft.passes.reads import Reads, is_own_index
from weft.records import dataclass
from weft.sizes import Poly, Size, product


@dataclass(frozen=True, slots=True)
class ReduceAhead:
    """A reduction that can be done ahead: the number of rows, and elements of each."""

    rows: Size
    length: Size


When: TypeAlias = Callable[[ReduceAhead], bool]


def reductions_ahead(program: fun.Program) -> list[ReduceAhead]:
    """The reductions that `reduce_ahead` can move, for a launch to decide on."""
    found: list[ReduceAhead] = []

    def note(candidate: ReduceAhead) -> bool:
        found.append(candidate)
        return False

    reduce_ahead(program, note)
    return found


def reduce_ahead(program: fun.Program, when: When = lambda _: True) -> fun.Program:
    """The program with those reductions done ahead that `when` accepts."""
    if not any(isinstance(let.expr, fun.Loop) for let in walk.sequential(program.body)):
        return program
    known = {*program.sizes, *(derived.name for derived in program.derived)}
    body = _Ahead(Names.of(program), known, when).body(program.body)
    return program if body is program.body else replace(program, body=body)


@dataclass(slots=True)
class _Found:
    """A reduction of what a loop carries, and the kernel that makes that for the next round."""

    reduction: int
    kernel: int
    carried: int  # which parameter


class _Ahead:
    def __init__(self, names: Names, known: set[str], when: When) -> None:
        self.names = names
        self.known = known
        self.when = when

    def body(self, body: fun.Body) -> fun.Body:
        """A body outside of kernels, with the loops in it done."""
        statements: list[fun.Let] = []
        for let in body.statements:
            if isinstance(let.expr, fun.If | fun.Loop):
                let = walk.map_let(let, self.body)
            if isinstance(let.expr, fun.Loop):
                statements += self.loop(let, let.expr)
            else:
                statements.append(let)
        return walk.with_statements(body, statements, body.results)

    def loop(self, let: fun.Let, loop: fun.Loop) -> list[fun.Let]:
        """The loop, after the reductions that its first round needs."""
        found = self.found(loop)
        if found is None:
            return [let]
        first, let, loop = self.ahead(let, loop, found)
        return [first, *self.loop(let, loop)]

    # ------------------------------------------------------------ what qualifies

    def found(self, loop: fun.Loop) -> _Found | None:
        """The first reduction that qualifies, if any."""
        statements = loop.body.statements
        makers = {var.name: n for n, let in enumerate(statements) for var in let.pattern}
        for number, let in enumerate(statements):
            carried = self.reduced(loop, let.expr)
            if carried is None:
                continue
            following = loop.body.results[carried]
            assert isinstance(let.expr, fun.Reduce)
            assert isinstance(following, fun.Var)
            maker = makers.get(following.name)
            extents = tuple(r.extent for r in let.expr.space)
            if maker is None or not _makes_rows(statements[maker].expr, extents):
                continue
            if self.when(ReduceAhead(product(extents[:-1]), extents[-1])):
                return _Found(number, maker, carried)
        return None

    def reduced(self, loop: fun.Loop, expr: fun.Expr) -> int | None:
        """Which array of those carried is all that a statement reduces."""
        if not isinstance(expr, fun.Reduce) or expr.counter or _has_bodies(expr.body):
            return None
        extents = tuple(r.extent for r in expr.space)
        if len(extents) < 2 or expr.reduced < len(extents):
            return None
        if not all(extent.variables() <= self.known for extent in extents):
            return None
        reads = Reads.of(expr)
        carried = {param.name: param.type for param in loop.params}
        names = walk.used_names(expr) & _changing(loop)
        if len(names) != 1 or reads.whole or not names <= carried.keys():
            return None
        (name,) = names
        shape = walk.type_sizes(carried[name])
        own = all(
            site.array.name == name
            and is_own_index(site.indices, expr.space)
            and not any(site.boundary)
            for site in reads.sites
        )
        return list(carried).index(name) if own and shape == extents else None

    # ------------------------------------------------------------ one reduction

    def ahead(
        self, let: fun.Let, loop: fun.Loop, found: _Found
    ) -> tuple[fun.Let, fun.Let, fun.Loop]:
        """The reduction before the loop, and the loop, which carries its results."""
        statements = list(loop.body.statements)
        reduction = statements[found.reduction]
        initial, following = loop.initial[found.carried], loop.body.results[found.carried]
        carried = loop.params[found.carried].name
        first = self.copied(reduction, carried, initial)
        next_ = self.copied(reduction, carried, following)
        rows = self.rows(statements[found.kernel], next_)
        statements[found.kernel : found.kernel + 1] = rows
        statements.remove(reduction)
        body = fun.Body(tuple(statements), loop.body.results + next_.pattern)
        ahead = fun.Loop(
            loop.params + reduction.pattern, loop.initial + first.pattern, loop.form, body
        )
        last = tuple(fun.Var(self.names.fresh(v.name), v.type) for v in reduction.pattern)
        return first, fun.Let(let.pattern + last, ahead, let.place), ahead

    def copied(self, let: fun.Let, array: str, by: fun.Atom) -> fun.Let:
        """The reduction, of another array, under new names."""
        return walk.Substitution({array: by}, fresh=self.names.fresh).let(let)

    def rows(self, kernel: fun.Let, reduction: fun.Let) -> list[fun.Let]:
        """Both by rows, and the combination of these."""
        reduce = reduction.expr
        assert isinstance(reduce, fun.Reduce)
        depth = len(reduce.space) - 1
        extents = tuple(r.extent for r in reduce.space[:depth])
        partial = tuple(
            fun.Var(self.names.fresh("partial"), fun.Array(var.type.dtype, extents))
            for var in reduction.pattern
        )
        each = fun.Let(partial, replace(reduce, reduced=1), reduction.place)
        both = by_rows((kernel, each), depth, self.names)
        builder = Builder(self.names)
        space = tuple(fun.Range(builder.index(), extent) for extent in extents)
        own = tuple(Poly.var(r.index.name) for r in space)
        values = [builder.let(fun.Index(p, own), fun.Scalar(p.type.dtype)) for p in partial]
        operator = walk.Substitution(fresh=self.names.fresh).function(reduce.operator)
        total = fun.Reduce(
            space, depth, builder.body(values), operator, reduce.neutral, counter=True
        )
        return [both, fun.Let(reduction.pattern, total, reduction.place)]


def _changing(loop: fun.Loop) -> set[str]:
    """What differs between the rounds of a loop."""
    names = {param.name for param in loop.params}
    if isinstance(loop.form, fun.For):
        names.add(loop.form.index.name)
    return names.union(*({v.name for v in let.pattern} for let in loop.body.statements))


def _makes_rows(expr: fun.Expr, extents: Sequence[Size]) -> bool:
    """Whether a kernel over these extents gives scalars, which rows of it can compute alike."""
    return (
        isinstance(expr, fun.Kernel)
        and tuple(r.extent for r in expr.space) == tuple(extents)
        and all(isinstance(result.type, fun.Scalar) for result in expr.body.results)
        and not _has_bodies(expr.body)
        and contraction(expr) is None
    )


def _has_bodies(body: fun.Body) -> bool:
    """Whether it is more than straight-line code."""
    return any(walk.bodies(let.expr) for let in body.statements)
