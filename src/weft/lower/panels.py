"""One side of a contraction, packed: its values in the order in which tiles of registers use them.

A panel holds what some rows (as many as a tile of registers has) give for each reduced index of a
block: for k, for each row. Rows beyond those that are wanted repeat the last one that is.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from math import gcd

from weft.fun import nodes as fun
from weft.fun.contractions import BLOCK, Side
from weft.imp import nodes as imp
from weft.imp.nodes import machine
from weft.lower import bodies
from weft.lower.emitter import Emitter
from weft.lower.rows import simd
from weft.lower.unit import memory
from weft.records import dataclass
from weft.sizes import ONE, Size

NEAR = 8  # rows that are read side by side, where neighbours in memory are of one row


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

    def fill(self, count: imp.Expr) -> None:
        """So many panels, in the order in which they are read."""
        e, width = self.e, imp.integer(self.panels.width)
        panel = e.unit.integer("panel")
        if in_sequence(self.panels.side, self.panels.range):
            k = e.unit.integer("k")

            def rows_together(inside: bool) -> None:
                lane = e.unit.integer("l")
                with simd(e, lane, imp.ZERO, width, wide=True):
                    self._element(panel, k, lane, inside)

            with e.loop(k, imp.ZERO, self.size), e.loop(panel, imp.ZERO, count):
                self._either(panel, rows_together)
            return
        near = gcd(NEAR, self.panels.width)

        def row_by_row(inside: bool) -> None:
            base, k, lane = (e.unit.integer(name) for name in ("b", "k", "l"))
            with (
                e.loop(base, imp.ZERO, width, step=near),
                e.loop(k, imp.ZERO, self.size),
                e.loop(lane, imp.ZERO, imp.integer(near), unroll=near),
            ):
                self._element(panel, k, e.declare(machine("+", base, lane)), inside)

        with e.loop(panel, imp.ZERO, count):
            self._either(panel, row_by_row)

    def _either(self, panel: imp.Expr, fill: Callable[[bool], None]) -> None:
        """A panel whose rows are all read, or one that ends before."""
        e, width = self.e, self.panels.width
        row = e.declare(machine("+", self.lower, machine("*", panel, imp.integer(width))))
        end = machine("+", row, imp.integer(width - 1))
        whole = machine("&&", machine(">=", row, self.first), machine("<=", end, self.last))
        ways = []
        for inside in (True, False):
            with e.level() as statements:
                fill(inside)
            ways.append(tuple(statements))
        e.emit(imp.If(e.declare(whole), ways[0], ways[1]))

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
        place = e.declare(machine("+", panels.at(e, panel, k), lane))
        for value, block in zip(panels.side.values, panels.blocks, strict=True):
            pointer = e.pointer(block, value.type.dtype)
            e.emit(imp.Store(pointer, place, e.scalars[value.name]))
