"""Reductions on a device that is a processor: an item reduces 32 neighbouring rows at once.

Its compiler vectorises innermost loops alone (PoCL's does, and work items that contain loops are
not innermost), so the innermost loop is over rows, whose states are small arrays. The tree is the
one of `weft.lower.gpu.items`, with the same bits.

    kernel (i < n) { let s = reduce[add] (j < m) { x[j] * y[i] } in s }
    =>  an item for each 32 of n:  for each j { for lane < 32 { s[lane] += x[j] * y[base + lane] } }

The last rows are an item's whole 32 too, some of which another item has as well: those are
computed and not stored.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager

from weft.fun import nodes as fun
from weft.imp import nodes as imp
from weft.imp.nodes import machine
from weft.imp.walk import holds
from weft.lower import reductions, spaces
from weft.lower.bodies import lower_body, scalar_results
from weft.lower.emitter import Emitter
from weft.lower.gpu import versions
from weft.lower.gpu.host import Host
from weft.lower.gpu.reduction_kernel import ReductionKernel
from weft.lower.unit import memory
from weft.ops.dtypes import DType
from weft.sizes import ONE, ZERO, Size, product

LANES = 32

Values = Sequence[imp.Expr]


def by_lanes(host: Host, let: fun.Let, kernel: fun.Kernel) -> Size | None:
    """Launch a kernel by lanes, if it is a reduction at each of its indices.

    Returns
    -------
    Size or None
        1 where it is left to one item for each index, since there are too few rows; 0 where it is
        not; None where the kernel is another, or never has as many rows, and nothing is launched.
    """
    of = ReductionKernel.of(let, kernel)
    if of is None or not of.is_simple or not host.is_sized(product(r.extent for r in kernel.space)):
        return None
    *outer, last = kernel.space
    if not (_are_beside(of) and of.has_even_rows()):
        return None
    blocks = versions.ceil(host, last.extent, LANES)
    alone = versions.below(host, last.extent, LANES)
    if alone == ONE:
        return None
    k = host.kernel_emitter()
    item = host.unit.integer("item")
    with ExitStack() as scopes:
        for r in kernel.space:
            scopes.enter_context(k.index(r.index.name, imp.ZERO, ZERO, r.extent))
        # Items in turn are beside each other, in the same pages; but where all rows read the same
        # for a block of lanes, items in turn have that block, which stays in a cache.
        if _is_shared(of):
            count = k.named(product(r.extent for r in outer))
            row, block = machine("%", item, count), machine("/", item, count)
        else:
            count = k.named(blocks)
            row, block = machine("/", item, count), machine("%", item, count)
        if outer:
            spaces.decode(k, tuple(outer), k.declare(row, "row"))
        begin = k.declare(machine("*", k.declare(block), imp.integer(LANES)))
        end = k.named(last.extent)
        base = k.declare(machine("min", begin, machine("-", end, imp.integer(LANES))))
        _Lanes(k, of, base, begin).run()
    if holds(k.levels[0], imp.Fail | imp.Poll):
        return None
    host.unit.kernels.append(spaces.describe("reduce by lanes", kernel.space, let.pattern))
    items = product(r.extent for r in outer) * blocks
    host.add(k, "lanes", item, items * (1 - alone), 1)
    return alone


def _is_shared(of: ReductionKernel) -> bool:
    """Whether lanes read what those at all other indices do: the columns of a matrix product."""
    *outer, lane = (r.index.name for r in of.kernel.space)
    reads = [let.expr for let in of.read if isinstance(let.expr, fun.Index)]
    places = [memory(read.array).index.apply(read.indices).variables() for read in reads]
    return any(lane in names and names.isdisjoint(outer) for names in places)


def _are_beside(of: ReductionKernel) -> bool:
    """Whether lanes read one element, or neighbouring ones, and are plain scalars."""
    made = {var.name for let in of.read for var in let.pattern}
    lane = of.kernel.space[-1].index.name
    for let in of.read:
        match let.expr:
            case fun.Apply() | fun.Cast() | fun.SizeValue():
                pass
            case fun.Index(array, indices, boundary) if not any(boundary):
                at = memory(array).index.apply(indices)
                if at.variables() & made or at.degree(lane) > 1:
                    return False
                if at.coefficient(lane) not in (ZERO, ONE):
                    return False
            case _:
                return False
    return True


class _Lanes:
    """What one item does: 32 rows, of which `base` is the first, stored from `begin` on."""

    def __init__(self, e: Emitter, of: ReductionKernel, base: imp.Expr, begin: imp.Expr) -> None:
        self.e, self.of, self.reduce, self.base, self.begin = e, of, of.reduce, base, begin
        self.index = of.kernel.space[-1].index.name

    def run(self) -> None:
        """The kernel's body."""
        e, varies, before = self.e, self.of.varying, self.of.before.statements
        alike = [let for let in before if let.pattern[0].name not in varies]
        apart = [let for let in before if let.pattern[0].name in varies]
        lower_body(e, fun.Body(tuple(alike), ()))
        self.before = fun.Body(tuple(apart), ())
        self.neutral = [e.atom(atom) for atom in self.reduce.neutral]
        dtypes = self.of.dtypes
        self.state = [e.local(dtype, LANES, "lanes") for dtype in dtypes]
        self.stacks = [e.local(dtype, LANES * reductions.LEVELS, "stack") for dtype in dtypes]
        self.count = e.mutable(DType.I64, imp.ZERO, "count")
        extent = e.named(self.reduce.space[0].extent)
        start = e.unit.integer("i")
        with e.loop(start, imp.ZERO, extent, step=reductions.ROWS):
            end = e.declare(machine("+", start, imp.integer(reductions.ROWS)))
            self.fold(start, e.declare(machine("min", extent, end)))
            self.push()
        self.total()
        with self.lane() as (lane, row), e.branch(machine(">=", row, self.begin)):
            lower_body(e, self.before)
            self.of.finish(e, self.load(lane))

    def fold(self, start: imp.Expr, end: imp.Expr) -> None:
        """Elements from `start` until `end`, from left to right."""
        e, (r,) = self.e, self.reduce.space
        self.each(lambda _: self.neutral)
        at = e.unit.integer("i")
        with e.index(r.index.name, imp.ZERO, ZERO, r.extent), e.loop(at, start, end):
            e.bind(r.index.name, at)
            first = e.declare(machine("==", at, start))
            with self.lane() as (lane, _):
                lower_body(e, self.before)
                values = scalar_results(e, self.reduce.body)
                self.store(lane, self.joined(self.load(lane), values, first, values))

    def push(self) -> None:
        """The states go to the counter: see `weft.lower.reductions.Counter`."""
        e = self.e
        level = e.mutable(DType.I64, imp.ZERO, "level")
        with reductions.while_(e, reductions.is_set(self.count, level)):
            self.each(lambda lane: self.joined(self.top(level, lane), self.load(lane)))
            e.emit(imp.Assign(level, machine("+", level, imp.ONE)))
        lane = e.unit.integer("lane")
        with e.loop(lane, imp.ZERO, imp.integer(LANES)):
            for stack, value in zip(self.stacks, self.load(lane), strict=True):
                e.emit(imp.Store(stack, _at(level, lane), value))
        e.emit(imp.Assign(self.count, machine("+", self.count, imp.ONE)))

    def total(self) -> None:
        """The states become what the counter holds."""
        e = self.e
        self.each(lambda _: self.neutral)
        level = e.mutable(DType.I64, imp.ZERO, "level")
        first = e.mutable(DType.BOOL, imp.Const(True, DType.BOOL), "first")
        with reductions.while_(e, machine("!=", machine(">>", self.count, level), imp.ZERO)):
            with e.branch(reductions.is_set(self.count, level)):
                self.each(lambda lane: self.flushed(level, lane, first))
                e.emit(imp.Assign(first, imp.Const(False, DType.BOOL)))
            e.emit(imp.Assign(level, machine("+", level, imp.ONE)))

    def flushed(self, level: imp.Expr, lane: imp.Expr, first: imp.Expr) -> Values:
        top = self.top(level, lane)
        return self.joined(top, self.load(lane), first, top)

    # ------------------------------------------------------------ lanes

    @contextmanager
    def lane(self) -> Iterator[tuple[imp.Expr, imp.Expr]]:
        """Inside, for each lane: its number, and its row."""
        lane = self.e.unit.integer("lane")
        with self.e.loop(lane, imp.ZERO, imp.integer(LANES)):
            row = self.e.declare(machine("+", self.base, lane))
            self.e.bind(self.index, row)
            yield lane, row

    def each(self, values: Callable[[imp.Expr], Values]) -> None:
        """New states, whichever the rows are."""
        lane = self.e.unit.integer("lane")
        with self.e.loop(lane, imp.ZERO, imp.integer(LANES)):
            self.store(lane, values(lane))

    def joined(
        self, left: Values, right: Values, first: imp.Expr | None = None, only: Values = ()
    ) -> Values:
        """Both combined; where `first` holds, what is to be taken instead."""
        after = reductions.combine(self.e, self.reduce.operator, left, right)
        if first is None:
            return after
        return [imp.Select(first, one, both) for one, both in zip(only, after, strict=True)]

    def load(self, lane: imp.Expr) -> list[imp.Expr]:
        e = self.e
        return [e.declare(imp.Load(state, lane), depth=e.depth) for state in self.state]

    def top(self, level: imp.Expr, lane: imp.Expr) -> list[imp.Expr]:
        e, at = self.e, _at(level, lane)
        return [e.declare(imp.Load(stack, at), depth=e.depth) for stack in self.stacks]

    def store(self, lane: imp.Expr, values: Values) -> None:
        for state, value in zip(self.state, values, strict=True):
            self.e.emit(imp.Store(state, lane, value))


def _at(level: imp.Expr, lane: imp.Expr) -> imp.Expr:
    return machine("+", machine("*", level, imp.integer(LANES)), lane)
