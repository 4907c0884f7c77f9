"""Reductions of columns that lie side by side, on a GPU: several items for each.

A group of 256 items has 32 neighbouring columns: 32 items read neighbouring elements, and 8 such
rows of items fold 32 elements of each column at once. The 8 folds are combined by neighbours and
pushed to a counter, so the tree is that of one item alone (`weft.lower.gpu.items`).

    kernel (j < n) { let s = reduce[add] (i < m) { x[i, j] } in s }
    =>  256 items for each 32 of j:  for start from 0 to m step 256 { fold; barrier; combine; .. }

The last columns are a group's whole 32 too: those that another group has are not stored.
"""

from __future__ import annotations

from contextlib import AbstractContextManager, ExitStack

from weft.imp import nodes as imp
from weft.imp.nodes import machine
from weft.imp.walk import may_leave
from weft.lower import reductions, spaces
from weft.lower.bodies import lower_body, scalar_results
from weft.lower.emitter import Emitter
from weft.lower.gpu import batched, versions
from weft.lower.gpu.host import Host
from weft.lower.gpu.reduction_kernel import ReductionKernel
from weft.mem import neighbours
from weft.sizes import ONE, ZERO, Size, product

_WIDTH = 32  # columns of a group
_SLOTS = 8  # chunks of each column that are folded at once
_CHUNK = reductions.ROWS


def suits(of: ReductionKernel) -> bool:
    """Whether elements of one column lie apart, and all columns of a group are as long."""
    return neighbours.apart(of.read, of.reduce.space[0].index.name) > 0 and of.has_even_rows()


def lower(host: Host, of: ReductionKernel, whether: Size) -> Size:
    """Launch a kernel that `suits`; 1 where it is left to others, else 0."""
    if whether == ZERO:
        return ONE
    space = of.kernel.space
    *outer, last = space
    if not host.is_sized(last.extent):
        return ONE
    blocks = versions.ceil(host, last.extent, _WIDTH)
    k, item = host.kernel_emitter(), host.unit.integer("item")
    with ExitStack() as scopes:
        for r in space:
            scopes.enter_context(k.index(r.index.name, imp.ZERO, ZERO, r.extent))
        number = k.declare(machine("/", item, imp.integer(_WIDTH * _SLOTS)), "group")
        lane = k.declare(machine("%", item, imp.integer(_WIDTH * _SLOTS)), "lane")
        if outer:
            spaces.decode(k, tuple(outer), k.declare(machine("/", number, k.named(blocks))))
        begin = machine("*", machine("%", number, k.named(blocks)), imp.integer(_WIDTH))
        _Columns(k, of, lane).run(k.declare(begin))
    if may_leave(k.levels[0]):
        return ONE
    host.unit.kernels.append(spaces.describe("reduce columns", space, of.let.pattern))
    groups = product(r.extent for r in outer) * blocks
    host.add(k, "columns", item, groups * (_WIDTH * _SLOTS) * whether, _WIDTH * _SLOTS)
    return 1 - whether


class _Columns:
    """What one item of a group does: some chunks of one column."""

    def __init__(self, e: Emitter, of: ReductionKernel, lane: imp.Expr) -> None:
        self.e, self.of, self.reduce, self.lane = e, of, of.reduce, lane
        self.folds = [e.shared(dtype, _WIDTH * _SLOTS) for dtype in of.dtypes]
        self.slot = e.declare(machine("/", lane, imp.integer(_WIDTH)), "slot")

    def run(self, begin: imp.Expr) -> None:
        """The columns from `begin` on."""
        e, last = self.e, self.of.kernel.space[-1]
        column = machine("+", begin, machine("%", self.lane, imp.integer(_WIDTH)))
        column = e.declare(column, "column")
        e.bind(last.index.name, e.declare(
            machine("min", column, machine("-", e.named(last.extent), imp.ONE))
        ))  # fmt: skip
        lower_body(e, self.of.before)
        counter = self.of.counter(e)
        (r,) = self.reduce.space
        extent, start = e.named(r.extent), e.unit.integer("start")
        with (
            e.index(r.index.name, imp.ZERO, ZERO, r.extent),
            e.loop(start, imp.ZERO, extent, step=_SLOTS * _CHUNK),
        ):
            mine = machine("+", start, machine("*", self.slot, imp.integer(_CHUNK)))
            mine = e.declare(mine)
            self.fold(mine, extent)
            e.emit(imp.Barrier())
            self.join(mine, extent)
            with self.first():
                counter.push(self.load(self.lane))
        with self.first(), e.branch(machine("<", column, e.named(last.extent))):
            self.of.finish(e, counter.total())

    def first(self) -> AbstractContextManager[None]:
        """Inside, the first item of each column works alone."""
        return self.e.branch(machine("==", self.slot, imp.ZERO))

    def fold(self, begin: imp.Expr, extent: imp.Expr) -> None:
        """The item's chunk, from left to right, if there is one."""
        e = self.e
        end = e.declare(machine("min", extent, machine("+", begin, imp.integer(_CHUNK))))
        with e.branch(machine("<", begin, extent)):
            neutral = [e.atom(atom) for atom in self.reduce.neutral]
            state = [e.mutable(value.dtype, value) for value in neutral]
            batched.fold(e, self.reduce, state, begin, end, self.element)
            self.store(state)

    def element(self, at: imp.Expr) -> list[imp.Expr]:
        self.e.bind(self.reduce.space[0].index.name, at)
        return scalar_results(self.e, self.reduce.body)

    def join(self, begin: imp.Expr, extent: imp.Expr) -> None:
        """The folds of each column, neighbours level by level, into its first."""
        e = self.e
        reach = 1
        while reach < _SLOTS:
            is_left = machine("==", machine("%", self.slot, imp.integer(2 * reach)), imp.ZERO)
            partner = e.declare(machine("+", begin, imp.integer(reach * _CHUNK)))
            with e.branch(is_left), e.branch(machine("<", partner, extent)):
                right = self.load(machine("+", self.lane, imp.integer(reach * _WIDTH)))
                self.store(reductions.combine(
                    e, self.reduce.operator, self.load(self.lane), right
                ))  # fmt: skip
            e.emit(imp.Barrier())
            reach *= 2

    def load(self, at: imp.Expr) -> list[imp.Expr]:
        e = self.e
        return [e.declare(imp.Load(fold, at), depth=e.depth) for fold in self.folds]

    def store(self, values: list[imp.Expr] | list[imp.Var]) -> None:
        for fold, value in zip(self.folds, values, strict=True):
            self.e.emit(imp.Store(fold, self.lane, value))
