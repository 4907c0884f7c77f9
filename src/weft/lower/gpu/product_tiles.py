"""The tiles of a contraction on a device (`weft.lower.gpu.products`): their kernels."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import replace
from functools import partial

from weft.fun import nodes as fun
from weft.fun.contractions import BLOCK, Contraction
from weft.imp import nodes as imp
from weft.imp.nodes import machine
from weft.lower import bounds, spaces
from weft.lower.accumulation import Accumulation
from weft.lower.emitter import Emitter
from weft.lower.gpu import versions
from weft.lower.gpu.elements import combined, finish, loaded
from weft.lower.gpu.host import Host
from weft.lower.gpu.product_shapes import Shape
from weft.lower.gpu.slices import Share, Slices, times
from weft.lower.halves import Part, wanted
from weft.ops.dtypes import DType
from weft.records import dataclass
from weft.sizes import ZERO, Size, product

_AT_ONCE = 2  # reduced indices of slices at ends, or half of a large tile's code would be theirs


@dataclass(frozen=True, slots=True)
class Parts:
    """Tiles cut into blocks of the reduced dimension, where `apart` is 1: so many, else 1."""

    folds: str  # the region of the workspace
    apart: Size
    count: Size


@dataclass(frozen=True, slots=True)
class _Place:
    """Where a group's tile lies, and an item in it."""

    lane: imp.Expr
    row: imp.Expr  # of the item, among those of the group
    column: imp.Expr
    down: Part
    across: Part


class Tiles:
    """The kernels of a contraction in tiles of a shape."""

    def __init__(
        self, host: Host, let: fun.Let, kernel: fun.Kernel, found: Contraction, shape: Shape,
        whole: Size = ZERO,
    ) -> None:  # fmt: skip
        self.host, self.let, self.kernel, self.found = host, let, kernel, found
        self.aligned, self.by_vectors = whole, whole != ZERO
        self.shape = shape
        self.down = Share.of(found.left, shape.down, shape.rows)
        self.across = Share.of(found.right, shape.across, shape.columns)
        self.reduce = found.reduce
        self.dtype = found.reduce.neutral[0].type.dtype
        self.wide = versions.ceil(host, found.column.extent, self.across.width)
        self.plane = versions.ceil(host, found.row.extent, self.down.width) * self.wide
        self.tiles: Size = self.plane * product(r.extent for r in kernel.space[:-2])

    def suit(self) -> Size:
        """1 where there are as many as keep a device busy, more than a quarter of each of use."""
        few = [(self.tiles * self.shape.group, self.shape.least)]
        few += [(self.found.row.extent, self.down.width // 4 + 1)]
        few += [(self.found.column.extent, self.across.width // 4 + 1)]
        enough = product(1 - versions.below(self.host, size, bound) for size, bound in few)
        suits = enough * self.aligned if self.by_vectors else enough
        return 1 - versions.below(self.host, suits, 1)  # under one name: others multiply it

    def lower(self, parts: Parts | None = None) -> tuple[Emitter, imp.Var]:
        """Each group a tile, or one of its parts: a block, whose folds go to the workspace."""
        k, item = self.host.kernel_emitter(), self.host.unit.integer("item")
        number = k.declare(machine("/", item, imp.integer(self.shape.group)), "group")
        extent = k.named(self.reduce.space[0].extent)
        begin: imp.Expr = imp.ZERO
        end, apart = extent, None
        if parts is not None and parts.apart != ZERO:
            count = k.named(parts.count)
            begin = machine("*", k.declare(machine("%", number, count)), imp.integer(BLOCK))
            begin = k.declare(begin)
            number = k.declare(machine("/", number, count))
            apart = k.declare(machine("!=", k.named(parts.apart), imp.ZERO))
            last = k.declare(machine("+", begin, imp.integer(BLOCK)))
            last = k.declare(machine("min", extent, last))
            end = k.declare(imp.Select(apart, last, extent))
        with ExitStack() as scopes:
            place = self._place(k, scopes, item, number)
            sums, folds = self._sums(k, far=self.shape.resident > 0), self._sums(k)
            few = k.local(self.dtype, self.shape.columns)

            def block_ends() -> None:
                with k.level() as combined:
                    self._combine(k, sums, folds, few)
                stored: list[imp.Stmt] = []
                if apart is not None and parts is not None:
                    with k.level() as stored:
                        fold = k.pointer(parts.folds, self.dtype)
                        k.emit(imp.Store(fold, item, loaded(k, folds, imp.ZERO)))
                    k.emit(imp.If(apart, tuple(stored), tuple(combined)))
                else:
                    k.levels[-1] += combined

            def sum_up(down: Part, across: Part) -> None:
                wanted_ = replace(place, down=down, across=across)
                self._sum(k, wanted_, begin, end, folds, block_ends)

            self._where(k, place, sum_up)
            with ExitStack() as whole:
                if apart is not None:
                    not_apart = imp.Apply("logical_not", (apart,), DType.BOOL)
                    whole.enter_context(k.branch(not_apart))
                # What is made of sums that lie in memory is written out for one row.
                rows = 0 if self.shape.resident else self.shape.rows
                store = partial(self._store, k, place)
                self._each(k, lambda at, r, c: store(r, c, loaded(k, sums, at)), rows)
        return k, item

    def _combine(
        self, k: Emitter, sums: imp.Pointer, folds: imp.Pointer, few: imp.Pointer
    ) -> None:
        """A block's folds join the sums, and begin anew; a row's sums are loaded at once."""
        neutral, columns = k.atom(self.reduce.neutral[0]), imp.integer(self.shape.columns)
        with times(k, self.shape.rows) as row:
            first = k.declare(machine("*", row, columns))
            with times(k, self.shape.columns) as column:
                k.emit(imp.Store(few, column, loaded(k, sums, machine("+", first, column))))
            with times(k, self.shape.columns) as column:
                at = k.declare(machine("+", first, column))
                total, fold = loaded(k, few, column), loaded(k, folds, at)
                k.emit(imp.Store(sums, at, combined(k, self.found, total, fold)))
                k.emit(imp.Store(folds, at, neutral))

    def combine(self, region: str, blocks: Size) -> tuple[Emitter, imp.Var]:
        """Each item the folds of its element, in order."""
        k, item = self.host.kernel_emitter(), self.host.unit.integer("item")
        group, own = imp.integer(self.shape.group), k.named(blocks)
        tile = k.declare(machine("/", item, group), "group")
        lane = k.declare(machine("%", item, group), "lane")
        with ExitStack() as scopes:
            place = self._place(k, scopes, item, tile)
            total = k.mutable(self.dtype, k.atom(self.reduce.neutral[0]))
            folds, block = k.pointer(region, self.dtype), k.unit.integer("b")
            first = k.declare(machine("*", tile, own))
            with k.loop(block, imp.ZERO, own):
                at = machine("*", k.declare(machine("+", first, block)), group)
                fold = loaded(k, folds, k.declare(machine("+", at, lane)))
                value = combined(k, self.found, k.declare_here(total), fold)
                k.emit(imp.Assign(total, value))
            self._store(k, place, imp.ZERO, imp.ZERO, k.declare_here(total))
        return k, item

    # ------------------------------------------------------------ places

    def _place(
        self, k: Emitter, scopes: ExitStack, item: imp.Var, tile: imp.Expr
    ) -> _Place:
        """The tile of a number, and the item's place in it; indices of outer dimensions known."""
        found, space = self.found, self.kernel.space
        for r in (*space, *self.reduce.space):
            scopes.enter_context(k.index(r.index.name, imp.ZERO, ZERO, r.extent))
        plane = k.named(self.plane)
        spaces.decode(k, space[:-2], k.declare(machine("/", tile, plane)))
        place = k.declare(machine("%", tile, plane)) if len(space) > 2 else tile
        wide = k.named(self.wide)
        down = self._part(k, machine("/", place, wide), self.down, found.row.extent)
        across = self._part(k, machine("%", place, wide), self.across, found.column.extent)
        lane = k.declare(machine("%", item, imp.integer(self.shape.group)), "lane")
        return _Place(lane, *self._own(k, lane), down, across)

    def _own(self, k: Emitter, lane: imp.Expr) -> tuple[imp.Expr, imp.Expr]:
        """The row and the column of an item among those of the group, 4 x 8 for each warp.

        A group's memory gives vectors of 16 bytes to a quarter of a warp at a time, or to half of
        it where items i and i xor 1 want the same, or all i and i xor 2 do.
        """

        def bits(first: int, count: int) -> imp.Expr:
            return machine("%", machine("/", lane, imp.integer(first)), imp.integer(count))

        def joined(low: imp.Expr, high: imp.Expr, count: int) -> imp.Expr:
            return machine("+", low, machine("*", high, imp.integer(count)))

        wide = self.shape.across // 2
        rest = machine("/", lane, imp.integer(8 * wide))
        row = joined(joined(bits(1, 2), bits(4, 2), 2), rest, 4)
        column = joined(bits(2, 2), bits(8, wide), 2)
        return k.declare(row, "row"), k.declare(column, "column")

    def _part(self, k: Emitter, number: imp.Expr, share: Share, extent: Size) -> Part:
        width, end = imp.integer(share.width), k.named(extent)
        lower = k.declare(machine("*", k.declare(number), width), "lower")
        upper = k.declare(machine("min", end, k.declare(machine("+", lower, width))), "upper")
        return Part(lower, upper, lower, k.declare(machine("-", upper, imp.ONE)))

    def _where(
        self, k: Emitter, place: _Place, inside: Callable[[Part, Part], None]
    ) -> None:
        """`inside(rows, columns)` that some element wants: in a half plane, maybe none."""
        fact = self.found.fact
        if fact is None:
            inside(place.down, place.across)
            return
        i, j = self.found.row.index.name, self.found.column.index.name
        rows = wanted(k, fact, i, place.down, j, place.across)
        columns = wanted(k, fact, j, place.across, i, place.down)
        some = k.declare(machine("<=", rows.first, rows.last))
        with k.branch(some), bounds.assumed(k, (fact,)):
            inside(rows, columns)

    # ------------------------------------------------------------ sums of an item

    def _sums(self, k: Emitter, *, far: bool = False) -> imp.Pointer:
        """An item's own sums, of no elements yet."""
        count = self.shape.rows * self.shape.columns
        sums = k.local(self.dtype, count, "sum", far=far)
        neutral = k.atom(self.reduce.neutral[0])
        self._each(k, lambda at, *_: k.emit(imp.Store(sums, at, neutral)))
        return sums

    def _each(
        self, k: Emitter, inside: Callable[[imp.Expr, imp.Expr, imp.Expr], None],
        at_once: int | None = None,
    ) -> None:  # fmt: skip
        """`inside(number, row, column)` of every sum of an item.

        All are written out, or so many rows; 0: a row, whatever a compiler likes better.
        """
        rows, columns = self.shape.rows, self.shape.columns
        if rows == columns == 1:
            inside(imp.ZERO, imp.ZERO, imp.ZERO)
            return
        r, c = k.unit.integer("r"), k.unit.integer("c")
        with (
            k.loop(r, imp.ZERO, imp.integer(rows), unroll=rows if at_once is None else at_once),
            k.loop(c, imp.ZERO, imp.integer(columns), unroll=columns),
        ):
            inside(k.declare(machine("+", machine("*", r, imp.integer(columns)), c)), r, c)

    def _store(
        self, k: Emitter, place: _Place, r: imp.Expr, c: imp.Expr, total: imp.Expr
    ) -> None:
        """The rest of the body at an element of the item, if the tile has it."""
        row = k.declare(machine("+", place.down.lower, self.down.place(place.row, r)))
        across = self.across.place(place.column, c)
        column = k.declare(machine("+", place.across.lower, across))
        inside = machine(
            "&&", machine("<", row, place.down.upper), machine("<", column, place.across.upper)
        )
        with k.branch(inside):
            k.bind(self.found.row.index.name, row)
            k.bind(self.found.column.index.name, column)
            finish(k, self.let, self.kernel, self.found, total)

    # ------------------------------------------------------------ a block of the reduced dimension

    def _sum(
        self, k: Emitter, place: _Place, begin: imp.Expr, end: imp.Expr, folds: imp.Pointer,
        block_ends: Callable[[], None],
    ) -> None:  # fmt: skip
        """Reduced indices from `begin` to below `end` folded into an item's, block after block."""
        found, shape = self.found, self.shape
        (reduced,) = self.reduce.space
        sides = [
            Slices(
                k, side, range_, reduced, part, share, place.lane, own, shape.group, shape.step,
                by_vectors=self.by_vectors,
            )
            for side, range_, part, share, own in (
                (found.left, found.row, place.down, self.down, place.row),
                (found.right, found.column, place.across, self.across, place.column),
            )
        ]
        step = imp.integer(shape.step)

        def fetch(first: imp.Expr) -> None:
            for side in sides:
                side.fetch(first, end)

        def keep(turn: imp.Expr) -> None:
            for side in sides:
                side.keep(turn)

        def fold(turn: imp.Expr, size: imp.Expr, unroll: int) -> None:
            var = k.unit.integer("k")
            with k.loop(var, imp.ZERO, size, unroll=unroll):
                for side in sides:
                    side.take(turn, var)

                def combine(at: imp.Expr, *numbers: imp.Expr) -> None:
                    for side, number in zip(sides, numbers, strict=True):
                        side.bind(number)
                    now = loaded(k, folds, at)
                    k.emit(imp.Store(folds, at, Accumulation(k, found).of(now)))

                self._each(k, combine)

        def turn_of(first: imp.Expr) -> imp.Expr:
            """Blocks are whole slices, an even number of them: the first one of a part is even."""
            return k.declare(machine("%", machine("/", first, step), imp.integer(2)))

        def each(lower: imp.Expr, upper: imp.Expr, ends: Callable[[imp.Expr], None]) -> None:
            """Slices, after which there may be none, or which may not be whole."""
            first = k.unit.integer("s")
            with k.loop(first, lower, upper, step=shape.step):
                after = k.declare(machine("+", first, step))
                goes_on = k.declare(machine("<", after, end))
                with k.branch(goes_on):
                    fetch(after)
                turn = turn_of(first)
                size = k.declare(machine("-", end, first))
                k.either(
                    machine("<=", after, end),
                    lambda: fold(turn, step, _AT_ONCE if shape.resident else shape.step),
                    lambda: fold(turn, size, 1),
                )
                ends(after)
                with k.branch(goes_on):
                    keep(k.declare(machine("-", imp.ONE, turn)))
                k.emit(imp.Barrier())

        def whole(lower: imp.Expr, upper: imp.Expr) -> None:
            """Slices of full parts which are whole, as the next ones are: nothing is asked."""
            first = k.unit.integer("s")
            with k.loop(first, lower, upper, step=shape.step):
                after = k.declare(machine("+", first, step))
                for side in sides:
                    side.fetch_whole(after)
                turn = turn_of(first)
                fold(turn, step, shape.step)
                keep(k.declare(machine("-", imp.ONE, turn)))
                k.emit(imp.Barrier())

        with k.branch(machine("<", begin, end)):
            fetch(begin)
            keep(imp.ZERO)
        k.emit(imp.Barrier())
        if shape.resident == 0:
            # One loop: barriers in nests compile slowly.
            def at_end(after: imp.Expr) -> None:
                is_last = machine(">=", after, end)
                is_whole = machine("==", machine("%", after, imp.integer(BLOCK)), imp.ZERO)
                with k.branch(machine("||", is_whole, is_last)):
                    block_ends()

            each(begin, end, at_end)
            return
        full = k.declare(machine("&&", sides[0].is_full, sides[1].is_full))
        block = k.unit.integer("g")
        with k.loop(block, begin, end, step=BLOCK):
            upper = k.declare(machine("+", block, imp.integer(BLOCK)))
            upper = k.declare(machine("min", end, upper))
            count = k.declare(machine("/", machine("-", upper, block), step))
            count = k.declare(machine("max", imp.ZERO, machine("-", count, imp.ONE)))
            ahead = k.declare(machine("*", count, step))
            some = k.declare(imp.Select(full, ahead, imp.ZERO))
            middle = k.declare(machine("+", block, some))
            whole(block, middle)
            each(middle, upper, lambda _: None)
            block_ends()
