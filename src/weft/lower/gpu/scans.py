"""Long scans on a device, in three launches: by operators whose tree is fixed.

As on the CPU (`weft.lower.scans`), tiles of 65536 elements are cut into 8 streams: one work
item reduces each stream; one folds the totals, from left to right, into what each stream
begins with; then one scans each stream. Boxes hold whole tiles, and fold the same totals
(`weft.plan.carry`), so bits do not depend on them.
"""

from __future__ import annotations

from collections.abc import Sequence

from weft.fun import nodes as fun
from weft.imp import nodes as imp
from weft.imp.nodes import machine
from weft.lower import reductions, scans
from weft.lower.emitter import Emitter, frozen
from weft.lower.gpu import items
from weft.lower.gpu.host import Host
from weft.ops.dtypes import DType
from weft.sizes import Derived, as_poly

_LINE = 8 * scans.STREAMS
"""Bytes of a tile's totals, of scalars of at most 8 bytes."""


def lower_long(host: Host, let: fun.Let) -> None:
    """A scan over one dimension, whose extent the launch knows and whose body is straight-line."""
    scan = let.expr
    assert isinstance(scan, fun.Scan)
    extent = scan.space[0].extent
    name = host.unit.fresh("scan.tiles.")
    tile = as_poly(scans.TILE)
    tiles = host.derive(Derived(name, "floordiv", extent + tile - 1, tile))
    blocks = [host.unit.region(tiles * _LINE) for _ in let.pattern]
    stream = fun.Range(
        fun.Var(host.unit.fresh("stream."), fun.Scalar(DType.I64)), tiles * scans.STREAMS
    )

    def pointers(e: Emitter) -> list[imp.Pointer]:
        return [
            e.pointer(block, var.type.dtype)
            for block, var in zip(blocks, let.pattern, strict=True)
        ]

    def total(e: Emitter) -> None:
        begin, end = _bounds(e, scan, stream)
        neutral = [scans.neutral(scan.operator, k) for k in range(len(let.pattern))]
        size = e.declare(machine("-", end, begin))
        with e.branch(machine(">", size, imp.ZERO)):
            values = items.folded(e, scan, begin, size, neutral)
            _store(e, pointers(e), e.scalars[stream.index.name], values)

    def write(e: Emitter) -> None:
        begin, end = _bounds(e, scan, stream)
        number = e.scalars[stream.index.name]
        with e.branch(machine("<", begin, end)):
            initial = [e.declare(imp.Load(p, number), depth=e.depth) for p in pointers(e)]
            items.scan_range(e, let, scan, begin, end, initial)

    with host.e.index(scan.space[0].index.name, imp.ZERO, as_poly(0), extent):
        host.launch(let, "totals", (stream,), total)
        with host.by_one_item():
            _fold(host.e, scan, stream, pointers(host.e))
        host.launch(let, "scan", (stream,), write)


def _bounds(e: Emitter, scan: fun.Scan, stream: fun.Range) -> tuple[imp.Expr, imp.Expr]:
    """Where the stream begins and ends; it is empty where its tile has no so many."""
    number = e.scalars[stream.index.name]
    extent = e.named(scan.space[0].extent)
    eight = imp.integer(scans.STREAMS)
    start = e.declare(machine("*", machine("/", number, eight), imp.integer(scans.TILE)))
    left = e.declare(machine("-", extent, start))
    size = e.declare(machine("min", imp.integer(scans.TILE), left))
    length, _ = scans.streams(e, size)
    before = machine("*", machine("%", number, eight), length)
    stop = e.declare(machine("+", start, size))
    begin = e.declare(machine("min", stop, e.declare(machine("+", start, before))))
    return begin, e.declare(machine("min", stop, e.declare(machine("+", begin, length))))


def _fold(e: Emitter, scan: fun.Scan, stream: fun.Range, totals: Sequence[imp.Pointer]) -> None:
    """Each total becomes what its stream begins with."""
    state = [
        e.mutable(atom.type.dtype, e.atom(atom), "carry") for atom in scan.initial
    ]
    var = e.unit.integer("i")
    with e.loop(var, imp.ZERO, e.poly(stream.extent)):
        e.bind(stream.index.name, var)
        begin, end = _bounds(e, scan, stream)
        with e.branch(machine("<", begin, end)), frozen(e, state) as now:
            found = [e.declare(imp.Load(p, var), depth=e.depth) for p in totals]
            after = reductions.combine(e, scan.operator, now, found)
            _store(e, totals, var, now)
            for slot, value in zip(state, after, strict=True):
                e.emit(imp.Assign(slot, value))


def _store(
    e: Emitter, pointers: Sequence[imp.Pointer], at: imp.Expr, values: Sequence[imp.Expr]
) -> None:
    for pointer, value in zip(pointers, values, strict=True):
        e.emit(imp.Store(pointer, at, value))
