"""Reductions by groups of work items, in the tree that one item alone would follow.

Neighbouring items compute neighbouring elements, into memory that the group shares; each item
folds 32 of them from left to right; the folds are combined by neighbours, level by level, which
is what a binary counter makes of them (`weft.lower.gpu.items`). So bits do not depend on which
form runs. The forms, by the sizes of a launch:

- short rows: a group takes several, as many as have 64 chunks of 32 elements;
- a group for each row, 2048 elements at a time, which are pushed to a counter;
- few long rows: several groups for each, whose parts of 16384 elements another kernel combines;
- on processors, an item for each row (`weft.lower.gpu.chunks`);
- columns side by side, several chunks of each at once (`weft.lower.gpu.columns`);
- an item for each row, or for each part of one (`weft.lower.gpu.row_parts`): many rows of which
  neighbouring ones lie side by side.

    kernel (i < n) { let s = reduce[add] (j < m) { x[i, j] } in s }
    =>  64 items for each i:
        for start from 0 to m step 2048 { values[..] = x[i, start + ..]; barrier; folds; .. }
"""

from __future__ import annotations

from weft.fun import nodes as fun
from weft.imp import nodes as imp
from weft.imp.nodes import machine
from weft.imp.walk import may_leave
from weft.lower import reductions, shapes, spaces
from weft.lower.bodies import lower_body, scalar_results
from weft.lower.emitter import Emitter
from weft.lower.gpu import batched, columns, items, row_parts, versions
from weft.lower.gpu.host import Host
from weft.lower.gpu.reduction_kernel import ReductionKernel
from weft.lower.gpu.tiles import (
    CHUNK,
    GROUP,
    SHARED_BYTES,
    TILE,
    TILES,
    Folds,
    InGroups,
    Tile,
    Values,
    launch_groups,
    reserve,
)
from weft.sizes import ONE, ZERO, Size, as_poly, product

_SHORT = 256  # elements: fewer are a row that one item reduces, where it lies beside others
_SEVERAL = TILE // 2  # elements, at most, of rows of which a group takes several
_MANY = 4096  # rows that are work enough for items alone
_PART = 8 * TILE  # elements of a part of a long row,
_LONG = 4 * _PART  # and of a row that is done in parts,
_FEW = 256  # if there are fewer of them,
_FEW_ON_GPU = 1024  # whose groups have all to be under way at once


def grouped(host: Host, let: fun.Let, kernel: fun.Kernel, done: Size) -> Size | None:
    """Launch a kernel by groups, if it is a reduction at each of its indices.

    Parameters
    ----------
    done : Size
        1 where another form is launched, on a processor; else 0.

    Returns
    -------
    Size or None
        1 where it is left to one item for each index: another kernel, or many rows that lie side
        by side; 0 where it is not; None where it never is.
    """
    of = ReductionKernel.of(let, kernel)
    if of is None or not of.is_simple:
        return ONE
    form = _Form(host, of)
    count, extent = product(r.extent for r in kernel.space), of.reduce.space[0].extent
    host.know(count)
    long = 1 - _is_below(host, extent, _SHORT, ZERO)
    few = _is_below(host, count, _MANY, ONE) * long
    if of.walks:  # neighbouring rows lie apart: never by items, if not on a processor
        gpu = 1 - host.is_processor
        whether = few + gpu - few * gpu
        sized = host.is_sized(count)  # a loop of the host around it may decide
        short = gpu * _is_below(host, extent, _SEVERAL + 1, ZERO) if sized else ZERO
    else:
        whether, short = few, ZERO
    beside = not of.walks and columns.suits(of)
    parts = ZERO if beside else form.are_few_and_long()
    left = 1 - done
    if beside:
        others = columns.lower(host, of, whether)
    elif form.by_group(left * whether * (1 - short) * (1 - parts)):
        form.several(short)
        form.in_parts(left * whether, parts)
        others = left * (1 - whether)
    else:
        return ONE  # an item that leaves would be waited for
    gpu = 1 - host.is_processor
    left = row_parts.lower(host, of, others * gpu) + others * host.is_processor
    return None if left == ZERO else left


def counted(host: Host, let: fun.Let, reduce: fun.Reduce) -> bool:
    """Launch one group for the results of tiles (`weft.passes.split_reductions`), if it may do it.

    On a processor one item pushes them, one after another, to a counter.
    """
    flat = shapes.is_flat(reduce.body) and shapes.is_flat(reduce.operator.body)
    dtypes = [var.type.dtype for var in let.pattern]
    if not flat or sum(dtype.itemsize for dtype in dtypes) > SHARED_BYTES:
        return False
    (r,) = reduce.space
    host.know(r.extent)
    slots = [host.slot(dtype) for dtype in dtypes]
    k, lane = host.kernel_emitter(), host.unit.integer("item")
    with k.index(r.index.name, imp.ZERO, ZERO, r.extent):
        folds = Folds(k, lane, dtypes, reduce.operator)
        neutral = [k.atom(atom) for atom in reduce.neutral]
        counter = reductions.Counter(k, reduce.operator, neutral)

        def value(at: imp.Expr) -> Values:
            k.bind(r.index.name, at)
            return scalar_results(k, reduce.body)

        folds.count(counter, k.named(r.extent), value)
        with folds.first():
            for slot, total in zip(slots, counter.total(), strict=True):
                pointer = k.pointer(host.slots[slot.name], slot.dtype)
                k.emit(imp.Store(pointer, imp.ZERO, total))
    if may_leave(k.levels[0]):
        return False
    with host.inside() as by_group:
        host.unit.kernels.append(spaces.describe("combine tiles", reduce.space, let.pattern))
        host.add(k, "count", lane, as_poly(GROUP), GROUP)
    if host.dialect == "cuda":
        host.steps += by_group
    else:
        with host.inside() as by_item:
            with host.by_one_item():
                items.lower_item(host.e, let)
            for var, slot in zip(let.pattern, slots, strict=True):
                host.set(host.slots[slot.name], slot.dtype, host.e.scalars[var.name])
        host.by_device(by_item, by_group)
    for var, slot in zip(let.pattern, slots, strict=True):
        host.e.bind(var.name, slot)
    return True


def _is_below(host: Host, size: Size, bound: int, otherwise: Size) -> Size:
    """1 where a size is below a bound, else 0; `otherwise` for one that no launch knows."""
    return versions.below(host, size, bound) if host.is_sized(size) else otherwise


class _Form:
    """The forms of one kernel."""

    def __init__(self, host: Host, of: ReductionKernel) -> None:
        self.host, self.of = host, of
        self.kernel, self.reduce, self.dtypes = of.kernel, of.reduce, of.dtypes

    def are_few_and_long(self) -> Size:
        """1 where several groups do a row; on a GPU each multiprocessor wants some, too."""
        host, count = self.host, product(r.extent for r in self.kernel.space)
        if not (host.is_sized(count) and host.is_sized(self.of.bound)):
            return ZERO
        gpu = 1 - host.is_processor
        few = gpu * versions.below(host, count, _FEW_ON_GPU)
        if host.is_sized(self.reduce.space[0].extent):
            few = few + host.is_processor * versions.below(host, count, _FEW)
        return few * (1 - versions.below(host, self.of.bound, _LONG))

    # ------------------------------------------------------------ the forms

    def by_group(self, whether: Size) -> bool:
        """A group for each row; whether that can be done: not where an item may fail."""

        def inside(k: Emitter, number: imp.Expr, lane: imp.Expr) -> None:
            spaces.decode(k, self.kernel.space, number)
            lower_body(k, self.of.before)
            tile = Tile(k, lane, self.dtypes, self.reduce.operator)
            counter = self.fold(tile, imp.ZERO, k.named(self.reduce.space[0].extent))
            with tile.first():
                self.of.finish(k, counter.total())

        count = product(r.extent for r in self.kernel.space)
        return self.launch("group", "reduce by groups", count, whether, inside)

    def several(self, whether: Size) -> None:
        """Several rows for each group, whose length the launch knows."""
        if whether == ZERO:
            return
        host, extent = self.host, self.reduce.space[0].extent
        count = product(r.extent for r in self.kernel.space)
        chunks = versions.maximum(host, versions.ceil(host, extent, CHUNK), ONE)
        rows = versions.divide(host, as_poly(GROUP), chunks)
        rows = versions.maximum(host, rows, ONE)  # for rows that are not short

        def inside(k: Emitter, number: imp.Expr, lane: imp.Expr) -> None:
            first = k.declare(machine("*", number, k.named(rows)))
            left = k.declare(machine("-", k.named(count), first))
            mine = k.declare(machine("min", left, k.named(rows)))
            length = k.named(extent)
            tile = Tile(k, lane, self.dtypes, self.reduce.operator)
            tile.of_rows(mine, length)

            def row(at: imp.Expr) -> None:
                spaces.decode(k, self.kernel.space, k.declare(machine("+", first, at)))
                lower_body(k, self.of.before)

            def value(at: imp.Expr) -> list[imp.Expr]:
                number, place = tile.place(at)
                row(number)
                k.bind(self.reduce.space[0].index.name, place)
                return scalar_results(k, self.reduce.body)

            (r,) = self.reduce.space
            with k.index(r.index.name, imp.ZERO, ZERO, r.extent):
                tile.take(value, batched.ELEMENTS)
            tile.barrier()
            tile.fold()
            tile.barrier()
            tile.join()
            with k.branch(machine("<", lane, mine)):
                row(lane)
                found = tile.load(tile.folds, machine("*", lane, tile.chunks))
                empty = k.declare(machine("==", length, imp.ZERO))
                neutral = [k.atom(atom) for atom in self.reduce.neutral]
                self.of.finish(k, [
                    imp.Select(empty, none, value)
                    for none, value in zip(neutral, found, strict=True)
                ])  # fmt: skip

        groups = versions.ceil(host, count, rows)
        self.launch("several", "reduce several rows by groups", groups, whether, inside)

    def in_parts(self, few: Size, long: Size) -> None:
        """Several groups for each row, and another for what they found."""
        if few * long == ZERO:
            return
        host, space = self.host, self.kernel.space
        count, extent = product(r.extent for r in space), self.reduce.space[0].extent
        parts = versions.ceil(host, self.of.bound, _PART)
        partial = reserve(host, self.dtypes, count * parts, long)

        def part(k: Emitter, number: imp.Expr, lane: imp.Expr) -> None:
            spaces.decode(k, space, k.declare(machine("/", number, k.named(parts)), "row"))
            lower_body(k, self.of.before)
            begin = machine("*", machine("%", number, k.named(parts)), imp.integer(_PART))
            begin = k.declare(begin)
            end = k.declare(machine("+", begin, imp.integer(_PART)))
            end = k.declare(machine("min", k.named(extent), end))
            tile = Tile(k, lane, self.dtypes, self.reduce.operator)
            counter = self.fold(tile, begin, end)
            with tile.first():
                tile.store(partial(k), number, counter.total())

        def join(k: Emitter, number: imp.Expr, lane: imp.Expr) -> None:
            spaces.decode(k, space, number)
            lower_body(k, self.of.before)
            folds = Folds(k, lane, self.dtypes, self.reduce.operator)
            counter = self.of.counter(k)
            first = k.declare(machine("*", number, k.named(parts)))
            mine = spaces.ceil(k, k.named(extent), imp.integer(_PART))
            folds.count(
                counter, mine,
                lambda at: folds.load(partial(k), k.declare(machine("+", first, at))),
            )  # fmt: skip
            with folds.first():
                self.of.finish(k, counter.total())

        self.launch("part", "reduce parts by groups", count * parts, few * long, part)
        self.launch("join", "combine parts by groups", count, few * long, join)

    # ------------------------------------------------------------ what they are made of

    def launch(
        self, name: str, label: str, groups: Size, whether: Size, inside: InGroups
    ) -> bool:
        space = self.kernel.space
        return launch_groups(self.host, self.of.let, space, name, label, groups, whether, inside)

    def fold(self, tile: Tile, begin: imp.Expr, end: imp.Expr) -> reductions.Counter:
        """The elements of a row from `begin` on, by the first item's counter."""
        counter, (r,) = self.of.counter(tile.e), self.reduce.space
        with tile.e.index(r.index.name, imp.ZERO, ZERO, r.extent):
            fold_row(tile, counter, r.index.name, self.reduce.body, begin, end)
        return counter


def fold_row(
    tile: Tile, counter: reductions.Counter, index: str, body: fun.Body, begin: imp.Expr,
    end: imp.Expr,
) -> None:  # fmt: skip
    """What a body gives for begin <= index < end, pushed to the first item's counter."""
    k, count = tile.e, batched.of_registers([v.dtype for v in tile.values], body)
    start = k.unit.integer("start")

    def values(at: imp.Expr) -> list[imp.Expr]:
        k.bind(index, k.declare(machine("+", start, at)))
        return scalar_results(k, body)

    def folds() -> None:
        left = k.declare(machine("-", end, start))
        tile.of_row(k.declare(machine("min", left, imp.integer(TILE))))
        tile.take_row(values, count)
        tile.barrier()
        tile.fold_row()
        tile.barrier()

    if not k.unit.batched:
        with k.loop(start, begin, end, step=TILE):
            folds()
            tile.join()
            with tile.first():
                counter.push(tile.load(tile.folds, imp.ZERO))
        return
    tile.keep_folds()
    first = k.unit.integer("first")
    with k.loop(first, begin, end, step=TILES * TILE):
        after = k.declare(machine("+", first, imp.integer(TILES * TILE)))
        last = k.declare(machine("min", end, after))
        with k.loop(start, first, last, step=TILE):
            tile.of_turn(k.declare(machine("-", start, first)))
            folds()
        tile.join_kept(counter, k.declare(machine("-", last, first)))
        with tile.first():
            counter.push(tile.load(tile.folds, imp.ZERO))
