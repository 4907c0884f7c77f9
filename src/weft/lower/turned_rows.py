"""Rows that are columns of what they read: several at once, from a tile of its lines.

    for i { for simd j { y[i, j] = f(x[j, i]) } }
        =>  for i by 16 {
                for j { for simd r < 16 { t[j, r] = x[j, i + r] } }
                for r < 16 { for simd j { y[i + r, j] = f(t[j, r]) } }
            }

Lines of `x` that are a power of two apart share sets of the caches: each would be gone before the
next row comes to it. Here it is read once, as it lies, into a tile whose rows are a little more
than a line long, so that they share none (M. Lam, E. Rothberg and M. Wolf, "The cache performance
and optimizations of blocked algorithms", ASPLOS 1991, section 5: copying).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from weft.fun import nodes as fun
from weft.fun.vector_math import has_vector_math
from weft.imp import nodes as imp
from weft.imp.nodes import machine
from weft.lmad import Lmad
from weft.lower.emitter import Emitter
from weft.lower.rows import LANES
from weft.lower.unit import memory
from weft.mem.nodes import MemArray
from weft.records import dataclass
from weft.sizes import ONE, ZERO, Poly, Size, as_poly

LINE = 64  # bytes
ROWS = 32  # at least: several lines of what is next to each other, where elements are wide
BESIDE = 16  # bytes from the end of one of the tile's rows to the next
TILE = 1 << 14  # bytes of tiles: half of the first cache;
COLUMNS = 16, 256  # at least, at most
WIDEST = 8
"""Bytes of elements: of wider ones a line has few, and the copy costs more than it saves."""
SHARING = 128
"""Elements: rows that are a multiple of so many apart share sets, and are worth the copy."""


@dataclass(frozen=True, slots=True)
class TurnedRows:
    """The reads of a straight-line kernel whose neighbours lie along an outer index.

    Attributes
    ----------
    row : str
        That index.
    together : int
        How many rows are done at once: a line of the narrowest elements, and more.
    columns : int
        Of a tile, at most.
    """

    kernel: fun.Kernel
    space: tuple[fun.Range, ...]
    lane: str
    row: str
    together: int
    columns: int
    reads: dict[str, fun.Index]  # of each scalar that one gives

    @classmethod
    def of(cls, kernel: fun.Kernel, space: tuple[fun.Range, ...]) -> TurnedRows | None:
        """None where there are none, or tiles would have few columns."""
        lane = space[-1].index.name
        inner = {var.name for let in kernel.body.statements for var in let.pattern}
        found: dict[str, dict[str, fun.Index]] = {}
        rows = [
            r.index.name for r in space[:-1]
            if not (r.extent.is_constant and r.extent.constant < ROWS)
        ]  # fmt: skip
        for let in kernel.body.statements:
            if not isinstance(let.expr, fun.Index) or any(let.expr.boundary):
                continue
            address = _address(let.expr)
            if address.variables() & inner or address.degree(lane) != 1:
                continue
            if address.coefficient(lane) == ONE:
                continue
            for name in rows:
                if address.degree(name) == 1 and address.coefficient(name) == ONE:
                    found.setdefault(name, {})[let.pattern[0].name] = let.expr
        if not found:
            return None
        row, reads = max(found.items(), key=lambda item: len(item[1]))
        sizes = [memory(access.array).dtype.itemsize for access in reads.values()]
        least, most = COLUMNS
        together = max(ROWS, LINE // min(sizes))
        if has_vector_math(kernel.body):  # which is done in whole blocks
            least, together = LANES, LINE // min(sizes)
        bytes_ = sum(together * size + BESIDE for size in sizes)
        columns = min(most, TILE // bytes_ // least * least)
        if columns < least or max(sizes) > WIDEST:
            return None
        return cls(kernel, space, lane, row, together, columns, reads)

    @property
    def order(self) -> tuple[fun.Range, ...]:
        """The outer dimensions, that of the rows last."""
        return tuple(sorted(self.space[:-1], key=lambda r: r.index.name == self.row))

    def is_worth_it(self, e: Emitter) -> imp.Expr:
        """Whether lines that are read share sets of a cache, so that tiles are worth it."""
        strides = [_address(access).coefficient(self.lane) for access in self.reads.values()]
        rests = [machine("&", e.named(stride), imp.integer(SHARING - 1)) for stride in strides]
        least = e.declare(rests[0])
        for rest in rests[1:]:
            least = e.declare(machine("min", least, e.declare(rest)))
        return e.declare(machine("&&", imp.OPTIMISED, machine("==", least, imp.ZERO)))

    def lower(
        self, e: Emitter, lower: imp.Expr, upper: imp.Expr, row: Callable[[fun.Body], None]
    ) -> None:
        """A part of the row that the index is at, and of those after it; `row` does each."""
        begin = e.scalars[self.row]
        first, place = e.unit.fresh("first."), e.unit.fresh("place.")
        e.bind(first, lower)
        tiles = {name: self._tile(e, access, first) for name, access in self.reads.items()}
        column = e.unit.integer("column")
        with e.loop(column, lower, upper):
            e.bind(self.lane, column)
            for name, access in self.reads.items():
                self._copy(e, access, memory(tiles[name]))
        indices = Poly.var(self.lane), Poly.var(place)
        statements = tuple(
            replace(let, expr=fun.Index(tiles[let.pattern[0].name], indices))
            if let.pattern[0].name in tiles else let
            for let in self.kernel.body.statements
        )  # fmt: skip
        number = e.unit.integer("r")
        with (
            e.loop(number, imp.ZERO, imp.integer(self.together), hoist=True),
            e.index(place, number, ZERO, as_poly(self.together)),
        ):
            e.bind(self.row, e.declare(machine("+", begin, number)))
            row(replace(self.kernel.body, statements=statements))
        e.bind(self.row, begin)
        for tile in map(memory, tiles.values()):
            del e.pointers[tile.block, tile.dtype]

    def _tile(self, e: Emitter, access: fun.Index, first: str) -> fun.Var:
        """The tile of a read, by the kernel's index and the number of the row in it."""
        dtype = memory(access.array).dtype
        pitch = as_poly(self.together + BESIDE // dtype.itemsize)
        pointer = e.local(dtype, self.columns * int(pitch.constant), "tile")
        e.pointers[pointer.name, dtype] = pointer
        shape = self.space[-1].extent, as_poly(self.together)
        index = Lmad(-pitch * Poly.var(first), ((shape[0], pitch), (shape[1], ONE)))
        return fun.Var(pointer.name, MemArray(dtype, shape, pointer.name, index))

    def _copy(self, e: Emitter, access: fun.Index, tile: MemArray) -> None:
        """The elements of a line for the column that the index is at."""
        source, start = e.address(memory(access.array), access.indices)
        to, place = e.address(tile, (Poly.var(self.lane), ZERO))
        start, place = e.declare(start), e.declare(place)
        number = e.unit.integer("r")
        element = imp.Load(source, machine("+", start, number))
        store = imp.Store(to, machine("+", place, number), element)
        e.emit(imp.For(number, imp.ZERO, imp.integer(self.together), (store,), simd=True))


def _address(access: fun.Index) -> Size:
    return memory(access.array).index.apply(access.indices)
