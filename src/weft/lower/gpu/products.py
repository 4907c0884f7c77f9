"""Contractions on a device: tiles of both sides in a group's memory, and of sums in registers.

A group of items computes a tile of rows and columns. For each 8 or 16 reduced indices, what
the rows give (the left side) and what the columns give (the right side) is computed once, into
memory that the group shares (`weft.lower.gpu.slices`); then each item, for each of these indices,
combines its rows with its columns into sums of its own.

    for start below extent step 16 {
      left[k, r] = a[row + r, start + k]; right[k, c] = b[start + k, column + c]; barrier
      for k, r < 8, c < 8 { sum[r, c] = fma(left[k, ..], right[k, ..], sum[r, c]) }
    }

An element is folded from left to right in blocks of `contractions.BLOCK`, which are combined in
order, as on the CPU (`weft.lower.register_tiles`), so that its bits depend on the reduced extent
alone, and not on which of these forms a launch chooses:

- large tiles, 128 x 128 by 256 items or 64 x 128 by 128, mostly of 8 x 8 for each
  (`product_shapes.LARGE`), where there are as many as keep a device busy;
- tiles of 64 x 64, 4 x 4 for each of 256 items, where there are as many of them;
- tiles of 16 x 16 where there are fewer; where even of them there are few, and blocks are several,
  each block by a group of its own, whose folds go to the workspace;
- one item for each element, in what the launch does not know the size of, or where a read may fail.

Of these items two groups have their registers at once on a GPU's multiprocessor, so that one
computes while the other waits; sums of blocks, which are used once in 256 reduced indices, lie in
memory. Slices that are whole in full tiles, as most are, have a loop that asks nothing. The tiles
are those of V. Volkov and J. Demmel, "Benchmarking GPUs to Tune Dense Linear Algebra", SC 2008,
section 5.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import ExitStack
from dataclasses import replace
from functools import partial

from weft.fun import nodes as fun
from weft.fun.contractions import BLOCK, Contraction, contraction
from weft.imp import nodes as imp
from weft.imp.nodes import machine
from weft.imp.walk import may_leave
from weft.lower import bounds, register_tiles, spaces
from weft.lower.accumulation import Accumulation
from weft.lower.emitter import Emitter
from weft.lower.gpu import versions
from weft.lower.gpu.elements import combined, finish, loaded, lower_element
from weft.lower.gpu.host import Host
from weft.lower.gpu.lane_tiles import by_lane_tiles
from weft.lower.gpu.product_shapes import Shape, shapes
from weft.lower.gpu.slices import Share, Slices, times, vectors_of
from weft.lower.gpu.vectors import BYTES, aligned
from weft.lower.halves import Part, wanted
from weft.lower.panels import in_sequence
from weft.lower.unit import memory
from weft.ops.dtypes import DType
from weft.records import dataclass
from weft.sizes import ONE, ZERO, Size, product

_BUSY = 1 << 15  # items that keep a device busy
_AT_ONCE = 2  # reduced indices of slices at ends, or half of a large tile's code would be theirs
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
        rest = ONE - _in_tiles(host, let, kernel, found, gpu) if small and known else ONE
        if rest != ZERO:
            by_elements(rest)

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
) -> Size:
    """Launch tiles; not where an item could fail, which the others would wait for.

    Parameters
    ----------
    gpu : Size
        1 where the device may be one, else 0; then nothing takes memory.

    Returns
    -------
    Size
        1 where tiles are launched, as the launch finds it by sizes, else 0.
    """
    whole = _aligned(host, kernel, found) if host.dialect == "cuda" else ZERO
    *coarse, fine = (
        _Tiles(host, let, kernel, found, shape, by_vectors)
        for shape in shapes(found)
        for by_vectors in ((whole, ZERO) if shape.resident and whole != ZERO else (ZERO,))
    )
    forms: list[tuple[_Tiles, tuple[Emitter, imp.Var], Size, str]] = []
    with host.unit.foreseeing() as facts:
        lowered = [(tiles, tiles.suit(), tiles.lower()) for tiles in coarse]
        if any(may_leave(k.levels[0]) for _, _, (k, _) in lowered):
            return ZERO
        inside = rest = _hold(host, facts)  # 1 where no form so far is launched
        for tiles, suits, code in lowered:
            how = f"tiles of {tiles.shape}" + (", by vectors" if tiles.by_vectors else "")
            forms.append((tiles, code, rest * suits * tiles.tiles, how))
            rest -= rest * suits
        reduced = found.reduce.space[0].extent
        blocks = versions.ceil(host, reduced, BLOCK)
        several = 1 - versions.below(host, reduced, 2 * BLOCK + 1)
        few = rest * versions.below(host, fine.tiles * fine.shape.group, _BUSY) * several
        parts = versions.maximum(host, few * blocks, ONE)
        bytes_ = fine.shape.group * fine.dtype.itemsize
        folds = host.unit.region(gpu * few * fine.tiles * blocks * bytes_)
        how = f"tiles of {fine.shape}, of {BLOCK} reduced where they are few"
        of_parts = fine.lower(_Parts(folds, few, parts))
        forms.append((fine, of_parts, rest * fine.tiles * parts, how))
        forms.append((fine, fine.combine(folds, blocks), few * fine.tiles, ""))
    for tiles, (k, item), groups, how in forms:
        if groups != ZERO:
            if how:
                label = spaces.describe("product", kernel.space, let.pattern)
                host.unit.kernels.append(f"{label}, in {how}")
            group = tiles.shape.group
            host.add(k, "product", item, groups * group, group, tiles.shape.resident)
    return inside


def _hold(host: Host, facts: Iterable[Size]) -> Size:
    """1 where the launch finds that all of some sizes are >= 0, else 0."""
    every = product(1 - versions.is_negative(host, fact) for fact in facts)
    return versions.minimum(host, every, ONE)  # under one name: others multiply it


def _aligned(host: Host, kernel: fun.Kernel, found: Contraction) -> Size:
    """1 where both sides lie so that items may fetch vectors, as the launch finds it, else 0."""
    (reduced,), result = found.reduce.space, ONE
    for side, range_ in ((found.left, found.row), (found.right, found.column)):
        read = vectors_of(side, range_, reduced)
        if read is None:
            return ZERO
        array = memory(read.array)
        space = (*kernel.space, reduced)
        along = range_ if in_sequence(side, range_) else reduced
        outer = [r for r in space if r is not along]
        lanes = BYTES // array.dtype.itemsize
        address = array.index.apply(read.indices)
        result *= aligned(host, lanes, [array], [address], space, outer)
    return result


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
    row: imp.Expr  # of the item, among those of the group
    column: imp.Expr
    down: Part
    across: Part


class _Tiles:
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

    def lower(self, parts: _Parts | None = None) -> tuple[Emitter, imp.Var]:
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
