"""The shapes of trapezoids of rounds and the blocks that sweep them (`lower.time_tiles`).

All of it is arithmetic that is done where the code runs, when sizes are known.
"""

from __future__ import annotations

from collections.abc import Sequence

from weft.fun import nodes as fun
from weft.fun.stencils import Stencil
from weft.imp import nodes as imp
from weft.imp.nodes import machine
from weft.lower.caches import caches
from weft.lower.emitter import Emitter
from weft.lower.spaces import ceil
from weft.lower.time_tiling import TimeTiling
from weft.records import dataclass
from weft.sizes import ONE, Poly, as_poly

LEVELS = (64, 32, 32)  # of a phase, by rank: at most
FEW_LEVELS = 8  # and so many, even if a block is then larger than a core's own cache
CHUNKS = 4  # trapezoids for each thread, to balance
CACHE_LINES = 64  # elements that are whole cache lines, of whatever size
ALIGNED = 16  # elements, of which blocks of a vector begin at multiples: a cache line of float32
ACROSS = 4  # times as long as the first dimension is the second one, of which chunks are then
WIDE = 4096  # elements of a part of a row that is a trapezoid's, at least
FEW_ROWS = 64  # for each thread: of more, trapezoids are of rows that a block has whole
ROW = (1 << 14, 1 << 11)  # elements of a block's last dimension, by rank less 2: at most
SECOND = 16  # rows of a block in the second of three dimensions or more: at least
FEWER = (24, 16, 12)  # levels of a phase, where blocks of more are too large
PART_LEVELS = 8  # that one part of a block does before the next, at most


def block_bytes() -> tuple[int, int]:
    """Of all arrays of a block, by rank less 2."""
    return caches().blocks()


def part_bytes() -> int:
    """Of all arrays of a part of a block; 0 where blocks are not swept in parts."""
    return caches().parts()


def line(stencil: Stencil) -> int:
    """Elements of a block of a vector: whole cache lines."""
    return max(1, caches().vector() // stencil.itemsize // CACHE_LINES) * CACHE_LINES


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


@dataclass(frozen=True, slots=True)
class Sides:
    """What a trapezoid has of a dimension.

    Attributes
    ----------
    begin, end : imp.Expr
        Its first index before its first level, and the one after its last.
    left, right : imp.Expr
        What each level adds to both.
    """

    begin: imp.Expr
    end: imp.Expr
    left: imp.Expr = imp.ZERO
    right: imp.Expr = imp.ZERO

    def after(self, e: Emitter, levels: imp.Expr) -> tuple[imp.Expr, imp.Expr]:
        """Its first index at the last of so many levels, and the one after the last there."""
        begin, end = (
            e.declare(machine("+", side, e.declare(machine("*", added, levels))))
            for side, added in ((self.begin, self.left), (self.end, self.right))
        )
        return begin, end


@dataclass(frozen=True, slots=True)
class Parts:
    """How blocks that the last cache holds are swept in parts, which a core's own cache holds.

    Attributes
    ----------
    steps : imp.Expr
        Rounds that all parts do, one part after another, before the next rounds.
    span : imp.Expr
        How long a part is in the first dimension.
    """

    steps: imp.Expr
    span: imp.Expr


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
    parts : Parts, optional
        How blocks are swept that are larger than a core's own cache.
    """

    steps: imp.Expr
    chunks: imp.Expr
    seams: imp.Expr
    slope: imp.Expr
    spans: tuple[imp.Expr, ...]
    parts: Parts | None = None


class Trapezoids:
    """The trapezoids of one loop, and what is known of them before it."""

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
        self.edges = [Sides(imp.ZERO, extent) for extent in self.extents]
        self.rounds = e.declare(e.poly(loop.form.upper - loop.form.lower), "rounds")
        rows, second = self.fewest_rows(), min(1, self.rank - 1)
        self.across = self.is_across(rows)
        self.length = self.either(self.across, self.extents[second], rows)
        self.reach = self.either(self.across, self.radius[second], self.radius[0])
        self.shorter = self.shorter_ends()

    # ------------------------------------------------------------ shapes

    def fewest_rows(self) -> imp.Expr:
        """The indices of the first dimension that each kernel computes, at least.

        Trapezoids are cut where they are before their first level.
        """
        e, lean = self.e, self.lean
        if lean is None:
            return self.extents[0]
        last = self.stencil.rounds * len(self.kernels) - 1
        before, after = lean.rows(-ONE), lean.rows(as_poly(last))
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
        self.edges[0] = Sides(
            begin, end,
            e.declare(machine("-", imp.ZERO, left)), e.declare(machine("-", imp.ZERO, right)),
        )  # fmt: skip

    def is_across(self, rows: imp.Expr) -> imp.Expr:
        """Whether trapezoids are of the second dimension, by the rows that each kernel computes.

        Rows of elements are cut where each thread has a long part of them, and blocks would not
        have them whole, or there are few. No dimension may wrap around that trapezoids are of, or
        that blocks lean along instead.
        """
        e, stencil = self.e, self.stencil
        if self.rank == 1 or not stencil.radius[0] or any(stencil.wraps[:2]):
            return imp.ZERO
        lost = machine("*", rows, imp.integer(ACROSS * max(1, stencil.radius[1])))
        found = machine("*", self.extents[1], self.radius[0])
        longer = machine(">=", e.declare(found), e.declare(lost))
        if self.rank > 2:
            return e.declare(longer)
        parts = e.declare(machine("*", self.threads(), imp.integer(WIDE)))
        few = machine("*", self.threads(), imp.integer(FEW_ROWS * stencil.radius[0]))
        is_few = machine("<", rows, e.declare(few))
        cut = machine(">", self.extents[1], imp.integer(ROW[0]))
        worth = e.declare(machine("||", e.declare(cut), e.declare(is_few)))
        long = e.declare(machine(">", self.extents[1], parts))
        return e.declare(machine("&&", longer, e.declare(machine("&&", long, worth))))

    def either(self, condition: imp.Expr, one: imp.Expr, other: imp.Expr) -> imp.Expr:
        """`one` where a condition holds, which may be known before."""
        if isinstance(condition, imp.Const) or one == other:
            return one if condition == imp.ONE else other
        return self.e.declare(imp.Select(condition, one, other))

    def spans(self) -> list[imp.Expr]:
        """How long a block is in each dimension but the first."""
        e, found = self.e, []
        for axis in range(1, self.rank):
            extent = self.extents[axis]
            if axis == 1:
                extent = self.either(self.across, self.share(), extent)
            whole = e.declare(machine("+", extent, self.leaning(axis)))
            if self.stencil.wraps[axis] or (1 < axis < self.rank - 1):
                found.append(whole)
                continue
            if axis < self.rank - 1:
                parts = e.declare(machine("/", extent, imp.integer(SECOND)))
            else:
                parts = ceil(e, extent, imp.integer(self.by_rank((0, *ROW))))
            some = ceil(e, extent, e.declare(machine("max", imp.ONE, parts)))
            alone = machine("<=", parts, imp.ONE)
            found.append(e.declare(imp.Select(alone, whole, some)))
        return found

    def leaning(self, axis: int) -> imp.Expr:
        """How far the blocks of a phase lean along a dimension but the first, at most."""
        levels = max(self.by_rank(LEVELS), len(self.kernels))
        return imp.integer(levels * self.stencil.radius[axis])

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
        most = imp.integer(LEVELS[0]) if self.rank == 1 else self.levels_of_blocks(spans)
        if radius:
            # Trapezoids for every thread, each at least twice as long as what it loses.
            four = e.declare(machine("*", self.reach, imp.integer(4)))
            apart = e.declare(machine("max", imp.ONE, machine("*", self.threads(), four)))
            most = e.declare(machine("min", most, e.declare(machine("/", self.length, apart))))
        rounds = e.declare(machine("/", most, imp.integer(count)))
        rounds = e.declare(machine("max", imp.ONE, rounds))
        phases = e.declare(machine("max", imp.ONE, ceil(e, self.rounds, rounds)), "phases")
        return e.declare(machine("max", imp.ONE, ceil(e, self.rounds, phases)), "steps")

    def levels_of_blocks(self, spans: Sequence[imp.Expr]) -> imp.Expr:
        """As many as leave a block half as many rows as they lean over."""
        e, radius = self.e, max(1, self.stencil.radius[0])
        block = imp.integer(self.by_rank((0, *block_bytes())))
        found: imp.Expr = imp.integer(FEW_LEVELS)
        for levels in (*reversed(FEWER), self.by_rank(LEVELS)):
            slice_ = self.slice_bytes(spans, imp.integer(levels))
            bytes_ = e.declare(machine("*", slice_, imp.integer(levels * radius * 3 // 2)))
            fits = e.declare(machine("<=", bytes_, block))
            found = e.declare(imp.Select(fits, imp.integer(levels), found))
        return found

    def threads(self) -> imp.Expr:
        return self.e.poly(Poly.var("threads"))

    def chunks(self, lost: imp.Expr) -> imp.Expr:
        """Even trapezoids, each at least twice as long as what it loses on one side.

        Of a vector half a block at least.
        """
        e, threads = self.e, self.threads()
        twice = e.declare(machine("*", lost, imp.integer(2)))
        least = e.declare(machine("max", self.share(), twice))
        half = imp.integer(max(1, line(self.stencil) // 2) if self.rank == 1 else 1)
        length = e.declare(machine("max", least, half))
        if self.wraps:
            number = e.declare(machine("/", self.length, length))
            return e.declare(machine("max", imp.ONE, number), "chunks")
        # As many odd ones for each thread, where there is one for each, and as much of even ones.
        halves = machine("/", machine("*", self.length, imp.integer(2)), length)
        spared = e.declare(machine("+", *self.shorter))
        seams = machine("/", machine("+", e.declare(halves), spared), imp.integer(2))
        seams = e.declare(machine("-", e.declare(seams), imp.ONE))
        over = e.declare(machine("%", e.declare(machine("max", imp.ZERO, seams)), threads))
        seams = e.declare(imp.Select(
            machine("<", seams, threads), seams, e.declare(machine("-", seams, over))
        ))  # fmt: skip
        return e.declare(machine("max", imp.ONE, machine("+", seams, imp.ONE)), "chunks")

    def seams(self, chunks: imp.Expr) -> imp.Expr:
        """Odd trapezoids."""
        return chunks if self.wraps else self.e.declare(machine("-", chunks, imp.ONE))

    def shorter_ends(self) -> tuple[imp.Expr, imp.Expr]:
        """By how many halves of a chunk the first one and the last are shorter than others.

        By one where they lose on one side alone; by two, so that a seam is at the end itself,
        where on their other side they win as much as they lose.
        """
        if self.wraps:
            return imp.ZERO, imp.ZERO
        if self.lean is None:
            return imp.ONE, imp.ONE
        e, one, two = self.e, imp.ONE, imp.integer(2)
        left, right = e.named(self.lean.left), e.named(self.lean.right)
        found = []
        for won in (left, e.declare(machine("-", imp.ZERO, right))):
            loses = machine("<", won, imp.ZERO)
            even = machine("==", won, self.reach)
            some = e.declare(imp.Select(loses, imp.ZERO, e.declare(imp.Select(even, two, one))))
            found.append(self.either(self.across, one, some))
        return found[0], found[1]

    def share(self) -> imp.Expr:
        """How long a trapezoid should be: some for each thread, but long parts of rows."""
        e = self.e
        shares = e.declare(machine("*", self.threads(), imp.integer(CHUNKS)))
        share = ceil(e, self.length, shares)
        if self.rank != 2 or self.across == imp.ZERO:
            return share
        return self.either(
            self.across, e.declare(machine("max", share, imp.integer(WIDE))), share
        )

    def first_span(
        self, spans: Sequence[imp.Expr], levels: imp.Expr, chunks: imp.Expr
    ) -> imp.Expr:
        """How long a block is in the first dimension: as a trapezoid is, if it has room."""
        if self.rank == 1:
            return imp.integer(line(self.stencil))
        e = self.e
        block = imp.integer(self.by_rank((0, *block_bytes())))
        room = e.declare(machine("/", block, self.slice_bytes(spans, levels)))
        leaning = e.declare(machine("*", levels, self.radius[0]))
        some = e.declare(machine("max", imp.ONE, e.declare(machine("-", room, leaning))))
        rows = ceil(e, self.length, e.declare(machine("max", imp.ONE, self.seams(chunks))))
        rows = self.either(self.across, self.extents[0], rows)
        whole = e.declare(machine("+", rows, leaning))
        return e.declare(imp.Select(machine("<=", rows, room), whole, some))

    # ------------------------------------------------------------ trapezoids

    def shape(self) -> Shape:
        """What is known before the first phase."""
        e = self.e
        spans = self.spans()
        steps = self.steps(spans)
        levels = e.declare(machine("*", steps, imp.integer(len(self.kernels))), "levels")
        lost = e.declare(machine("*", levels, self.reach))
        chunks = self.chunks(lost)
        spans = [self.first_span(spans, levels, chunks), *spans]
        seams = self.seams(chunks)
        slope = self.reach
        if self.wraps:
            # Of what is shorter than its seam every level is done as a whole.
            tight = e.declare(machine("<", self.extents[0], machine("*", lost, imp.integer(2))))
            seams = e.declare(imp.Select(tight, imp.ZERO, seams))
            slope = e.declare(imp.Select(tight, imp.ZERO, slope))
            whole = machine("+", self.extents[0], lost)
            spans[0] = e.declare(imp.Select(tight, e.declare(whole), spans[0]))
        return Shape(steps, chunks, seams, slope, tuple(spans), self.parts(spans, steps))

    def parts(self, spans: Sequence[imp.Expr], steps: imp.Expr) -> Parts | None:
        """The parts of blocks; None where none is much larger than a core's own cache.

        At least a third of the rows of the first dimension that a part meets are its own, the
        others those that it leans over.
        """
        e, room = self.e, part_bytes()
        if self.rank == 1 or not room:
            return None
        rows = e.declare(machine("/", imp.integer(room), self.slice_bytes(spans[1:], imp.ZERO)))
        lost = max(1, self.stencil.radius[0]) * len(self.kernels)  # by a round
        leaning = e.declare(machine("*", rows, imp.integer(2)))
        some = e.declare(machine("/", leaning, imp.integer(3 * lost)))
        most = imp.integer(max(1, PART_LEVELS // len(self.kernels)))
        some = e.declare(machine("min", some, most))
        large = machine(">", spans[0], rows)
        fits = e.declare(machine("&&", large, machine(">", some, imp.ZERO)))
        span = e.declare(machine("-", rows, e.declare(machine("*", some, imp.integer(lost)))))
        return Parts(self.either(fits, some, steps), self.either(fits, span, spans[0]))

    def phase(self, phase: imp.Expr, shape: Shape) -> tuple[imp.Expr, imp.Expr]:
        """Its first round, and how many it has."""
        e, steps = self.e, shape.steps
        first = e.declare(machine("*", phase, steps), "first")
        return first, e.declare(machine("min", steps, machine("-", self.rounds, first)))

    def trapezoid(self, tile: imp.Expr, odd: imp.Expr, shape: Shape) -> list[Sides]:
        """What it has of each dimension."""
        rows, *others = self.edges
        if self.across == imp.ZERO:
            return [self.chunk(tile, odd, shape, rows), *others]
        columns, *others = others
        chunk = self.chunk(tile, odd, shape, self.one_side(columns, rows))
        return [self.one_side(rows, chunk), self.one_side(chunk, columns), *others]

    def one_side(self, across: Sides, along: Sides) -> Sides:
        """The first where trapezoids are of the second dimension, else the second."""
        return Sides(
            self.either(self.across, across.begin, along.begin),
            self.either(self.across, across.end, along.end),
            self.either(self.across, across.left, along.left),
            self.either(self.across, across.right, along.right),
        )

    def chunk(self, tile: imp.Expr, odd: imp.Expr, shape: Shape, edge: Sides) -> Sides:
        """What a trapezoid has of the dimension that is cut into them."""
        e, chunks, slope = self.e, shape.chunks, shape.slope
        after = e.declare(machine("+", tile, imp.ONE))
        lower, upper = (self.border(number, chunks, edge) for number in (tile, after))
        minus = e.declare(machine("-", imp.ZERO, slope))
        left, right = slope, minus
        if not self.wraps:
            first = e.declare(machine("==", tile, imp.ZERO))
            last = e.declare(machine("==", after, chunks))
            left = e.declare(imp.Select(first, edge.left, slope))
            right = e.declare(imp.Select(last, edge.right, minus))
        return Sides(
            e.declare(imp.Select(odd, upper, lower), "begin"), upper,
            e.declare(imp.Select(odd, minus, left)), e.declare(imp.Select(odd, slope, right)),
        )  # fmt: skip

    def border(self, number: imp.Expr, chunks: imp.Expr, edge: Sides) -> imp.Expr:
        """Where a chunk begins."""
        e = self.e
        extent = e.declare(machine("-", edge.end, edge.begin))
        shorter, before = self.shorter[0], e.declare(machine("+", *self.shorter))
        total = e.declare(machine("-", machine("*", chunks, imp.integer(2)), before))
        total = e.declare(machine("max", imp.ONE, total))
        at = e.declare(machine("-", machine("*", number, imp.integer(2)), shorter))
        at = e.declare(machine("max", imp.ZERO, e.declare(machine("min", total, at))))
        at = e.declare(imp.Select(machine("==", number, chunks), total, at))  # a chunk is alone
        part = machine("/", machine("*", at, extent), total)
        return e.declare(machine("+", edge.begin, e.declare(part)))

    def block_length(self, span: imp.Expr, length: imp.Expr, number: imp.Expr) -> imp.Expr:
        """How long the blocks of a trapezoid are in the first dimension: `span` at most."""
        return span

    def blocks(
        self, axis: int, sides: Sides, levels: imp.Expr, span: imp.Expr
    ) -> tuple[imp.Expr, imp.Expr, imp.Expr]:
        """Where the blocks of a dimension begin, how many there are, and how long each is."""
        e = self.e
        first, last = sides.after(e, imp.ONE), sides.after(e, levels)
        base = first[0]
        if self.rank == 1:
            base = e.declare(machine("&", base, imp.integer(-ALIGNED)))
        lean = e.declare(machine("*", machine("-", levels, imp.ONE), self.leans[axis]))
        top = e.declare(machine("+", last[1], lean))
        length = e.declare(machine("max", imp.ZERO, e.declare(machine("-", top, base))))
        if self.rank == 1:
            # What is no longer than a block at any level, as most odd trapezoids are, is one.
            widths = (e.declare(machine("-", end, begin)) for begin, end in (first, last))
            short = machine("<=", e.declare(machine("max", *widths)), span)
            span = self.either(e.declare(short), e.declare(machine("max", span, length)), span)
        number = ceil(e, length, span)
        return base, number, self.block_length(span, length, number) if axis == 0 else span
