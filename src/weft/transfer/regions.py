"""What a program writes of an array that one of its results replaces.

    let b' = update b[1 for n, 4] = x in b'  =>  in x, for b[1 : 1 + n, 4]

and of that only a trapezoid, where x is elsewhere what lies there (`weft.transfer.guarded`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias

from weft.fun import nodes as fun
from weft.fun import walk
from weft.records import dataclass
from weft.sizes import ZERO, Size
from weft.transfer.guarded import Guarded

Part: TypeAlias = tuple[slice | int, ...]


@dataclass(frozen=True, slots=True)
class Written:
    """A part of the array, and the value that comes to lie there: all of it, or a trapezoid."""

    dims: tuple[fun.Span | Size, ...]
    value: fun.Atom
    guard: Guarded | None = None

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


Guards: TypeAlias = Mapping[str, tuple[Guarded, int]]
"""Results of guarded kernels, each with its number."""


def written(
    program: fun.Program, result: int, param: str, sizes: Mapping[str, int], guards: Guards
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
        if let is None or uses.count(atom.name) > 1:
            return None
        if isinstance(let.expr, fun.Update):
            guard = None
            if isinstance(let.expr.value, fun.Var) and uses.count(let.expr.value.name) == 1:
                guard = _guard(let.expr.value, let.expr.array.name, let.expr.dims, sizes, guards)
            update = Written(let.expr.dims, let.expr.value, guard)
            if not update.is_known(sizes):
                return None
            found.append(update)
            after = let.expr.array
        elif isinstance(let.expr, fun.Reshape) and _shape(let.expr.array, sizes) == _shape(
            atom, sizes
        ):
            after = let.expr.array
        else:
            own = next(p for p in program.params if p.name == param)
            guard = None
            if _shape(own, sizes) == _shape(atom, sizes):
                assert isinstance(own.type, fun.Array)
                dims = tuple(fun.Span(ZERO, extent) for extent in own.type.shape)
                guard = _guard(atom, param, dims, sizes, guards)
            if guard is None:
                return None
            found.append(Written(dims, atom, guard))
            return found[::-1], names
        names.add(atom.name)
        atom = after
    if not isinstance(atom, fun.Var) or not found:
        return None
    return found[::-1], names


def _shape(var: fun.Var, sizes: Mapping[str, int]) -> tuple[int, ...] | None:
    if not isinstance(var.type, fun.Array) or not all(
        extent.variables() <= sizes.keys() for extent in var.type.shape
    ):
        return None
    return tuple(extent.evaluate(sizes) for extent in var.type.shape)


def _guard(
    value: fun.Var, array: str, dims: tuple[fun.Span | Size, ...], sizes: Mapping[str, int],
    guards: Guards,
) -> Guarded | None:  # fmt: skip
    """The guarded kernel that a value is of, where it keeps what it does not write."""
    found = guards.get(value.name)
    if found is None or not found[0].keeps(found[1], array, dims, sizes):
        return None
    return found[0]
