"""Long scans by exact operators on a device, in one pass: decoupled look-back.

A row of several is scanned as one alone: no group looks back past the begin of its row.

A group takes the next tile of 2048 elements, by a ticket, so that it may wait for every tile
before: the groups that took those have begun. It publishes its tile's total, then goes back over
the tiles before, combining their totals, until one has published the total of all elements up
to its end; then it publishes its own, and scans its tile.

    number = ticket; total = fold of the tile; publish total
    for p = number - 1, ..: receive p's total, or prefix;  before = p's combined with before
    publish before combined with total; y[i] = before combined with x[.. i]

How far a group goes back depends on time, so that this is for operators that give the same bits
however elements are grouped: of integers and booleans, and extremes. Tiles keep their order, so
that operators need not commute.

D. Merrill and M. Garland, "Single-pass Parallel Prefix Scan with Decoupled Look-back", NVIDIA
Technical Report NVR-2016-002 (2016), section 4.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import replace

from weft.fun import nodes as fun
from weft.imp import nodes as imp
from weft.imp.nodes import machine
from weft.imp.walk import may_leave
from weft.lower import kernels, operators, reductions
from weft.lower.bodies import scalar_results
from weft.lower.emitter import Emitter, frozen
from weft.lower.gpu import versions
from weft.lower.gpu.host import Host
from weft.lower.reductions import while_
from weft.lower.unit import memory
from weft.ops.dtypes import DType
from weft.sizes import ONE, ZERO, Poly, Size, product

GROUP = 256
_OWN = 8  # elements of an item
_TILE = GROUP * _OWN
_SHARED_BYTES = 16  # of the scalars of one element, at most
_TOTAL, _PREFIX = (imp.Const(state, DType.I32) for state in (1, 2))
_EXTREMES = ("maximum", "minimum")


def suits(scan: fun.Scan) -> bool:
    """Whether its operator gives the same bits however elements are grouped."""
    operator = scan.operator
    if sum(param.type.dtype.itemsize for param in operator.params) > 2 * _SHARED_BYTES:
        return False
    exprs = [let.expr for let in operator.body.statements]
    if operators.is_componentwise(operator) and all(
        isinstance(expr, fun.Apply) and expr.operation in _EXTREMES for expr in exprs
    ):
        return True
    made = [var for let in operator.body.statements for var in let.pattern]
    exact = all(var.type.dtype.kind in "biu" for var in (*operator.params, *made))
    return exact and all(isinstance(expr, fun.Apply | fun.Cast) for expr in exprs)


def lower(
    host: Host, let: fun.Let, scan: fun.Scan, whether: Size = ONE, long: Size = ONE
) -> bool:
    """Launch a scan that `suits`, of rows, if it is `long` and `whether` it may be done so.

    Both are 0 or 1. Not where an item could fail: then nothing is launched.
    """
    *outer, last = scan.space
    parts = versions.ceil(host, last.extent, _TILE)
    tiles = product(r.extent for r in outer) * parts
    room = tiles * long
    states = host.unit.region(versions.ceil(host, room + 1, 16) * 64)
    region = versions.ceil(host, room, 8) * 64
    totals, prefixes = ([host.unit.region(region) for _ in let.pattern] for _ in range(2))
    k, item = host.kernel_emitter(), host.unit.integer("item")
    with ExitStack() as scopes:
        for r in scan.space:
            scopes.enter_context(k.index(r.index.name, imp.ZERO, ZERO, r.extent))
        _Tile(k, let, scan, item, parts).run(states, totals, prefixes)
    if may_leave(k.levels[0]):
        return False
    clear, number = host.kernel_emitter(), host.unit.integer("item")
    state = clear.pointer(states, DType.I32)
    with clear.branch(machine("<=", number, clear.named(tiles))):
        clear.emit(imp.Store(state, number, imp.Const(0, DType.I32)))
    host.add(clear, "clear", number, (tiles + 1) * long * whether, GROUP)
    label = kernels.describe("scan", scan.space, let.pattern)
    host.unit.kernels.append(f"{label}, in one pass")
    host.add(k, "scan", item, room * whether * GROUP, GROUP)
    return True


class _Tile:
    """What one item of a group does for its tile."""

    def __init__(
        self, k: Emitter, let: fun.Let, scan: fun.Scan, item: imp.Var, parts: Size
    ) -> None:
        self.k, self.let, self.scan, self.parts = k, let, scan, k.named(parts)
        self.index = scan.space[-1].index.name
        self.dtypes = [var.type.dtype for var in let.pattern]
        self.lane = k.declare(machine("%", item, imp.integer(GROUP)), "lane")
        self.values = [k.shared(dtype, _TILE + GROUP) for dtype in self.dtypes]
        self.folds = [[k.shared(dtype, GROUP) for dtype in self.dtypes] for _ in range(2)]
        self.carry = [k.shared(dtype, 1) for dtype in self.dtypes]

    def run(self, states: str, totals: Sequence[str], prefixes: Sequence[str]) -> None:
        """The whole of it."""
        k = self.k
        extent = k.named(self.scan.space[-1].extent)
        number = self.ticket(states)
        self.first: imp.Expr = imp.ZERO  # tile of the row
        if outer := self.scan.space[:-1]:
            row = k.declare(machine("/", number, self.parts), "row")
            kernels.decode(k, outer, row)
            self.first = k.declare(machine("*", row, self.parts))
        part = k.declare(machine("-", number, self.first))
        self.start = k.declare(machine("*", part, imp.integer(_TILE)))
        left = k.declare(machine("-", extent, self.start))
        self.size = k.declare(machine("min", left, imp.integer(_TILE)))
        self.begin = k.declare(machine("*", self.lane, imp.integer(_OWN)))
        end = k.declare(machine("+", self.begin, imp.integer(_OWN)))
        self.end = k.declare(machine("min", self.size, end))
        self.own = k.declare(machine("<", self.begin, self.size))
        self.compute()
        k.emit(imp.Barrier())
        scanned = self.fold()
        with k.branch(machine("==", self.lane, imp.ZERO)):
            self.look_back(number, scanned, states, totals, prefixes)
        k.emit(imp.Barrier())
        self.advance(scanned)
        k.emit(imp.Barrier())
        self.write()

    def ticket(self, states: str) -> imp.Expr:
        """The number of the tile: the next one that no group has."""
        k = self.k
        given = k.shared(DType.I64, 1)
        with k.branch(machine("==", self.lane, imp.ZERO)):
            var = k.unit.var("ticket", DType.I32)
            k.emit(imp.Ticket(var, self.watched(states, DType.I32)))
            k.depths[var.name] = k.depth
            k.emit(imp.Store(given, imp.ZERO, imp.Cast(DType.I64, var)))
        k.emit(imp.Barrier())
        return k.declare(imp.Load(given, imp.ZERO), depth=0)

    def watched(self, block: str, dtype: DType) -> imp.Pointer:
        """A pointer to what groups tell each other."""
        k = self.k
        pointer = k.unit.pointer("p", dtype)
        k.levels[0].insert(
            0, replace(k.view(pointer, k.unit.blocks[block]), alone=False, volatile=True)
        )
        return pointer

    def compute(self) -> None:
        """The elements of the tile, neighbours by neighbouring items."""
        k = self.k
        at = k.unit.integer("i")
        with k.loop(at, self.lane, self.size, step=GROUP):
            k.bind(self.index, k.declare(machine("+", self.start, at)))
            self.store(self.values, _padded(at), scalar_results(k, self.scan.body))

    def fold(self) -> Sequence[imp.Pointer]:
        """The folds of items from the first on: an item's elements, then neighbours' folds."""
        k = self.k
        with k.branch(self.own):
            state = [k.mutable(v.dtype, v) for v in self.load(self.values, _padded(self.begin))]
            at = k.unit.integer("i")
            with k.loop(at, machine("+", self.begin, imp.ONE), self.end), frozen(k, state) as now:
                after = self.combine(now, self.load(self.values, _padded(at)))
                for slot, value in zip(state, after, strict=True):
                    k.emit(imp.Assign(slot, value))
            self.store(self.folds[0], self.lane, state)
        k.emit(imp.Barrier())
        source, target = self.folds
        reach = 1
        while reach < GROUP:
            step = imp.integer(reach)
            with k.branch(self.own):
                right = self.load(source, self.lane)
                joined = [k.mutable(value.dtype, value) for value in right]
                with k.branch(machine(">=", self.lane, step)):
                    before = self.load(source, machine("-", self.lane, step))
                    for slot, value in zip(joined, self.combine(before, right), strict=True):
                        k.emit(imp.Assign(slot, value))
                self.store(target, self.lane, joined)
            k.emit(imp.Barrier())
            source, target = target, source
            reach *= 2
        return source

    def look_back(
        self, number: imp.Expr, scanned: Sequence[imp.Pointer], states: str,
        totals: Sequence[str], prefixes: Sequence[str],
    ) -> None:  # fmt: skip
        """What stands before the tile, and what stands up to its end, told to other groups."""
        k = self.k
        state = self.watched(states, DType.I32)
        mine = machine("+", number, imp.ONE)  # the first state is the ticket
        told = [
            [self.watched(block, dtype) for block, dtype in zip(blocks, self.dtypes, strict=True)]
            for blocks in (totals, prefixes)
        ]
        last = machine("+", self.size, imp.integer(_OWN - 1))
        last = k.declare(machine("-", machine("/", last, imp.integer(_OWN)), imp.ONE))
        total = self.load(scanned, last)
        before = [k.mutable(a.type.dtype, k.atom(a), "carry") for a in self.scan.initial]
        with k.branch(machine(">", number, self.first)):
            self.store(told[0], number, total)
            k.emit(imp.Publish(state, mine, _TOTAL))
            self.combine_back(number, state, told, before)
        with frozen(k, before) as carry:
            self.store(told[1], number, self.combine(carry, total))
            k.emit(imp.Publish(state, mine, _PREFIX))
            self.store(self.carry, imp.ZERO, carry)

    def combine_back(
        self, number: imp.Expr, state: imp.Pointer, told: Sequence[Sequence[imp.Pointer]],
        before: Sequence[imp.Var],
    ) -> None:  # fmt: skip
        """`before` becomes what stands before the tile: totals, up to a prefix."""
        k = self.k
        at = k.mutable(DType.I64, number, "tile")
        first = k.mutable(DType.BOOL, imp.Const(True, DType.BOOL), "first")
        with while_(k, machine(">", at, self.first)):
            var = k.unit.var("state", DType.I32)
            k.emit(imp.Receive(var, state, at))
            k.depths[var.name] = k.depth
            k.emit(imp.Assign(at, machine("-", at, imp.ONE)))
            is_prefix = k.declare(machine("==", var, _PREFIX), depth=k.depth)
            chosen = [k.mutable(dtype, None, "told") for dtype in self.dtypes]
            ways = []
            for pointers in (told[1], told[0]):
                with k.level() as statements:
                    for slot, value in zip(chosen, self.load(pointers, at), strict=True):
                        k.emit(imp.Assign(slot, value))
                ways.append(tuple(statements))
            k.emit(imp.If(is_prefix, ways[0], ways[1]))
            with frozen(k, chosen) as left, frozen(k, before) as right:
                for slot, value, joined in zip(
                    before, left, self.combine(left, right), strict=True
                ):
                    k.emit(imp.Assign(slot, imp.Select(first, value, joined)))
            k.emit(imp.Assign(first, imp.Const(False, DType.BOOL)))
            with k.branch(is_prefix):
                k.emit(imp.Break())

    def advance(self, scanned: Sequence[imp.Pointer]) -> None:
        """The results of an item's elements, in their place."""
        k = self.k
        with k.branch(self.own):
            before = self.load(self.carry, imp.ZERO)
            state = [k.mutable(value.dtype, value, "carry") for value in before]
            with k.branch(machine(">", self.lane, imp.ZERO)):
                folds = self.load(scanned, machine("-", self.lane, imp.ONE))
                for slot, value in zip(state, self.combine(before, folds), strict=True):
                    k.emit(imp.Assign(slot, value))
            at = k.unit.integer("i")
            with k.loop(at, self.begin, self.end), frozen(k, state) as now:
                after = self.combine(now, self.load(self.values, _padded(at)))
                self.store(self.values, _padded(at), now if self.scan.exclusive else after)
                for slot, value in zip(state, after, strict=True):
                    k.emit(imp.Assign(slot, value))

    def write(self) -> None:
        """The tile's results, neighbours by neighbouring items."""
        k = self.k
        indices = tuple(Poly.var(r.index.name) for r in self.scan.space)
        at = k.unit.integer("i")
        with k.loop(at, self.lane, self.size, step=GROUP):
            k.bind(self.index, k.declare(machine("+", self.start, at)))
            found = self.load(self.values, _padded(at))
            for var, value in zip(self.let.pattern, found, strict=True):
                k.store(memory(var), indices, value)

    def combine(self, left: Sequence[imp.Expr], right: Sequence[imp.Expr]) -> list[imp.Expr]:
        return reductions.combine(self.k, self.scan.operator, left, right)

    def load(self, pointers: Sequence[imp.Pointer], at: imp.Expr) -> list[imp.Expr]:
        return [self.k.declare(imp.Load(p, at), depth=self.k.depth) for p in pointers]

    def store(
        self, pointers: Sequence[imp.Pointer], at: imp.Expr, values: Sequence[imp.Expr]
    ) -> None:
        for pointer, value in zip(pointers, values, strict=True):
            self.k.emit(imp.Store(pointer, at, value))


def _padded(at: imp.Expr) -> imp.Expr:
    return machine("+", at, machine("/", at, imp.integer(_OWN)))
