"""refill: what is filled with one value outside of a body, and overwritten in it, is filled there.

    let z = broadcast 0.0 (m)                  let r = kernel (i < n) {
    let r = kernel (i < n) {                     let y = broadcast 0.0 (m)
      let p = loop (q = z) for k ..       =>     let p = loop (q = y) for k ..
      in p                                       in p
    }                                          }

Removes: uses of arrays of one value, or of no value yet, with up to four elements of their own,
    by what would copy them first: as what a loop in an inner body starts from, or an update there
    changes.
Adds: the same fill in that body.
Requires: a checked program.
Ensures: the same values. Elements are written that were read and written.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from weft.fun import nodes as fun
from weft.fun import walk
from weft.fun.builder import Names

Fills = Mapping[str, tuple[fun.Let, ...]]
"""The statements that fill an array, by its name."""

_FEW = 4  # elements of their own


def refill(program: fun.Program) -> fun.Program:
    """The program with fills where what they fill is overwritten."""
    if not any(_fill(let, {}) for let in walk.statements(program.body)):
        return program
    body = _Refill(Names.of(program)).body(program.body, {})
    return program if body is program.body else replace(program, body=body)


class _Refill:
    def __init__(self, names: Names) -> None:
        self.names = names

    def body(self, body: fun.Body, outside: Fills) -> fun.Body:
        """A body, with the fills that are made outside of it."""
        known, statements = dict(outside), []
        for let in body.statements:
            known.update(_fill(let, known))
            new = walk.map_let(let, lambda inner: self.body(inner, known))
            statements += self.overwriting(new, outside)
        return walk.with_statements(body, statements)

    def overwriting(self, let: fun.Let, outside: Fills) -> list[fun.Let]:
        """The statement after fills of what it changes."""
        fills: list[fun.Let] = []

        def own(atom: fun.Atom) -> fun.Atom:
            if not isinstance(atom, fun.Var) or atom.name not in outside:
                return atom
            array: fun.Atom = atom
            for made in outside[atom.name]:
                expr = made.expr
                if isinstance(expr, fun.Update):
                    expr = replace(expr, array=array)  # type: ignore[arg-type]
                array = fun.Var(self.names.fresh(atom.name), atom.type)
                fills.append(fun.Let((array,), expr, made.place))
            return array

        match let.expr:
            case fun.Loop(initial=initial) as loop:
                expr: fun.Expr = replace(loop, initial=tuple(map(own, initial)))
            case fun.Update(array=array) | fun.LmadUpdate(array=array) as update:
                expr = replace(update, array=own(array))  # type: ignore[arg-type]
            case fun.Scatter(destinations=arrays) as scatter:
                expr = replace(scatter, destinations=tuple(map(own, arrays)))  # type: ignore[arg-type]
            case _:
                return [let]
        return [*fills, replace(let, expr=expr)] if fills else [let]


def _fill(let: fun.Let, known: Fills) -> Fills:
    """The array that a statement fills with one value, or with none, or gives one element more."""
    match let.expr:
        case fun.Broadcast(array) if isinstance(array.type, fun.Scalar):
            return {let.pattern[0].name: (let,)}
        case fun.Empty():
            return {let.pattern[0].name: (let,)}
        case fun.Update(array, dims, value) if isinstance(array, fun.Var):
            before = known.get(array.name, ())
            one = isinstance(value.type, fun.Scalar) and not any(
                isinstance(dim, fun.Span) for dim in dims
            )
            return {let.pattern[0].name: (*before, let)} if 0 < len(before) <= _FEW and one else {}
        case _:
            return {}
