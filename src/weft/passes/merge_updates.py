"""merge_updates: of two updates of the same elements, the later one does what both did.

    let y = update x[k + 1 for n] = v             let c = x[k]
    let c = y[k]                                  let w = kernel (i < n) {
    let w = kernel (i < n) {                        let e = v[i]
      let e = y[i + k + 1]                =>        ..
      ..                                          }
    }                                             let z = update x[k + 1 for n] = w
    let z = update y[k + 1 for n] = w

Removes: an update of an array whose elements are then read one by one, and written again.
Adds: reads of what it wrote, by the kernel that makes what is written again, element by element;
    reads of what it did not write from the array before it.
Requires: a checked program whose reads go through views (after `simplify`). Every read is proved
    to be of an element that the update writes, or of none.
Ensures: the same values. Fusion then makes one kernel of both, which writes each element once.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from weft.fun import nodes as fun
from weft.fun import walk
from weft.passes.dependence import Inner, indices_of
from weft.passes.knowledge import Knowledge
from weft.passes.versions import Chain, Write, bound_in, resolved
from weft.records import dataclass
from weft.sizes import Poly


def merge_updates(program: fun.Program) -> fun.Program:
    """The program with one update for several of the same elements, in all of its bodies."""
    if not any(_pairs(body) for body in _bodies(program.body)):
        return program
    body = _merged(program.body, (), Knowledge.of(program))
    return program if body is program.body else replace(program, body=body)


def _bodies(body: fun.Body) -> list[fun.Body]:
    """A body, and those inside of it."""
    inner = [b for let in walk.statements(body) for b in walk.bodies(let.expr)]
    return [body, *inner]


def _merged(body: fun.Body, inner: tuple[Inner, ...], known: Knowledge) -> fun.Body:
    """A body inside of what binds the indices `inner`."""
    statements = []
    for let in body.statements:
        inside = partial(_merged, inner=(*inner, *indices_of(let.expr)), known=known)
        statements.append(walk.map_let(let, inside))
    body = walk.with_statements(body, statements)
    tried: set[str] = set()
    while True:
        left = [pair for pair in _pairs(body) if pair[0] not in tried]
        if not left:
            return body
        tried.add(left[0][0])
        body = _without(body, *left[0], inner, known) or body


def _pairs(body: fun.Body) -> list[tuple[str, str]]:
    """Arrays that an update makes, each with what the next update of the same elements makes."""
    made: dict[str, fun.Update] = {}
    found = []
    for let in body.statements:
        update = let.expr
        if not isinstance(update, fun.Update):
            continue
        name = let.pattern[0].name
        before = made.get(update.array.name)
        if before is not None and before.dims == update.dims:
            found.append((update.array.name, name))
        made[name] = update
    return found


def _without(
    body: fun.Body, first: str, second: str, inner: tuple[Inner, ...], known: Knowledge
) -> fun.Body | None:
    """The body without the first update of two; None where something needs what it makes."""
    bound = bound_in(body)
    early, late = bound[first], bound[second]
    assert isinstance(early.expr, fun.Update)
    assert isinstance(late.expr, fun.Update)
    value = late.expr.value
    maker = bound.get(value.name) if isinstance(value, fun.Var) else None
    if any(isinstance(atom, fun.Var) and atom.name == first for atom in (value, *body.results)):
        return None
    write = Write(early, early.expr.dims, early.expr.value)
    chain = Chain(early.expr.array, (write,))
    statements = []
    for let in body.statements:
        if let is late:
            statements.append(replace(let, expr=replace(late.expr, array=early.expr.array)))
        elif let is not early:
            own = let.expr.space if let is maker and isinstance(let.expr, fun.Kernel) else None
            expr = _Reads(chain, own, known).resolved(let.expr, inner)
            if expr is None:
                return None
            statements.append(replace(let, expr=expr) if expr is not let.expr else let)
    return replace(body, statements=tuple(statements))


@dataclass(frozen=True, slots=True)
class _Reads:
    """Reads of what an update makes, as reads of what it is made of.

    Attributes
    ----------
    chain : Chain
        Of that update alone.
    space : tuple of fun.Range or None
        Of the kernel whose elements may read each what the update wrote there; None where no
        statement may.
    known : Knowledge
    """

    chain: Chain
    space: tuple[fun.Range, ...] | None
    known: Knowledge

    def resolved(self, expr: fun.Expr, inner: tuple[Inner, ...]) -> fun.Expr | None:
        """An expression that reads nothing of the array any more; None where that cannot be."""
        (write,) = self.chain.writes
        if write.name not in walk.used_names(expr):
            return expr
        if isinstance(expr, fun.Index):
            return self._read(expr, inner) if expr.array.name == write.name else None
        inside, failed = (*inner, *indices_of(expr)), False

        def body(body: fun.Body) -> fun.Body:
            nonlocal failed
            statements = []
            for let in body.statements:
                found = self.resolved(let.expr, inside)
                failed |= found is None
                statements.append(let if found in (None, let.expr) else replace(let, expr=found))
            return walk.with_statements(body, statements)

        made = walk.map_bodies(expr, body)
        return None if failed or write.name in walk.used_names(made) else made

    def _read(self, read: fun.Index, inner: tuple[Inner, ...]) -> fun.Index | None:
        """x[p], or v[p - s] at the kernel's own index; None for any other read."""
        found = resolved(read, self.chain, inner, self.known)
        if not isinstance(found, fun.Index) or found.array == self.chain.root:
            return found if isinstance(found, fun.Index) else None
        own = tuple(Poly.var(r.index.name) for r in self.space or ())
        return found if self.space is not None and found.indices == own else None
