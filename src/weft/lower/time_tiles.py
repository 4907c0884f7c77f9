"""Rounds of an iterated stencil on one tile of its arrays after another, while it is in a cache.

    for k from 0 to t { parallel tile { kernel on the tile's box } }
 => for phase p of s rounds {
      for half from 0 to 2 {                        -- even trapezoids, then odd ones
        parallel chunk of the first dimension {
          for block of the chunk { for block of the next dimension { ...
            for k from p*s to p*s + s { kernel on a box }
    } } } }

Even trapezoids are chunks of the first dimension that lose at each level what their
neighbours' cells would be needed for; odd ones grow from the seams between chunks and take the
cells that even ones left (van Beurden and Scholz, On Generating Out-Of-Core GPU Code for
Multi-Dimensional Array Operations, IFL 2022, section 5.4). Nothing is computed twice. Inside of
a trapezoid, blocks lean: at each level they lie a radius or more further to the front, so that a
block needs but what it and those before it have made (M. Wolfe, More Iteration Space Tiling, 1989).

A level is one kernel of one round. Level l writes and reads memory in which elements of one index
are disjoint from those of all other indices, and reads at most one radius r away. So what it
does at an index must come after what earlier levels do within r of it, whether that is a write
that it reads or a read of what it overwrites. Both slopes, r a level, give just that.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack

from weft.fun import nodes as fun
from weft.fun.stencils import Stencil
from weft.imp import nodes as imp
from weft.imp.nodes import machine
from weft.lower import kernels
from weft.lower.caches import caches
from weft.lower.emitter import Emitter
from weft.lower.time_tiling import TimeTiling, Turns
from weft.records import dataclass
from weft.sizes import ZERO, Poly, Size

LEVELS = (64, 32, 16)  # of a phase, by rank: at most
FEW_LEVELS = 8  # and so many, even if a block is then larger than a core's own cache
CHUNKS = 4  # trapezoids for each thread, to balance
LINE = 2048  # elements of a block of a vector
ALIGNED = 16  # elements, of which blocks of a vector begin at multiples: a cache line of float32
ROW = (1 << 14, 1 << 11)  # elements of a block's last dimension, by rank less 2: at most
SECOND = 32  # rows of a block in the second of three dimensions or more


def block_bytes() -> tuple[int, int]:
    """Of all arrays of a block, by rank less 2."""
    return caches().blocks()


def halves(stencil: Stencil) -> int:
    """Launches of a phase: where nothing meets its neighbours, odd trapezoids are empty."""
    return 2 if stencil.radius[0] else 1


def _leans(stencil: Stencil) -> tuple[int, ...]:
    """How much further to the front a block lies at each level, by dimension.

    At least one radius. Vectors' blocks lean by whole cache lines, so that their stores, of
    vectors too, are aligned at every level; those that wrap begin anywhere.
    """
    if len(stencil.shape) > 1 or stencil.wraps[0]:
        return stencil.radius
    return (-(-stencil.radius[0] // ALIGNED) * ALIGNED,)


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


@dataclass(frozen=True, slots=True)
class Shape:
    """What all phases of a loop have in common.

    Attributes
    ----------
    steps : imp.Expr
        Rounds of a phase.
    chunks, seams : imp.Expr
        Even and odd trapezoids.
    slope : imp.Expr
        What a trapezoid loses, or wins, on a side at each level.
    spans : tuple of imp.Expr
        How long a block is in each dimension.
    """

    steps: imp.Expr
    chunks: imp.Expr
    seams: imp.Expr
    slope: imp.Expr
    spans: tuple[imp.Expr, ...]


class Tiles:
    """One loop's lowering: what is known before it, then loops from the outside to the inside."""

    def __init__(self, e: Emitter, loop: fun.Loop, tiling: TimeTiling) -> None:
        assert isinstance(loop.form, fun.For)
        self.e, self.loop, self.tiling, self.form = e, loop, tiling, loop.form
        self.stencil = stencil = tiling.stencil
        self.rank = len(stencil.shape)
        self.extents = [e.named(extent) for extent in stencil.shape]
        self.radius = [imp.integer(r) for r in stencil.radius]
        self.leans = list(map(imp.integer, _leans(stencil)))
        self.kernels = [let for let in loop.body.statements if isinstance(let.expr, fun.Kernel)]
        self.wraps = stencil.wraps[0]
        self.lean = tiling.lean
        self.edges: tuple[imp.Expr, imp.Expr, imp.Expr, imp.Expr] = (
            imp.ZERO, self.extents[0], imp.ZERO, imp.ZERO,
        )  # fmt: skip
        self.rounds = e.declare(e.poly(loop.form.upper - loop.form.lower), "rounds")
        self.rows = self.fewest_rows()

    # ------------------------------------------------------------ shapes

    def fewest_rows(self) -> imp.Expr:
        """The indices of the first dimension that each kernel computes, at least."""
        e, lean = self.e, self.lean
        if lean is None:
            return self.extents[0]
        last = self.stencil.rounds * len(self.kernels) - 1
        before, after = lean.rows(ZERO), lean.rows(last)
        counts = [e.named(high - low) for low, high in (before, after)]
        return e.declare(machine("max", imp.ONE, e.declare(machine("min", *counts))))

    def lean_from(self, first: imp.Expr) -> None:
        """Note where rows begin and end before a phase's first level, and what each level adds."""
        e, lean = self.e, self.lean
        if lean is None:
            return
        done = e.declare(machine("*", first, imp.integer(len(self.kernels))))
        before = e.declare(machine("-", done, imp.ONE))
        left, right = e.named(lean.left), e.named(lean.right)
        begin, end = (
            e.declare(machine("-", e.named(row), e.declare(machine("*", slope, before))))
            for row, slope in ((lean.low, left), (lean.high, right))
        )
        self.edges = (
            begin, end,
            e.declare(machine("-", imp.ZERO, left)), e.declare(machine("-", imp.ZERO, right)),
        )  # fmt: skip

    def spans(self) -> list[imp.Expr]:
        """How long a block is in each dimension but the first."""
        e, found = self.e, []
        for axis in range(1, self.rank):
            extent = self.extents[axis]
            leaning = max(self.by_rank(LEVELS), len(self.kernels)) * self.stencil.radius[axis]
            whole = e.declare(machine("+", extent, imp.integer(leaning)))
            if self.stencil.wraps[axis] or (1 < axis < self.rank - 1):
                found.append(whole)
                continue
            most = imp.integer(SECOND if axis < self.rank - 1 else self.by_rank((0, *ROW)))
            parts = self.ceil(extent, most)
            some = self.ceil(extent, e.declare(machine("max", imp.ONE, parts)))
            alone = machine("<=", parts, imp.ONE)
            found.append(e.declare(imp.Select(alone, whole, some)))
        return found

    def by_rank(self, values: Sequence[int]) -> int:
        return values[min(self.rank, len(values)) - 1]

    def slice_bytes(self, spans: Sequence[imp.Expr], levels: imp.Expr) -> imp.Expr:
        """The bytes of all arrays at one index of the first dimension that a block meets."""
        e = self.e
        total: imp.Expr = imp.integer(self.stencil.itemsize)
        for axis, span in enumerate(spans, 1):
            leaning = e.declare(machine("*", levels, self.radius[axis]))
            length = e.declare(machine("min", self.extents[axis], machine("+", span, leaning)))
            total = e.declare(machine("*", total, length))
        return e.declare(machine("max", imp.ONE, total))

    def steps(self, spans: Sequence[imp.Expr]) -> imp.Expr:
        """Rounds of a phase: all phases have about as many."""
        e, count, radius = self.e, len(self.kernels), self.stencil.radius[0]
        most: imp.Expr = imp.integer(self.by_rank(LEVELS))
        if self.rank > 1:
            bytes_ = self.slice_bytes(spans, imp.ZERO)
            block = imp.integer(self.by_rank((0, *block_bytes())) // max(1, radius))
            room = e.declare(machine("/", block, bytes_))
            few = imp.integer(min(FEW_LEVELS, self.by_rank(LEVELS)))
            most = e.declare(machine("min", most, e.declare(machine("max", few, room))))
        if radius:
            # Trapezoids for every thread, each at least twice as long as what it loses.
            apart = e.declare(machine("*", self.threads(), imp.integer(4 * radius)))
            most = e.declare(machine("min", most, e.declare(machine("/", self.rows, apart))))
        rounds = e.declare(machine("/", most, imp.integer(count)))
        rounds = e.declare(machine("max", imp.ONE, rounds))
        phases = e.declare(machine("max", imp.ONE, self.ceil(self.rounds, rounds)), "phases")
        return e.declare(machine("max", imp.ONE, self.ceil(self.rounds, phases)), "steps")

    def threads(self) -> imp.Expr:
        return self.e.poly(Poly.var("threads"))

    def chunks(self, lost: imp.Expr) -> imp.Expr:
        """Even trapezoids, each at least twice as long as what it loses on one side."""
        e = self.e
        shares = machine("*", self.threads(), imp.integer(CHUNKS))
        share = self.ceil(self.rows, e.declare(shares))
        twice = e.declare(machine("*", lost, imp.integer(2)))
        least = e.declare(machine("max", share, twice))
        length = e.declare(machine("max", least, imp.integer(LINE if self.rank == 1 else 1)))
        number = e.declare(machine("/", self.rows, length))
        return e.declare(machine("max", imp.ONE, number), "chunks")

    def first_span(self, spans: Sequence[imp.Expr], levels: imp.Expr) -> imp.Expr:
        """How long a block is in the first dimension."""
        if self.rank == 1:
            return imp.integer(LINE)
        e = self.e
        block = imp.integer(self.by_rank((0, *block_bytes())))
        room = e.declare(machine("/", block, self.slice_bytes(spans, levels)))
        span = e.declare(machine("-", room, e.declare(machine("*", levels, self.radius[0]))))
        return e.declare(machine("max", imp.integer(1), span))

    def ceil(self, value: imp.Expr, unit: imp.Expr) -> imp.Expr:
        above = machine("-", machine("+", value, unit), imp.ONE)
        return self.e.declare(machine("/", self.e.declare(above), unit))

    # ------------------------------------------------------------ loops

    def lower(self) -> None:
        e, shape = self.e, self.shape()
        phase, half = e.unit.integer("phase"), e.unit.integer("half")
        with e.loop(phase, imp.ZERO, self.ceil(self.rounds, shape.steps)):
            first, count = self.phase(phase, shape)
            self.lean_from(first)
            with e.loop(half, imp.ZERO, imp.integer(halves(self.stencil))):
                odd = e.declare(machine("==", half, imp.ONE))
                tiles = e.declare(imp.Select(odd, shape.seams, shape.chunks))
                with kernels.parallel(e, tiles, self.label()) as tile:
                    self.sweep(self.trapezoid(tile, odd, shape), first, count, shape.spans)

    def shape(self) -> Shape:
        """What is known before the first phase."""
        e = self.e
        spans = self.spans()
        steps = self.steps(spans)
        levels = e.declare(machine("*", steps, imp.integer(len(self.kernels))), "levels")
        lost = e.declare(machine("*", levels, self.radius[0]))
        chunks = self.chunks(lost)
        spans = [self.first_span(spans, levels), *spans]
        seams = e.declare(machine("-", chunks, imp.ONE))
        slope: imp.Expr = self.radius[0]
        if self.wraps:
            # Of what is shorter than its seam every level is done as a whole.
            tight = e.declare(machine("<", self.extents[0], machine("*", lost, imp.integer(2))))
            seams = e.declare(imp.Select(tight, imp.ZERO, chunks))
            slope = e.declare(imp.Select(tight, imp.ZERO, slope))
            whole = machine("+", self.extents[0], lost)
            spans[0] = e.declare(imp.Select(tight, e.declare(whole), spans[0]))
        return Shape(steps, chunks, seams, slope, tuple(spans))

    def phase(self, phase: imp.Expr, shape: Shape) -> tuple[imp.Expr, imp.Expr]:
        """Its first round, and how many it has."""
        e, steps = self.e, shape.steps
        first = e.declare(machine("*", phase, steps), "first")
        return first, e.declare(machine("min", steps, machine("-", self.rounds, first)))

    def label(self) -> str:
        kernel = self.kernels[0].expr
        assert isinstance(kernel, fun.Kernel)
        whole = kernels.describe("map", kernel.space, self.kernels[0].pattern)
        more = f" and {len(self.kernels) - 1} more" if len(self.kernels) > 1 else ""
        return f"{whole}{more}, many rounds at a time in even and odd trapezoids"

    def trapezoid(
        self, tile: imp.Expr, odd: imp.Expr, shape: Shape
    ) -> tuple[imp.Expr, imp.Expr, imp.Expr, imp.Expr]:
        """Where it begins and ends before its first level, and what each level adds to both."""
        e, chunks, slope = self.e, shape.chunks, shape.slope
        outer_left, outer_right = self.edges[2:]
        after = e.declare(machine("+", tile, imp.ONE))
        lower, upper = (self.border(number, chunks) for number in (tile, after))
        minus = e.declare(machine("-", imp.ZERO, slope))
        left, right = slope, minus
        if not self.wraps:
            first = e.declare(machine("==", tile, imp.ZERO))
            last = e.declare(machine("==", after, chunks))
            left = e.declare(imp.Select(first, outer_left, slope))
            right = e.declare(imp.Select(last, outer_right, minus))
        return (
            e.declare(imp.Select(odd, upper, lower), "begin"), upper,
            e.declare(imp.Select(odd, minus, left)), e.declare(imp.Select(odd, slope, right)),
        )  # fmt: skip

    def border(self, number: imp.Expr, chunks: imp.Expr) -> imp.Expr:
        """Where a chunk begins."""
        e, (start, end, *_) = self.e, self.edges
        extent = e.declare(machine("-", end, start))
        return e.declare(machine("+", start, machine("/", machine("*", number, extent), chunks)))

    def block_length(self, span: imp.Expr, length: imp.Expr, number: imp.Expr) -> imp.Expr:
        """How long the blocks of a trapezoid are in the first dimension: `span` at most."""
        return span

    def sweep(
        self, trapezoid: tuple[imp.Expr, imp.Expr, imp.Expr, imp.Expr], first: imp.Expr,
        count: imp.Expr, spans: Sequence[imp.Expr],
    ) -> None:  # fmt: skip
        """Its blocks one after another, all rounds of the phase on each."""
        e = self.e
        begin, end, left, right = trapezoid
        levels = e.declare(machine("*", count, imp.integer(len(self.kernels))))
        leans = [
            e.declare(machine("*", machine("-", levels, imp.ONE), lean)) for lean in self.leans
        ]
        base = e.declare(machine("+", begin, left), "base")
        if self.rank == 1:
            base = e.declare(machine("&", base, imp.integer(-ALIGNED)))
        top = e.declare(machine("+", end, e.declare(machine("*", right, levels))))
        lengths = [e.declare(machine("-", e.declare(machine("+", top, leans[0])), base))]
        lengths += [
            e.declare(machine("+", extent, lean))
            for extent, lean in zip(self.extents[1:], leans[1:], strict=True)
        ]
        blocks = [e.unit.integer("block") for _ in spans]
        with ExitStack() as loops:
            spans = list(spans)
            for axis, (block, length, span) in enumerate(zip(blocks, lengths, spans, strict=True)):
                number = self.ceil(e.declare(machine("max", imp.ZERO, length)), span)
                if axis == 0:
                    spans[0] = self.block_length(span, length, number)
                loops.enter_context(e.loop(block, imp.ZERO, number))
                if axis == 0:
                    e.emit(imp.Poll())
            pairs = zip(blocks, spans, strict=True)
            starts = [e.declare(machine("*", block, span)) for block, span in pairs]
            starts[0] = e.declare(machine("+", base, starts[0]))
            ends = [e.declare(machine("+", s, span)) for s, span in zip(starts, spans, strict=True)]
            step = e.unit.integer("step")
            with e.loop(step, imp.ZERO, count):
                self.round(trapezoid, first, step, list(zip(starts, ends, strict=True)))

    def round(
        self, trapezoid: tuple[imp.Expr, imp.Expr, imp.Expr, imp.Expr], first: imp.Expr,
        step: imp.Expr, block: Sequence[tuple[imp.Expr, imp.Expr]],
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
        self, trapezoid: tuple[imp.Expr, imp.Expr, imp.Expr, imp.Expr], first: imp.Expr,
        level: imp.Expr, block: Sequence[tuple[imp.Expr, imp.Expr]],
    ) -> Iterator[list[tuple[imp.Expr, imp.Expr]]]:  # fmt: skip
        """The block's box of a level; two where it goes around the first dimension's end."""
        e = self.e
        begin, end, left, right = trapezoid
        above = e.declare(machine("+", level, imp.ONE))
        limits = [self.inside(level, (
            e.declare(machine("+", begin, machine("*", left, above))),
            e.declare(machine("+", end, machine("*", right, above))),
        ))]  # fmt: skip
        limits += [(imp.ZERO, extent) for extent in self.extents[1:]]
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
        self, level: imp.Expr, rows: tuple[imp.Expr, imp.Expr]
    ) -> tuple[imp.Expr, imp.Expr]:
        """Those of some rows that lean as they must: odd trapezoids grow beyond them."""
        e = self.e
        if self.lean is None:
            return rows
        (start, end, left, right), (low, high) = self.edges, rows
        above = e.declare(machine("+", level, imp.ONE))
        least = e.declare(machine("+", start, machine("*", left, above)))
        most = e.declare(machine("+", end, machine("*", right, above)))
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
