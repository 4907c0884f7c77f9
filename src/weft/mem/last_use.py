"""When memory is used last: which blocks are live where, at any depth.

A block is live from the first statement that names it to the last one: whatever names an
array has there, so views and updates in place prolong its life. Inside of an expression:

- a branch of an `If` sees what is live before and after it; what the other branch alone
  uses is not live in it;
- in the bodies of loops and kernels, everything that lives outside of them too is live
  throughout, also from one round to the next (parameters, double buffers, what was made
  before the loop). What only one such body names lives from its first to its last
  statement there, since data reaches other rounds through parameters alone;
- memory that all threads share is live throughout a kernel that names it, whose iterations
  run in any order.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import field
from typing import TypeAlias

from weft.fun import nodes as fun
from weft.fun import walk
from weft.mem.nodes import MemArray, Program
from weft.records import dataclass

Blocks: TypeAlias = frozenset[str]


@dataclass(frozen=True, slots=True)
class Lives:
    """What lives where; a statement goes by the first variable that it binds.

    Attributes
    ----------
    live : dict
        The temporary blocks that later statements need, after each statement.
    ends : dict
        Those that a statement uses and nothing needs after it.
    meets : dict
        For each block that is used, in the order of first uses, the blocks that are live
        where it is used, or that use what is live when it is.
    """

    live: dict[str, Blocks] = field(default_factory=dict)
    ends: dict[str, Blocks] = field(default_factory=dict)
    meets: dict[str, set[str]] = field(default_factory=dict)


def lives(program: Program) -> Lives:
    """Where each temporary block of a program is live."""
    walker = _Walker(program)
    walker.body(program.program.body, frozenset(), frozenset())
    return walker.found


def blocks_of(let: fun.Let) -> set[str]:
    """The blocks that a statement, or a statement inside it, names."""
    return _own_blocks(let).union(*map(_inner_blocks, walk.bodies(let.expr)))


def _inner_blocks(body: fun.Body) -> set[str]:
    return _named(body.results).union(*map(blocks_of, body.statements))


def _own_blocks(let: fun.Let) -> set[str]:
    atoms, _, binders = walk.operands(let.expr)
    return _named((*let.pattern, *atoms, *binders))


def _named(atoms: Iterable[fun.Atom]) -> set[str]:
    return {atom.type.block for atom in atoms if isinstance(atom.type, MemArray)}


class _Walker:
    """Goes through a program once, with what is live at each point."""

    def __init__(self, program: Program) -> None:
        self.alternatives = program.alternatives
        self.temporary = frozenset(block.name for block in program.blocks)
        self.shared = frozenset(block.name for block in program.blocks if not block.per_thread)
        self.found = Lives()
        self._blocks: dict[int, Blocks] = {}  # of bodies, by identity

    def body(self, body: fun.Body, before: Blocks, after: Blocks) -> None:
        """One body; `before` is live when it begins, `after` when it ends."""
        count = len(body.statements)
        uses = [*map(self.blocks_of, body.statements), self.real(_named(body.results))]
        last = {name: position for position, names in enumerate(uses) for name in names}
        last.update(dict.fromkeys(after & (before | last.keys()), count + 1))
        alive = {name for name in before if name in last}
        for position, let in enumerate(body.statements):
            begun = frozenset(alive)
            alive |= uses[position]
            lasting = frozenset(name for name in alive if last[name] > position)
            self.statement(let, begun, frozenset(alive), lasting)
            if let.pattern:
                name = let.pattern[0].name
                self.found.live[name] = lasting
                self.found.ends[name] = frozenset(alive - lasting)
            alive = set(lasting)
        self.meet(uses[-1], alive)

    def statement(self, let: fun.Let, begun: Blocks, alive: Blocks, lasting: Blocks) -> None:
        """`begun` is live before it, `lasting` after it, `alive` at any time meanwhile."""
        match let.expr:
            case fun.If(_, then, otherwise):
                for branch in (then, otherwise):
                    self.body(branch, begun, lasting)  # results are where the pattern is
                return
            case fun.Loop():
                local = self.local(let, begun | lasting)
            case fun.Kernel() | fun.Reduce() | fun.Scan() | fun.Scatter():
                local = self.local(let, begun | lasting | self.shared)
            case _:
                self.meet(self.real(_own_blocks(let)), alive)
                return
        around = alive.difference(*local)
        self.meet(self.real(_own_blocks(let)), around)
        for number, (inner, own) in enumerate(zip(walk.bodies(let.expr), local, strict=True)):
            throughout = around
            if not isinstance(let.expr, fun.Loop):  # an operator comes in between
                throughout = around.union(*local[:number], *local[number + 1 :]) - own
            self.body(inner, throughout, throughout)

    def local(self, let: fun.Let, outside: Blocks) -> list[Blocks]:
        """For each body of a statement, the blocks that nothing else names, nor it gives."""
        bodies = [self.inner_blocks(body) for body in walk.bodies(let.expr)]
        given = (_named(b.results) for b in walk.bodies(let.expr))
        outside |= self.real(_own_blocks(let).union(*given))
        return [
            names.difference(outside, *bodies[:number], *bodies[number + 1 :])
            for number, names in enumerate(bodies)
        ]

    def real(self, names: Iterable[str]) -> Blocks:
        """Temporary blocks: of a choice, all that it may be."""
        blocks = (name for found in names for name in self.alternatives.get(found, (found,)))
        return self.temporary.intersection(blocks)

    def meet(self, used: Iterable[str], alive: Iterable[str]) -> None:
        meets, others = self.found.meets, set(alive)
        for name in sorted(used):
            meets.setdefault(name, set()).update(others - {name})
            for other in sorted(others - {name}):  # the same text in every process
                meets.setdefault(other, set()).add(name)

    def blocks_of(self, let: fun.Let) -> Blocks:
        inner = map(self.inner_blocks, walk.bodies(let.expr))
        return self.real(_own_blocks(let)).union(*inner)

    def inner_blocks(self, body: fun.Body) -> Blocks:
        known = self._blocks.get(id(body))
        if known is None:
            used = self.real(_named(body.results))
            known = self._blocks[id(body)] = frozenset(used).union(
                *map(self.blocks_of, body.statements)
            )
        return known
