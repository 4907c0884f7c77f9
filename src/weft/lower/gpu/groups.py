"""Reductions by groups of work items, in the tree that one item alone would follow.

A round takes 2048 elements: neighbouring items compute neighbouring elements, into memory that
the group shares; each item folds 32 of them from left to right; the 64 folds are combined by
neighbours, level by level, which is what a binary counter makes of them
(`weft.lower.gpu.items`). Rounds are pushed to a counter. So bits do not depend on which of both
forms runs: rows that are short, or many, are left to one item each.

    kernel (i < n) { let s = reduce[add] (j < m) { x[i, j] } in s }
    =>  64 items for each i:
        for start from 0 to m step 2048 { values[..] = x[i, start + ..]; barrier; folds; .. }
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager

from weft.fun import nodes as fun
from weft.imp import nodes as imp
from weft.imp.nodes import machine
from weft.imp.walk import may_leave
from weft.lower import kernels, reductions, shapes
from weft.lower.bodies import lower_body, scalar_results
from weft.lower.emitter import Emitter, frozen
from weft.lower.gpu import versions
from weft.lower.gpu.host import Host
from weft.lower.unit import memory
from weft.sizes import ONE, ZERO, Poly, Size, product

GROUP = 64
_FOLD = reductions.ROWS
_ROUND = GROUP * _FOLD
_PADDED = _ROUND + GROUP  # one element more for each fold: folds begin in different banks
_SHARED_BYTES = 16  # of the scalars of one element, at most: 48 KiB are shared on any GPU
_SHORT = 256  # elements: fewer are a row that one item reduces
_MANY = 4096  # rows that are work enough for items alone


def grouped(host: Host, let: fun.Let, kernel: fun.Kernel) -> Size | None:
    """Launch a kernel by groups, if it is a reduction at each of its indices.

    Returns
    -------
    Size or None
        1 where it is left to one item for each index: another kernel, short rows, or many; 0
        where it is not; None where it never is.
    """
    position = reduction_of(kernel)
    if position is None:
        return ONE
    reduce = kernel.body.statements[position].expr
    assert isinstance(reduce, fun.Reduce)
    count = product(r.extent for r in kernel.space)
    host.know(count)
    k = host.kernel_emitter()
    item = host.unit.integer("item")
    with ExitStack() as scopes:
        for r in kernel.space:
            scopes.enter_context(k.index(r.index.name, imp.ZERO, ZERO, r.extent))
        kernels.decode(k, kernel.space, k.declare(machine("/", item, imp.integer(GROUP)), "row"))
        lane = k.declare(machine("%", item, imp.integer(GROUP)), "lane")
        _Group(k, lane, reduce).run(let, kernel, position)
    if may_leave(k.levels[0]):
        return ONE  # an item that leaves would be waited for
    alone = 1 - _is_below(host, count, _MANY, ONE) * (
        1 - _is_below(host, reduce.space[0].extent, _SHORT, ZERO)
    )
    host.unit.kernels.append(kernels.describe("reduce by groups", kernel.space, let.pattern))
    host.add(k, "group", item, count * GROUP * (1 - alone), GROUP)
    return None if alone == ZERO else alone


def reduction_of(kernel: fun.Kernel) -> int | None:
    """Where a body of scalars has its one reduction, of one dimension."""
    found = None
    for position, let in enumerate(kernel.body.statements):
        match let.expr:
            case fun.Reduce((_,), 1) as reduce if (
                found is None
                and not reduce.counter
                and not shapes.is_unrolled(reduce)
                and shapes.is_flat(reduce.body)
                and shapes.is_flat(reduce.operator.body)
                and sum(v.type.dtype.itemsize for v in let.pattern) <= _SHARED_BYTES
            ):
                found = position
            case fun.Apply() | fun.Cast() | fun.SizeValue() | fun.Index():
                pass
            case _:
                return None
    return found


def _is_below(host: Host, size: Size, bound: int, otherwise: Size) -> Size:
    """1 where a size is below a bound, else 0; `otherwise` for one that no launch knows."""
    return versions.below(host, size, bound) if host.is_sized(size) else otherwise


class _Group:
    """What one item of a group does."""

    def __init__(self, e: Emitter, lane: imp.Expr, reduce: fun.Reduce) -> None:
        self.e, self.lane, self.reduce = e, lane, reduce

    def run(self, let: fun.Let, kernel: fun.Kernel, position: int) -> None:
        """The body of a kernel whose statement at a position is the reduction."""
        e, statements = self.e, kernel.body.statements
        lower_body(e, fun.Body(statements[:position], ()))
        reduced = statements[position]
        dtypes = [var.type.dtype for var in reduced.pattern]
        self.values = [e.shared(dtype, _PADDED) for dtype in dtypes]
        self.folds = [e.shared(dtype, GROUP) for dtype in dtypes]
        neutral = [e.atom(atom) for atom in self.reduce.neutral]
        counter = reductions.Counter(e, self.reduce.operator, neutral)
        extent = e.named(self.reduce.space[0].extent)
        start = e.unit.integer("start")
        with e.loop(start, imp.ZERO, extent, step=_ROUND):
            left = e.declare(machine("-", extent, start))
            size = e.declare(machine("min", left, imp.integer(_ROUND)))
            self.compute(start, size)
            e.emit(imp.Barrier())
            self.fold(size)
            e.emit(imp.Barrier())
            self.combine(size)
            with self.first():
                counter.push(self.load(self.folds, imp.ZERO))
        with self.first():
            for var, value in zip(reduced.pattern, counter.total(), strict=True):
                e.bind(var.name, value)
            results = lower_body(e, fun.Body(statements[position + 1 :], kernel.body.results))
            indices = tuple(Poly.var(r.index.name) for r in kernel.space)
            for var, result in zip(let.pattern, results, strict=True):
                e.store(memory(var), indices, e.atom(result))

    @contextmanager
    def first(self) -> Iterator[None]:
        """Inside, the first item of the group works alone."""
        with self.e.branch(machine("==", self.lane, imp.ZERO)):
            yield

    def compute(self, start: imp.Expr, size: imp.Expr) -> None:
        """The elements of a round, neighbours by neighbouring items."""
        e = self.e
        base, (r,) = e.unit.integer("i"), self.reduce.space
        with (
            e.index(r.index.name, imp.ZERO, ZERO, r.extent),
            e.loop(base, imp.ZERO, size, step=GROUP),
        ):
            at = e.declare(machine("+", base, self.lane))
            with e.branch(machine("<", at, size)):
                e.bind(r.index.name, e.declare(machine("+", start, at)))
                self.store(self.values, _padded(at), scalar_results(e, self.reduce.body))

    def fold(self, size: imp.Expr) -> None:
        """Each item's 32 elements, from left to right."""
        e, fold = self.e, imp.integer(_FOLD)
        begin = e.declare(machine("*", self.lane, fold))
        with e.branch(machine("<", begin, size)):
            end = e.declare(machine("min", size, machine("+", begin, fold)))
            state = [
                e.mutable(value.dtype, value) for value in self.load(self.values, _padded(begin))
            ]
            at = e.unit.integer("i")
            with e.loop(at, machine("+", begin, imp.ONE), end), frozen(e, state) as now:
                found = self.load(self.values, _padded(at))
                after = reductions.combine(e, self.reduce.operator, now, found)
                for slot, value in zip(state, after, strict=True):
                    e.emit(imp.Assign(slot, value))
            self.store(self.folds, self.lane, state)

    def combine(self, size: imp.Expr) -> None:
        """Neighbouring folds, level by level."""
        e = self.e
        fold = imp.integer(_FOLD)
        folds = e.declare(machine("/", machine("+", size, imp.integer(_FOLD - 1)), fold))
        reach = 1
        while reach < GROUP:
            partner = e.declare(machine("+", self.lane, imp.integer(reach)))
            is_left = machine("==", machine("%", self.lane, imp.integer(2 * reach)), imp.ZERO)
            with e.branch(is_left), e.branch(machine("<", partner, folds)):
                left, right = self.load(self.folds, self.lane), self.load(self.folds, partner)
                after = reductions.combine(e, self.reduce.operator, left, right)
                self.store(self.folds, self.lane, after)
            e.emit(imp.Barrier())
            reach *= 2

    def load(self, pointers: Sequence[imp.Pointer], at: imp.Expr) -> list[imp.Expr]:
        return [self.e.declare(imp.Load(p, at), depth=self.e.depth) for p in pointers]

    def store(
        self, pointers: Sequence[imp.Pointer], at: imp.Expr, values: Sequence[imp.Expr]
    ) -> None:
        for pointer, value in zip(pointers, values, strict=True):
            self.e.emit(imp.Store(pointer, at, value))


def _padded(at: imp.Expr) -> imp.Expr:
    return machine("+", at, machine("/", at, imp.integer(_FOLD)))
