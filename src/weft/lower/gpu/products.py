"""Contractions on a device: tiles of both sides in a group's memory, and of sums in registers.

A group of 16 x 16 items computes a tile of rows and columns. For each 16 reduced indices, what
the rows give (the left side) and what the columns give (the right side) is computed once, by items
that are neighbours where the elements read are, into memory that the group shares; then each
item, for each of these indices, combines its rows with its columns into sums of its own.

    for start below extent step 16 {
      left[k, r] = a[row + r, start + k]; right[k, c] = b[start + k, column + c]; barrier
      for k, r < 4, c < 4 { sum[r, c] = fma(left[k, ..], right[k, ..], sum[r, c]) }; barrier
    }

An element is folded from left to right in blocks of `contractions.BLOCK`, which are combined in
order, as on the CPU (`weft.lower.register_tiles`), so that its bits depend on the reduced extent
alone, and not on which of these forms a launch chooses:

- tiles of 64 x 64, 4 x 4 for each item, where there are as many as keep a device busy;
- tiles of 16 x 16 where there are fewer; where even of them there are few, and blocks are several,
  each block by a group of its own, whose folds go to the workspace;
- one item for each element, in what the launch does not know the size of, or where a read may fail.

The tiles are those of V. Volkov and J. Demmel, "Benchmarking GPUs to Tune Dense Linear Algebra",
SC 2008, section 5.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import replace
from functools import partial

from weft.fun import nodes as fun
from weft.fun.contractions import BLOCK, Contraction, Side, contraction
from weft.imp import nodes as imp
from weft.imp.nodes import machine
from weft.imp.walk import may_leave
from weft.lower import bounds, kernels, register_tiles
from weft.lower.accumulation import Accumulation
from weft.lower.bodies import lower_body
from weft.lower.emitter import Emitter
from weft.lower.gpu import versions
from weft.lower.gpu.elements import combined, copy, finish, loaded, lower_element
from weft.lower.gpu.host import Host
from weft.lower.gpu.lane_tiles import by_lane_tiles
from weft.lower.halves import Part, wanted
from weft.lower.panels import in_sequence
from weft.ops.dtypes import DType
from weft.records import dataclass
from weft.sizes import ONE, ZERO, Size, product

_SIDE = 16  # items of a group along rows, and along columns
_GROUP = _SIDE * _SIDE
_STEP = 16  # reduced indices whose values are in the group's memory at once
_REGISTERS = 4  # rows and columns of an item in a large tile
_BUSY = 64  # tiles that keep a device busy
_SHARED_BYTES = 40  # of all values of a row and a column, at most: 48 KiB are shared on any GPU


def suits(host: Host, kernel: fun.Kernel) -> bool:
    """Whether a kernel of the program's own statements is lowered here."""
    return register_tiles.suits(host.e, kernel)


def lower(host: Host, let: fun.Let) -> None:
    """A kernel that `suits`, in every form that a launch may choose."""
    kernel = let.expr
    assert isinstance(kernel, fun.Kernel)
    found = contraction(kernel)
    assert found is not None
    extents = [r.extent for r in kernel.space]
    host.know(*extents, found.reduce.space[0].extent)
    values = (*found.left.values, *found.right.values)
    small = sum(value.type.dtype.itemsize for value in values) <= _SHARED_BYTES
    known = all(host.is_sized(size) for size in (*extents, found.reduce.space[0].extent))

    def by_elements(whether: Size = ONE) -> None:
        each = partial(lower_element, let=let, kernel=kernel, found=found)
        host.launch(let, "product", kernel.space, each, whether)

    def in_groups(gpu: Size = ONE) -> None:
        if not (small and known and _in_tiles(host, let, kernel, found, gpu)):
            by_elements()

    if host.dialect == "opencl" and known:
        with host.inside() as on_processor:
            few = by_lane_tiles(host, let, kernel, found)
            if few is not None:
                by_elements(few)
        if few is not None:
            with host.inside() as otherwise:
                in_groups(1 - host.is_processor)
            host.by_device(on_processor, otherwise)
            return
    in_groups()


def _in_tiles(
    host: Host, let: fun.Let, kernel: fun.Kernel, found: Contraction, gpu: Size
) -> bool:
    """Launch tiles; not where an item could fail, which the others would wait for.

    `gpu`: 1 where the device may be one, else 0; then nothing takes memory.
    """
    large, fine = (_Tiles(host, let, kernel, found, side) for side in (_REGISTERS, 1))
    reduced = found.reduce.space[0].extent
    blocks = versions.ceil(host, reduced, BLOCK)
    several = 1 - versions.below(host, reduced, 2 * BLOCK + 1)
    few = versions.below(host, fine.tiles, _BUSY) * several
    many = 1 - versions.below(host, large.tiles, _BUSY)
    parts = versions.maximum(host, few * blocks, ONE)
    folds = host.unit.region(gpu * few * fine.tiles * blocks * (_GROUP * large.dtype.itemsize))
    forms = [
        (large.lower(), many * large.tiles, f"tiles of {large.width} x {large.width}"),
        (fine.lower(_Parts(folds, few, parts)), (1 - many) * fine.tiles * parts,
         f"tiles of {fine.width} x {fine.width}, of {BLOCK} reduced where they are few"),
        (fine.combine(folds, blocks), few * fine.tiles, ""),
    ]  # fmt: skip
    if any(may_leave(k.levels[0]) for (k, _), _, _ in forms):
        return False
    for (k, item), groups, how in forms:
        if groups != ZERO:
            if how:
                label = kernels.describe("product", kernel.space, let.pattern)
                host.unit.kernels.append(f"{label}, in {how}")
            host.add(k, "product", item, groups * _GROUP, _GROUP)
    return True


# ---------------------------------------------------------------- tiles


@dataclass(frozen=True, slots=True)
class _Parts:
    """Tiles cut into blocks of the reduced dimension, where `apart` is 1: so many, else 1."""

    folds: str  # the region of the workspace
    apart: Size
    count: Size


@dataclass(frozen=True, slots=True)
class _Place:
    """Where a group's tile lies, and an item in it."""

    lane: imp.Expr
    row: imp.Expr  # of the item, below 16
    column: imp.Expr
    down: Part
    across: Part


class _Tiles:
    """The kernels of a contraction in tiles, of so many rows and columns for each item."""

    def __init__(
        self, host: Host, let: fun.Let, kernel: fun.Kernel, found: Contraction, registers: int
    ) -> None:
        self.host, self.let, self.kernel, self.found = host, let, kernel, found
        self.registers, self.width = registers, _SIDE * registers
        self.reduce = found.reduce
        self.dtype = found.reduce.neutral[0].type.dtype
        self.across = versions.ceil(host, found.column.extent, self.width)
        self.plane = versions.ceil(host, found.row.extent, self.width) * self.across
        self.tiles: Size = self.plane * product(r.extent for r in kernel.space[:-2])

    def lower(self, parts: _Parts | None = None) -> tuple[Emitter, imp.Var]:
        """Each group a tile, or one of its parts: a block, whose folds go to the workspace."""
        k, item = self.host.kernel_emitter(), self.host.unit.integer("item")
        number = k.declare(machine("/", item, imp.integer(_GROUP)), "group")
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
            sums, folds = self._sums(k), self._sums(k)

            def block_ends() -> None:
                with k.level() as combined:
                    self._each(k, lambda at, *_: self._combine(k, sums, folds, at))
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
                self._each(k, lambda at, r, c: self._store(k, place, r, c, loaded(k, sums, at)))
        return k, item

    def _combine(
        self, k: Emitter, sums: imp.Pointer, folds: imp.Pointer, at: imp.Expr
    ) -> None:
        """A block's fold joins a sum, and begins anew."""
        total, fold = loaded(k, sums, at), loaded(k, folds, at)
        k.emit(imp.Store(sums, at, combined(k, self.found, total, fold)))
        k.emit(imp.Store(folds, at, k.atom(self.reduce.neutral[0])))

    def combine(self, region: str, blocks: Size) -> tuple[Emitter, imp.Var]:
        """Each item the folds of its element, in order."""
        k, item = self.host.kernel_emitter(), self.host.unit.integer("item")
        group, own = imp.integer(_GROUP), k.named(blocks)
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
                value = combined(k, self.found, copy(k, total), fold)
                k.emit(imp.Assign(total, value))
            self._store(k, place, imp.ZERO, imp.ZERO, copy(k, total))
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
        kernels.decode(k, space[:-2], k.declare(machine("/", tile, plane)))
        place = k.declare(machine("%", tile, plane)) if len(space) > 2 else tile
        wide = k.named(self.across)
        down = self._part(k, machine("/", place, wide), found.row.extent)
        across = self._part(k, machine("%", place, wide), found.column.extent)
        lane = k.declare(machine("%", item, imp.integer(_GROUP)), "lane")
        row = k.declare(machine("/", lane, imp.integer(_SIDE)), "row")
        return _Place(lane, row, k.declare(machine("%", lane, imp.integer(_SIDE)), "column"),
                      down, across)  # fmt: skip

    def _part(self, k: Emitter, number: imp.Expr, extent: Size) -> Part:
        width, end = imp.integer(self.width), k.named(extent)
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

    def _sums(self, k: Emitter) -> imp.Pointer:
        """An item's own sums, of no elements yet."""
        sums = k.local(self.dtype, self.registers**2, "sum")
        neutral = k.atom(self.reduce.neutral[0])
        self._each(k, lambda at, *_: k.emit(imp.Store(sums, at, neutral)))
        return sums

    def _each(
        self, k: Emitter, inside: Callable[[imp.Expr, imp.Expr, imp.Expr], None]
    ) -> None:
        """`inside(number, row, column)` of every sum of an item."""
        if self.registers == 1:
            inside(imp.ZERO, imp.ZERO, imp.ZERO)
            return
        count = imp.integer(self.registers)
        r, c = k.unit.integer("r"), k.unit.integer("c")
        with (
            k.loop(r, imp.ZERO, count, unroll=self.registers),
            k.loop(c, imp.ZERO, count, unroll=self.registers),
        ):
            inside(k.declare(machine("+", machine("*", r, count), c)), r, c)

    def _store(
        self, k: Emitter, place: _Place, r: imp.Expr, c: imp.Expr, total: imp.Expr
    ) -> None:
        """The rest of the body at an element of the item, if the tile has it."""
        at = []
        for part, number, own in ((place.down, r, place.row), (place.across, c, place.column)):
            step = machine("+", own, machine("*", number, imp.integer(_SIDE)))
            at.append(k.declare(machine("+", part.lower, step)))
        row, column = at
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
        first, step = k.unit.integer("s"), imp.integer(_STEP)
        pitch = imp.integer(self.width + 1)  # elements of a column lie in different banks
        with k.loop(first, begin, end, step=_STEP):  # one loop: barriers in nests compile slowly
            left = self._load(k, self.found.left, self.found.row, place.down, place, first)
            right = self._load(k, self.found.right, self.found.column, place.across, place, first)
            k.emit(imp.Barrier())
            count = k.declare(machine("-", end, first))
            count = k.declare(machine("min", count, step))
            var = k.unit.integer("k")
            with k.loop(var, imp.ZERO, count, unroll=4):
                line = k.declare(machine("*", var, pitch))

                def combine(at: imp.Expr, r: imp.Expr, c: imp.Expr) -> None:
                    self._bind(k, self.found.left, left, line, place.row, r)
                    self._bind(k, self.found.right, right, line, place.column, c)
                    now = loaded(k, folds, at)
                    k.emit(imp.Store(folds, at, Accumulation(k, self.found).of(now)))

                self._each(k, combine)
            after = k.declare(machine("+", first, step))
            is_whole = machine("==", machine("%", after, imp.integer(BLOCK)), imp.ZERO)
            with k.branch(machine("||", is_whole, machine(">=", after, end))):
                block_ends()
            k.emit(imp.Barrier())

    def _bind(
        self, k: Emitter, side: Side, arrays: Sequence[imp.Pointer], line: imp.Expr,
        own: imp.Expr, number: imp.Expr,
    ) -> None:  # fmt: skip
        """The side's values are those of an item's row, or column, of a number."""
        at = k.declare(machine("+", line, own))
        at = k.declare(machine("+", at, machine("*", number, imp.integer(_SIDE))))
        for value, array in zip(side.values, arrays, strict=True):
            k.bind(value.name, loaded(k, array, at))

    def _load(
        self, k: Emitter, side: Side, range_: fun.Range, part: Part, place: _Place, first: imp.Expr
    ) -> list[imp.Pointer]:
        """What the side gives for a tile's rows, or columns, and the reduced indices from `first`
        on: those beyond the last repeat it."""
        arrays = [k.shared(v.type.dtype, _STEP * (self.width + 1)) for v in side.values]
        r = self.reduce.space[0]
        base, most = k.unit.integer("l"), imp.integer(_STEP * self.width)
        with k.loop(base, imp.ZERO, most, step=_GROUP, unroll=self.registers):
            number = k.declare(machine("+", base, place.lane))
            along = self.width if in_sequence(side, range_) else _STEP
            fast = k.declare(machine("%", number, imp.integer(along)))
            slow = k.declare(machine("/", number, imp.integer(along)))
            row, at = (fast, slow) if in_sequence(side, range_) else (slow, fast)
            reduced = k.declare(machine("+", first, at))
            last = k.declare(machine("-", k.named(r.extent), imp.ONE))
            k.bind(r.index.name, k.declare(machine("min", reduced, last)))
            index = k.declare(machine("+", part.lower, row))
            index = k.declare(machine("max", index, part.first))
            k.bind(range_.index.name, k.declare(machine("min", index, part.last)))
            lower_body(k, fun.Body(side.statements, ()))
            spot = machine("+", machine("*", at, imp.integer(self.width + 1)), row)
            for value, array in zip(side.values, arrays, strict=True):
                k.emit(imp.Store(array, spot, k.scalars[value.name]))
        return arrays
