"""Choose buffers: loops alternate between memory that is there, as C does by swapping pointers.

block mem_p 8*n*2                               block mem_p 8*n
let s @ mem_p + 0 = copy a                      choices: before = one of (mem_p, result_0, a), ..
let q @ mem_p + e*n, e =                        let q @ after, e, g =
  loop (p @ mem_p + b*n = s, b = 0)        =>     loop (p @ before = a, b = (t + 1) % 2, h = 2)
      for k from 0 to t {                             for k from 0 to t {
    let r @ mem_p + (1 - b)*n = kernel .. p ..      let r @ made = kernel .. p ..
    in r, 1 - b }                                   in r, 1 - b, 1 - b }
let z @ result_0 = copy q                       let z @ result_0 = copy q    -- where q is elsewhere
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from weft.fun import nodes as fun
from weft.fun import walk
from weft.fun.builder import Names
from weft.lmad import Lmad
from weft.mem.aliases import looked_at
from weft.mem.last_use import blocks_of
from weft.mem.nodes import Block, Choice, MemArray, Program
from weft.mem.project import Arrays
from weft.mem.relocate import relocate
from weft.mem.scope import variables
from weft.ops.dtypes import DType
from weft.records import dataclass
from weft.sizes import Poly, Size, product
from weft.sizes.division import divided

_I64 = fun.Scalar(DType.I64)


def choose_buffers(program: Program) -> Program:
    """Let loops with two buffers in one block use the result's memory, and read the argument.

    - One of the buffers is the memory that the loop's result is copied to, if nothing uses
      that meanwhile. Which one is first depends on the number of rounds, so that the last
      round ends there; where that number is not known (`while`), what the loop ended in is
      compared when the copy is reached, and it copies if it must.
    - The first round reads the loop's initial value where it is, if that was copied into a
      buffer, and nothing writes either.
    - Where neither is so, each buffer is a block of its own: two of a power of two in one block
      would share the sets of a cache.

    Removes copies. Adds choices, halves blocks. Requires loops as `introduce` makes them,
    after `short_circuit`, which knows no choices. Leaves loops in kernels as they are.
    """
    saving = _Chooser(program, apart=False).run()
    return _Chooser(saving, apart=True).run()


@dataclass(frozen=True, slots=True)
class _Buffers:
    """The two buffers of one array of a loop, and what can stand for them.

    `before`, `held`, `made`, `after`: the arrays in them that exist before the loop, that a
    round is given, that it makes, and that are left, each at its place within a buffer.
    """

    block: Block
    before: dict[str, Lmad]
    held: dict[str, Lmad]
    made: dict[str, Lmad]
    after: dict[str, Lmad]
    start: int  # the first statement that makes something in them
    argument: str | None  # what the first round reads
    result: MemArray | None  # the second buffer


class _Chooser:
    def __init__(self, program: Program, apart: bool) -> None:
        self.program = program
        self.apart = apart  # also where that saves no copy
        self.arrays = Arrays.of(program)
        self.names = Names.of(program.program)
        self.blocks = {block.name: block for block in program.blocks}
        self.choices = list(program.choices)
        self.gone: set[str] = set()  # remarks about copies that are no more
        self.params = {param.name for param in program.program.params}
        self.unwritten = self.params - program.donated.keys()

    def run(self) -> Program:
        whole = self.program.program
        body = relocate(self.body(whole.body), self.arrays)
        if len(self.choices) == len(self.program.choices):
            return self.program
        return replace(
            self.program,
            program=replace(whole, body=body),
            blocks=tuple(self.blocks.values()),
            choices=tuple(self.choices),
            remarks=tuple(r for r in self.program.remarks if r.what not in self.gone),
        )

    def body(self, body: fun.Body) -> fun.Body:
        statements = list(body.statements)
        position = len(statements) - 1
        while position >= 0:
            let = statements[position]
            if isinstance(let.expr, fun.Loop | fun.If):
                statements[position] = replace(let, expr=walk.map_bodies(let.expr, self.body))
            if isinstance(let.expr, fun.Loop):
                position += self.attempt(statements, position, body.results)
            position -= 1
        return fun.Body(tuple(statements), body.results)

    # ------------------------------------------------------------ one loop

    def attempt(self, statements: list[fun.Let], position: int, results: Sequence[fun.Atom]) -> int:
        """Choose for the loop at a position; how many statements have been put before it."""
        let = statements[position]
        loop = let.expr
        assert isinstance(loop, fun.Loop)
        turn = _turn(loop)
        if turn is None:
            return 0
        found = [
            buffers
            for number in range(len(loop.params))
            if (buffers := self.buffers(statements, position, number, turn, results)) is not None
        ]
        if not found:
            return 0
        start = min(buffers.start for buffers in found)
        added: list[fun.Let] = []
        first = loop.initial[turn]
        turned = [p for p in loop.params if self.turns(p, loop.params[turn].name)]
        if len(turned) == len(found) and any(buffers.result is not None for buffers in found):
            added, first = self.first_turn(statements, start, position)
        held, left = (fun.Var(self.names.fresh("held"), _I64) for _ in range(2))
        here, after = loop.params[turn], let.pattern[turn]
        for buffers in found:
            by_argument = buffers.argument is not None
            self.choose(
                buffers,
                first=Poly.var(first.name) if isinstance(first, fun.Var) else Poly.const(0),
                held=Poly.var(held.name if by_argument else here.name),
                made=1 - Poly.var(here.name),
                after=Poly.var(left.name if by_argument else after.name),
            )
        initial = (*loop.initial[:turn], first, *loop.initial[turn + 1 :])
        if any(buffers.argument is not None for buffers in found):
            body = fun.Body(loop.body.statements, (*loop.body.results, loop.body.results[turn]))
            loop = replace(loop, params=(*loop.params, held), body=body)
            initial = (*initial, fun.Const(2, DType.I64))
            let = replace(let, pattern=(*let.pattern, left))
        statements[position] = replace(let, expr=replace(loop, initial=initial))
        statements[start:start] = added
        return len(added)

    def turns(self, param: fun.Var, here: str) -> bool:
        """Whether a parameter lies where `here` says."""
        memory = self.arrays.memory.get(param.name)
        return memory is not None and here in variables(memory.index)

    def first_turn(
        self, statements: list[fun.Let], start: int, position: int
    ) -> tuple[list[fun.Let], fun.Atom]:
        """Which buffer comes first, such that the last round ends in the second."""
        loop = statements[position].expr
        assert isinstance(loop, fun.Loop)
        late = {var.name for let in statements[start:position] for var in let.pattern}
        if not isinstance(loop.form, fun.For):
            return [], fun.Const(0, DType.I64)
        rounds = loop.form.upper - loop.form.lower
        if rounds.variables() & late:
            return [], fun.Const(0, DType.I64)
        count, first = (fun.Var(self.names.fresh(name), _I64) for name in ("rounds", "first"))
        parity = fun.Apply("remainder", (count, fun.Const(2, DType.I64)))
        return [fun.Let((count,), fun.SizeValue(rounds + 1)), fun.Let((first,), parity)], first

    def choose(self, buffers: _Buffers, first: Size, held: Size, made: Size, after: Size) -> None:
        """Put the arrays of both buffers where they lie from now on."""
        block = buffers.block
        second = buffers.result.block if buffers.result is not None else None
        half = divided(block.bytes, 2)
        self.blocks[block.name] = replace(block, bytes=half)
        if second is None:
            second = self.fresh(block.name)
            self.blocks[second] = replace(block, name=second, bytes=half)
        both: tuple[str, ...] = (block.name, second)
        either = both
        if buffers.argument is not None:
            argument = self.arrays.memory[buffers.argument]
            either = (*both, argument.block)
            # The copy into the buffer becomes one of the argument to itself.
            self.arrays.move(dict.fromkeys(buffers.before, argument))
            self.gone.add(f"copy of {buffers.argument} into {block.name}")
        else:
            self.put(buffers.before, first, both)
        self.put(buffers.held, held, either)
        self.put(buffers.made, made, both)
        self.put(buffers.after, after, either)

    def put(self, places: dict[str, Lmad], turn: Size, blocks: tuple[str, ...]) -> None:
        if not places:
            return
        if turn.is_constant:
            block = blocks[turn.constant]
        else:
            self.choices.append(Choice(self.fresh("buffers"), turn, blocks))
            block = self.choices[-1].name
        memory = self.arrays.memory
        self.arrays.move(
            {
                name: replace(memory[name], block=block, index=index)
                for name, index in places.items()
            }
        )

    def fresh(self, base: str) -> str:
        """A name for memory."""
        taken = self.blocks.keys() | {choice.name for choice in self.choices}
        while (name := self.names.fresh(base)) in taken:
            pass
        return name

    # ------------------------------------------------------------ what is possible

    def buffers(
        self, statements: list[fun.Let], position: int, number: int, turn: int,
        results: Sequence[fun.Atom],
    ) -> _Buffers | None:  # fmt: skip
        """The buffers of one parameter, if something better than both can be chosen."""
        let = statements[position]
        loop = let.expr
        assert isinstance(loop, fun.Loop)
        param, here, end = loop.params[number], loop.params[turn].name, let.pattern[turn].name
        memory = self.arrays.memory.get(param.name)
        if memory is None or memory.block not in self.blocks:
            return None
        block, count = self.blocks[memory.block], product(memory.shape)
        whole = block.per_thread or block.bytes != 2 * count * memory.dtype.itemsize
        if whole or memory.index != Lmad.row_major(memory.shape, Poly.var(here) * count):
            return None
        groups = self.groups(statements, position, block.name, here, end, count)
        if groups is None:
            return None
        before, held, made, after = groups
        bound = _bound(statements)
        start = min((bound[name] for name in before), default=position)
        uses = [walk.used_names(s.expr) for s in statements]
        last = max((p for p, used in enumerate(uses) if used & after.keys()), default=position)
        if not after.keys().isdisjoint(a.name for a in results if isinstance(a, fun.Var)):
            return None
        copied = self.result(statements, position, last, start, after, memory)
        argument = self.argument(statements, position, number, groups, last)
        if copied is None and argument is None and not self.apart:
            return None
        result = None
        if copied is not None:
            result = self.arrays.memory[statements[last].pattern[0].name]
            self.gone.add(copied)
        return _Buffers(block, before, held, made, after, start, argument, result)

    def groups(
        self, statements: list[fun.Let], position: int, block: str, here: str, end: str, count: Size
    ) -> tuple[dict[str, Lmad], ...] | None:
        """The arrays of the block by when they are there: before, held, made, after."""
        groups: tuple[dict[str, Lmad], ...] = ({}, {}, {}, {})
        bound = _bound(statements)
        for name in sorted(self.arrays.members[block]):
            index = self.arrays.memory[name].index
            factor, left = index.offset.coefficient(here), index.offset.coefficient(end)
            rest = index.offset.without(here).without(end)
            where = bound.get(name, -1)
            if factor == count and not left.terms:
                kind, fits = 1, where == position
            elif factor == -count and not left.terms:
                kind, fits, rest = 2, where == position, rest - count
            elif left == count and not factor.terms:
                kind, fits = 3, where >= position
            else:
                kind, fits = 0, 0 <= where < position
            place = Lmad(rest, index.dims)
            if not fits or {here, end} & variables(place):
                return None
            groups[kind][name] = place
        return groups

    def result(
        self, statements: list[fun.Let], position: int, last: int, start: int,
        after: dict[str, Lmad], memory: MemArray,
    ) -> str | None:  # fmt: skip
        """The copy of what the loop leaves, if its target can be a buffer: what it is called."""
        copy = statements[last]
        if last <= position or not isinstance(copy.expr, fun.Copy):
            return None
        target = self.arrays.memory[copy.pattern[0].name]
        index = Lmad.row_major(memory.shape)
        name = copy.expr.array.name
        block = self.blocks.get(target.block)
        if (
            target.index != index
            or after.get(name) != index
            or target.block in self.unwritten
            or target.block == memory.block
            or (
                block is None
                and target.block not in self.params
                and not target.block.startswith("result_")
            )
            or (block is not None and block.per_thread)
            or target.block in self.blocks_of(statements[start:last])
        ):
            return None
        return f"copy of {name} into {target.block}"

    def argument(
        self, statements: list[fun.Let], position: int, number: int,
        groups: tuple[dict[str, Lmad], ...], last: int,
    ) -> str | None:  # fmt: skip
        """The array that is copied into the first buffer, if the first round may read it."""
        before, held, _, after = groups
        loop = statements[position].expr
        assert isinstance(loop, fun.Loop)
        first = loop.initial[number]
        if not isinstance(first, fun.Var) or before.keys() != {first.name}:
            return None
        start = _bound(statements)[first.name]
        copy = statements[start]
        if not isinstance(copy.expr, fun.Copy):
            return None
        name = copy.expr.array.name
        source = self.arrays.memory[name]
        others = [*loop.initial[:number], *loop.initial[number + 1 :]]
        users = [let for let in statements[start + 1 :] if first.name in walk.used_names(let.expr)]
        if (
            source.index != before[first.name]
            or not (source.block in self.params or source.block in self.blocks)
            or users != [statements[position]]
            or first in others
            or any(first.name in walk.free_names(body) for body in walk.bodies(loop))
        ):
            return None
        ends = {*(p.name for p in loop.params), *(v.name for v in statements[position].pattern)}
        for array in (*held, *after):
            made = self.arrays.bound_by.get(array)
            if array not in ends and (made is None or looked_at(made.expr) is None):
                return None  # it is written in place
        used = statements[start + 1 : last + 1]
        if self.copies_back(statements[last], after, source):
            used.pop()
        if source.block not in self.unwritten and source.block in self.blocks_of(used):
            return None
        return name

    def blocks_of(self, statements: Sequence[fun.Let]) -> set[str]:
        """The blocks that statements name as arrays lie now, and what their loops choose from."""
        body = relocate(fun.Body(tuple(statements), ()), self.arrays)
        named: set[str] = set().union(*map(blocks_of, body.statements))
        return named.union(*(c.blocks for c in self.choices if c.name in named))

    def copies_back(self, let: fun.Let, after: dict[str, Lmad], source: MemArray) -> bool:
        """Whether a statement copies what a loop leaves to its argument's place."""
        if not isinstance(let.expr, fun.Copy):
            return False
        target = self.arrays.memory[let.pattern[0].name]
        return target == source and after.get(let.expr.array.name) == source.index


def _turn(loop: fun.Loop) -> int | None:
    """The parameter that says which buffer is whose: it begins as 0, and becomes 1 less it."""
    made = {let.pattern[0].name: let.expr for let in loop.body.statements if let.pattern}
    for number, (param, first) in enumerate(zip(loop.params, loop.initial, strict=True)):
        flip = fun.Apply("subtract", (fun.Const(1, DType.I64), param))
        result = loop.body.results[number]
        begins = first == fun.Const(0, DType.I64)
        if begins and isinstance(result, fun.Var) and made.get(result.name) == flip:
            return number
    return None


def _bound(statements: Sequence[fun.Let]) -> dict[str, int]:
    """For each name bound in them, at any depth, the statement."""
    found: dict[str, int] = {}

    def bind(let: fun.Let, position: int) -> None:
        binders = (*let.pattern, *walk.operands(let.expr)[2])
        found.update(dict.fromkeys((var.name for var in binders), position))
        for body in walk.bodies(let.expr):
            for inner in body.statements:
                bind(inner, position)

    for position, let in enumerate(statements):
        bind(let, position)
    return found
