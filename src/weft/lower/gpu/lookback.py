"""Long scans by exact operators on a device, in one pass: decoupled look-back.

A row of several is scanned as one alone: no group looks back past the begin of its row.

A group takes the next tile, by a ticket, so that it may wait for every tile before: the groups
that took those have begun. It publishes its tile's total, then goes back over the tiles before,
combining their totals, until one has published the total of all elements up to its end; then it
publishes its own, and scans its tile.

    number = ticket; total = fold of the tile; publish total
    for p = number - 1, ..: receive p's total, or prefix;  before = p's combined with before
    publish before combined with total; y[i] = before combined with x[.. i]

On processors, of which few threads are under way, one item looks at a tile after the other. On
GPUs it would wait for memory as often as there are tiles that began meanwhile, so that 128 items
look at a tile each; and tiles are larger, so that there are fewer.

How far a group goes back depends on time, so that this is for operators that give the same bits
however elements are grouped: of integers and booleans, and extremes. Tiles keep their order, so
that operators need not commute.

D. Merrill and M. Garland, "Single-pass Parallel Prefix Scan with Decoupled Look-back", NVIDIA
Technical Report NVR-2016-002 (2016), section 4.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import replace

from weft.fun import nodes as fun
from weft.fun import operators
from weft.imp import nodes as imp
from weft.imp.nodes import machine
from weft.imp.walk import may_leave
from weft.lower import reductions, spaces
from weft.lower.bodies import scalar_results
from weft.lower.emitter import Emitter, frozen
from weft.lower.gpu import batched, versions
from weft.lower.gpu.host import Host
from weft.lower.reductions import while_
from weft.lower.unit import memory
from weft.ops.dtypes import DType
from weft.sizes import ONE, ZERO, Poly, Size, product

GROUP = 256
_OWN = 8  # elements of an item, on processors,
_BYTES = 128  # and bytes of those on GPUs,
_MOST = 32  # of which there are no more
_SHARED_BYTES = 16  # of the scalars of one element, at most
_WINDOW, _PART = 128, 8  # tiles that a group looks at together, and an item combines
_TOTAL, _PREFIX = (imp.Const(state, DType.I32) for state in (1, 2))
_EXTREMES = ("maximum", "minimum")

Values = Sequence[imp.Expr]


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


def lower(host: Host, let: fun.Let, scan: fun.Scan) -> bool:
    """Launch a scan that `suits`; not where an item could fail: then nothing is launched."""
    if not on_gpus(host, let, scan, ONE, 1 - host.is_processor):
        return False
    if host.is_processor != ZERO:
        _launch(host, let, scan, ONE, host.is_processor, _OWN, _Tile)
    return True


def on_gpus(host: Host, let: fun.Let, scan: fun.Scan, whether: Size, long: Size) -> bool:
    """The same in the form of GPUs, of rows, if it is `long` and `whether` it may be done so.

    Both are 0 or 1. What is not `long` takes no memory.
    """
    own = _BYTES // sum(var.type.dtype.itemsize for var in let.pattern)
    own = min(_MOST, 1 << own.bit_length() - 1)
    return _launch(host, let, scan, whether, long, own, _LargeTile)


def _launch(
    host: Host, let: fun.Let, scan: fun.Scan, whether: Size, long: Size, own: int,
    form: type[_Tile],
) -> bool:  # fmt: skip
    """Launch a form, whose items have `own` elements each."""
    *outer, last = scan.space
    parts = versions.ceil(host, last.extent, GROUP * own)
    tiles = product(r.extent for r in outer) * parts
    states = host.unit.region(versions.ceil(host, tiles + 1, 16) * 64 * long)
    region = versions.ceil(host, tiles, 8) * 64 * long
    totals, prefixes = ([host.unit.region(region) for _ in let.pattern] for _ in range(2))
    k, item = host.kernel_emitter(), host.unit.integer("item")
    with ExitStack() as scopes:
        for r in scan.space:
            scopes.enter_context(k.index(r.index.name, imp.ZERO, ZERO, r.extent))
        form(k, let, scan, item, parts, own).run(states, totals, prefixes)
    if may_leave(k.levels[0]):
        return False
    clear, number = host.kernel_emitter(), host.unit.integer("item")
    state = clear.pointer(states, DType.I32)
    with clear.branch(machine("<=", number, clear.named(tiles))):
        clear.emit(imp.Store(state, number, imp.Const(0, DType.I32)))
    host.add(clear, "clear", number, (tiles + 1) * long * whether, GROUP)
    label = spaces.describe("scan", scan.space, let.pattern)
    host.unit.kernels.append(f"{label}, in one pass")
    host.add(k, "scan", item, tiles * long * whether * GROUP, GROUP)
    return True


class _Tile:
    """What one item of a group does for its tile: the first one looks at the tiles before."""

    def __init__(
        self, k: Emitter, let: fun.Let, scan: fun.Scan, item: imp.Var, parts: Size, own: int
    ) -> None:
        self.k, self.let, self.scan, self.parts = k, let, scan, k.named(parts)
        self.items_own, self.tile = own, GROUP * own
        self.index = scan.space[-1].index.name
        self.dtypes = [var.type.dtype for var in let.pattern]
        self.lane = k.declare(machine("%", item, imp.integer(GROUP)), "lane")
        self.values = [k.shared(dtype, self.tile + GROUP) for dtype in self.dtypes]
        self.folds = [[k.shared(dtype, GROUP) for dtype in self.dtypes] for _ in range(2)]

    def run(self, states: str, totals: Sequence[str], prefixes: Sequence[str]) -> None:
        """The whole of it."""
        k, own = self.k, imp.integer(self.items_own)
        extent = k.named(self.scan.space[-1].extent)
        number = self.ticket(states)
        self.first: imp.Expr = imp.ZERO  # tile of the row
        if outer := self.scan.space[:-1]:
            row = k.declare(machine("/", number, self.parts), "row")
            spaces.decode(k, outer, row)
            self.first = k.declare(machine("*", row, self.parts))
        part = k.declare(machine("-", number, self.first))
        self.start = k.declare(machine("*", part, imp.integer(self.tile)))
        left = k.declare(machine("-", extent, self.start))
        self.size = k.declare(machine("min", left, imp.integer(self.tile)))
        self.begin = k.declare(machine("*", self.lane, own))
        end = k.declare(machine("+", self.begin, own))
        self.end = k.declare(machine("min", self.size, end))
        self.own = k.declare(machine("<", self.begin, self.size))
        self.compute()
        k.emit(imp.Barrier())
        scanned = self.join()
        last = machine("+", self.size, imp.integer(self.items_own - 1))
        last = k.declare(machine("-", machine("/", last, own), imp.ONE))
        state = self.watched(states, DType.I32)
        told = [
            [self.watched(block, dtype) for block, dtype in zip(blocks, self.dtypes, strict=True)]
            for blocks in (totals, prefixes)
        ]
        carry = self.look_back(number, scanned, last, state, told)
        self.advance(scanned, carry)
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
            self.store(self.values, self.padded(at), self.element(at))

    def element(self, at: imp.Expr) -> Values:
        """What is scanned, of an element of the tile."""
        self.bind(at)
        return scalar_results(self.k, self.scan.body)

    def bind(self, at: imp.Expr) -> None:
        self.k.bind(self.index, self.k.declare(machine("+", self.start, at)))

    def join(self) -> Sequence[imp.Pointer]:
        """The folds of items from the first on: an item's elements, then neighbours' folds."""
        k = self.k
        self.fold()
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
                    self.assign(joined, self.combine(before, right))
                self.store(target, self.lane, joined)
            k.emit(imp.Barrier())
            source, target = target, source
            reach *= 2
        return source

    def fold(self) -> None:
        """The fold of the item's elements."""
        k = self.k
        with k.branch(self.own):
            first = self.load(self.values, self.padded(self.begin))
            state = [k.mutable(value.dtype, value) for value in first]
            at = k.unit.integer("i")
            with k.loop(at, machine("+", self.begin, imp.ONE), self.end), frozen(k, state) as now:
                found = self.load(self.values, self.padded(at))
                self.assign(state, self.combine(now, found))
            self.store(self.folds[0], self.lane, state)

    def look_back(
        self, number: imp.Expr, scanned: Sequence[imp.Pointer], last: imp.Expr,
        state: imp.Pointer, told: Sequence[Sequence[imp.Pointer]],
    ) -> Callable[[], Values]:  # fmt: skip
        """What stands before the tile, for all its items; what stands up to its end, published."""
        k = self.k
        shared = [k.shared(dtype, 1) for dtype in self.dtypes]
        with k.branch(machine("==", self.lane, imp.ZERO)):
            total = self.load(scanned, last)
            before = [k.mutable(a.type.dtype, k.atom(a), "carry") for a in self.scan.initial]
            with k.branch(machine(">", number, self.first)):
                self.publish(number, state, _TOTAL, told[0], total)
                self.combine_back(number, state, told, before)
            with frozen(k, before) as carry:
                self.publish(number, state, _PREFIX, told[1], self.combine(carry, total))
                self.store(shared, imp.ZERO, carry)
        k.emit(imp.Barrier())
        return lambda: self.load(shared, imp.ZERO)

    def publish(
        self, number: imp.Expr, state: imp.Pointer, kind: imp.Expr,
        pointers: Sequence[imp.Pointer], values: Values,
    ) -> None:  # fmt: skip
        """Tell other groups the tile's total or prefix; the first state is the ticket."""
        self.store(pointers, number, values)
        self.k.emit(imp.Publish(state, machine("+", number, imp.ONE), kind))

    def receive(
        self, tile: imp.Expr, state: imp.Pointer, told: Sequence[Sequence[imp.Pointer]]
    ) -> tuple[imp.Expr, list[imp.Var]]:
        """What another tile has published: whether it is a prefix, and the values."""
        k = self.k
        var = k.unit.var("state", DType.I32)
        k.emit(imp.Receive(var, state, machine("+", tile, imp.ONE)))
        k.depths[var.name] = k.depth
        is_prefix = k.declare(machine("==", var, _PREFIX), depth=k.depth)
        chosen = [k.mutable(dtype, None, "told") for dtype in self.dtypes]
        totals, prefixes = told
        k.either(
            is_prefix,
            lambda: self.assign(chosen, self.load(prefixes, tile)),
            lambda: self.assign(chosen, self.load(totals, tile)),
        )
        return is_prefix, chosen

    def combine_back(
        self, number: imp.Expr, state: imp.Pointer, told: Sequence[Sequence[imp.Pointer]],
        before: Sequence[imp.Var],
    ) -> None:  # fmt: skip
        """`before` becomes what stands before the tile: totals, up to a prefix."""
        k = self.k
        at = k.mutable(DType.I64, number, "tile")
        first = k.mutable(DType.BOOL, imp.Const(True, DType.BOOL), "first")
        with while_(k, machine(">", at, self.first)):
            k.emit(imp.Assign(at, machine("-", at, imp.ONE)))
            is_prefix, chosen = self.receive(at, state, told)
            with frozen(k, chosen) as left, frozen(k, before) as right:
                self.assign(before, _select(first, left, self.combine(left, right)))
            k.emit(imp.Assign(first, imp.Const(False, DType.BOOL)))
            with k.branch(is_prefix):
                k.emit(imp.Break())

    def advance(self, scanned: Sequence[imp.Pointer], carry: Callable[[], Values]) -> None:
        """The results of an item's elements, in their place."""
        k = self.k
        with k.branch(self.own):
            before = carry()
            state = [k.mutable(value.dtype, value, "carry") for value in before]
            with k.branch(machine(">", self.lane, imp.ZERO)):
                folds = self.load(scanned, machine("-", self.lane, imp.ONE))
                self.assign(state, self.combine(before, folds))
            self.scan_own(state)

    def scan_own(self, state: Sequence[imp.Var]) -> None:
        """The item's elements, from a state on."""
        k, at = self.k, self.k.unit.integer("i")
        with k.loop(at, self.begin, self.end):
            self.step(state, self.padded(at))

    def step(self, state: Sequence[imp.Var], place: imp.Expr) -> None:
        """An element becomes its result."""
        k = self.k
        with frozen(k, state) as now:
            after = self.combine(now, self.load(self.values, place))
            self.store(self.values, place, now if self.scan.exclusive else after)
            self.assign(state, after)

    def write(self) -> None:
        """The tile's results, neighbours by neighbouring items."""
        k = self.k
        at = k.unit.integer("i")
        with k.loop(at, self.lane, self.size, step=GROUP):
            self.write_element(at, self.padded(at))

    def write_element(self, at: imp.Expr, place: imp.Expr) -> None:
        self.bind(at)
        indices = tuple(Poly.var(r.index.name) for r in self.scan.space)
        for var, value in zip(self.let.pattern, self.load(self.values, place), strict=True):
            self.k.store(memory(var), indices, value)

    # ------------------------------------------------------------ what they are made of

    def padded(self, at: imp.Expr) -> imp.Expr:
        """Where an element is: items' elements begin in different banks."""
        return machine("+", at, machine("/", at, imp.integer(self.items_own)))

    def combine(self, left: Values, right: Values) -> list[imp.Expr]:
        return reductions.combine(self.k, self.scan.operator, left, right)

    def load(self, pointers: Sequence[imp.Pointer], at: imp.Expr) -> list[imp.Expr]:
        return [self.k.declare(imp.Load(p, at), depth=self.k.depth) for p in pointers]

    def store(self, pointers: Sequence[imp.Pointer], at: imp.Expr, values: Values) -> None:
        for pointer, value in zip(pointers, values, strict=True):
            self.k.emit(imp.Store(pointer, at, value))

    def assign(self, slots: Sequence[imp.Var], values: Values) -> None:
        for slot, value in zip(slots, values, strict=True):
            self.k.emit(imp.Assign(slot, value))


class _LargeTile(_Tile):
    """Of a GPU: several items look back; of a whole tile all places are known ahead."""

    def look_back(
        self, number: imp.Expr, scanned: Sequence[imp.Pointer], last: imp.Expr,
        state: imp.Pointer, told: Sequence[Sequence[imp.Pointer]],
    ) -> Callable[[], Values]:  # fmt: skip
        k = self.k
        is_first = machine("==", self.lane, imp.ZERO)
        carry = [k.mutable(a.type.dtype, k.atom(a), "carry") for a in self.scan.initial]
        with k.branch(machine(">", number, self.first)):
            with k.branch(is_first):
                self.publish(number, state, _TOTAL, told[0], self.load(scanned, last))
            self.combine_windows(number, state, told, carry)
        with k.branch(is_first), frozen(k, carry) as before:
            prefix = self.combine(before, self.load(scanned, last))
            self.publish(number, state, _PREFIX, told[1], prefix)
        return lambda: [k.declare(value, depth=k.depth) for value in carry]

    def combine_windows(
        self, number: imp.Expr, state: imp.Pointer, told: Sequence[Sequence[imp.Pointer]],
        before: Sequence[imp.Var],
    ) -> None:  # fmt: skip
        """`before` becomes, for every item, what stands before the tile.

        Items before the row look at its first tile again: nothing is combined past a prefix.
        """
        k = self.k
        seen, joined = (
            [k.shared(dtype, count) for dtype in (DType.I32, *self.dtypes)]
            for count in (_WINDOW, _WINDOW // _PART)
        )
        at = k.mutable(DType.I64, number, "tile")
        first = k.mutable(DType.BOOL, imp.Const(True, DType.BOOL), "first")
        ended = k.mutable(DType.BOOL, imp.Const(False, DType.BOOL), "ended")
        with while_(k, imp.Apply("logical_not", (ended,), DType.BOOL)):
            with k.branch(machine("<", self.lane, imp.integer(_WINDOW))):
                tile = machine("-", machine("-", at, imp.ONE), self.lane)
                tile = k.declare(machine("max", k.declare(tile, depth=k.depth), self.first))
                is_prefix, values = self.receive(tile, state, told)
                self.store(seen, self.lane, [imp.Cast(DType.I32, is_prefix), *values])
            k.emit(imp.Barrier())
            with k.branch(machine("<", self.lane, imp.integer(_WINDOW // _PART))):
                begin = k.declare(machine("*", self.lane, imp.integer(_PART)))
                self.store(joined, self.lane, self.nearest(seen, begin, _PART))
            k.emit(imp.Barrier())
            is_prefix, *left = self.nearest(joined, imp.ZERO, _WINDOW // _PART)
            with frozen(k, before) as right:
                self.assign(before, _select(first, left, self.combine(left, right)))
            k.emit(imp.Assign(first, imp.Const(False, DType.BOOL)))
            k.emit(imp.Assign(ended, machine("!=", is_prefix, imp.Const(0, DType.I32))))
            k.emit(imp.Assign(at, machine("-", at, imp.integer(_WINDOW))))

    def nearest(
        self, pointers: Sequence[imp.Pointer], begin: imp.Expr, count: int
    ) -> list[imp.Expr]:
        """So many neighbours combined, the nearest tile first, up to the first prefix."""
        k = self.k
        found = [
            self.load(pointers, k.declare(machine("+", begin, imp.integer(n))))
            for n in range(count)
        ]
        (is_prefix, *state), *others = found
        for other, *left in others:
            ended = k.declare(machine("!=", is_prefix, imp.Const(0, DType.I32)))
            state = [k.declare(v) for v in _select(ended, state, self.combine(left, state))]
            is_prefix = k.declare(machine("|", is_prefix, other))
        return [is_prefix, *state]

    def compute(self) -> None:
        count = min(batched.of_registers(self.dtypes, self.scan.body), self.items_own)
        row = self.k.unit.integer("row")

        def whole() -> None:
            k = self.k
            with k.loop(row, imp.ZERO, imp.integer(self.items_own), step=count):
                number = k.unit.integer("l")
                near = batched.compute(k, self.dtypes, count, lambda number: (
                    self.element(k.declare(self.strided(self.lane, row, number, GROUP)))
                ))  # fmt: skip
                with k.loop(number, imp.ZERO, imp.integer(count), unroll=count):
                    place = k.declare(self.place(row, number))
                    self.store(self.values, place, self.load(near, number))

        self.by_size(whole, super().compute)

    def fold(self) -> None:
        k, begin, at = self.k, self.own_place(), self.k.unit.integer("i")

        def whole() -> None:
            state = [k.mutable(value.dtype, value) for value in self.load(self.values, begin)]
            count = self.items_own
            with k.loop(at, imp.ONE, imp.integer(count), unroll=count), frozen(k, state) as now:
                found = self.load(self.values, k.declare(machine("+", begin, at)))
                self.assign(state, self.combine(now, found))
            self.store(self.folds[0], self.lane, state)

        self.by_size(whole, super().fold)

    def scan_own(self, state: Sequence[imp.Var]) -> None:
        k, begin, at = self.k, self.own_place(), self.k.unit.integer("i")

        def whole() -> None:
            count = self.items_own
            with k.loop(at, imp.ZERO, imp.integer(count), unroll=count):
                self.step(state, k.declare(machine("+", begin, at)))

        self.by_size(whole, lambda: super(_LargeTile, self).scan_own(state))

    def write(self) -> None:
        k, row = self.k, self.k.unit.integer("row")

        def whole() -> None:
            count = self.items_own
            with k.loop(row, imp.ZERO, imp.integer(count), unroll=count):
                at = k.declare(self.strided(self.lane, row, imp.ZERO, GROUP))
                self.write_element(at, k.declare(self.place(row, imp.ZERO)))

        self.by_size(whole, super().write)

    def by_size(self, whole: Callable[[], None], part: Callable[[], None]) -> None:
        """What a whole tile emits, or a part of one."""
        self.k.either(machine("==", self.size, imp.integer(self.tile)), whole, part)

    def own_place(self) -> imp.Expr:
        return self.k.declare(machine("*", self.lane, imp.integer(self.items_own + 1)))

    def place(self, row: imp.Expr, number: imp.Expr) -> imp.Expr:
        """Where an item's element of a row of the group's items is kept."""
        near = self.k.declare(self.padded(self.lane))
        return self.strided(near, row, number, GROUP + GROUP // self.items_own)

    def strided(
        self, begin: imp.Expr, row: imp.Expr, number: imp.Expr, stride: int
    ) -> imp.Expr:
        return machine("+", begin, machine("*", machine("+", row, number), imp.integer(stride)))


def _select(condition: imp.Expr, then: Values, otherwise: Values) -> list[imp.Expr]:
    return [
        imp.Select(condition, one, other) for one, other in zip(then, otherwise, strict=True)
    ]
