"""One side of a contraction, packed: its values in the order in which tiles of registers use them.

A panel holds what some rows (as many as a tile of registers has) give for each reduced index of a
block: for k, for each row. Rows beyond those that are wanted repeat the last one that is.
"""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass, replace

from weft.fun import nodes as fun
from weft.fun.contractions import BLOCK, Side
from weft.imp import nodes as imp
from weft.imp.nodes import machine
from weft.lower import bodies
from weft.lower.emitter import Emitter
from weft.lower.rows import simd
from weft.lower.unit import memory
from weft.sizes import ONE, Size

NEAR = 8  # rows that are read side by side, where neighbours in memory are of one row


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
    """

    side: Side
    range: fun.Range
    width: int
    most: int
    blocks: tuple[str, ...]

    @staticmethod
    def of(e: Emitter, side: Side, range_: fun.Range, width: int, about: int) -> Panels:
        made = Panels(side, range_, width, -(-about // width) * width, ())
        blocks = tuple(
            e.unit.own_region(made.room(e) * (BLOCK * value.type.dtype.itemsize))
            for value in side.values
        )
        return replace(made, blocks=blocks)

    def room(self, e: Emitter) -> Size:
        """How many rows there is room for: whole panels."""
        return e.at_most(self.range.extent + self.width - 1, self.most)

    def at(self, e: Emitter, panel: imp.Expr, k: imp.Expr) -> imp.Expr:
        """Where the values of a panel at a reduced index of the block begin."""
        begin = e.declare(machine("*", panel, imp.integer(BLOCK * self.width)))
        return e.declare(machine("+", begin, e.declare(machine("*", k, imp.integer(self.width)))))

    def bind(self, e: Emitter, at: imp.Expr) -> None:
        """The side's values are those at this place."""
        for value, block in zip(self.side.values, self.blocks, strict=True):
            pointer = e.pointer(block, value.type.dtype)
            e.bind(value.name, e.declare(imp.Load(pointer, at), depth=e.depth))

    def pack(
        self,
        e: Emitter,
        reduced: str,
        start: imp.Expr,
        size: imp.Expr,
        panels: imp.Expr,
        lower: imp.Expr,
        first: imp.Expr,
        last: imp.Expr,
    ) -> None:
        """Fills so many panels, from the row `lower` on, for `size` reduced indices from `start`.

        Only the rows `first` to `last` are read.
        """
        panel = e.unit.integer("panel")
        with e.loop(panel, imp.ZERO, panels):
            row = e.declare(machine("+", lower, machine("*", panel, imp.integer(self.width))))
            end = machine("+", row, imp.integer(self.width - 1))
            whole = e.declare(machine("&&", machine(">=", row, first), machine("<=", end, last)))
            ways = []
            for limits in (None, (first, last)):
                with e.level() as statements:
                    self._fill(e, reduced, start, size, panel, row, limits)
                ways.append(tuple(statements))
            e.emit(imp.If(whole, ways[0], ways[1]))

    def _fill(
        self,
        e: Emitter,
        reduced: str,
        start: imp.Expr,
        size: imp.Expr,
        panel: imp.Expr,
        row: imp.Expr,
        limits: tuple[imp.Expr, imp.Expr] | None,
    ) -> None:
        k, lane = e.unit.integer("k"), e.unit.integer("l")

        def element(lane: imp.Expr) -> None:
            e.bind(reduced, e.declare(machine("+", start, k)))
            at = e.declare(machine("+", row, lane))
            if limits is not None:
                at = e.declare(machine("min", e.declare(machine("max", at, limits[0])), limits[1]))
            e.bind(self.range.index.name, at)
            bodies.lower_body(e, fun.Body(self.side.statements, ()))
            place = e.declare(machine("+", self.at(e, panel, k), lane))
            for value, block in zip(self.side.values, self.blocks, strict=True):
                pointer = e.pointer(block, value.type.dtype)
                e.emit(imp.Store(pointer, place, e.scalars[value.name]))

        if self._in_sequence():
            width = imp.integer(self.width)
            with e.loop(k, imp.ZERO, size), simd(e, lane, imp.ZERO, width, wide=True):
                element(lane)
            return
        base = e.unit.integer("b")
        near = min(NEAR, self.width)
        with ExitStack() as loops:
            loops.enter_context(e.loop(base, imp.ZERO, imp.integer(self.width), step=near))
            loops.enter_context(e.loop(k, imp.ZERO, size))
            loops.enter_context(e.loop(lane, imp.ZERO, imp.integer(near), unroll=near))
            element(e.declare(machine("+", base, lane)))

    def _in_sequence(self) -> bool:
        """Whether rows that follow each other do so in memory, in most of what is read."""
        name = self.range.index.name
        steps = [
            memory(read.array).index.apply(read.indices).coefficient(name)
            for read in self.side.reads()
        ]
        return 2 * steps.count(ONE) > len([step for step in steps if step])
