"""Long scans on a device, in three launches: by operators whose tree is fixed.

As on the CPU (`weft.lower.scans`), tiles of 65536 elements are cut into 8 streams. The first
launch reduces each stream; the next folds the totals, from left to right, into what each stream
begins with; then the streams are scanned. Boxes hold whole tiles, and fold the same totals
(`weft.plan.carry`), so bits do not depend on them.

On processors an item does a stream, and one all totals. On GPUs a group reduces a stream
(`weft.lower.gpu.groups`), one folds all totals, and a group scans a tile, 256 elements of each
stream at a time: its items load them, neighbours by neighbouring items, eight of them scan a
stream each in the memory that the group shares, while the others' next loads are under way, and
all write what came of it. What neither can share among items is a chain of 8208 operations.

    let y = scan (i < n) { x[i] } with add
    =>  256 items for each tile:  next[s] = x[begin[s] + lane] for s < 8
          for start from 0 to length step 256 {
            values[s, lane] = next[s]; barrier; next[s] = x[begin[s] + start + 256 + lane]
            item s < 8: for i < 256 { c = c + values[s, i]; values[s, i] = c }; barrier
            y[begin[s] + start + lane] = values[s, lane] }
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from weft.fun import nodes as fun
from weft.imp import nodes as imp
from weft.imp.nodes import machine
from weft.lower import reductions, scans, shapes
from weft.lower.bodies import scalar_results
from weft.lower.emitter import Emitter, frozen
from weft.lower.gpu import batched, groups, items
from weft.lower.gpu.host import Host
from weft.lower.gpu.tiles import CHUNK, SHARED_BYTES, TILE, Tile, Values, launch_groups, padded
from weft.lower.unit import memory
from weft.ops.dtypes import DType
from weft.sizes import ONE, Derived, Poly, Size, as_poly

_LINE = 8 * scans.STREAMS
"""Bytes of a tile's totals, of scalars of at most 8 bytes."""

_GROUP = 256
"""Items that scan a tile, and elements of each stream that they have at a time."""

_WARP = 32  # items that run together; which of them has the chains depends on the group


def lower_long(host: Host, let: fun.Let) -> None:
    """A scan over one dimension, whose extent the launch knows and whose body is straight-line."""
    scan = let.expr
    assert isinstance(scan, fun.Scan)
    long = _Long(host, let, scan)
    if host.dialect == "cuda":
        if not long.by_groups():
            long.by_items()
        return
    with host.inside() as grouped:
        done = long.by_groups()
    with host.inside() as alone:
        long.by_items()
    host.by_device(alone, grouped if done else alone)


class _Long:
    """The forms of a scan; `streams` are all of all tiles."""

    def __init__(self, host: Host, let: fun.Let, scan: fun.Scan) -> None:
        self.host, self.let, self.scan = host, let, scan
        (self.range,) = scan.space
        self.dtypes = [var.type.dtype for var in let.pattern]
        name = host.unit.fresh("scan.tiles.")
        tile = as_poly(scans.TILE)
        self.tiles: Size = host.derive(
            Derived(name, "floordiv", self.range.extent + tile - 1, tile)
        )
        self.blocks = [host.unit.region(self.tiles * _LINE) for _ in let.pattern]
        stream = fun.Var(host.unit.fresh("stream."), fun.Scalar(DType.I64))
        self.streams = fun.Range(stream, self.tiles * scans.STREAMS)
        self.neutral = [scans.neutral(scan.operator, k) for k in range(len(let.pattern))]

    def totals(self, e: Emitter) -> list[imp.Pointer]:
        return [e.pointer(*found) for found in zip(self.blocks, self.dtypes, strict=True)]

    # ------------------------------------------------------------ the forms

    def by_items(self) -> None:
        """An item for each stream."""
        host, scan = self.host, self.scan

        def total(e: Emitter) -> None:
            number = e.scalars[self.streams.index.name]
            begin, end = self.bounds(e, number)
            size = e.declare(machine("-", end, begin))
            with e.branch(machine(">", size, imp.ZERO)):
                values = items.folded(e, scan, begin, size, self.neutral)
                _store(e, self.totals(e), number, values)

        def write(e: Emitter) -> None:
            number = e.scalars[self.streams.index.name]
            begin, end = self.bounds(e, number)
            with e.branch(machine("<", begin, end)):
                initial = _load(e, self.totals(e), number)
                items.scan_range(e, self.let, scan, begin, end, initial)

        with host.e.index(self.range.index.name, imp.ZERO, as_poly(0), self.range.extent):
            host.launch(self.let, "totals", (self.streams,), total)
            with host.by_one_item():
                self.fold(host.e)
            host.launch(self.let, "scan", (self.streams,), write)

    def by_groups(self) -> bool:
        """Groups for streams, and for tiles; whether they may: straight-line code on few bytes."""
        flat = shapes.is_flat(self.scan.operator.body)
        if not flat or sum(dtype.itemsize for dtype in self.dtypes) > SHARED_BYTES:
            return False

        def total(k: Emitter, number: imp.Expr, lane: imp.Expr) -> None:
            begin, end = self.bounds(k, number)
            tile = Tile(k, lane, self.dtypes, self.scan.operator)
            counter = reductions.Counter(k, self.scan.operator, self.neutral)
            index = self.range.index.name
            groups.fold_row(tile, counter, index, self.scan.body, begin, end)
            with tile.first():
                tile.store(self.totals(k), number, counter.total())

        def fold(k: Emitter, number: imp.Expr, lane: imp.Expr) -> None:
            self.fold_by_group(Tile(k, lane, self.dtypes, self.scan.operator))

        def scan(k: Emitter, number: imp.Expr, lane: imp.Expr) -> None:
            _Streams(self, k, number, lane).scan()

        def launch(
            name: str, label: str, count: Size,
            inside: Callable[[Emitter, imp.Expr, imp.Expr], None], size: int,
        ) -> bool:  # fmt: skip
            space = self.scan.space
            return launch_groups(self.host, self.let, space, name, label, count, ONE, inside, size)

        if not launch("totals", "totals of streams by groups", self.streams.extent, total, 64):
            return False
        launch("carries", "totals folded by a group", ONE, fold, 64)
        launch("streams", "scan streams by groups", self.tiles, scan, _GROUP)
        return True

    # ------------------------------------------------------------ what they are made of

    def bounds(self, e: Emitter, number: imp.Expr) -> tuple[imp.Expr, imp.Expr]:
        """Where the stream begins and ends; it is empty where its tile has no so many."""
        extent = e.named(self.range.extent)
        eight = imp.integer(scans.STREAMS)
        start = e.declare(machine("*", machine("/", number, eight), imp.integer(scans.TILE)))
        left = e.declare(machine("-", extent, start))
        size = e.declare(machine("min", imp.integer(scans.TILE), left))
        length, _ = scans.streams(e, size)
        before = machine("*", machine("%", number, eight), length)
        stop = e.declare(machine("+", start, size))
        begin = e.declare(machine("min", stop, e.declare(machine("+", start, before))))
        return begin, e.declare(machine("min", stop, e.declare(machine("+", begin, length))))

    def fold(self, e: Emitter) -> None:
        """Each total becomes what its stream begins with."""
        state = self.initial(e)
        var = e.unit.integer("i")
        with e.loop(var, imp.ZERO, e.poly(self.streams.extent)):
            begin, end = self.bounds(e, var)
            with e.branch(machine("<", begin, end)):
                self.advance(e, state, self.totals(e), var, _load(e, self.totals(e), var), True)

    def fold_by_group(self, tile: Tile) -> None:
        """The same by the first item, in the group's memory; streams at the end may be empty."""
        k, totals = tile.e, self.totals(tile.e)
        state = self.initial(k)
        start, end = k.unit.integer("start"), k.named(self.streams.extent)

        def values(at: imp.Expr) -> list[imp.Expr]:
            return _load(k, totals, k.declare(machine("+", start, at)))

        def write(at: imp.Expr) -> None:
            _store(k, totals, k.declare(machine("+", start, at)), tile.element(at))

        with k.loop(start, imp.ZERO, end, step=TILE):
            left = k.declare(machine("-", end, start))
            tile.of_row(k.declare(machine("min", left, imp.integer(TILE))))
            tile.take_row(values, CHUNK // 2)
            tile.barrier()
            with tile.first():
                self.chain(k, state, tile.values, tile.size, padded, True)
            tile.barrier()
            tile.each(write)
            tile.barrier()

    def initial(self, e: Emitter) -> list[imp.Var]:
        return [e.mutable(a.type.dtype, e.atom(a), "carry") for a in self.scan.initial]

    def chain(
        self, k: Emitter, state: Sequence[imp.Var], values: Sequence[imp.Pointer],
        size: imp.Expr, place: Callable[[imp.Expr], imp.Expr], exclusive: bool,
    ) -> None:  # fmt: skip
        """So many values in the group's memory scanned by an item, several at a time."""
        count = batched.of_registers(self.dtypes, self.scan.operator.body)
        whole = k.declare(machine("-", size, machine("%", size, imp.integer(count))))
        base, at = k.unit.integer("base"), k.unit.integer("i")
        with k.loop(base, imp.ZERO, whole, step=count):  # a batch lies in one chunk
            first, number = k.declare(place(base)), k.unit.integer("l")
            near = batched.compute(k, self.dtypes, count, lambda number: (
                _load(k, values, k.declare(machine("+", first, number)))
            ))  # fmt: skip
            with k.loop(number, imp.ZERO, imp.integer(count), unroll=count):
                where = k.declare(machine("+", first, number))
                self.advance(k, state, values, where, _load(k, near, number), exclusive)
        with k.loop(at, whole, size):
            where = k.declare(place(at))
            self.advance(k, state, values, where, _load(k, values, where), exclusive)

    def advance(
        self, k: Emitter, state: Sequence[imp.Var], values: Sequence[imp.Pointer],
        where: imp.Expr, found: Values, exclusive: bool,
    ) -> None:  # fmt: skip
        """A value combined into the state; what stands before it, or after, in its place."""
        with frozen(k, state) as now:
            after = reductions.combine(k, self.scan.operator, now, found)
            _store(k, values, where, now if exclusive else after)
            for slot, value in zip(state, after, strict=True):
                k.emit(imp.Assign(slot, value))


class _Streams:
    """What an item of a group does for the streams of its tile."""

    def __init__(self, long: _Long, k: Emitter, number: imp.Expr, lane: imp.Expr) -> None:
        self.long, self.k, self.number, self.lane = long, k, number, lane
        eight = imp.integer(scans.STREAMS)
        self.first = k.declare(machine("*", number, eight))
        self.tile = k.declare(machine("*", number, imp.integer(scans.TILE)), "tile")
        left = k.declare(machine("-", k.named(long.range.extent), self.tile))
        self.size = k.declare(machine("min", imp.integer(scans.TILE), left))
        self.length, _ = scans.streams(k, self.size)
        before = machine("*", self.length, imp.integer(scans.STREAMS - 1))
        self.least = k.declare(machine("-", self.size, before))  # the last stream's elements
        # One element more for each stream: streams begin in different banks.
        extent = scans.STREAMS * (_GROUP + 1)
        self.values = [k.shared(dtype, extent) for dtype in long.dtypes]
        self.near = [k.local(dtype, scans.STREAMS, "next") for dtype in long.dtypes]

    def scan(self) -> None:
        """All of it."""
        k = self.k
        warp = machine("&", self.number, imp.integer(_GROUP // _WARP - 1))
        stream = machine("-", self.lane, machine("*", warp, imp.integer(_WARP)))
        stream = k.declare(stream, "stream")
        chains = machine(">=", stream, imp.ZERO)
        chains = machine("&&", chains, machine("<", stream, imp.integer(scans.STREAMS)))
        chains = k.declare(chains, "chains")
        mine = k.declare(machine("*", stream, self.length))
        left = k.declare(machine("-", self.size, mine))
        mine = k.declare(machine("min", left, self.length))
        shared = k.declare(machine("*", stream, imp.integer(_GROUP + 1)))
        state = [k.mutable(value.dtype, value, "carry") for value in self.long.neutral]
        with k.branch(machine("&&", chains, machine(">", mine, imp.ZERO))):
            at = k.declare(machine("+", self.first, stream))
            for slot, value in zip(state, _load(k, self.long.totals(k), at), strict=True):
                k.emit(imp.Assign(slot, value))
        start = k.unit.integer("start")
        self.load(imp.ZERO)
        with k.loop(start, imp.ZERO, self.length, step=_GROUP):
            self.each(lambda s: _store(k, self.values, self.place(s), _load(k, self.near, s)))
            k.emit(imp.Barrier())
            self.load(k.declare(machine("+", start, imp.integer(_GROUP))))
            with k.branch(chains):
                rest = k.declare(machine("-", mine, start))
                rest = k.declare(machine("min", imp.integer(_GROUP), rest))
                self.long.chain(
                    k, state, self.values, k.declare(machine("max", imp.ZERO, rest)),
                    lambda at: machine("+", shared, at), self.long.scan.exclusive,
                )  # fmt: skip
            k.emit(imp.Barrier())
            self.write(start)

    def load(self, start: imp.Expr) -> None:
        """The item's element of each stream, `start` after where streams begin."""
        k = self.k

        def element(s: imp.Expr) -> None:
            _store(k, self.near, s, scalar_results(k, self.long.scan.body))

        self.elements(start, element)

    def write(self, start: imp.Expr) -> None:
        """What came of the item's elements."""
        k, long = self.k, self.long
        indices = (Poly.var(long.range.index.name),)

        def result(s: imp.Expr) -> None:
            found = _load(k, self.values, self.place(s))
            for var, value in zip(long.let.pattern, found, strict=True):
                k.store(memory(var), indices, value)

        self.elements(start, result)

    def elements(self, start: imp.Expr, do: Callable[[imp.Expr], None]) -> None:
        """`do` for the item's element of each stream that has it, its index bound."""
        k = self.k
        at = k.declare(machine("+", start, self.lane))
        base = k.declare(machine("+", self.tile, at))

        def bound(s: imp.Expr) -> None:
            before = k.declare(machine("*", s, self.length))
            k.bind(self.long.range.index.name, k.declare(machine("+", base, before)))
            do(s)

        def existing(s: imp.Expr) -> None:
            left = k.declare(machine("-", self.size, machine("*", s, self.length)))
            left = k.declare(machine("min", left, self.length))
            with k.branch(machine("<", at, left)):
                bound(s)

        after = machine("+", start, imp.integer(_GROUP))
        whole = machine("<=", after, self.least)
        k.either(whole, lambda: self.each(bound), lambda: self.each(existing))

    def each(self, do: Callable[[imp.Expr], None]) -> None:
        """`do` for each stream, written out."""
        k, s = self.k, self.k.unit.integer("s")
        with k.loop(s, imp.ZERO, imp.integer(scans.STREAMS), unroll=scans.STREAMS):
            do(s)

    def place(self, s: imp.Expr) -> imp.Expr:
        return machine("+", self.lane, machine("*", s, imp.integer(_GROUP + 1)))


def _load(e: Emitter, pointers: Sequence[imp.Pointer], at: imp.Expr) -> list[imp.Expr]:
    return [e.declare(imp.Load(p, at), depth=e.depth) for p in pointers]


def _store(
    e: Emitter, pointers: Sequence[imp.Pointer], at: imp.Expr, values: Sequence[imp.Expr]
) -> None:
    for pointer, value in zip(pointers, values, strict=True):
        e.emit(imp.Store(pointer, at, value))
