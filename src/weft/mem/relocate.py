"""Relocate: arrays in other memory, by name."""

from __future__ import annotations

from weft.fun import nodes as fun
from weft.fun import walk
from weft.mem import layout
from weft.mem.project import Arrays


def relocate(body: fun.Body, arrays: Arrays) -> fun.Body:
    """The body with its arrays where they lie now, without copies of what is there already.

    let c @ m = copy a    =>    (a is used instead of c, if a is at m too)

    Removes such copies, also from `arrays`; requires nothing.
    """
    return _Relocation(arrays).body(body)


class _Relocation:
    def __init__(self, arrays: Arrays) -> None:
        self.arrays = arrays
        self.copies: dict[str, fun.Var] = {}
        self.mapper = walk.Mapper(self.atom, lambda size: size, self.body, self.binder)

    def binder(self, var: fun.Var) -> fun.Var:
        memory = self.arrays.memory.get(var.name)
        return var if memory is None or memory is var.type else fun.Var(var.name, memory)

    def atom(self, atom: fun.Atom) -> fun.Atom:
        if not isinstance(atom, fun.Var):
            return atom
        return self.copies.get(atom.name) or self.binder(atom)

    def body(self, body: fun.Body) -> fun.Body:
        statements = []
        for let in body.statements:
            if isinstance(let.expr, fun.Copy):
                (var,) = let.pattern
                source = self.atom(let.expr.array)
                assert isinstance(source, fun.Var)
                if layout.same(self.arrays.memory[source.name], self.arrays.memory[var.name]):
                    self.copies[var.name] = source
                    self.arrays.members[self.arrays.memory[var.name].block].discard(var.name)
                    continue
            expr = walk.map_expr(let.expr, self.mapper)
            statements.append(fun.Let(tuple(map(self.binder, let.pattern)), expr, let.place))
        return fun.Body(tuple(statements), tuple(map(self.atom, body.results)))
