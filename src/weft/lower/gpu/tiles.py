"""Tiles of rows in the memory of a group of work items: what reductions and scans have in common.

A tile is 2048 elements of one row, or several rows that together are no more. Neighbouring
items compute neighbouring elements, on a GPU several at a time (`weft.lower.gpu.batched`). Then
each of 64 items has a chunk of 32 elements, which lie in one row, and folds them from left to
right.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager

from weft.fun import nodes as fun
from weft.imp import nodes as imp
from weft.imp.nodes import machine
from weft.imp.walk import may_leave
from weft.lower import reductions, spaces
from weft.lower.emitter import Emitter, frozen
from weft.lower.gpu import batched, versions
from weft.lower.gpu.host import Host
from weft.ops.dtypes import DType
from weft.sizes import ZERO, Size

GROUP = 64
CHUNK = reductions.ROWS
TILE = GROUP * CHUNK
TILES = 8  # of a row whose folds are combined together, on a GPU
SHARED_BYTES = 16  # of the scalars of one element, at most: 48 KiB are shared on any GPU
_LINE = 64  # bytes, of which regions are multiples
_PADDED = TILE + GROUP  # one element more for each chunk: chunks begin in different banks

Values = Sequence[imp.Expr]
InGroups = Callable[[Emitter, imp.Expr, imp.Expr], None]
"""(emitter, number of the group, number of the item in it): what an item does."""


def launch_groups(
    host: Host, let: fun.Let, space: Sequence[fun.Range], name: str, label: str, groups: Size,
    whether: Size, inside: InGroups, size: int = GROUP,
) -> bool:  # fmt: skip
    """Launch so many groups of a `size`, none if `whether` is 0; False where an item may leave."""
    k, item = host.kernel_emitter(), host.unit.integer("item")
    with ExitStack() as scopes:
        for r in space:
            scopes.enter_context(k.index(r.index.name, imp.ZERO, ZERO, r.extent))
        number = k.declare(machine("/", item, imp.integer(size)), "group")
        lane = k.declare(machine("%", item, imp.integer(size)), "lane")
        inside(k, number, lane)
    if may_leave(k.levels[0]):
        return False
    host.unit.kernels.append(spaces.describe(label, tuple(space), let.pattern))
    host.add(k, name, item, groups * size * whether, size)
    return True


def reserve(
    host: Host, dtypes: Sequence[DType], count: Size, whether: Size
) -> Callable[[Emitter], list[imp.Pointer]]:
    """Memory for so many values of each dtype, none if `whether` is 0; how kernels find it."""
    regions = [
        host.unit.region(whether * versions.ceil(host, count * dtype.itemsize, _LINE) * _LINE)
        for dtype in dtypes
    ]
    return lambda k: [k.pointer(r, d) for r, d in zip(regions, dtypes, strict=True)]


class Rows:
    """Sequences of elements, one after another, of which each item of a group has a chunk.

    Attributes
    ----------
    row : imp.Expr
        The item's sequence.
    chunk, chunks : imp.Expr
        Which of how many chunks of the sequence the item's is.
    begin, end : imp.Expr
        The elements of the chunk, by their places in all sequences.
    own : imp.Expr
        Whether there is such a chunk.
    size, length : imp.Expr
        Elements of all sequences, and of each.
    """

    def __init__(self, e: Emitter, lane: imp.Expr, group: int = GROUP) -> None:
        self.e, self.lane, self.group = e, lane, group
        self.row: imp.Expr = imp.ZERO
        self.chunk: imp.Expr = lane

    def of_row(self, size: imp.Expr) -> None:
        """There are so many elements, of one row."""
        e, chunk = self.e, imp.integer(CHUNK)
        self.size = size
        self.chunks = spaces.ceil(e, size, chunk)
        self.begin = e.declare(machine("*", self.lane, chunk))
        self.end = e.declare(machine("min", size, machine("+", self.begin, chunk)))
        self.own = e.declare(machine("<", self.begin, size))

    def of_rows(self, rows: imp.Expr, length: imp.Expr) -> None:
        """There are so many rows, whole ones; the group has a chunk for each item at most."""
        e, chunk = self.e, imp.integer(CHUNK)
        self.length = length
        self.size = e.declare(machine("*", rows, length))
        chunks = spaces.ceil(e, length, chunk)
        self.chunks = e.declare(machine("max", imp.ONE, chunks))
        self.row = e.declare(machine("/", self.lane, self.chunks))
        self.chunk = e.declare(machine("%", self.lane, self.chunks))
        first = e.declare(machine("*", self.row, length))
        begin = machine("+", first, machine("*", self.chunk, chunk))
        self.begin = e.declare(begin)
        end = e.declare(machine("+", first, length))
        self.end = e.declare(machine("min", end, machine("+", self.begin, chunk)))
        exists = machine("<", self.row, rows)
        self.own = e.declare(machine("&&", exists, machine("<", self.begin, self.end)))

    def place(self, at: imp.Expr) -> tuple[imp.Expr, imp.Expr]:
        """Of which of the rows an element is, and its place there.

        Both fit 32 bits, of which a GPU's division takes a fraction of the time.
        """
        e = self.e
        narrow = [e.declare(imp.Cast(DType.U32, number)) for number in (at, self.length)]
        quotient = imp.Apply("floor_divide", tuple(narrow), DType.U32)
        row = e.declare(imp.Cast(DType.I64, quotient), "row")
        return row, e.declare(machine("-", at, machine("*", row, self.length)))

    def each(self, do: Callable[[imp.Expr], None]) -> None:
        """`do` for all elements, neighbours by neighbouring items."""
        e, base = self.e, self.e.unit.integer("i")
        with e.loop(base, imp.ZERO, self.size, step=self.group):
            at = e.declare(machine("+", base, self.lane))
            with e.branch(machine("<", at, self.size)):
                do(at)

    def barrier(self) -> None:
        self.e.emit(imp.Barrier())

    @contextmanager
    def first(self) -> Iterator[None]:
        """Inside, the first item of the group works alone."""
        with self.e.branch(machine("==", self.lane, imp.ZERO)):
            yield

    def load(self, pointers: Sequence[imp.Pointer], at: imp.Expr) -> list[imp.Expr]:
        return [self.e.declare(imp.Load(p, at), depth=self.e.depth) for p in pointers]

    def store(self, pointers: Sequence[imp.Pointer], at: imp.Expr, values: Values) -> None:
        for pointer, value in zip(pointers, values, strict=True):
            self.e.emit(imp.Store(pointer, at, value))


class Folds(Rows):
    """A value for each item of a group, where all of them see it.

    Attributes
    ----------
    folds : list of Pointer
        The values, at the numbers of items.
    """

    def __init__(
        self, e: Emitter, lane: imp.Expr, dtypes: Sequence[DType], operator: fun.Lambda,
        group: int = GROUP,
    ) -> None:  # fmt: skip
        super().__init__(e, lane, group)
        self.operator = operator
        self.folds = [e.shared(dtype, group) for dtype in dtypes]

    def of_values(self, size: imp.Expr) -> None:
        """There is one sequence, of so many values."""
        self.chunk, self.chunks = self.lane, size
        self.own = self.e.declare(machine("<", self.lane, size))

    def of_chunks(self, rows: Rows) -> None:
        """There is a value for each chunk of rows."""
        self.chunk, self.chunks, self.own = rows.chunk, rows.chunks, rows.own

    def join(self) -> None:
        """The first value of each sequence becomes all of them, neighbours level by level."""
        reach = 1
        while reach < self.group:
            is_left = machine("%", self.chunk, imp.integer(2 * reach))
            self._join_level(imp.integer(reach), machine("==", is_left, imp.ZERO))
            reach *= 2

    def join_few(self) -> None:
        """The same, in no more levels than sequences have."""
        e = self.e
        reach = e.mutable(DType.I64, imp.ONE, "reach")
        with e.level() as body:
            e.depths[reach.name] = e.depth
            others = machine("-", machine("*", reach, imp.integer(2)), imp.ONE)
            self._join_level(reach, machine("==", machine("&", self.chunk, others), imp.ZERO))
            e.emit(imp.Assign(reach, machine("*", reach, imp.integer(2))))
        e.emit(imp.While(machine("<", reach, self.chunks), tuple(body)))

    def _join_level(self, step: imp.Expr, is_left: imp.Expr) -> None:
        """Values that are combinations of so many become combinations of twice as many."""
        e = self.e
        exists = machine("<", e.declare(machine("+", self.chunk, step)), self.chunks)
        with e.branch(machine("&&", self.own, is_left)), e.branch(exists):
            right = self.load(self.folds, machine("+", self.lane, step))
            joined = self.combine(self.load(self.folds, self.lane), right)
            self.store(self.folds, self.lane, joined)
        self.barrier()

    def count(
        self, counter: reductions.Counter, size: imp.Expr, value: Callable[[imp.Expr], Values]
    ) -> None:
        """So many values pushed to the first item's counter, one of each item at a time.

        On a GPU that is what neighbours among 16 values are combined to.
        """
        e, start = self.e, self.e.unit.integer("start")
        each = batched.RESULTS if e.unit.batched else 1
        with e.loop(start, imp.ZERO, size, step=GROUP * each):
            left = e.declare(machine("-", size, start))
            self.of_values(spaces.ceil(e, left, imp.integer(each)) if each > 1 else left)
            with e.branch(self.own):
                if each > 1:
                    skipped = e.declare(machine("*", self.lane, imp.integer(each)))
                    mine = e.declare(machine("+", start, skipped))
                    rest = e.declare(machine("-", left, skipped))
                    values = batched.neighbours(counter, mine, rest, value)
                else:
                    values = value(e.declare(machine("+", start, self.lane)))
                self.store(self.folds, self.lane, values)
            self.barrier()
            self.join()
            with self.first():
                counter.push(self.load(self.folds, imp.ZERO))
            self.barrier()

    def combine(self, left: Values, right: Values) -> list[imp.Expr]:
        return reductions.combine(self.e, self.operator, left, right)


class Tile(Folds):
    """Elements of rows, and the folds of their chunks."""

    def __init__(
        self, e: Emitter, lane: imp.Expr, dtypes: Sequence[DType], operator: fun.Lambda
    ) -> None:
        super().__init__(e, lane, dtypes, operator)
        self.values = [e.shared(dtype, _PADDED) for dtype in dtypes]
        self.kept, self.place_kept = self.folds, lane  # where the item's fold goes

    def keep_folds(self) -> None:
        """The folds of `TILES` tiles wait for each other: there are fewer barriers."""
        self.kept = [self.e.shared(fold.dtype, TILES * GROUP) for fold in self.folds]

    def of_turn(self, before: imp.Expr) -> None:
        """The tile comes after so many elements of those whose folds wait for each other."""
        chunks = machine("/", before, imp.integer(CHUNK))
        self.place_kept = self.e.declare(machine("+", self.lane, chunks))

    def join_kept(self, counter: reductions.Counter, size: imp.Expr) -> None:
        """The folds that were kept, of so many elements, become the first one."""
        e, tiles = self.e, imp.integer(TILES)
        count = spaces.ceil(e, size, imp.integer(CHUNK))
        self.of_values(spaces.ceil(e, count, tiles))
        with e.branch(self.own):
            begin = e.declare(machine("*", self.lane, tiles))
            left = e.declare(machine("-", count, begin))
            values = batched.neighbours(
                counter, begin, left, lambda at: self.load(self.kept, at), TILES
            )
            self.store(self.folds, self.lane, values)
        self.barrier()
        self.join()

    def take(self, value: Callable[[imp.Expr], Values], count: int) -> None:
        """The values of the tile's elements; on a GPU so many of each item at a time.

        Where the elements end, several items may do the last one.
        """
        e = self.e
        if not e.unit.batched:
            self.each(lambda at: self.keep(at, value(at)))
            return
        last = e.declare(machine("-", self.size, imp.ONE))

        def place(row: imp.Expr) -> imp.Expr:
            at = machine("+", self.lane, machine("*", row, imp.integer(GROUP)))
            return e.declare(machine("min", e.declare(at), last))

        self._take(value, count, spaces.ceil(e, self.size, imp.integer(GROUP)), place, (
            lambda row: padded(place(row))
        ))  # fmt: skip

    def take_row(self, value: Callable[[imp.Expr], Values], count: int) -> None:
        """The values of a row's elements; of a whole tile's by places known ahead."""
        e, near = self.e, self.e.declare(padded(self.lane))
        if not e.unit.batched:
            self.take(value, count)
            return

        def strided(begin: imp.Expr, row: imp.Expr, stride: int) -> imp.Expr:
            return e.declare(machine("+", begin, machine("*", row, imp.integer(stride))))

        e.either(
            machine("==", self.size, imp.integer(TILE)),
            lambda: self._take(
                value, count, imp.integer(CHUNK),
                lambda row: strided(self.lane, row, GROUP),
                lambda row: strided(near, row, GROUP + GROUP // CHUNK),
            ),
            lambda: self.take(value, min(count, batched.ELEMENTS)),
        )  # fmt: skip

    def _take(
        self, value: Callable[[imp.Expr], Values], count: int, rows: imp.Expr,
        place: Callable[[imp.Expr], imp.Expr], padded_place: Callable[[imp.Expr], imp.Expr],
    ) -> None:  # fmt: skip
        """Batches of so many rows of a group's neighbours."""
        e, first, number = self.e, self.e.unit.integer("first"), self.e.unit.integer("l")
        with e.loop(first, imp.ZERO, rows, step=count):
            found = batched.compute(
                e, [pointer.dtype for pointer in self.values], count,
                lambda number: value(place(machine("+", first, number))),
            )  # fmt: skip
            with e.loop(number, imp.ZERO, imp.integer(count), unroll=count):
                at = padded_place(machine("+", first, number))
                self.store(self.values, at, self.load(found, number))

    def fold_row(self) -> None:
        """Each item's elements of a tile of one row; of a whole one, by places known ahead."""
        e = self.e

        def whole() -> None:
            begin = e.declare(machine("*", self.lane, imp.integer(CHUNK + 1)))
            state = [e.mutable(v.dtype, v) for v in self.load(self.values, begin)]
            at = e.unit.integer("i")
            with e.loop(at, imp.ONE, imp.integer(CHUNK), unroll=CHUNK), frozen(e, state) as now:
                values = self.load(self.values, e.declare(machine("+", begin, at)))
                for slot, joined in zip(state, self.combine(now, values), strict=True):
                    e.emit(imp.Assign(slot, joined))
            self.store(self.kept, self.place_kept, state)

        if e.unit.batched:
            e.either(machine("==", self.size, imp.integer(TILE)), whole, self.fold)
        else:
            self.fold()

    def fold(self) -> None:
        """Each item's elements, from left to right, without what stands before them."""
        e = self.e
        with e.branch(self.own):
            state = [e.mutable(v.dtype, v) for v in self.element(self.begin)]
            at = e.unit.integer("i")
            with e.loop(at, machine("+", self.begin, imp.ONE), self.end), frozen(e, state) as now:
                for slot, value in zip(state, self.combine(now, self.element(at)), strict=True):
                    e.emit(imp.Assign(slot, value))
            self.store(self.kept, self.place_kept, state)

    def element(self, at: imp.Expr) -> list[imp.Expr]:
        return self.load(self.values, padded(at))

    def keep(self, at: imp.Expr, values: Values) -> None:
        """The values of an element."""
        self.store(self.values, padded(at), values)


def padded(at: imp.Expr) -> imp.Expr:
    return machine("+", at, machine("/", at, imp.integer(CHUNK)))
