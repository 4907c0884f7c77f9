"""Many rounds of an iterated stencil in two launches, on a device that is a processor.

A work item does a trapezoid of `weft.lower.time_tiles`, which stays in its core's cache: first
even ones, then odd ones, which need what even ones made. The host counts phases.

    for k from 0 to t { launch kernel over n }
 => for phase p of s rounds { for half from 0 to 2 { launch tiles over trapezoids } }

Other devices, whose items share caches, do so in overlapping tiles (`weft.lower.gpu.overlapped`) or
a round at a time. All give the same bits: each element is computed by the same operations.
"""

from __future__ import annotations

from collections.abc import Sequence

from weft.fun import nodes as fun
from weft.fun.stencils import Stencil
from weft.imp import nodes as imp
from weft.imp.nodes import machine
from weft.lower import shapes, time_tiling
from weft.lower.emitter import Emitter
from weft.lower.gpu import versions
from weft.lower.gpu.host import Host
from weft.lower.spaces import ceil
from weft.lower.time_tiles import Tiles
from weft.lower.time_tiling import TimeTiling
from weft.lower.trapezoids import FEW_LEVELS, ROW, Sides, block_bytes, halves, line
from weft.mem.nodes import THREADS
from weft.plan import launches
from weft.sizes import ONE, ZERO, Poly, Size, as_poly

LEVELS = (1024, 32, 16)  # of a phase, by rank: at most; on vectors more, for fewer launches
APART = 4096  # rounds of a phase, at most, where elements are apart from their neighbours
ALIGNED = 64  # elements of a vector that chunks and blocks are multiples of: cache lines
MANY = 64  # trapezoids, about at most: enough to balance
UNIT_ITEMS = 32  # of a launch's items, that have as many trapezoids each, of a vector at least one
WIDE = 64  # times as long as what they lose: rows of odd ones, which are short, are few
SOME = 8  # trapezoids that there are at least, or rounds of a phase are fewer


def tiling(host: Host, loop: fun.Loop) -> TimeTiling | None:
    """How a loop is tiled that asks for it; None where a launch does not know all sizes, or
    rounds are not straight-line."""
    if not isinstance(loop.form, fun.For) or loop.form.tiled is None:
        return None
    found = time_tiling.time_tiling(host.unit, loop)
    if isinstance(found, str):
        return None
    flips = {number for number, first in found.turns.flips if isinstance(first, fun.Const)}
    scalars = {n for n, p in enumerate(loop.params) if isinstance(p.type, fun.Scalar)}
    bodies = [s.expr.body for s in found.loop.body.statements if isinstance(s.expr, fun.Kernel)]
    sizes = [*found.stencil.shape, found.stencil.rounds]
    if found.lean is not None:
        sizes += [found.lean.low, found.lean.high, found.lean.left, found.lean.right]
    suits = flips == scalars and all(map(host.is_sized, sizes)) and all(map(shapes.is_flat, bodies))
    return found if suits else None


def lower(host: Host, let: fun.Let, tiling: TimeTiling) -> None:
    """The launches of all phases; the host knows the loop's scalars as they are after them."""
    loop = tiling.loop
    rounds = versions.maximum(host, tiling.stencil.rounds, ZERO)
    rows = _fewest_rows(host, loop, tiling)
    steps = _steps(host, loop, tiling.stencil, rounds, rows)
    chunks = _chunks(host, loop, tiling.stencil, steps, rows)
    phase, half = host.unit.fresh("phase."), host.unit.fresh("half.")
    with host.inside() as phases:
        with host.inside() as launched:
            host.host_integer(phase)
            host.host_integer(half)
            _trapezoids(host, (phase, half), (loop, tiling, steps, chunks))
        number = as_poly(halves(tiling.stencil))
        phases.append(launches.Repeat(half, ZERO, number, tuple(launched)))
    number = versions.ceil(host, rounds, steps)
    host.steps.append(launches.Repeat(phase, ZERO, number, tuple(phases)))
    odd = versions.remainder(host, rounds, as_poly(2))
    for place, first in tiling.turns.flips:
        assert isinstance(first, fun.Const)
        host.define(let.pattern[place].name, odd if first.value == 0 else 1 - odd)


def _trapezoids(
    host: Host, names: tuple[str, str], chosen: tuple[fun.Loop, TimeTiling, Size, Size]
) -> None:
    """One launch: the trapezoids of half a phase, an item for each."""
    k, item = host.kernel_emitter(), host.unit.integer("item")
    phase, half = (k.scalars[name] for name in names)
    tiles = _Tiles(k, *chosen)
    shape = tiles.shape()
    odd = k.declare(machine("==", half, imp.ONE))
    count = k.declare(imp.Select(odd, shape.seams, shape.chunks))
    with k.branch(machine("<", item, count)):
        first, rounds = tiles.phase(phase, shape)
        tiles.lean_from(first)
        tiles.sweep(tiles.trapezoid(item, odd, shape), first, rounds, shape)
    host.unit.kernels.append(tiles.label())
    host.add(k, "tiles", item, chosen[-1], 1)


class _Tiles(Tiles):
    """Trapezoids of the first dimension, whose numbers the host has chosen."""

    def __init__(
        self, e: Emitter, loop: fun.Loop, tiling: TimeTiling, steps: Size, chunks: Size
    ) -> None:
        super().__init__(e, loop, tiling)
        self.chosen = steps, chunks

    def is_across(self, rows: imp.Expr) -> imp.Expr:
        return imp.ZERO

    def leaning(self, axis: int) -> imp.Expr:
        """Phases are longer than a processor's where rows are apart: see `APART`."""
        return self.e.named(self.chosen[0] * (len(self.kernels) * self.stencil.radius[axis]))

    def steps(self, spans: Sequence[imp.Expr]) -> imp.Expr:
        return self.e.named(self.chosen[0])

    def shorter_ends(self) -> tuple[imp.Expr, imp.Expr]:
        return imp.ZERO, imp.ZERO  # trapezoids are many

    def chunks(self, lost: imp.Expr) -> imp.Expr:
        return self.e.named(self.chosen[1])

    def border(self, number: imp.Expr, chunks: imp.Expr, edge: Sides) -> imp.Expr:
        """Of a vector a multiple of what is aligned, but the last one."""
        at = super().border(number, chunks, edge)
        if self.rank > 1:
            return at
        e = self.e
        at = e.declare(machine("&", at, imp.integer(-ALIGNED)))
        at = e.declare(machine("max", edge.begin, at))
        return e.declare(imp.Select(machine("==", number, chunks), edge.end, at))

    def block_length(self, span: imp.Expr, length: imp.Expr, number: imp.Expr) -> imp.Expr:
        """All are as long: a short one costs as many rounds. Of a vector they are aligned."""
        even = ceil(self.e, length, self.e.declare(machine("max", imp.ONE, number)))
        if self.rank > 1:
            return even
        above = self.e.declare(machine("+", even, imp.integer(ALIGNED - 1)))
        return self.e.declare(machine("&", above, imp.integer(-ALIGNED)))


def _fewest_rows(host: Host, loop: fun.Loop, tiling: TimeTiling) -> Size:
    """The indices of the first dimension that each kernel computes, as `Tiles.fewest_rows`."""
    lean, stencil = tiling.lean, tiling.stencil
    if lean is None:
        return stencil.shape[0]
    ends = lean.rows(ZERO), lean.rows(stencil.rounds * _kernels(loop) - 1)
    first, last = (high - low for low, high in ends)
    return versions.maximum(host, versions.minimum(host, first, last), ONE)


def _chunks(host: Host, loop: fun.Loop, stencil: Stencil, steps: Size, extent: Size) -> Size:
    """Even trapezoids, as `Tiles.chunks` finds them: each twice as long as what it loses."""
    lost = steps * (_kernels(loop) * stencil.radius[0])
    flat = len(stencil.shape) == 1
    least = wanted = 2 * lost
    few = versions.maximum(host, versions.divide(host, Poly.var(THREADS), as_poly(UNIT_ITEMS)), ONE)
    if flat:
        least = least + ALIGNED
        wide = versions.minimum(host, WIDE * lost, versions.divide(host, extent, few))
        block = as_poly(line(stencil))
        wanted = versions.maximum(host, least, versions.maximum(host, wide, block))
    length = versions.maximum(host, wanted, versions.ceil(host, extent, MANY))
    # As many for each unit: one that is alone at the end is waited for.
    even = versions.ceil(host, versions.divide(host, extent, length), few) * few
    most = versions.divide(host, extent, versions.maximum(host, least, ONE))
    return versions.maximum(host, versions.minimum(host, even, most), ONE)


def _kernels(loop: fun.Loop) -> int:
    return sum(isinstance(let.expr, fun.Kernel) for let in loop.body.statements)


def _steps(host: Host, loop: fun.Loop, stencil: Stencil, rounds: Size, rows: Size) -> Size:
    """Rounds of a phase, as `Tiles.steps` finds them: all phases have about as many."""
    rank, radius = len(stencil.shape), stencil.radius[0]

    def by_rank(values: Sequence[int]) -> int:
        return values[min(rank, len(values)) - 1]

    most = as_poly(by_rank(LEVELS) if radius else APART)
    if rank > 1:
        bytes_ = as_poly(stencil.itemsize)
        for axis in range(1, rank):
            span = stencil.shape[axis]
            if axis == rank - 1 and not stencil.wraps[axis]:
                span = versions.minimum(host, span, as_poly(by_rank((0, *ROW))))
            bytes_ = bytes_ * span
        # Blocks have half as many rows as they lean over, at least.
        block = as_poly(by_rank((0, *block_bytes())) * 2 // 3 // max(1, radius))
        room = versions.divide(host, block, versions.maximum(host, bytes_, ONE))
        few = as_poly(min(FEW_LEVELS, by_rank(LEVELS)))
        most = versions.minimum(host, most, versions.maximum(host, few, room))
    if radius:
        short = versions.divide(host, rows, as_poly(4 * radius * SOME))
        most = versions.minimum(host, most, short)
    several = versions.divide(host, most, as_poly(_kernels(loop)))
    several = versions.maximum(host, several, ONE)
    phases = versions.maximum(host, versions.ceil(host, rounds, several), ONE)
    return versions.maximum(host, versions.ceil(host, rounds, phases), ONE)
