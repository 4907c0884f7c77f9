"""Scans: one pass over the data, in tiles that hand the carry on to the next.

A tile of 65536 elements is cut into 8 streams. First the total of each stream is reduced,
which brings the tile into the cache (that of a row's last stream nobody needs); then the tile
takes the carry from its predecessor, hands its own on, and scans its 8 streams side by side, each
from its own carry: eight independent chains where a plain scan has one. The carry is a left fold
over the totals of streams, so bits depend on extents alone.

Where neighbours in memory belong to different scans (along an outer axis), strips of
columns are scanned row by row instead.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack

import numpy as np

from weft.fun import nodes as fun
from weft.fun import operators, walk
from weft.fun.columns import scans_columns
from weft.fun.vector_math import has_vector_math
from weft.imp import nodes as imp
from weft.imp.nodes import machine
from weft.lower import bounds, far_rows, past_caches, reductions, shapes, spaces
from weft.lower.bodies import scalar_results
from weft.lower.emitter import Emitter, frozen
from weft.lower.rows import lower_row, simd
from weft.lower.unit import memory
from weft.ops.dtypes import DType
from weft.sizes import ZERO, Poly, Size, product

TILE = 65536
STREAMS = 8
SHORT = 4096  # shorter tiles are one stream
COLUMNS = 1024
BLOCK = 64  # elements of each stream that are written at once where results are large

_NEVER = imp.Const(False, DType.BOOL)
_ALWAYS = imp.Const(True, DType.BOOL)

_NEUTRAL = {
    "add": 0, "multiply": 1, "logical_or": False, "logical_and": True, "logical_xor": False,
    "bitwise_or": 0, "bitwise_xor": 0, "bitwise_and": -1,
}  # fmt: skip


def lower_scan(e: Emitter, let: fun.Let) -> None:
    scan = let.expr
    assert isinstance(scan, fun.Scan)
    outer, last = scan.space[:-1], scan.space[-1]
    with ExitStack() as scopes:
        for r in scan.space:
            scopes.enter_context(e.index(r.index.name, imp.ZERO, ZERO, r.extent))
        if scans_columns(scan) and shapes.is_flat(scan.body):
            _columns(e, let, scan)
        elif e.in_tile or e.serial or not shapes.is_flat(scan.body):
            _serial(e, let, scan, outer, last)
        else:
            _parallel(e, let, scan, outer, last)
    for var in let.pattern:
        e.depths["@" + var.name] = e.depth


def _store(e: Emitter, let: fun.Let, scan: fun.Scan, values: Sequence[imp.Expr]) -> None:
    indices = tuple(Poly.var(r.index.name) for r in scan.space)
    for var, value in zip(let.pattern, values, strict=True):
        e.store(memory(var), indices, value)


def begins(e: Emitter, scan: fun.Scan) -> list[imp.Expr]:
    """What the scan begins with, for the outer indices of now."""
    outer = tuple(Poly.var(r.index.name) for r in scan.space[:-1])
    return [
        e.declare(e.load(memory(atom), outer), depth=e.depth)
        if isinstance(atom, fun.Var) and isinstance(atom.type, fun.Array) else e.atom(atom)
        for atom in scan.initial
    ]  # fmt: skip


# ---------------------------------------------------------------- along rows


def _serial(
    e: Emitter, let: fun.Let, scan: fun.Scan, outer: tuple[fun.Range, ...], last: fun.Range
) -> None:
    """Row after row, each from its first tile to its last."""

    def row() -> None:
        extent = e.named(last.extent)
        carry = [e.mutable(value.dtype, value, "carry") for value in begins(e, scan)]
        if not shapes.is_flat(scan.body) or _one_stream(e, last.extent):
            serial, e.serial = e.serial, True
            if _computes(scan.body):
                far_rows.ask(e, let, scan)
                _blocks(e, let, scan, carry)
            else:
                var = e.unit.integer("i")
                with e.loop(var, imp.ZERO, extent):
                    e.bind(last.index.name, var)
                    _store(e, let, scan, advance(e, scan, carry))
            e.serial = serial
            return
        start = e.unit.integer("i")
        with e.loop(start, imp.ZERO, extent, step=TILE):
            left = e.declare(machine("-", extent, start))
            size = e.declare(machine("min", imp.integer(TILE), left))
            tile = _Tile(e, let, scan, start, size, _NEVER)
            tile.total()
            with frozen(e, carry) as before:
                for var, value in zip(carry, tile.carries(before), strict=True):
                    e.emit(imp.Assign(var, value))
            tile.scan()

    spaces.nest(e, outer, row)


def _computes(body: fun.Body) -> bool:
    """Whether its elements, which need none before them, are worth vector lanes."""
    applied = any(isinstance(let.expr, fun.Apply) for let in walk.statements(body))
    return applied and shapes.is_flat(body)


def _blocks(e: Emitter, let: fun.Let, scan: fun.Scan, carry: Sequence[imp.Var]) -> None:
    """Elements of a block side by side in vector lanes, then combined one after another.

    for i { carry = max(carry, f(x[i])); y[i] = carry }
        =>  for simd l { v[l] = f(x[l]) } for l { carry = max(carry, v[l]); y[l] = carry }
    """
    last = scan.space[-1]
    known = last.extent.is_constant and 0 < last.extent.constant <= COLUMNS
    width = last.extent.constant if known else BLOCK
    extent, start, var = e.named(last.extent), e.unit.integer("j"), e.unit.integer("l")
    with e.loop(start, imp.ZERO, extent, step=width):
        count: imp.Expr = imp.integer(width)
        if not known:
            count = e.declare(machine("min", count, e.declare(machine("-", extent, start))))
        values = _in_lanes(e, scan, last, start, e.declare(machine("+", start, count)), width)
        with e.loop(var, imp.ZERO, count):
            e.bind(last.index.name, e.declare(machine("+", start, var)))
            _store(e, let, scan, combined(e, scan, carry, _loaded(e, values, var)))


def _in_lanes(
    e: Emitter, scan: fun.Scan, along: fun.Range, begin: imp.Expr, end: imp.Expr, width: int
) -> list[imp.Pointer]:
    """The elements of begin <= index < end, at most `width`, computed in vector lanes.

    So all go through the same vector functions, wherever blocks and streams begin.
    """
    name = along.index.name
    values = [e.local(atom.type.dtype, width, "value") for atom in scan.body.results]

    def keep(results: Sequence[imp.Expr]) -> None:
        at = e.declare(machine("-", e.scalars[name], begin))
        for pointer, value in zip(values, results, strict=True):
            e.emit(imp.Store(pointer, at, value))

    lower_row(e, name, begin, end, scan.body, keep)
    return values


def _loaded(e: Emitter, values: Sequence[imp.Pointer], at: imp.Expr) -> list[imp.Expr]:
    """The elements at a place of buffers."""
    return [e.declare(imp.Load(pointer, at), depth=e.depth) for pointer in values]


def _one_stream(e: Emitter, extent: Size) -> bool:
    """Whether rows are always so short that they are one stream: its total is not needed."""
    limits = bounds.extremes(e, extent, largest=True)
    return any(limit.is_constant and limit.constant < SHORT for limit in limits)


def _parallel(
    e: Emitter, let: fun.Let, scan: fun.Scan, outer: tuple[fun.Range, ...], last: fun.Range
) -> None:
    """Tiles over the pool; each waits for the carry of the one before it in its row."""
    extent = e.named(last.extent)
    rows = e.named(product(r.extent for r in outer))
    parts = e.declare(machine("/", machine("+", extent, imp.integer(TILE - 1)), imp.integer(TILE)))
    length = e.declare(machine("max", imp.ONE, extent))
    several = e.declare(machine("max", imp.ONE, e.declare(machine("/", imp.integer(TILE), length))))
    groups = e.declare(
        machine("/", e.declare(machine("-", machine("+", rows, several), imp.ONE)), several)
    )
    dtypes = [DType.I64, *(var.type.dtype for var in let.pattern)]
    pointers = [e.pointer(e.unit.scratch(), dtype) for dtype in dtypes]
    e.emit(imp.Store(pointers[0], imp.ZERO, imp.ZERO))
    tiles = e.declare(machine("*", groups, parts))
    label = spaces.describe("scan", scan.space, let.pattern)
    large = past_caches.is_large(e, scan.space, [memory(var) for var in let.pattern])
    with spaces.parallel(e, tiles, label, ordered=True) as number:
        part = e.declare(machine("%", number, parts))
        group = e.declare(machine("/", number, parts))
        start = e.declare(machine("*", part, imp.integer(TILE)))
        left = e.declare(machine("-", extent, start))
        size = e.declare(machine("min", imp.integer(TILE), left))
        first = e.declare(machine("*", group, several))
        end = e.declare(machine("min", rows, e.declare(machine("+", first, several))))
        row = e.unit.integer("row")
        with e.loop(row, first, end):
            spaces.decode(e, outer, row)
            tile = _Tile(e, let, scan, start, size, large)
            tile.total()
            before = _handed(e, scan, parts, part, number, pointers)
            after = tile.carries(before)
            with e.branch(machine(">", parts, imp.ONE)):
                for pointer, value in zip(pointers[1:], after, strict=True):
                    e.emit(imp.Store(pointer, imp.ZERO, value))
                e.emit(imp.Publish(pointers[0], imp.ZERO, machine("+", number, imp.ONE)))
            tile.scan()


def _handed(
    e: Emitter,
    scan: fun.Scan,
    parts: imp.Expr,
    part: imp.Expr,
    number: imp.Expr,
    pointers: Sequence[imp.Pointer],
) -> list[imp.Expr]:
    """The carry into a tile: the initial value, or what the tile before it hands on."""
    carry = [e.mutable(value.dtype, value, "carry") for value in begins(e, scan)]
    with e.branch(machine(">", parts, imp.ONE)):
        e.emit(imp.Await(pointers[0], imp.ZERO, number))
        with e.branch(machine(">", part, imp.ZERO)):
            for var, pointer in zip(carry, pointers[1:], strict=True):
                e.emit(imp.Assign(var, imp.Load(pointer, imp.ZERO)))
    return list(carry)


def streams(e: Emitter, size: imp.Expr) -> tuple[imp.Expr, imp.Expr]:
    """How long the streams of a tile of `size` elements are, but for the last; how many."""
    # A whole number of cache lines, but no power of two: streams share no cache set.
    eighth = machine("/", machine("+", size, imp.integer(STREAMS - 1)), imp.integer(STREAMS))
    odd = machine(
        "|",
        machine("&", machine("+", eighth, imp.integer(15)), imp.integer(-32)),
        imp.integer(16),
    )
    long = machine(">=", size, imp.integer(SHORT))
    length = e.declare(imp.Select(long, odd, size))
    return length, e.declare(imp.Select(long, imp.integer(STREAMS), imp.ONE))


class _Tile:
    """The scan of start <= index < start + size; `large` results are written past the caches."""

    def __init__(
        self,
        e: Emitter,
        let: fun.Let,
        scan: fun.Scan,
        start: imp.Expr,
        size: imp.Expr,
        large: imp.Expr,
    ) -> None:
        self.large = large
        self.e, self.let, self.scan_, self.start, self.size = e, let, scan, start, size
        self.name = scan.space[-1].index.name
        self.length, self.count = streams(e, size)
        # What the last stream of a row comes to is handed to nobody.
        after = machine("-", e.named(scan.space[-1].extent), machine("+", start, size))
        goes_on = e.declare(machine(">", e.declare(after), imp.ZERO))
        others = e.declare(machine("-", self.count, imp.ONE))
        self.handed = e.declare(imp.Select(goes_on, self.count, others))
        self.totals = [e.local(var.type.dtype, STREAMS, "total") for var in let.pattern]
        self.carry = [e.local(var.type.dtype, STREAMS, "from") for var in let.pattern]

    def total(self) -> None:
        """The total of each stream that another one follows."""
        e, scan = self.e, self.scan_
        neutrals = [neutral(scan.operator, k) for k in range(len(self.totals))]
        reduce = fun.Reduce((scan.space[-1],), 1, scan.body, scan.operator, scan.initial)
        stream = e.unit.integer("s")
        with e.loop(stream, imp.ZERO, self.handed):
            begin = e.declare(machine("+", self.start, machine("*", stream, self.length)))
            end = e.declare(machine("+", begin, self.length))
            end = e.declare(machine("min", e.declare(machine("+", self.start, self.size)), end))
            values = reductions.grains(e, reduce, begin, end, neutrals)
            for total, value in zip(self.totals, values, strict=True):
                e.emit(imp.Store(total, stream, value))

    def carries(self, before: Sequence[imp.Expr]) -> list[imp.Expr]:
        """The carry into each stream; the result is the one out of the tile."""
        e = self.e
        state = [e.mutable(value.dtype, value, "carry") for value in before]
        stream = e.unit.integer("s")
        with e.loop(stream, imp.ZERO, self.count), frozen(e, state) as now:
            for carry, value in zip(self.carry, now, strict=True):
                e.emit(imp.Store(carry, stream, value))
            with e.branch(machine("<", stream, self.handed)):
                totals = [
                    e.declare(imp.Load(total, stream), depth=e.depth) for total in self.totals
                ]
                after = reductions.combine(e, self.scan_.operator, now, totals)
                for var, value in zip(state, after, strict=True):
                    e.emit(imp.Assign(var, value))
        return list(state)

    def scan(self) -> None:
        """All streams side by side as far as the last one goes, then the rest of the others."""
        e = self.e
        with e.level() as several:
            others = e.declare(machine("*", self.length, imp.integer(STREAMS - 1)))
            least = e.declare(machine("-", self.size, others))
            self._steps(imp.ZERO, least, STREAMS)
            self._steps(least, self.length, STREAMS - 1)
        with e.level() as one:
            self._steps(imp.ZERO, self.size, 1)
        e.emit(imp.If(machine(">", self.count, imp.ONE), tuple(several), tuple(one)))

    def _steps(self, lower: imp.Expr, upper: imp.Expr, streams: int) -> None:
        """Steps of the first streams: each carry goes on from where it is."""
        e = self.e
        state = [
            [e.mutable(c.dtype, imp.Load(c, imp.integer(k)), "carry") for c in self.carry]
            for k in range(streams)
        ]
        starts = [
            e.declare(machine("+", self.start, machine("*", self.length, imp.integer(k))))
            for k in range(streams)
        ]
        if self._in_sequence() and self.large != _NEVER:
            self._steps_in_blocks(lower, upper, starts, state)
        elif has_vector_math(self.scan_.body):
            width = imp.integer(BLOCK)
            with past_caches.in_blocks(e, lower, upper, _ALWAYS, width) as (begin, end):
                self._each(begin, end, starts, state, self._store)
        else:
            self._each(lower, upper, starts, state, self._store)
        for k in range(streams):
            for carry, var in zip(self.carry, state[k], strict=True):
                e.emit(imp.Store(carry, imp.integer(k), var))

    def _in_sequence(self) -> bool:
        indices = tuple(Poly.var(r.index.name) for r in self.scan_.space)
        arrays = [memory(var) for var in self.let.pattern]
        return all(past_caches.in_sequence(array, indices, self.name) for array in arrays)

    def _store(self, stream: int, step: imp.Var, values: Sequence[imp.Expr]) -> None:
        _store(self.e, self.let, self.scan_, values)

    def _each(
        self,
        lower: imp.Expr,
        upper: imp.Expr,
        starts: Sequence[imp.Expr],
        state: Sequence[Sequence[imp.Var]],
        store: Callable[[int, imp.Var, Sequence[imp.Expr]], None],
    ) -> None:
        """These steps, of which there is a block at most where vector math is called.

        `store` writes the results of a stream, given its number, at a step.
        """
        e, scan = self.e, self.scan_
        blocks = []
        if has_vector_math(scan.body):
            for start in starts:
                begin, end = (e.declare(machine("+", start, at)) for at in (lower, upper))
                blocks.append(_in_lanes(e, scan, scan.space[-1], begin, end, BLOCK))
        step = e.unit.integer("i")
        with e.loop(step, lower, upper):
            for k, (start, carry) in enumerate(zip(starts, state, strict=True)):
                e.bind(self.name, e.declare(machine("+", start, step)))
                if blocks:
                    element = _loaded(e, blocks[k], e.declare(machine("-", step, lower)))
                else:
                    element = scalar_results(e, scan.body)
                store(k, step, combined(e, scan, carry, element))

    def _steps_in_blocks(
        self,
        lower: imp.Expr,
        upper: imp.Expr,
        starts: Sequence[imp.Expr],
        state: Sequence[Sequence[imp.Var]],
    ) -> None:
        """As `_steps`, in blocks that go past the caches where the result is large."""
        e = self.e
        indices = tuple(Poly.var(r.index.name) for r in self.scan_.space)
        arrays = [memory(var) for var in self.let.pattern]
        blocks = [
            [past_caches.Block(e, array, self.large, BLOCK) for array in arrays] for _ in starts
        ]
        cut = _ALWAYS if has_vector_math(self.scan_.body) else self.large
        with past_caches.in_blocks(e, lower, upper, cut, imp.integer(BLOCK)) as (begin, end):
            for start, block in zip(starts, blocks, strict=True):
                e.bind(self.name, e.declare(machine("+", start, begin)))
                for result in block:
                    result.begin(indices)

            def store(stream: int, step: imp.Var, values: Sequence[imp.Expr]) -> None:
                at = e.declare(machine("-", step, begin))
                for result, value in zip(blocks[stream], values, strict=True):
                    e.emit(imp.Store(result.pointer, at, value))

            self._each(begin, end, starts, state, store)
            with e.branch(self.large):
                count = e.declare(machine("-", end, begin))
                ends = machine("==", begin, lower), machine("==", end, upper)
                for result in (result for block in blocks for result in block):
                    result.flush(count, *ends)


def advance(e: Emitter, scan: fun.Scan, carry: Sequence[imp.Var]) -> Sequence[imp.Expr]:
    """One element combined into the carry: the result there, from before or after."""
    return combined(e, scan, carry, scalar_results(e, scan.body))


def combined(
    e: Emitter, scan: fun.Scan, carry: Sequence[imp.Var], values: Sequence[imp.Expr]
) -> Sequence[imp.Expr]:
    """Values combined into the carry: the result there, from before or after."""
    with frozen(e, carry) as before:
        after = reductions.combine(e, scan.operator, before, values)
        for var, value in zip(carry, after, strict=True):
            e.emit(imp.Assign(var, value))
    return before if scan.exclusive else after


def neutral(operator: fun.Lambda, position: int) -> imp.Expr:
    """A neutral element where lanes need one: of plainly commutative operators."""
    dtype = operator.params[position].type.dtype
    if not operators.is_componentwise(operator):
        return imp.Const(0, dtype)
    expr = operator.body.statements[position].expr
    assert isinstance(expr, fun.Apply)
    if expr.operation in _NEUTRAL:
        value = _NEUTRAL[expr.operation]
        if dtype is DType.BOOL:
            return imp.Const(bool(value), dtype)
        if not dtype.is_integer:  # -0.0 + -0.0 is -0.0
            return imp.Const(float(value) if value else -0.0, dtype)
        ones = -1 if dtype.is_signed else int(np.iinfo(dtype.numpy).max)
        return imp.Const(ones if value == -1 else int(value), dtype)
    if expr.operation in ("fmax", "fmin") and dtype.is_float:
        return imp.Const(np.nan, dtype)
    least = expr.operation in ("maximum", "fmax")
    if dtype.is_float:
        return imp.Const(-np.inf if least else np.inf, dtype)
    if dtype is DType.BOOL:
        return imp.Const(not least, dtype)
    limits = np.iinfo(dtype.numpy)
    return imp.Const(int(limits.min if least else limits.max), dtype)


# ---------------------------------------------------------------- along columns


def _columns(e: Emitter, let: fun.Let, scan: fun.Scan) -> None:
    outer, lane, along = scan.space[:-2], scan.space[-2], scan.space[-1]

    def row(lower: imp.Expr, upper: imp.Expr) -> None:
        base = e.unit.integer("j")
        with e.loop(base, lower, upper, step=COLUMNS, hoist=True):
            left = e.declare(machine("-", upper, base))
            count = e.declare(machine("min", imp.integer(COLUMNS), left))
            _strip(e, let, scan, base, count)

    if e.in_tile or e.serial:
        spaces.nest(e, outer, lambda: row(imp.ZERO, e.named(lane.extent)))
        return
    weight: Size = along.extent * (shapes.cost(scan.body) + shapes.cost(scan.operator.body))
    label = spaces.describe("scan", scan.space, let.pattern)
    spaces.parallel_rows(e, outer, lane.extent, weight, label, row, least=COLUMNS)


def _strip(e: Emitter, let: fun.Let, scan: fun.Scan, base: imp.Expr, count: imp.Expr) -> None:
    lane, along = scan.space[-2], scan.space[-1]
    carry = [e.local(atom.type.dtype, COLUMNS, "carry") for atom in scan.initial]
    var = e.unit.integer("l")
    with simd(e, var, imp.ZERO, count):
        e.bind(lane.index.name, e.declare(machine("+", base, var)))
        for pointer, value in zip(carry, begins(e, scan), strict=True):
            e.emit(imp.Store(pointer, var, value))
    row = e.unit.integer("i")
    with e.loop(row, imp.ZERO, e.named(along.extent)):
        e.bind(along.index.name, row)
        kept = None
        if has_vector_math(scan.body):  # of which the loop below is no whole vectors
            end = e.declare(machine("+", base, count))
            kept = _in_lanes(e, scan, lane, base, end, COLUMNS)
        var = e.unit.integer("l")
        with simd(e, var, imp.ZERO, count):
            e.bind(lane.index.name, e.declare(machine("+", base, var)))
            values = scalar_results(e, scan.body) if kept is None else _loaded(e, kept, var)
            before = [e.declare(imp.Load(pointer, var), depth=e.depth) for pointer in carry]
            after = reductions.combine(e, scan.operator, before, values)
            _store(e, let, scan, before if scan.exclusive else after)
            for pointer, value in zip(carry, after, strict=True):
                e.emit(imp.Store(pointer, var, value))
