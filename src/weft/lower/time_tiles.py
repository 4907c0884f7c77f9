"""Rounds of an iterated stencil on one tile of its arrays after another, while it is in a cache.

    for k from 0 to t { parallel tile { kernel on the tile's box } }
 => for phase p of s rounds {
      for half from 0 to 2 {                        -- even trapezoids, then odd ones
        parallel chunk of a dimension {
          for block of the first dimension { for block of the next dimension { ...
            for k from p*s to p*s + s { kernel on a box }
    } } } }

Even trapezoids are chunks of a dimension that lose at each level what their
neighbours' cells would be needed for; odd ones grow from the seams between chunks and take the
cells that even ones left (van Beurden and Scholz, On Generating Out-Of-Core GPU Code for
Multi-Dimensional Array Operations, IFL 2022, section 5.4). Nothing is computed twice. Chunks are
of the first dimension; of the second where that is much longer, as it is where few rows
of an array are in memory: trapezoids of few rows lose most of them. Inside of
a trapezoid, blocks lean: at each level they lie a radius or more further to the front, so that a
block needs but what it and those before it have made (M. Wolfe, More Iteration Space Tiling, 1989).
Blocks of two dimensions or more, which are larger than a core's own cache, are cut once more along
the first one: each part, leaning as the block does, does some rounds before the next part.

A level is one kernel of one round. Level l writes and reads memory in which elements of one index
are disjoint from those of all other indices, and reads at most one radius r away. So what it
does at an index must come after what earlier levels do within r of it, whether that is a write
that it reads or a read of what it overwrites. Both slopes, r a level, give just that.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager

from weft.fun import nodes as fun
from weft.imp import nodes as imp
from weft.imp.nodes import machine
from weft.lower import kernels, spaces
from weft.lower.emitter import Emitter
from weft.lower.time_tiling import TimeTiling, Turns
from weft.lower.trapezoids import Parts, Shape, Sides, Trapezoids, halves
from weft.sizes import ZERO, Poly, Size


def lower_loop(e: Emitter, let: fun.Let, tiling: TimeTiling) -> None:
    """The loop's rounds in tiles, and its scalars as they are after them."""
    loop = tiling.loop
    assert isinstance(loop.form, fun.For)
    Tiles(e, loop, tiling).lower()
    rounds = e.named(loop.form.upper - loop.form.lower)
    for number, value in _scalars(e, tiling.turns, rounds):
        e.bind(let.pattern[number].name, value)
    for var in let.pattern:
        if isinstance(var.type, fun.Array):
            e.depths["@" + var.name] = e.depth


def _scalars(e: Emitter, turns: Turns, round_: imp.Expr) -> Iterator[tuple[int, imp.Expr]]:
    """The scalar parameters, by number, as a round gets them."""
    values = {}
    for number, initial in turns.flips:
        parity = e.declare(machine("&", round_, imp.ONE))
        first = e.atom(initial)
        values[number] = e.declare(imp.Select(
            machine("==", parity, imp.ZERO), first, machine("-", imp.ONE, first)
        ))  # fmt: skip
        yield number, values[number]
    for number, flip, initial in turns.follows:
        begins = machine("==", round_, imp.ZERO)
        yield number, e.declare(imp.Select(begins, e.atom(initial), values[flip]))


class Tiles(Trapezoids):
    """One loop's lowering, from the outside to the inside."""

    def lower(self) -> None:
        e, shape = self.e, self.shape()
        phase, half = e.unit.integer("phase"), e.unit.integer("half")
        with e.loop(phase, imp.ZERO, spaces.ceil(e, self.rounds, shape.steps)):
            first, count = self.phase(phase, shape)
            self.lean_from(first)
            with e.loop(half, imp.ZERO, imp.integer(halves(self.stencil))):
                odd = e.declare(machine("==", half, imp.ONE))
                tiles = e.declare(imp.Select(odd, shape.seams, shape.chunks))
                with spaces.parallel(e, tiles, self.label()) as tile:
                    self.sweep(self.trapezoid(tile, odd, shape), first, count, shape)

    def label(self) -> str:
        kernel = self.kernels[0].expr
        assert isinstance(kernel, fun.Kernel)
        whole = spaces.describe("map", kernel.space, self.kernels[0].pattern)
        more = f" and {len(self.kernels) - 1} more" if len(self.kernels) > 1 else ""
        return f"{whole}{more}, many rounds at a time in even and odd trapezoids"

    def sweep(
        self, trapezoid: Sequence[Sides], first: imp.Expr, count: imp.Expr, shape: Shape
    ) -> None:
        """Its blocks one after another, all rounds of the phase on each."""
        e = self.e
        levels = e.declare(machine("*", count, imp.integer(len(self.kernels))))
        box: list[tuple[imp.Expr, imp.Expr]] = []
        with ExitStack() as loops:
            for axis, sides in enumerate(trapezoid):
                base, number, span = self.blocks(axis, sides, levels, shape.spans[axis])
                block = e.unit.integer("block")
                loops.enter_context(e.loop(block, imp.ZERO, number))
                if axis == 0:
                    e.emit(imp.Poll())
                start = e.declare(machine("+", base, e.declare(machine("*", block, span))))
                box.append((start, e.declare(machine("+", start, span))))
            if shape.parts is not None:
                begin, box[0] = loops.enter_context(self.part(box[0], count, shape.parts))
                least = e.declare(machine("-", count, begin))
                count = e.declare(machine("min", least, shape.parts.steps))
            else:
                begin = imp.ZERO
            step = e.unit.integer("step")
            with e.loop(step, imp.ZERO, count):
                now = e.declare(machine("+", begin, step))
                self.round(trapezoid, first, now, box)

    @contextmanager
    def part(
        self, rows: tuple[imp.Expr, imp.Expr], count: imp.Expr, parts: Parts
    ) -> Iterator[tuple[imp.Expr, tuple[imp.Expr, imp.Expr]]]:
        """Some of a block's rounds on one part of it after another: its first round, its rows."""
        e, (start, stop) = self.e, rows
        some, part = e.unit.integer("some"), e.unit.integer("part")
        with e.loop(some, imp.ZERO, spaces.ceil(e, count, parts.steps)):
            begin = e.declare(machine("*", some, parts.steps))
            number = spaces.ceil(e, e.declare(machine("-", stop, start)), parts.span)
            with e.loop(part, imp.ZERO, number):
                low = e.declare(machine("+", start, e.declare(machine("*", part, parts.span))))
                high = e.declare(machine("min", stop, machine("+", low, parts.span)))
                yield begin, (low, high)

    def round(
        self, trapezoid: Sequence[Sides], first: imp.Expr, step: imp.Expr,
        block: Sequence[tuple[imp.Expr, imp.Expr]],
    ) -> None:  # fmt: skip
        """One round on a block, which leans."""
        e, loop = self.e, self.loop
        done = e.declare(machine("+", first, step))
        now = e.declare(machine("+", e.named(self.form.lower), done))
        for number, value in _scalars(e, self.tiling.turns, done):
            e.bind(loop.params[number].name, value)
        for param in loop.params:
            e.depths["@" + param.name] = e.depth
        level = e.declare(machine("*", step, imp.integer(len(self.kernels))), "level")
        with e.index(self.form.index.name, now, self.form.lower, self.form.upper):
            number = 0
            for let in loop.body.statements:
                e.place = let.place or e.place
                if not isinstance(let.expr, fun.Kernel):
                    e.unit.statement(e, let)
                    continue
                ranges = self.ranges(let.expr, number)
                for box in self.boxes(trapezoid, first, level, block):
                    kernels.lower_box(e, let, box, ranges)
                level = e.declare(machine("+", level, imp.ONE))
                number += 1

    def ranges(self, kernel: fun.Kernel, number: int) -> list[tuple[Size, Size]]:
        """What no box of a kernel goes beyond, the kernels of a round counted from 0.

        Rows that lean are bounded by the whole array, since from round to round they differ.
        """
        ranges: list[tuple[Size, Size]] = [(ZERO, r.extent) for r in kernel.space]
        if self.lean is not None:
            index = Poly.var(self.form.index.name)
            low, high = self.lean.rows((index - self.form.lower) * len(self.kernels) + number)
            if index.variables().isdisjoint((high - low).variables()):
                ranges[0] = low, high
        return ranges

    def boxes(
        self, trapezoid: Sequence[Sides], first: imp.Expr, level: imp.Expr,
        block: Sequence[tuple[imp.Expr, imp.Expr]],
    ) -> Iterator[list[tuple[imp.Expr, imp.Expr]]]:  # fmt: skip
        """The block's box of a level; two where it goes around the first dimension's end."""
        e = self.e
        levels = e.declare(machine("+", level, imp.ONE))
        limits = [sides.after(e, levels) for sides in trapezoid]
        limits[0] = self.inside(levels, limits[0])
        box = []
        for axis, ((low, high), (start, stop)) in enumerate(zip(limits, block, strict=True)):
            lean = e.declare(machine("*", level, self.leans[axis]))
            box.append((
                e.declare(machine("max", low, e.declare(machine("-", start, lean)))),
                e.declare(machine("min", high, e.declare(machine("-", stop, lean)))),
            ))  # fmt: skip
        if not self.wraps:
            yield [self.needed(box[0], first, level), *box[1:]]
            return
        (low, high), extent = box[0], self.extents[0]
        part = e.unit.integer("part")
        with e.loop(part, imp.ZERO, imp.integer(2)):
            here = e.declare(machine("==", part, imp.ZERO))
            inside = e.declare(machine("min", high, extent))
            around = e.declare(machine("-", high, extent))
            over = e.declare(machine("-", e.declare(machine("max", low, extent)), extent))
            yield [
                (
                    e.declare(imp.Select(here, low, over)),
                    e.declare(imp.Select(here, inside, around)),
                ),
                *box[1:],
            ]

    def inside(
        self, levels: imp.Expr, rows: tuple[imp.Expr, imp.Expr]
    ) -> tuple[imp.Expr, imp.Expr]:
        """Those of some rows that lean as they must: odd trapezoids grow beyond them."""
        e = self.e
        if self.lean is None:
            return rows
        (low, high), (least, most) = rows, self.edges[0].after(e, levels)
        return e.declare(machine("max", low, least)), e.declare(machine("min", high, most))

    def needed(
        self, rows: tuple[imp.Expr, imp.Expr], first: imp.Expr, level: imp.Expr
    ) -> tuple[imp.Expr, imp.Expr]:
        """Those of some rows that the used rows of the loop's result need of a level."""
        e, (low, high) = self.e, rows
        assert self.form.tiled is not None
        lower, upper = self.form.tiled
        if (lower, upper) == (ZERO, self.stencil.shape[0]):
            return rows
        count = imp.integer(len(self.kernels))
        left = machine("-", machine("*", machine("-", self.rounds, first), count), imp.ONE)
        left = machine("-", e.declare(left), level)
        margin = e.declare(machine("*", e.declare(left), self.radius[0]))
        least = e.declare(machine("-", e.named(lower), margin))
        most = e.declare(machine("+", e.named(upper), margin))
        return e.declare(machine("max", low, least)), e.declare(machine("min", high, most))
