"""When each block is used first and last."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from weft.fun import nodes as fun
from weft.fun import walk
from weft.mem.nodes import MemArray, Program


@dataclass(frozen=True, slots=True)
class Lifetime:
    """The first and the last statement of the program's body that use a block."""

    first: int
    last: int


def lifetimes(program: Program) -> dict[str, Lifetime]:
    """The lifetime of every temporary block that is used.

    A block is used by every statement whose arrays lie in it, whatever their names, so
    views and updates in place prolong its life. What is used inside a statement (a loop,
    a kernel) is used by that whole statement.
    """
    temporary = {block.name for block in program.blocks}
    found: dict[str, Lifetime] = {}
    for position, let in enumerate(program.program.body.statements):
        for name in blocks_of(let) & temporary:
            first = found[name].first if name in found else position
            found[name] = Lifetime(first, position)
    return found


def last_uses(program: Program) -> tuple[frozenset[str], ...]:
    """For each statement of the program's body, the temporary blocks that end with it."""
    ends: list[set[str]] = [set() for _ in program.program.body.statements]
    for name, lifetime in lifetimes(program).items():
        ends[lifetime.last].add(name)
    return tuple(map(frozenset, ends))


def blocks_of(let: fun.Let) -> set[str]:
    """The blocks that a statement, or a statement inside it, names."""
    return {type_.block for type_ in _types(let)}


def _types(let: fun.Let) -> Iterator[MemArray]:
    atoms, _, binders = walk.operands(let.expr)
    for atom in (*let.pattern, *atoms, *binders):
        if isinstance(atom.type, MemArray):
            yield atom.type
    for body in walk.bodies(let.expr):
        for inner in body.statements:
            yield from _types(inner)
        for result in body.results:
            if isinstance(result.type, MemArray):
                yield result.type
