"""Reads of what stays the same along a loop: compiled code does them once, before it.

    for i { for j { let p = x[i] ... } }  =>  for i { let p = x[i]; for j { ... } }

`weft.lower.emitter` places scalars so; the heap evaluator, which runs a program as it is written,
counts reads by it. Each dimension of a space, a loop, and a branch is a level, counted from the
outside. A read is done at the innermost level that its element depends on, inside of any branch
that it is in, and of any level that writes to the memory that it reads.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field

from weft.fun import nodes as fun
from weft.fun import walk
from weft.mem import scope
from weft.mem.nodes import Choice, MemArray, Program
from weft.records import dataclass

_SCALARS = fun.Apply | fun.Cast | fun.SizeValue | fun.Index
_VIEWS = fun.Slice | fun.LmadSlice | fun.Permute | fun.Reshape


def read_levels(program: Program) -> dict[int, int]:
    """The level at which each read of an element is done, by the identity of its statement."""
    found = _Levels({choice.name: choice for choice in program.choices})
    found.body(program.program.body, _Nest())
    return found.levels


@dataclass(frozen=True, slots=True)
class _Nest:
    """The levels around a body: which blocks each writes, and that of the innermost branch."""

    written: tuple[frozenset[str], ...] = ()
    branch: int = 0

    @property
    def depth(self) -> int:
        return len(self.written)

    def inside(self, count: int, written: frozenset[str]) -> _Nest:
        return _Nest(self.written + (written,) * count, self.branch)


@dataclass
class _Levels:
    choices: Mapping[str, Choice]
    bound: dict[str, int] = field(default_factory=dict)  # name -> level
    levels: dict[int, int] = field(default_factory=dict)

    def body(self, body: fun.Body, nest: _Nest) -> None:
        for let in body.statements:
            level = nest.depth
            if isinstance(let.expr, _SCALARS):
                level = self.level(walk.free_names(fun.Body((let,), ())))
            if isinstance(let.expr, fun.Index):
                level = self.levels[id(let)] = max(level, self.memory_level(let.expr, nest))
            self.inner(let, nest)
            self.bind(let.pattern, level)

    def level(self, names: Iterable[str]) -> int:
        return max((self.bound.get(name, 0) for name in names), default=0)

    def memory_level(self, read: fun.Index, nest: _Nest) -> int:
        """That of the memory which is read, where nothing writes to it."""
        assert isinstance(read.array.type, MemArray)
        block = read.array.type.block
        found = max(nest.branch, self.level(scope.variables(read.array.type.index)))
        if block in self.choices:
            found = max(found, self.level(self.choices[block].turn.variables()))
        blocks = self.blocks(block)
        writes = [n for n, written in enumerate(nest.written, 1) if not blocks.isdisjoint(written)]
        return max([found, *writes])

    def inner(self, let: fun.Let, nest: _Nest) -> None:
        """The bodies of a statement."""
        match expr := let.expr:
            case fun.If(_, then, otherwise):
                branch = _Nest((*nest.written, frozenset()), nest.depth + 1)
                self.body(then, branch)
                self.body(otherwise, branch)
            case fun.Loop(params, _, form):
                inside = nest.inside(1, self.written((let,)))
                self.bind(params, inside.depth)
                if isinstance(form, fun.For):
                    self.bound[form.index.name] = inside.depth
                for body in walk.bodies(expr):
                    self.body(body, inside)
            case fun.Kernel(space) | fun.Reduce(space) | fun.Scan(space) | fun.Scatter(_, space):
                for level, dimension in enumerate(space, nest.depth + 1):
                    self.bound[dimension.index.name] = level
                inside = nest.inside(len(space), self.written((let,)))
                self.body(expr.body, inside)
                if not isinstance(expr, fun.Kernel) and expr.operator is not None:
                    self.bind(expr.operator.params, inside.depth)
                    self.body(expr.operator.body, inside)
            case _:
                pass

    def bind(self, pattern: Sequence[fun.Var], level: int) -> None:
        self.bound.update((var.name, level) for var in pattern)

    def written(self, statements: Sequence[fun.Let]) -> frozenset[str]:
        """The blocks that statements write to."""
        found: set[str] = set()
        for let in walk.statements(fun.Body(tuple(statements), ())):
            if not isinstance(let.expr, _VIEWS):
                for var in let.pattern:
                    if isinstance(var.type, MemArray):
                        found |= self.blocks(var.type.block)
        return frozenset(found)

    def blocks(self, block: str) -> frozenset[str]:
        choice = self.choices.get(block)
        return frozenset((block, *choice.blocks)) if choice else frozenset((block,))
