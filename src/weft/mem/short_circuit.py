"""Short-circuit: arrays are made where they would be copied to.

let x @ mem_x = kernel ..                    let x @ mem_y + {i*n; (n : 1)} = kernel ..
let z @ mem_y = y with [i, 0 : n] = x   =>   let z @ mem_y = y with [i, 0 : n] = x

Chapter 6 of *Static and Dynamic Analyses for Efficient GPU Execution* (Munksgaard, 2023).
Beyond it, the source may still be read after the point.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import TypeAlias

from weft.errors import Place
from weft.fun import nodes as fun
from weft.fun import walk
from weft.lmad import Lmad
from weft.mem import layout
from weft.mem.nodes import Block, MemArray, Program, Remark
from weft.mem.points import Point, copies, maps, may_be_point
from weft.mem.project import Arrays, Refused, project
from weft.mem.relocate import relocate
from weft.mem.scope import Scope, ranges_of, variables
from weft.mem.summaries import Accesses, Inspection, Summary

CONDITIONS = 8  # compared at a launch
Find: TypeAlias = Callable[[fun.Let, Arrays], Iterator[Point]]


def short_circuit(program: Program) -> Program:
    """Put arrays where they are copied to, if that changes no meaning.

    Removes copies that have become copies of themselves, and blocks that are empty then.
    Moves scalars up, above the array in whose index function they occur. Requires each
    array to be made in a block of its own (`introduce`), and ensures that no array is
    copied that was not before.

    An array x (the *source*) is put into the block of y (the *destination*) if

    - *creation*: all that lies in the source's block is made in the body of the point;
    - *layout*: layout changes between where it is made and the point can be undone, and
      those of its aliases applied again;
    - *scope*: what occurs in its new index function is known where it is made, and what
      tells whether an update is in bounds, which is checked before; an update at an LMAD,
      which may meet an element twice, is proved right, or by the launch;
    - *overlap*: what is written to it meets nothing of the destination's block that is
      used later, up to the point, nor what is written there while it is still read.

    Likewise a kernel's result is put over an array that dies there: then what the kernel
    writes meets nothing that it reads there later, in the same iteration or in others.
    """
    if not any(map(may_be_point, walk.statements(program.program.body))):
        return program
    return _ShortCircuit(program).run()


def versions(program: Program) -> tuple[Program, ...]:
    """What `short_circuit` gives, after it a better version that has conditions, if there is one.

    Where only the sizes of a call can tell that a write meets no later use, the better
    version has it that they do not meet.
    """
    if not any(map(may_be_point, walk.statements(program.program.body))):
        return (program,)
    plain = _ShortCircuit(program)
    sure = plain.run()
    if not plain.hopeful:
        return (sure,)
    better = _ShortCircuit(program, assume=True).run()
    return (sure, better) if better.conditions else (sure,)


class _Body:
    """The statements of a body, as points are looked for in them from below."""

    def __init__(self, body: fun.Body) -> None:
        self.statements = list(body.statements)
        self.results = frozenset(a.name for a in body.results if isinstance(a, fun.Var))
        self.bound: dict[str, int] = {}  # names, also of inner bodies -> the statement
        self.used = [_names(let) for let in self.statements]
        self.number(0, len(self.statements))

    def number(self, first: int, last: int) -> None:
        for position in range(first, last):
            self.bound.update(dict.fromkeys(_binders(self.statements[position]), position))

    def lift(self, positions: Sequence[int], to: int) -> None:
        """Move statements up, to before one that they do not use."""
        last = positions[-1] + 1
        order = [*positions, *(p for p in range(to, last) if p not in positions)]
        self.statements[to:last] = [self.statements[p] for p in order]
        self.used[to:last] = [self.used[p] for p in order]
        self.number(to, last)


def _binders(let: fun.Let) -> Iterator[str]:
    yield from (var.name for var in let.pattern)
    if walk.bodies(let.expr):
        yield from (var.name for var in walk.operands(let.expr)[2])
        for body in walk.bodies(let.expr):
            for inner in body.statements:
                yield from _binders(inner)


def _checked(let: fun.Let) -> frozenset[str]:
    """What the check of an update looks at, before anything is written there."""
    if not isinstance(let.expr, fun.Update | fun.LmadUpdate):
        return frozenset()
    _, sizes, _ = walk.operands(let.expr)
    sizes = [*sizes, *walk.type_sizes(let.expr.array.type)]
    return frozenset().union(*(size.variables() for size in sizes))


def _names(let: fun.Let) -> frozenset[str]:
    return walk.used_names(let.expr) | {var.name for var in let.pattern}


class _ShortCircuit:
    def __init__(self, program: Program, assume: bool = False) -> None:
        self.program = program
        self.assume = assume
        self.hopeful = False  # a launch could tell what could not be proved
        self.conditions: dict[tuple[Lmad, Lmad], None] = {}
        self.arrays = Arrays.of(program)
        self.scope = Scope(program.program, program.strides)
        self.temporary = {block.name for block in program.blocks}
        self.find: Find = copies
        self.conditional = False  # in a body that may not run
        self.sizes = {  # in elements, of blocks that one array fills
            memory.block: self.scope.count(memory.index)
            for memory in program.destinations
            if isinstance(memory, MemArray)
        }
        self.refused: dict[str, Refused] = {}  # by the block that stays
        self.copied: dict[tuple[str, int], Refused] = {}  # by what is made, and the part of it

    def run(self) -> Program:
        whole = self.program.program
        body = self.body(whole.body)
        # After all copies: a map in place saves memory, but no copy.
        self.find = partial(maps, temporary=self.temporary)
        body = self.body(body)
        rest = relocate(body, self.arrays)
        blocks = tuple(b for b in self.program.blocks if self.arrays.members.get(b.name))
        return replace(
            self.program,
            program=replace(whole, body=rest),
            blocks=blocks,
            remarks=(*self.left(rest), *self.kept(rest, blocks)),
            conditions=tuple(self.conditions),
        )

    def left(self, body: fun.Body) -> Iterator[Remark]:
        """Why copies remain."""
        for let in walk.statements(body):
            for part, point in enumerate(copies(let, self.arrays)):
                refused = self.copied.get((let.pattern[0].name, part))
                source = self.arrays.memory[point.source]
                if refused is not None and not layout.same(source, point.target):
                    yield Remark(point.what, refused.condition, refused.found, point.place)

    def kept(self, body: fun.Body, blocks: Sequence[Block]) -> Iterator[Remark]:
        """Why blocks remain: what refused to move what they hold, if it could have."""
        first: dict[str, tuple[fun.Var, Place | None]] = {}
        for let in walk.statements(body):
            for var in let.pattern:
                if isinstance(var.type, MemArray):
                    first.setdefault(var.type.block, (var, let.place))
        for block in blocks:
            var, place = first[block.name]
            what = f"{block.bytes} bytes{' for each thread' * block.per_thread} of {var.name}"
            refused = self.refused.get(block.name)
            if refused is None:
                yield Remark(what, "no point", "it is copied to no other memory", place)
            else:
                yield Remark(what, refused.condition, refused.found, place)

    # ------------------------------------------------------------ bodies

    def body(self, body: fun.Body) -> fun.Body:
        """Points from below; bodies inside after the points of their statement."""
        state = _Body(body)
        for position in reversed(range(len(state.statements))):
            let = state.statements[position]
            for part, point in enumerate(self.find(let, self.arrays)):
                self.attempt(state, position, point, part)
            if walk.bodies(let.expr):
                outside = self.conditional
                self.conditional = outside or _may_skip(let.expr)
                with self.scope.inside(ranges_of(let.expr)):
                    expr = walk.map_bodies(let.expr, self.body)
                self.conditional = outside
                state.statements[position] = replace(let, expr=expr)
        return fun.Body(tuple(state.statements), body.results)

    # ------------------------------------------------------------ one point

    def attempt(self, body: _Body, position: int, point: Point, part: int) -> None:
        source = self.arrays.memory[point.source]
        if layout.same(source, point.target):
            return
        try:
            moved = self.moved(body, position, point, source.block)
        except Refused as refused:
            self.refused.setdefault(source.block, refused)
            if not point.over:
                self.copied[body.statements[position].pattern[0].name, part] = refused
            return
        self.arrays.move(moved)

    def moved(self, body: _Body, position: int, point: Point, block: str) -> dict[str, MemArray]:
        """Where all of the source's block lies then; scalars are moved up for it."""
        self.check_known(body.statements[position])
        first = self.creation(body, position, point, block)
        members = self.arrays.members[block]
        touching = [
            let
            for let, used in zip(body.statements[first:], body.used[first:], strict=True)
            if not members.isdisjoint(used)
        ]
        moved = project(self.arrays, touching, point.source, point.target, self.scope)
        lifted = self.lifted(body, first, position, point)
        self.check_after(body, position, point, block, moved)
        early = self.arranged(body, first, position, point, moved)
        if early is not None:
            lifted = sorted({*lifted, early})
        if lifted:
            body.lift(lifted, first)
        return moved

    def arranged(
        self, body: _Body, first: int, position: int, point: Point, moved: dict[str, MemArray]
    ) -> int | None:
        """Whether it is safe; the statement that must stand before the source then, if any."""
        try:
            self.check_before(body, first, position, point, moved)
            return None
        except Refused as refused:
            reason = refused
        early = self.destination(body, first, position, point)
        ways: list[tuple[int | None, bool]] = [(early, False)] if early is not None else []
        if self.assume:
            ways += [(place, True) for place in dict.fromkeys((None, early))]
        for place, assume in ways:
            try:
                self.check_before(body, first, position, point, moved, place, assume)
                return place
            except Refused:
                continue
        raise reason

    def creation(self, body: _Body, position: int, point: Point, block: str) -> int:
        """The first statement that makes something in the source's block."""
        name = point.source
        if block not in self.temporary:
            where = "a result" if block.startswith("result_") else f"the argument {block}"
            raise Refused("creation", f"{name} lies in {where}")
        if block == point.target.block:
            raise Refused("layout", f"{name} is in the same memory in another place")
        members = self.arrays.members[block]
        outside = sorted(name for name in members if name not in body.bound)
        if outside:
            raise Refused("creation", f"{outside[0]} is made outside of this body")
        first = min(body.bound[name] for name in members)
        if first >= position and not point.over:
            raise Refused("creation", f"{name} is made by the statement that copies it")
        return first

    def lifted(self, body: _Body, first: int, position: int, point: Point) -> list[int]:
        """The statements of scalars that must be known before the first."""
        needed = sorted(variables(point.target.index) | _checked(body.statements[position]))
        lifted: set[int] = set()
        while needed:
            name = needed.pop()
            place = body.bound.get(name, -1)
            if place < first or place in lifted:
                continue
            let = body.statements[place]
            if place >= position or not isinstance(let.expr, walk.SCALARS):
                raise Refused("scope", f"{name} is not known where {point.source} is made")
            if isinstance(let.expr, fun.Index):
                array = let.expr.array.name
                if body.bound.get(array, -1) >= first:
                    raise Refused(
                        "scope", f"{name} is read from {array}, which is not there yet where "
                        f"{point.source} is made",
                    )  # fmt: skip
            lifted.add(place)
            needed.extend(walk.used_names(let.expr))
        return sorted(lifted)

    def destination(self, body: _Body, first: int, position: int, point: Point) -> int | None:
        """The statement that fills the destination, if it can stand before the source.

        let x = kernel ..               let y @ mem_y = copy a
        let y @ mem_y = copy a     =>   let x @ mem_y + .. = kernel ..
        let z = y with [i] = x          let z = y with [i] = x
        """
        others = self.arrays.members.get(point.target.block, set())
        for place in range(first, position):
            if others.isdisjoint(body.used[place]):
                continue
            let = body.statements[place]
            fills = isinstance(let.expr, fun.Copy | fun.Broadcast | fun.Empty) and (
                self.arrays.memory[let.pattern[0].name].block == point.target.block
            )
            known = all(body.bound.get(n, -1) < first for n in walk.used_names(let.expr))
            return place if fills and known else None
        return None

    def check_before(
        self, body: _Body, first: int, position: int, point: Point, moved: dict[str, MemArray],
        early: int | None = None, assume: bool = False,
    ) -> None:  # fmt: skip
        """Writes to the source meet no later use of the destination.

        The statement `early` is to stand before the source; with `assume`, the launch is to
        see what cannot be proved.
        """
        others = self.arrays.members.get(point.target.block, set())
        used = [
            p for p in range(first, position + point.over) if p != early and body.used[p] & others
        ]
        if not used:
            return
        region, size = point.target.index, self.sizes.get(point.target.block)
        memory = self.arrays.memory
        by_index: dict[Lmad, set[str]] = {}
        for name in set().union(*(body.used[p] & others for p in used)):
            by_index.setdefault(memory[name].index, set()).add(name)
        apart: set[str] = set()
        for index, names in by_index.items():
            if self.scope.count(index) != size and self.scope.apart(index, region):
                apart |= names
        others = others - apart
        if not any(body.used[p] & others for p in used):
            return
        inspection = Inspection(self.scope, memory, moved, point.target.block, size, apart)
        inspection.assume = assume
        later: Accesses = {}
        if point.over:
            let = body.statements[position]
            made = set(_binders(let)) & self.arrays.members[point.target.block]
            self.check_kernel(let, made, moved, point)
            uses = inspection.statement(let).uses
            later = {use: None for use in uses if use.array not in made}
        touched = [
            body.statements[p]
            for p in range(first, position)
            if p != early and not (others | moved.keys()).isdisjoint(body.used[p])
        ]
        try:
            inspection.body(touched, later, Summary())
        finally:
            self.hopeful |= bool(inspection.pairs)
        pairs = {**self.conditions, **dict.fromkeys(inspection.pairs)}
        if len(pairs) > CONDITIONS:
            raise Refused("overlap", f"{len(pairs)} conditions are more than a launch compares")
        self.conditions = pairs

    def check_kernel(
        self, let: fun.Let, made: Collection[str], moved: dict[str, MemArray], point: Point
    ) -> None:
        """What a kernel writes over the source meets nothing that it reads there later.

        Later in the same iteration, or in any other one; `made` are the kernel's own arrays
        in the destination's block.
        """
        memory, block = self.arrays.memory, point.target.block
        others = self.arrays.members[block].difference(made)
        Inspection(
            self.scope, {**memory, **moved}, {name: memory[name] for name in made}, block, None,
            others,
        ).statement(let)  # fmt: skip

    def check_known(self, let: fun.Let) -> None:
        """An update at an LMAD is in bounds, and meets no element twice, before it is made.

        By proof, or because the launch sees to that; a check at the update would come too
        late for a source that has been written there.
        """
        if not isinstance(let.expr, fun.LmadUpdate):
            return
        index = Lmad(let.expr.offset, let.expr.dims)
        (extent,) = walk.type_sizes(let.expr.array.type)
        if not self.scope.admits(index, extent, at_launch=not self.conditional):
            raise Refused("scope", f"whether {index} is inside of {let.expr.array.name}, and meets "
                          "no element twice, is checked at the update only")  # fmt: skip

    def check_after(
        self, body: _Body, position: int, point: Point, block: str, moved: dict[str, MemArray]
    ) -> None:
        """Where the source is still used, neither it nor its new place is written."""
        members = self.arrays.members[block]
        end = position + 1
        for place in range(position + 1, len(body.statements)):
            if not members.isdisjoint(body.used[place]):
                end = place + 1
        if not members.isdisjoint(body.results):
            end = len(body.statements)
        if end == position + 1:
            return
        if point.over:
            raise Refused("overlap", f"{point.source} is used again")
        block_size = self.sizes.get(point.target.block)
        inspection = Inspection(
            self.scope, self.arrays.memory, moved, point.target.block, block_size
        )
        others = self.arrays.members.get(point.target.block, set())
        taken = moved[point.source].index
        for let, used in zip(
            body.statements[position + 1 : end], body.used[position + 1 : end], strict=True
        ):
            if (others | members).isdisjoint(used):
                continue
            found = inspection.statement(let)
            for write in found.writes:
                raise Refused("overlap", f"{write} after it was copied")
            for use in found.uses:
                if use.written and not inspection.apart(taken, use.index):
                    raise Refused(
                        "overlap", f"{use} while {point.source}, which was copied there, is still "
                        "used",
                    )  # fmt: skip


def _may_skip(expr: fun.Expr) -> bool:
    """Whether bodies may not run, for other reasons than that a range is empty."""
    return not isinstance(expr, fun.Kernel | fun.Loop) or (
        isinstance(expr, fun.Loop) and isinstance(expr.form, fun.While)
    )
