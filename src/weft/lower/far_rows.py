"""Rows far apart: what a loop reads and writes in a later round is asked for.

A processor fetches ahead by itself along a row, and not beyond a page. Rows of a few lines in
pages of their own, as those of a block of a matrix, it meets one by one, and waits for each.

    for i { for simd j < 64 { y[n*i + j] = f(x[n*i + j]) } }
    =>  for i { prefetch x[n*(i + 8)] .. ; prefetch y[n*(i + 8)] .. ; for simd j < 64 { .. } }
"""

from __future__ import annotations

import math

from weft.fun import nodes as fun
from weft.imp import nodes as imp
from weft.imp.nodes import machine
from weft.lower.emitter import Emitter
from weft.lower.prefetch import LINE, Stream, stream, streams
from weft.lower.unit import memory
from weft.mem.nodes import MemArray
from weft.sizes import Poly

ROUNDS = 8  # so much later
PAGE = 4096  # bytes
LONGEST = 1024  # bytes of a row: along longer ones a processor fetches ahead by itself


def ask(e: Emitter, let: fun.Let, kernel: fun.Kernel | fun.Scan) -> None:
    """Asks for the rows of a kernel or scan inside of a tile that it comes to some rounds later.

    Where more than one loop stands around the rows they may be the same ones again, which are
    in the cache: then for none.
    """
    lane = kernel.space[-1]
    around = e.ranges.keys() - e.tile_ranges - {lane.index.name}
    if not e.in_tile or not lane.extent.is_constant or len(around) != 1:
        return
    (outer,) = around
    lower, upper = e.ranges[outer]
    rounds = upper - lower
    if rounds.is_constant and rounds.constant < 2 * ROUNDS:
        return
    asked = set()
    for found in (*streams(e, kernel.body, lane, outer), *_written(e, let, kernel, outer)):
        place = found.array.block, found.array.dtype, found.base
        if place not in asked and _far(e, found, outer, lane.extent.constant):
            asked.add(place)
            _row(e, found, outer, lane.extent.constant)


def _written(
    e: Emitter, let: fun.Let, kernel: fun.Kernel | fun.Scan, outer: str
) -> list[Stream]:
    """Lines that are written have to be there too."""
    indices = tuple(Poly.var(r.index.name) for r in kernel.space)
    arrays = [memory(var) for var in let.pattern]
    found = [stream(e, a, a.index.apply(indices), kernel.space[-1], outer) for a in arrays]
    return [one for one in found if one is not None]


def _far(e: Emitter, found: Stream, outer: str, extent: int) -> bool:
    """Whether its rows are short, in pages of their own, and not in memory of the thread's."""
    if _is_private(e, found.array):
        return False
    size = found.array.dtype.itemsize
    step = found.base.coefficient(outer)
    return LINE <= extent * size <= LONGEST and (
        not step.is_constant or abs(step.constant) * size >= PAGE
    )


def _is_private(e: Emitter, array: MemArray) -> bool:
    placed = e.unit.blocks.get(array.block)
    return placed is None or placed.per_thread is not None


def _row(e: Emitter, found: Stream, outer: str, extent: int) -> None:
    """Asks for each line of a row, wherever in a line it begins."""
    later = found.base.substitute({outer: Poly.var(outer) + ROUNDS})
    begin = e.named(later)
    pointer = e.pointer(found.array.block, found.array.dtype)
    each = max(1, LINE // math.gcd(LINE, found.array.dtype.itemsize))
    for offset in (*range(0, extent - 1, each), extent - 1):
        e.emit(imp.Prefetch(pointer, machine("+", begin, imp.integer(offset))))
