"""Prefetching: lines that a loop is going to read are asked for before it comes to them.

A processor fetches ahead by itself where a loop reads on and on. A loop that is done in parts,
with something else between them (a grain's lanes folded, a block written past the caches),
starts afresh with every part, and again at every page: there, what it will read some KiB later
is asked for in each part. Rows that do not lie one after another, or are read side by side, are
followed from the end of one to the beginning of the next. How far ahead is best, and whether it
gains at all, is the processor's (`weft.lower.fetching`).
"""

from __future__ import annotations

import operator

from weft.fun import nodes as fun
from weft.fun import walk
from weft.imp import nodes as imp
from weft.imp.nodes import machine
from weft.lower import fetching
from weft.lower.emitter import Emitter
from weft.lower.rows import LANES
from weft.lower.unit import memory
from weft.mem.nodes import MemArray
from weft.records import dataclass
from weft.sizes import ONE, Poly, Size

LINE = 64  # bytes
MOST = 8  # streams: of more, none
WRITTEN_OUT = 8  # lines of a part that are asked for without a loop


@dataclass(frozen=True, slots=True)
class Stream:
    """Elements of an array that follow the lane: the one at `base` where the lane is 0.

    `following` is where it is in the next row, where that is not just behind the row's end.
    """

    array: MemArray
    base: Size
    following: Size | None


class Prefetcher:
    """What a body reads along its innermost index, one element after another.

    Parameters
    ----------
    e : Emitter
    body : fun.Body
    lane : fun.Range
        The innermost index.
    outer : str or None
        The index of the loop around it, if there is one.
    rows : int
        How many of its rows are read side by side.
    """

    def __init__(
        self, e: Emitter, body: fun.Body, lane: fun.Range, outer: str | None, rows: int = 1
    ) -> None:
        self.e, self.extent = e, lane.extent
        ahead = fetching.fetching().ahead
        self.streams = streams(e, body, lane, outer, rows) if ahead else []
        self.share = ahead // max(1, rows * len(self.streams))  # bytes of each stream and row

    def at_once(self, most: int) -> int:
        """For how many of `most` indices to ask at once: whole blocks of lanes."""
        size = sum(stream.array.dtype.itemsize for stream in self.streams)
        if not size:
            return most
        blocks = max(1, fetching.fetching().at_once // size // LANES)
        return min(most, blocks * LANES)

    def part(self, first: imp.Expr, count: int) -> None:
        """Asks for what is read some way after the `count` indices from `first` on."""
        for stream in self.streams:
            self._lines(stream, self._address(stream, first), imp.integer(count))

    def rows(self, row: str, first: imp.Expr, count: imp.Expr, length: imp.Expr) -> None:
        """Asks for what `count` indices from `first` on, of `length`, read some rows later."""
        e = self.e
        for stream in self.streams:
            share = imp.integer(self.share // stream.array.dtype.itemsize)
            rows = e.declare(machine("/", share, e.declare(machine("max", imp.ONE, length))))
            rows = e.declare(machine("max", imp.ONE, rows))
            further = e.declare(machine("*", rows, e.named(stream.base.coefficient(row))))
            here = machine("+", e.poly(stream.base), first)
            self._lines(stream, machine("+", here, further), count)

    def _address(self, stream: Stream, first: imp.Expr) -> imp.Expr:
        e = self.e
        distance: imp.Expr = imp.integer(self.share // stream.array.dtype.itemsize)
        if stream.following is None:
            return machine("+", e.poly(stream.base), machine("+", first, distance))
        extent = e.named(self.extent)
        distance = e.declare(machine("min", distance, extent))
        ahead = e.declare(machine("+", first, distance))
        here = machine("+", e.poly(stream.base), ahead)
        later = machine("+", e.poly(stream.following - self.extent), ahead)
        return imp.Select(machine("<", ahead, extent), here, later)

    def _lines(self, stream: Stream, first: imp.Expr, count: imp.Expr) -> None:
        e = self.e
        begin = e.declare(first)
        pointer = e.pointer(stream.array.block, stream.array.dtype)
        step = max(1, LINE // stream.array.dtype.itemsize)
        if isinstance(count, imp.Const) and count.value.real <= WRITTEN_OUT * step:
            for offset in range(0, int(count.value.real), step):
                e.emit(imp.Prefetch(pointer, machine("+", begin, imp.integer(offset))))
            return
        var = e.unit.integer("q")
        with e.loop(var, imp.ZERO, count, step=step):
            e.emit(imp.Prefetch(pointer, machine("+", begin, var)))


def around(e: Emitter, lane: str) -> str | None:
    """The index of the innermost loop around that of `lane`."""
    return next((name for name in reversed(e.ranges) if name != lane), None)


def streams(
    e: Emitter, body: fun.Body, lane: fun.Range, outer: str | None, rows: int = 1
) -> list[Stream]:
    """The streams of a body: of reads that differ by constants, the one furthest ahead."""
    furthest: dict[tuple[fun.Var, tuple[Size, ...]], tuple[int, ...]] = {}
    for let in walk.statements(body):
        if not isinstance(let.expr, fun.Index):
            continue
        indices = let.expr.indices
        constants = tuple(index.constant for index in indices)
        apart = tuple(map(operator.sub, indices, constants))
        key = let.expr.array, apart
        furthest[key] = max(furthest.get(key, constants), constants)
    found = []
    for (array, apart), constants in furthest.items():
        address = memory(array).index.apply(tuple(map(operator.add, apart, constants)))
        one = stream(e, memory(array), address, lane, outer, rows)
        if one is not None:
            found.append(one)
    return found if len(found) <= MOST else []


def stream(
    e: Emitter, array: MemArray, address: Size, lane: fun.Range, outer: str | None, rows: int = 1
) -> Stream | None:
    """The stream of elements at an address, if they lie one after another along the lane."""
    name = lane.index.name
    if not address.variables() <= e.ranges.keys() | e.unit.sizes or address.degree(name) != 1:
        return None
    base, following = address.without(name), None
    if address.coefficient(name) != ONE:
        return None
    if outer is not None:
        if base.degree(outer) != 1:  # the same in every row: it stays in the cache
            return None
        if rows > 1 or base.coefficient(outer) != lane.extent:
            following = base.substitute({outer: Poly.var(outer) + rows})
    return Stream(array, base, following)
