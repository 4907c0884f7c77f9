"""One side of a contraction, packed: its values in the order in which tiles of registers use them.

A panel holds what some rows (as many as a tile of registers has) give for each reduced index of a
block: for k, for each row. Rows beyond those that are wanted repeat the last one that is.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence, Set
from dataclasses import replace

from weft.fun import nodes as fun
from weft.fun.contractions import BLOCK, Side
from weft.imp import nodes as imp
from weft.imp.nodes import machine
from weft.lower import bodies, bounds
from weft.lower.emitter import Emitter
from weft.lower.rows import simd
from weft.lower.unit import memory
from weft.records import dataclass
from weft.sizes import ONE, Size

NEAR = 8  # rows that are read side by side, at most, where neighbours in memory are of one row
ACROSS, ALONG = 4, 16  # reduced indices of a panel that are filled before what lies beside them is


def in_sequence(side: Side, range_: fun.Range) -> bool:
    """Whether rows that follow each other do so in memory, in most of what is read."""
    name = range_.index.name
    steps = [
        memory(read.array).index.apply(read.indices).coefficient(name) for read in side.reads()
    ]
    return 2 * steps.count(ONE) > len([step for step in steps if step])


@dataclass(frozen=True, slots=True)
class Panels:
    """A thread's panels of one side.

    Attributes
    ----------
    side : Side
    range : fun.Range
        The rows, or columns, that the side varies with.
    width : int
        How many of them a panel has.
    most : int
        How many there are at most, a multiple of that.
    blocks : tuple of str
        The memory of each of the side's values.
    rounds : tuple of str
        The values that lie in the same memory, in this order for each reduced index; none where
        each has memory of its own.
    """

    side: Side
    range: fun.Range
    width: int
    most: int
    blocks: tuple[str, ...]
    rounds: tuple[str, ...] = ()

    @staticmethod
    def of(
        e: Emitter, side: Side, range_: fun.Range, width: int, about: int, rounds: Sequence[str]
    ) -> Panels:
        made = Panels(side, range_, width, -(-about // width) * width, (), tuple(rounds))
        sizes = [BLOCK * value.type.dtype.itemsize for value in side.values]
        if rounds:
            blocks = (e.unit.own_region(made.room(e) * sum(sizes)),) * len(sizes)
        else:
            blocks = tuple(e.unit.own_region(made.room(e) * size) for size in sizes)
        return replace(made, blocks=blocks)

    @property
    def depth(self) -> int:
        """How many rounds of a loop over a panel a reduced index is."""
        return len(self.rounds) or 1

    def room(self, e: Emitter) -> Size:
        """How many rows there is room for: whole panels."""
        return e.at_most(self.range.extent + self.width - 1, self.most)

    def apart(self) -> tuple[Panels, ...]:
        """The panels of the parts of the side that share nothing."""
        blocks = dict(zip(self.side.values, self.blocks, strict=True))
        return tuple(
            replace(self, side=side, blocks=tuple(blocks[value] for value in side.values))
            for side in self.side.apart()
        )

    def at(self, e: Emitter, panel: imp.Expr, k: imp.Expr) -> imp.Expr:
        """Where the values of a panel at a round of the block begin."""
        begin = e.declare(machine("*", panel, imp.integer(BLOCK * self.depth * self.width)))
        return e.declare(machine("+", begin, e.declare(machine("*", k, imp.integer(self.width)))))

    def bind(self, e: Emitter, at: imp.Expr, used: Set[str] | None = None) -> None:
        """The side's values are those at this place; of some alone where `used` names them."""
        for value, block in zip(self.side.values, self.blocks, strict=True):
            if used is not None and value.name not in used:
                continue
            pointer = e.pointer(block, value.type.dtype)
            e.bind(value.name, e.declare(imp.Load(pointer, at), depth=e.depth))


@dataclass(frozen=True, slots=True)
class Packing:
    """What is packed: rows from `lower` on, reduced indices from `start` on, `size` of them.

    Only the rows `first` to `last` are read.
    """

    e: Emitter
    panels: Panels
    reduced: str
    start: imp.Expr
    size: imp.Expr
    lower: imp.Expr
    first: imp.Expr
    last: imp.Expr

    def fill(self) -> tuple[imp.Expr, imp.Expr]:
        """The panels of the rows that are read, in the order in which those are: from, to below.

        What shares nothing is read apart: rows that lie a power of two apart take the same few
        places of a cache.
        """
        e, known = self.e, self.e.known
        self._check()
        width = imp.integer(self.panels.width)
        first, last = (
            machine("/", machine("-", row, self.lower), width) for row in (self.first, self.last)
        )
        begin, end = e.declare(first), e.declare(machine("+", last, imp.ONE))
        for panels in self.panels.apart():
            replace(self, panels=panels)._panels(begin, end)
        e.known = known
        return begin, end

    def _check(self) -> None:
        """Indices that are to be checked here are so at both of their ends, if they are affine.

        All rows from the first to the last one are read at all reduced indices.
        """
        e, side = self.e, self.panels.side
        made = {var.name for let in side.statements for var in let.pattern}
        for let in side.statements:
            if not isinstance(let.expr, fun.Index):
                continue
            e.place = let.place or e.place
            for axis, index, extent in bounds.check(e, let.expr):
                if index.variables() & made or not self._is_affine(index):
                    continue
                for largest in (False, True):
                    self._bind_end(index, largest=largest)
                    bounds.require(e, let.expr.array.name, axis, e.named(index), e.named(extent))
                e.known = (*e.known, index, extent - 1 - index)

    def _is_affine(self, index: Size) -> bool:
        return all(
            index.degree(name) <= 1 and index.coefficient(name).is_constant
            for name in (self.reduced, self.panels.range.index.name)
        )

    def _bind_end(self, index: Size, *, largest: bool) -> None:
        """The reduced index and the row are those at which an affine index is largest, or least."""
        e, below = self.e, machine("+", self.start, self.size)
        ranges = {
            self.reduced: (self.start, machine("-", below, imp.ONE)),
            self.panels.range.index.name: (self.first, self.last),
        }
        for name, (first, last) in ranges.items():
            falls = index.coefficient(name).constant < 0
            e.bind(name, first if falls is largest else last)

    def _panels(self, begin: imp.Expr, end: imp.Expr) -> None:
        e, width = self.e, imp.integer(self.panels.width)
        panel = e.unit.integer("panel")
        if in_sequence(self.panels.side, self.panels.range):
            some = e.unit.integer("s")
            with e.loop(some, imp.ZERO, self.size, step=ACROSS):
                below = self._below(some, ACROSS)

                def rows_together(inside: bool) -> None:
                    k, lane = e.unit.integer("k"), e.unit.integer("l")
                    with (
                        e.loop(k, some, below),
                        simd(e, lane, imp.ZERO, width, wide=True),
                    ):
                        self._element(panel, k, lane, inside)

                with e.loop(panel, begin, end):
                    self._either(panel, rows_together)
            return
        near = max(n for n in range(1, NEAR + 1) if self.panels.width % n == 0)

        def row_by_row(inside: bool) -> None:
            some, base, k, lane = (e.unit.integer(name) for name in ("s", "b", "k", "l"))
            with e.loop(some, imp.ZERO, self.size, step=ALONG):
                below = self._below(some, ALONG)
                with (
                    e.loop(base, imp.ZERO, width, step=near),
                    e.loop(k, some, below),
                    simd(e, lane, imp.ZERO, imp.integer(near), wide=True),
                ):
                    self._element(panel, k, e.declare(machine("+", base, lane)), inside)

        with e.loop(panel, begin, end):
            self._either(panel, row_by_row)

    def _below(self, first: imp.Expr, count: int) -> imp.Expr:
        """Where so many reduced indices from the first one on end."""
        e = self.e
        return e.declare(machine("min", self.size, machine("+", first, imp.integer(count))))

    def _either(self, panel: imp.Expr, fill: Callable[[bool], None]) -> None:
        """A panel whose rows are all read, or one that ends before."""
        e, width = self.e, self.panels.width
        row = e.declare(machine("+", self.lower, machine("*", panel, imp.integer(width))))
        end = machine("+", row, imp.integer(width - 1))
        whole = machine("&&", machine(">=", row, self.first), machine("<=", end, self.last))
        e.either(e.declare(whole), lambda: fill(True), lambda: fill(False))

    def _element(self, panel: imp.Expr, k: imp.Expr, lane: imp.Expr, inside: bool) -> None:
        e, panels = self.e, self.panels
        e.bind(self.reduced, e.declare(machine("+", self.start, k)))
        row = e.declare(machine("+", self.lower, machine("*", panel, imp.integer(panels.width))))
        at = e.declare(machine("+", row, lane))
        if not inside:
            at = e.declare(machine("max", at, self.first))
            at = e.declare(machine("min", at, self.last))
        e.bind(panels.range.index.name, at)
        bodies.lower_body(e, fun.Body(panels.side.statements, ()))
        first = e.declare(machine("*", k, imp.integer(panels.depth)))
        for value, block in zip(panels.side.values, panels.blocks, strict=True):
            number = panels.rounds.index(value.name) if panels.rounds else 0
            begin = panels.at(e, panel, e.declare(machine("+", first, imp.integer(number))))
            pointer = e.pointer(block, value.type.dtype)
            place = e.declare(machine("+", begin, lane))
            e.emit(imp.Store(pointer, place, e.scalars[value.name]))
