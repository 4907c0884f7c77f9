"""merge_updates: of two updates of the same elements, the later one does what both did.

    let y = update x[k + 1 for n] = v             let w = kernel (i < n) {
    let c = y[k]                                    let c = x[k]
    let w = kernel (i < n) {                 =>     let e = v[i]
      let e = y[i + k + 1]                          ..
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
from weft.records import dataclass
from weft.sizes import ONE, Poly, Size
from weft.sizes.prove import Prover


def merge_updates(program: fun.Program) -> fun.Program:
    """The program with one update for several of the same elements, in all of its bodies."""
    if not any(_pairs(body) for body in _bodies(program.body)):
        return program
    prover = Prover(program.facts, sizes=program.sizes, derived=program.derived)
    return replace(program, body=_merged(program.body, prover))


def _bodies(body: fun.Body) -> list[fun.Body]:
    """A body, and those inside of it."""
    inner = [b for let in walk.statements(body) for b in walk.bodies(let.expr)]
    return [body, *inner]


def _merged(body: fun.Body, prover: Prover) -> fun.Body:
    statements = []
    for let in body.statements:
        inside = _within(let.expr, prover)
        statements.append(walk.map_let(let, partial(_merged, prover=inside)))
    body = walk.with_statements(body, statements)
    tried: set[str] = set()
    while True:
        left = [pair for pair in _pairs(body) if pair[0] not in tried]
        if not left:
            return body
        tried.add(left[0][0])
        body = _without(body, *left[0], prover) or body


def _within(expr: fun.Expr, prover: Prover) -> Prover:
    """What is also known in the bodies of an expression."""
    match expr:
        case fun.Kernel(space) | fun.Reduce(space) | fun.Scan(space) | fun.Scatter(space=space):
            for r in space:
                prover = prover.within(r.index.name, 0, r.extent - 1)
        case fun.Loop(form=fun.For(index, lower, upper)):
            prover = prover.within(index.name, lower, upper - 1)
        case _:
            pass
    return prover


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


def _without(body: fun.Body, first: str, second: str, prover: Prover) -> fun.Body | None:
    """The body without the first update of two; None where something needs what it makes."""
    places = {var.name: n for n, let in enumerate(body.statements) for var in let.pattern}
    early, late = (body.statements[places[name]] for name in (first, second))
    assert isinstance(early.expr, fun.Update)
    assert isinstance(late.expr, fun.Update)
    value = late.expr.value
    maker = places.get(value.name) if isinstance(value, fun.Var) else None
    if any(isinstance(atom, fun.Var) and atom.name == first for atom in (value, *body.results)):
        return None
    statements = list(body.statements)
    for number, let in enumerate(body.statements):
        if let is late or first not in walk.used_names(let.expr):
            continue
        space = _space(let.expr) if number == maker else None
        read = _Reads(early.expr, first, space)
        expr = read.resolved(let.expr, prover)
        if expr is None:
            return None
        statements[number] = replace(let, expr=expr)
    statements[places[second]] = replace(late, expr=replace(late.expr, array=early.expr.array))
    del statements[places[first]]
    return replace(body, statements=tuple(statements))


def _space(expr: fun.Expr) -> tuple[fun.Range, ...] | None:
    """The elements of what a statement makes, where a kernel makes them one by one."""
    return expr.space if isinstance(expr, fun.Kernel) else None


@dataclass(frozen=True, slots=True)
class _Reads:
    """Reads of what an update makes, as reads of what it is made of.

    Attributes
    ----------
    update : fun.Update
    name : str
        What it makes.
    space : tuple of fun.Range or None
        Of the kernel whose elements may read each what the update wrote there; None where no
        statement may.
    """

    update: fun.Update
    name: str
    space: tuple[fun.Range, ...] | None

    def resolved(self, expr: fun.Expr, prover: Prover) -> fun.Expr | None:
        """An expression that reads nothing of the array any more; None where that cannot be."""
        if isinstance(expr, fun.Index) and expr.array.name == self.name:
            return self._read(expr, prover)
        inside = _within(expr, prover)
        failed = False

        def body(inner: fun.Body) -> fun.Body:
            nonlocal failed
            statements = []
            for let in inner.statements:
                new = let.expr
                if self.name in walk.used_names(new):
                    found = self.resolved(new, inside)
                    failed |= found is None
                    new = found or new
                statements.append(replace(let, expr=new) if new is not let.expr else let)
            return walk.with_statements(inner, statements)

        made = walk.map_bodies(expr, body)
        return None if failed or self.name in walk.used_names(made) else made

    def _read(self, read: fun.Index, prover: Prover) -> fun.Index | None:
        """x[p], or v[p - s]; None where it is not proved which of them it is."""
        if any(rule is not None for rule in read.boundary):
            return None
        inside, within = [], True
        for index, dim in zip(read.indices, self.update.dims, strict=True):
            if not isinstance(dim, fun.Span):
                if prover.nonzero(index - dim):
                    return replace(read, array=self.update.array)
                within &= prover.equal(index, dim)
                continue
            place = index - dim.start
            after = place - (dim.extent - ONE) * abs(dim.step) - ONE
            if dim.step > 0 and (prover.nonnegative(-place - ONE) or prover.nonnegative(after)):
                return replace(read, array=self.update.array)
            within &= dim.step == 1 and prover.nonnegative(place)
            within &= prover.nonnegative(dim.extent - ONE - place)
            inside.append(place)
        own = tuple[Size, ...](Poly.var(r.index.name) for r in self.space or ())
        value = self.update.value
        if not within or self.space is None or tuple(inside) != own:
            return None
        return fun.Index(value, own) if isinstance(value.type, fun.Array) else None
