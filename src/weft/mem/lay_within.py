"""Lay within: arguments and results of a box lie in the arrays that its rounds write.

    let new = slice a[s for m]                      let new @ b[o; ..] = slice a[s for m]
    let x @ b[..] = update rows[d for m] = new      let x @ b[..] = update rows[d for m] = new
    ..                                         =>   ..
    let y = slice x[e for k]                        let y = slice x[e for k]
    let r @ result_0[..] = copy y                   let r @ b[..] = slice y[0 for k]

    let x @ b[..] = copy a                      =>  let x @ b[..] = slice a[0 for n]

The transfers themselves bring rows of the argument a, and only those, to their place in b, and
take the result from where it is: copies to a device and from it, or what writes a box to a file.
An iterated stencil has two buffers then, where it had four, and boxes of twice the rows fit a
device. The CPU, which reads arguments where they lie, has results within alone.

Removes: copies of arguments that are used for nothing else, and of results; their own buffers;
    remarks about them.
Requires: FUNMEM after `merge_blocks`. Arguments and results that are `private` to a run: others may
    be in a buffer that runs share.
Ensures: the same results. An argument comes before the program begins: so nothing is written to
    its place before the update. A result goes after the program has ended: so nothing is written
    to its block after the copy.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from weft.fun import nodes as fun
from weft.fun import walk
from weft.lmad import Lmad
from weft.mem import layout
from weft.mem.nodes import MemArray, Program
from weft.mem.scope import Scope, turns_of
from weft.records import dataclass
from weft.sizes import ZERO, Size


@dataclass(frozen=True, slots=True)
class Within:
    """Rows of an argument or a result that lie in a block.

    Attributes
    ----------
    name : str
        The parameter's, or "result_k".
    block : str
    offset : Size
        Bytes into the block.
    begin, count : Size
        Which rows, indices of the first dimension.
    """

    name: str
    block: str
    offset: Size
    begin: Size
    count: Size


def lay_within(
    program: Program, private: Collection[str], *, launched: bool = True
) -> tuple[Program, tuple[Within, ...]]:
    """The program with what can lie in its blocks there, and where.

    `launched`: whether its loops are steps of a launch, so that whose turn it is in one is known
    before it runs.
    """
    return _Laying(program, private, launched).run() if private else (program, ())


class _Laying:
    def __init__(self, program: Program, private: Collection[str], launched: bool) -> None:
        self.source = program
        self.private = private
        self.statements = list(program.program.body.statements)
        self.results = list(program.program.body.results)
        self.shared = {block.name for block in program.blocks if not block.per_thread}
        self.uses = list(walk.uses(program.program.body))
        self.scope = Scope(program.program, program.strides)
        self.turns: list[str] = []
        if launched:  # it is known when kernels have been launched
            self.turns = [var.name for let in self.statements for _, var in turns_of(let)]
        self.found: list[Within] = []
        self.gone: set[str] = set()  # remarks about copies that are no more

    def run(self) -> tuple[Program, tuple[Within, ...]]:
        made = {var.name: n for n, let in enumerate(self.statements) for var in let.pattern}
        for number, result in enumerate(self.results):
            if isinstance(result, fun.Var) and result.name in made:
                self.result(number, made[result.name])
        for position in range(len(self.statements)):
            self.argument(position, made)
            self.whole_argument(position)
        if not self.found:
            return self.source, ()
        body = fun.Body(tuple(self.statements), tuple(self.results))
        whole = replace(self.source.program, body=body)
        remarks = tuple(r for r in self.source.remarks if r.what not in self.gone)
        return replace(self.source, program=whole, remarks=remarks), tuple(self.found)

    # ------------------------------------------------------------ results

    def result(self, number: int, position: int) -> None:
        """let r @ result_k = copy y  =>  let r @ b = slice y[..]"""
        let = self.statements[position]
        if f"result_{number}" not in self.private or not isinstance(let.expr, fun.Copy):
            return
        (var,), whole = let.pattern, let.expr.array
        assert isinstance(var.type, MemArray)
        lies = whole.type
        if not isinstance(lies, MemArray) or not self.has_room_for(lies):
            return
        if self.uses.count(var.name) > 1:
            return
        if any(self.writes(later, lies.block) for later in self.statements[position + 1 :]):
            return
        offset = lies.index.offset.substitute(dict.fromkeys(self.turns, ZERO))
        if not self.is_sized(offset, lies.shape[0]):
            return
        there = fun.Var(var.name, lies)
        spans = tuple(fun.Span(ZERO, extent) for extent in lies.shape)
        self.statements[position] = replace(let, pattern=(there,), expr=fun.Slice(whole, spans))
        self.results[number] = there
        self.gone.add(f"copy of {whole.name} into result_{number}")
        self.lies(f"result_{number}", lies, ZERO)

    # ------------------------------------------------------------ arguments

    def whole_argument(self, position: int) -> None:
        """let x @ b = copy a  =>  let x @ b = slice a[0 for n]"""
        let = self.statements[position]
        if not isinstance(let.expr, fun.Copy):
            return
        (var,), copied = let.pattern, let.expr.array
        if not isinstance(copied, fun.Var) or not self.is_own(copied.name):
            return
        there = var.type
        if not isinstance(there, MemArray) or not self.has_room_for(there):
            return
        if not self.is_sized(there.index.offset, there.shape[0]):
            return
        if not all(self.spares(s, there.block, there.index) for s in self.statements[:position]):
            return
        spans = tuple(fun.Span(ZERO, extent) for extent in there.shape)
        self.statements[position] = replace(let, expr=fun.Slice(copied, spans))
        self.gone.add(f"copy of {copied.name} into {there.block}")
        self.lies(copied.name, there, ZERO)

    def argument(self, position: int, made: dict[str, int]) -> None:
        """let new = slice a[..]; let x @ b = update rows[..] = new  =>  let new @ b = .."""
        update = self.statements[position].expr
        if not isinstance(update, fun.Update) or not isinstance(update.value, fun.Var):
            return
        new, whole = update.value, self.statements[position].pattern[0].type
        source = made.get(new.name)
        if source is None or source > position or self.uses.count(new.name) > 1:
            return
        view = self.statements[source].expr
        if not isinstance(view, fun.Slice) or not isinstance(new.type, MemArray):
            return
        name, rows = view.array.name, view.dims[0]
        if not self.is_own(name):
            return
        assert isinstance(whole, MemArray)
        index = layout.of_update(update, whole.index)
        there = replace(new.type, block=whole.block, index=index)
        if not self.has_room_for(there) or not new.type.index.is_dense:
            return
        if not isinstance(rows, fun.Span):
            return
        if not self.is_sized(index.offset, rows.start, rows.extent):
            return
        if not all(self.spares(let, whole.block, index) for let in self.statements[:position]):
            return
        moved = fun.Var(new.name, there)
        slice_, let = self.statements[source], self.statements[position]
        self.statements[source] = replace(slice_, pattern=(moved,))
        self.statements[position] = replace(let, expr=replace(update, value=moved))
        self.gone.add(f"copy of {new.name} into a part of {let.pattern[0].name}")
        self.lies(name, there, rows.start)

    def is_own(self, name: str) -> bool:
        """Whether it is a run's own argument, that is used once."""
        is_argument = any(param.name == name for param in self.source.program.params)
        return name in self.private and is_argument and self.uses.count(name) == 1

    def spares(self, let: fun.Let, block: str, place: Lmad) -> bool:
        """Whether a statement writes nothing to a place in a block."""
        if not self.writes(let, block):
            return True
        if not isinstance(let.expr, fun.Update):
            return False
        (var,) = let.pattern
        assert isinstance(var.type, MemArray)
        return self.scope.apart(layout.of_update(let.expr, var.type.index), place)

    # ------------------------------------------------------------ both

    def has_room_for(self, array: MemArray) -> bool:
        """Whether rows lie one after another, in a block that all threads share."""
        return array.block in self.shared and array.rank > 0 and array.index.is_dense

    def writes(self, let: fun.Let, block: str) -> bool:
        """Whether a statement, or one inside of it, makes an array in a block."""
        inner = (s for body in walk.bodies(let.expr) for s in walk.statements(body))
        alternatives = self.source.alternatives
        return any(
            isinstance(var.type, MemArray)
            and block in alternatives.get(var.type.block, (var.type.block,))
            for each in (let, *inner)
            if not isinstance(each.expr, (*fun.LAYOUT_CHANGES, fun.Empty))
            for var in each.pattern
        )

    def is_sized(self, *sizes: Size) -> bool:
        """Whether a run knows these sizes before it begins."""
        return all(size.variables() <= self.scope.launch for size in sizes)

    def lies(self, name: str, array: MemArray, begin: Size) -> None:
        """Note that rows of an argument or a result, from one on, are this array."""
        offset = array.index.offset * array.dtype.itemsize
        self.found.append(Within(name, array.block, offset, begin, array.shape[0]))
