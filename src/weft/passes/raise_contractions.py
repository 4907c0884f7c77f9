"""raise_contractions: sums of products of rows with columns, as the contractions that they are.

    let s = reduce (i < n, j < m; k < l) { a[i, k] * b[k, j] } with add
    let y = kernel (i < n, j < m) { s[i, j] + 1 }
 => let y = kernel (i < n, j < m) {
      let t = reduce (; k < l) { a[i, k] * b[k, j] } with add
      in t + 1 }

Removes: reductions outside of kernels, whose body is a contraction's (`weft.fun.contractions`)
    at each kept index, and the kernel that finishes them (`weft.passes.finish_sums`).
Adds: for each, a kernel, which is computed in tiles of registers and caches.
Requires: a fused program.
Ensures: the same values within rounding: a contraction has a tree of its own (blocks of 256, in
    order, as libraries of products have: long sums of float32 are rounded more than by
    neighbours), so that whether one is raised must depend on extents alone. Few elements that are
    long are better split, and streamed (`weft.passes.split_reductions`); `when` decides. Rounds of
    some loops may be done on a row at a time (`weft.plan.rows`), of which none is a contraction, so
    that theirs are left; `within` knows the others.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import TypeAlias

from weft.fun import nodes as fun
from weft.fun import walk
from weft.fun.builder import Names
from weft.fun.contractions import by_elements, contraction, is_tiled
from weft.passes.finish_sums import finished, finisher

When: TypeAlias = Callable[[fun.Reduce], bool]
Within: TypeAlias = Callable[[fun.Let], bool]


def no_loops(let: fun.Let) -> bool:
    """Contractions in loops are left."""
    return not isinstance(let.expr, fun.Loop)


def raised(program: fun.Program, within: Within = no_loops) -> list[fun.Reduce]:
    """The reductions that `raise_contractions` makes kernels."""
    return list(_raised(program.body, within))


def raise_contractions(
    program: fun.Program, when: When = lambda _: True, within: Within = no_loops
) -> fun.Program:
    """The program with those contractions made kernels that `when` accepts.

    `within` tells in which loops.
    """
    found = _Raise(program, when, within)
    body = found.body(program.body)
    return program if body is program.body else replace(program, body=body)


def _raised(body: fun.Body, within: Within) -> Iterator[fun.Reduce]:
    for let in body.statements:
        sums = _sums_of_products(let)
        if sums is not None:
            yield sums
        elif isinstance(let.expr, fun.If | fun.Loop):
            inside = [found for b in walk.bodies(let.expr) for found in _raised(b, within)]
            if inside and within(let):
                yield from inside


class _Raise:
    def __init__(self, program: fun.Program, when: When, within: Within) -> None:
        self.when, self.within = when, within
        self.uses = Counter(walk.uses(program.body))
        self.names = Names.of(program)

    def body(self, body: fun.Body) -> fun.Body:
        """A body outside of kernels."""
        statements = list(map(self._inside, body.statements))
        for number in reversed(range(len(statements))):
            let = statements[number]
            sums = _sums_of_products(let)
            if sums is None or not self.when(sums):
                continue
            user = finisher(statements, number, self.uses)
            if user is None:
                names = [self.names.fresh(var.name) for var in let.pattern]
                statements[number] = by_elements(let, names)
            else:
                statements[user] = finished(let, statements[user], self.names.fresh)
                del statements[number]
        return walk.with_statements(body, statements)

    def _inside(self, let: fun.Let) -> fun.Let:
        if not isinstance(let.expr, fun.If | fun.Loop):
            return let
        found = walk.map_let(let, self.body)
        return found if found is let or self.within(let) else let


def _sums_of_products(let: fun.Let) -> fun.Reduce | None:
    """The statement's reduction, if tiles compute it; else None."""
    reduce = let.expr
    if not isinstance(reduce, fun.Reduce) or reduce.counter:
        return None
    if reduce.reduced != 1 or len(let.pattern) != 1:
        return None
    kernel = by_elements(let, ["element"]).expr
    assert isinstance(kernel, fun.Kernel)
    found = contraction(kernel)
    return reduce if found is not None and is_tiled(found) else None
