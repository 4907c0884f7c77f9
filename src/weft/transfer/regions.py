"""What a program writes of an array that one of its results replaces.

    let b' = update b[1 for n, 4] = x in b'  =>  in x, for b[1 : 1 + n, 4]
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias

from weft.fun import nodes as fun
from weft.fun import walk
from weft.records import dataclass
from weft.sizes import Size

Part: TypeAlias = tuple[slice | int, ...]


@dataclass(frozen=True, slots=True)
class Written:
    """A part of the array, and the value that comes to lie there."""

    dims: tuple[fun.Span | Size, ...]
    value: fun.Atom

    def part(self, sizes: Mapping[str, int]) -> Part:
        """The part as an index of the array."""
        found: list[slice | int] = []
        for dim in self.dims:
            if not isinstance(dim, fun.Span):
                found.append(dim.evaluate(sizes))
                continue
            start, count = dim.start.evaluate(sizes), dim.extent.evaluate(sizes)
            stop = start + count * dim.step
            found.append(slice(start, None if stop < 0 else stop, dim.step))
        return tuple(found)


    def is_known(self, sizes: Mapping[str, int]) -> bool:
        """Whether the sizes alone decide where the part lies, and no value that is computed."""
        bounds = (
            bound
            for dim in self.dims
            for bound in ((dim.start, dim.extent) if isinstance(dim, fun.Span) else (dim,))
        )
        return all(bound.variables() <= sizes.keys() for bound in bounds)


def written(
    program: fun.Program, result: int, param: str, sizes: Mapping[str, int]
) -> tuple[list[Written], set[str]] | None:
    """The updates, in order, that make a result of a parameter; and their names.

    None where the result is made in another way, or needs what an update has made, or where a
    value chooses a part.
    """
    made = {var.name: let for let in program.body.statements for var in let.pattern}
    uses = list(walk.uses(program.body))
    found: list[Written] = []
    names: set[str] = set()
    atom = program.body.results[result]
    while isinstance(atom, fun.Var) and atom.name != param:
        let = made.get(atom.name)
        if let is None or not isinstance(let.expr, fun.Update) or uses.count(atom.name) > 1:
            return None
        update = Written(let.expr.dims, let.expr.value)
        if not update.is_known(sizes):
            return None
        found.append(update)
        names.add(atom.name)
        atom = let.expr.array
    if not isinstance(atom, fun.Var) or not found:
        return None
    return found[::-1], names
