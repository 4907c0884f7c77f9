"""Scans of rows on a device, by operators whose tree is fixed or that are exact.

A row is cut into tiles of 2048 elements, a tile into chunks of 32. Before a chunk stands what
its row begins with, combined with the totals of the tiles before its own, from left to right,
then with the total of the chunks before it in its tile, which is a left fold too. From there on
an element is combined after the other. That depends on places in the row alone, and every form
does it:

- an item for each row (processors; many short rows of which neighbouring ones lie side by side);
- longer rows that lie so, on a GPU: a group for 32 of them (`weft.lower.gpu.column_scans`);
- short rows: a group takes several, as many as have 64 chunks;
- a group for each row, tile after tile;
- few long rows: tiles by groups of their own. Exact operators look back
  (`weft.lower.gpu.lookback`); for others one launch finds the totals of tiles, one folds those of
  each row, and one scans.

    let y = scan (i < n, j < m) { x[i, j] } with add
    =>  64 items for each i:  for start from 0 to m step 2048 { values[..] = x[i, start + ..];
          barrier; folds of chunks; barrier; what stands before chunks; barrier; chunks scanned }
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager

from weft.fun import nodes as fun
from weft.imp import nodes as imp
from weft.imp.nodes import machine
from weft.lower import reductions, shapes, spaces
from weft.lower.bodies import scalar_results
from weft.lower.emitter import Emitter, frozen
from weft.lower.gpu import column_scans, items, lookback, versions
from weft.lower.gpu.host import Host
from weft.lower.gpu.tiles import (
    CHUNK,
    GROUP,
    SHARED_BYTES,
    TILE,
    InGroups,
    Tile,
    Values,
    launch_groups,
    reserve,
)
from weft.lower.unit import memory
from weft.mem import neighbours
from weft.ops.dtypes import DType
from weft.sizes import ONE, ZERO, Poly, Size, as_poly, product

_SEVERAL = TILE // 2  # elements, at most, of rows of which a group takes several
_MANY = 4096  # rows that are work enough for items alone, where they lie side by side
_SOME = 1024  # rows that lie so and are work enough for groups of 32
_LONG = 4 * TILE  # elements of a row whose tiles are groups of their own,
_FEW = 256  # if there are fewer rows


def lower(host: Host, let: fun.Let, scan: fun.Scan) -> None:
    """Launch the scan of rows, one launch or the other by the sizes."""
    *outer, last = scan.space
    count = product(r.extent for r in outer)
    host.know(count)
    rows = _Rows(host, let, scan)
    sized = host.is_sized(count) and host.is_sized(last.extent)
    if not (outer and sized and rows.suits()):
        rows.by_items(ONE)
        return
    alone, beside, gpu = host.is_processor, ZERO, 1 - host.is_processor
    if not rows.walks:
        tall = 1 - versions.below(host, last.extent, CHUNK + 1)
        alone = alone + gpu * (1 - tall) * (1 - versions.below(host, count, _MANY))
        beside = gpu * tall * (1 - versions.below(host, count, _SOME))
    grouped = 1 - alone - beside
    short = versions.below(host, last.extent, _SEVERAL + 1)
    long = versions.below(host, count, _FEW) * (1 - versions.below(host, last.extent, _LONG))
    if not rows.by_group(grouped * (1 - short) * (1 - long)):
        rows.by_items(ONE)  # an item that leaves would be waited for
        return
    rows.several(grouped * short)
    if long != ZERO and not (rows.exact and lookback.on_gpus(host, let, scan, grouped, long)):
        rows.in_tiles(grouped, long)
    if beside != ZERO:
        column_scans.lower(host, let, scan, beside)
    rows.by_items(alone)


class _Rows:
    """A scan whose space ends with the dimension that is scanned."""

    def __init__(self, host: Host, let: fun.Let, scan: fun.Scan) -> None:
        self.host, self.let, self.scan = host, let, scan
        *outer, self.last = scan.space
        self.outer = tuple(outer)
        self.dtypes = [var.type.dtype for var in let.pattern]
        self.exact = lookback.suits(scan)

    def suits(self) -> bool:
        """Whether groups may do it: straight-line code on few bytes."""
        scan = self.scan
        flat = shapes.is_flat(scan.body) and shapes.is_flat(scan.operator.body)
        return flat and sum(dtype.itemsize for dtype in self.dtypes) <= SHARED_BYTES

    @property
    def walks(self) -> bool:
        """Whether neighbouring rows lie apart where neighbours of one row do not."""
        body = self.scan.body.statements
        indices = tuple(Poly.var(r.index.name) for r in self.scan.space)
        written = [(memory(var), indices) for var in self.let.pattern]
        row, element = self.outer[-1].index.name, self.last.index.name
        return neighbours.rows_apart(body, row, element, written)

    # ------------------------------------------------------------ the forms

    def by_items(self, whether: Size) -> None:
        """An item for each row."""
        if whether == ZERO:
            return
        scan, extent = self.scan, self.last.extent

        def row(k: Emitter) -> None:
            if self.exact or not self.outer or not shapes.is_flat(scan.body):
                items.lower_scan(k, self.let, scan, (self.last,))
            else:
                with k.index(self.last.index.name, imp.ZERO, ZERO, extent):
                    self.item(k, k.named(extent))

        self.host.launch(self.let, "scan", self.outer, row, whether)

    def by_group(self, whether: Size) -> bool:
        """A group for each row; whether that can be done: not where an item may fail."""

        def inside(k: Emitter, number: imp.Expr, lane: imp.Expr) -> None:
            spaces.decode(k, self.outer, number)
            tile = _Tile(k, lane, self.dtypes, self.scan)
            with tile.first():
                tile.store(tile.carry, imp.ZERO, tile.initial())
            start, extent = k.unit.integer("start"), k.named(self.last.extent)
            with k.loop(start, imp.ZERO, extent, step=TILE):
                self.tile(tile, start, extent)
                self.write(tile, start)
                tile.barrier()
                with tile.first():
                    before = tile.load(tile.carry, imp.ZERO)
                    after = tile.combine(before, tile.load(tile.totals, imp.ZERO))
                    tile.store(tile.carry, imp.ZERO, after)

        count = product(r.extent for r in self.outer)
        return self.launch("scanned", "scan by groups", count, whether, inside)

    def several(self, whether: Size) -> None:
        """Several rows for each group."""
        if whether == ZERO:
            return
        host, extent = self.host, self.last.extent
        count = product(r.extent for r in self.outer)
        chunks = versions.maximum(host, versions.ceil(host, extent, CHUNK), ONE)
        rows = versions.divide(host, as_poly(GROUP), chunks)
        rows = versions.maximum(host, rows, ONE)  # for rows that are not short

        def inside(k: Emitter, number: imp.Expr, lane: imp.Expr) -> None:
            first = k.declare(machine("*", number, k.named(rows)))
            left = k.declare(machine("-", k.named(count), first))
            length = k.named(extent)
            tile = _Tile(k, lane, self.dtypes, self.scan)
            tile.of_rows(k.declare(machine("min", left, k.named(rows))), length)

            def bind(at: imp.Expr) -> None:
                row, place = tile.place(at)
                spaces.decode(k, self.outer, k.declare(machine("+", first, row)))
                k.bind(self.last.index.name, place)

            with tile.first_of_row():
                tile.store(tile.carry, tile.row, tile.initial())
            self.elements(tile, bind)
            self.advance(tile, bind)

        groups = versions.ceil(host, count, rows)
        self.launch("several", "scan several rows by groups", groups, whether, inside)

    def in_tiles(self, whether: Size, long: Size) -> None:
        """A group for each tile, in three launches."""
        host = self.host
        count, extent = product(r.extent for r in self.outer), self.last.extent
        tiles = versions.ceil(host, extent, TILE)
        totals = reserve(host, self.dtypes, count * tiles, long)

        def tile_of(k: Emitter, number: imp.Expr, lane: imp.Expr) -> tuple[_Tile, imp.Expr]:
            spaces.decode(k, self.outer, k.declare(machine("/", number, k.named(tiles)), "row"))
            start = machine("*", machine("%", number, k.named(tiles)), imp.integer(TILE))
            tile, begin = _Tile(k, lane, self.dtypes, self.scan), k.declare(start, "start")
            self.tile(tile, begin, k.named(extent))
            return tile, begin

        def total(k: Emitter, number: imp.Expr, lane: imp.Expr) -> None:
            tile, _ = tile_of(k, number, lane)
            with tile.first():
                tile.store(totals(k), number, tile.load(tile.totals, imp.ZERO))

        def scan(k: Emitter, number: imp.Expr, lane: imp.Expr) -> None:
            tile, begin = tile_of(k, number, lane)
            with tile.first():
                tile.store(tile.carry, imp.ZERO, tile.load(totals(k), number))
            tile.barrier()
            self.write(tile, begin)

        def fold(k: Emitter) -> None:
            """Each total of the row becomes what its tile begins with."""
            parts = k.named(tiles)
            row = ZERO
            for r in self.outer:
                row = row * r.extent + Poly.var(r.index.name)
            first = k.named(row * tiles)
            state = [k.mutable(v.dtype, v, "carry") for v in _initial(k, self.scan)]
            at = k.unit.integer("i")
            with k.loop(at, first, machine("+", first, parts)), frozen(k, state) as now:
                found = [k.declare(imp.Load(p, at), depth=k.depth) for p in totals(k)]
                after = reductions.combine(k, self.scan.operator, now, found)
                for pointer, value in zip(totals(k), now, strict=True):
                    k.emit(imp.Store(pointer, at, value))
                for slot, value in zip(state, after, strict=True):
                    k.emit(imp.Assign(slot, value))

        self.launch("totals", "totals of tiles by groups", count * tiles, whether * long, total)
        host.launch(self.let, "carries", self.outer, fold, whether * long)
        self.launch("tiles", "scan tiles by groups", count * tiles, whether * long, scan)

    # ------------------------------------------------------------ what they are made of

    def launch(
        self, name: str, label: str, groups: Size, whether: Size, inside: InGroups
    ) -> bool:
        space = self.scan.space
        return launch_groups(self.host, self.let, space, name, label, groups, whether, inside)

    def tile(self, tile: _Tile, start: imp.Expr, extent: imp.Expr) -> None:
        """The elements of one row from `start` on, and what stands before their chunks."""
        k = tile.e
        left = k.declare(machine("-", extent, start))
        tile.of_row(k.declare(machine("min", left, imp.integer(TILE))))

        def bind(at: imp.Expr) -> None:
            k.bind(self.last.index.name, k.declare(machine("+", start, at)))

        self.elements(tile, bind)

    def elements(self, tile: _Tile, bind: Callable[[imp.Expr], None]) -> None:
        """The elements of a tile, and what stands before its chunks."""

        def element(at: imp.Expr) -> None:
            bind(at)
            tile.keep(at, scalar_results(tile.e, self.scan.body))

        tile.each(element)
        tile.barrier()
        tile.fold()
        tile.barrier()
        tile.before_chunks()
        tile.barrier()

    def write(self, tile: _Tile, start: imp.Expr) -> None:
        """The results of a tile of one row."""
        k = tile.e

        def bind(at: imp.Expr) -> None:
            k.bind(self.last.index.name, k.declare(machine("+", start, at)))

        self.advance(tile, bind)

    def advance(self, tile: _Tile, bind: Callable[[imp.Expr], None]) -> None:
        """Chunks scanned in their place, then written, neighbours by neighbouring items."""
        k = tile.e
        tile.scan_chunk()
        tile.barrier()
        indices = tuple(Poly.var(r.index.name) for r in self.scan.space)

        def write(at: imp.Expr) -> None:
            bind(at)
            for var, value in zip(self.let.pattern, tile.element(at), strict=True):
                k.store(memory(var), indices, value)

        tile.each(write)

    def item(self, k: Emitter, extent: imp.Expr) -> None:
        """A row by one item: the total of each chunk beside its results."""
        carry = [k.mutable(v.dtype, v, "carry") for v in _initial(k, self.scan)]
        before = [k.mutable(var.dtype, var, "before") for var in carry]  # the chunk, in its tile
        start, chunk = k.unit.integer("start"), k.unit.integer("chunk")
        with k.loop(start, imp.ZERO, extent, step=TILE):
            end = k.declare(machine("+", start, imp.integer(TILE)))
            end = k.declare(machine("min", extent, end))
            with k.loop(chunk, start, end, step=CHUNK):
                is_first = k.declare(machine("==", chunk, start))
                stop = k.declare(machine("+", chunk, imp.integer(CHUNK)))
                stop = k.declare(machine("min", end, stop))
                with frozen(k, carry) as far, frozen(k, before) as near:
                    both = reductions.combine(k, self.scan.operator, far, near)
                    state = [
                        k.mutable(one.dtype, imp.Select(is_first, one, other))
                        for one, other in zip(far, both, strict=True)
                    ]
                    total = self.chunk(k, chunk, stop, state)
                    after = reductions.combine(k, self.scan.operator, near, total)
                    self.assign(k, before, total, after, is_first)
            with frozen(k, carry) as far, frozen(k, before) as near:
                self.assign(k, carry, reductions.combine(k, self.scan.operator, far, near))

    def chunk(
        self, k: Emitter, begin: imp.Expr, end: imp.Expr, state: Sequence[imp.Var]
    ) -> list[imp.Expr]:
        """A chunk scanned from a state on; its total."""
        total = [k.mutable(var.dtype, var, "total") for var in state]
        at = k.unit.integer("i")
        indices = tuple(Poly.var(r.index.name) for r in self.scan.space)
        with k.loop(at, begin, end):
            k.bind(self.last.index.name, at)
            values = scalar_results(k, self.scan.body)
            is_first = k.declare(machine("==", at, begin))
            with frozen(k, total) as left, frozen(k, state) as now:
                joined = reductions.combine(k, self.scan.operator, left, values)
                self.assign(k, total, values, joined, is_first)
                after = reductions.combine(k, self.scan.operator, now, values)
                self.assign(k, state, after)
                results = now if self.scan.exclusive else after
                for var, value in zip(self.let.pattern, results, strict=True):
                    k.store(memory(var), indices, value)
        return list(total)

    def assign(
        self, k: Emitter, slots: Sequence[imp.Var], values: Values, others: Values = (),
        condition: imp.Expr | None = None,
    ) -> None:  # fmt: skip
        """New states: the values, or the others where there is a condition that does not hold."""
        chosen = values if condition is None else [
            imp.Select(condition, one, other) for one, other in zip(values, others, strict=True)
        ]
        for slot, value in zip(slots, chosen, strict=True):
            k.emit(imp.Assign(slot, value))


class _Tile(Tile):
    """Tiles that are scanned; `carry` and `totals` are of rows, by their numbers in the tile."""

    def __init__(
        self, e: Emitter, lane: imp.Expr, dtypes: Sequence[DType], scan: fun.Scan
    ) -> None:
        super().__init__(e, lane, dtypes, scan.operator)
        self.scan = scan
        self.carry = [e.shared(dtype, GROUP) for dtype in dtypes]
        self.totals = [e.shared(dtype, GROUP) for dtype in dtypes]

    def initial(self) -> list[imp.Expr]:
        return _initial(self.e, self.scan)

    def before_chunks(self) -> None:
        """Folds of chunks become those of all chunks before them in their rows."""
        e = self.e
        with self.first_of_row():
            state = [e.mutable(v.dtype, v) for v in self.load(self.folds, self.lane)]
            at = e.unit.integer("i")
            end = e.declare(machine("+", self.lane, self.chunks))
            with e.loop(at, machine("+", self.lane, imp.ONE), end), frozen(e, state) as now:
                after = self.combine(now, self.load(self.folds, at))
                self.store(self.folds, at, now)
                for slot, value in zip(state, after, strict=True):
                    e.emit(imp.Assign(slot, value))
            self.store(self.totals, self.row, state)

    def first_of_row(self) -> AbstractContextManager[None]:
        """Inside, the items of rows' first chunks work."""
        is_first = machine("==", self.chunk, imp.ZERO)
        return self.e.branch(machine("&&", self.own, is_first))

    def scan_chunk(self) -> None:
        """The item's elements become their results."""
        e = self.e
        with e.branch(self.own):
            carry = self.load(self.carry, self.row)
            state = [e.mutable(value.dtype, value, "carry") for value in carry]
            with e.branch(machine(">", self.chunk, imp.ZERO)):
                joined = self.combine(carry, self.load(self.folds, self.lane))
                for slot, value in zip(state, joined, strict=True):
                    e.emit(imp.Assign(slot, value))
            at = e.unit.integer("i")
            with e.loop(at, self.begin, self.end), frozen(e, state) as now:
                after = self.combine(now, self.element(at))
                self.keep(at, now if self.scan.exclusive else after)
                for slot, value in zip(state, after, strict=True):
                    e.emit(imp.Assign(slot, value))


def _initial(e: Emitter, scan: fun.Scan) -> list[imp.Expr]:
    return [e.atom(atom) for atom in scan.initial]
