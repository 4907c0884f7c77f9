"""Contractions on a device that is a processor: an item computes rows by lanes, in registers.

What the columns of a tile (the right side) give for a block of reduced indices is computed once,
into an array of the item's own. Then a few rows at a time are folded over the block: their sums
are as many vectors as registers hold beside what they are combined with, so that no sum goes to
memory until the block ends (as in `weft.lower.register_tiles`). What the rows give is computed
where it is used, for all lanes at once.

    for start below extent step 256 {
      for k, lane { right[k, lane] = b[start + k, base + lane] }
      for row below rows step 6, k {
        for r < 6 { let x = a[row + r, start + k]
          for lane { fold[r, lane] = fma(x, right[k, lane], fold[r, lane]) } } }
      sums += fold }

The last columns are an item's whole lanes too, some of which another item has as well: those are
computed and not stored. The tree is that of `weft.lower.gpu.elements`.
"""

from __future__ import annotations

from contextlib import ExitStack

from weft.fun import nodes as fun
from weft.fun.contractions import BLOCK, Contraction
from weft.imp import nodes as imp
from weft.imp.nodes import machine
from weft.imp.walk import holds
from weft.lower import spaces
from weft.lower.accumulation import Accumulation
from weft.lower.bodies import lower_body
from weft.lower.emitter import Emitter
from weft.lower.gpu import versions
from weft.lower.gpu.elements import combined, finish, loaded
from weft.lower.gpu.host import Host
from weft.lower.panels import in_sequence
from weft.lower.registers import registers
from weft.lower.rows import simd
from weft.sizes import ONE, ZERO, Size, product

ROWS = 6  # whose sums are in registers
_MOST = 32 * ROWS  # rows of an item
_VECTOR = 32  # bytes of the vectors that LLVM makes for processors that have longer ones, too


def by_lane_tiles(
    host: Host, let: fun.Let, kernel: fun.Kernel, found: Contraction
) -> Size | None:
    """Launch a contraction in tiles of rows by lanes.

    Returns
    -------
    Size or None
        1 where it is left, since there are fewer columns than lanes; 0 where it is not; None
        where it never suits, and nothing is launched.
    """
    if found.fact is not None:
        return None
    lanes = width(found.reduce.neutral[0].type.dtype.itemsize)
    alone = versions.below(host, found.column.extent, lanes)
    if alone == ONE:
        return None
    n, m = found.row.extent, found.column.extent
    down = versions.ceil(host, n, _MOST)
    rows = versions.ceil(host, n, versions.maximum(host, down, ONE))
    height = versions.ceil(host, rows, ROWS) * ROWS
    across = versions.ceil(host, m, lanes)
    outer = kernel.space[:-2]
    k, item = host.kernel_emitter(), host.unit.integer("item")
    with ExitStack() as scopes:
        for r in (*kernel.space, *found.reduce.space):
            scopes.enter_context(k.index(r.index.name, imp.ZERO, ZERO, r.extent))
        # Items in turn have the same columns, which stay in a cache.
        if outer:
            spaces.decode(k, outer, k.declare(machine("/", item, k.named(down * across))))
        place = machine("%", item, k.named(down * across)) if outer else item
        tall = k.named(down)
        lower = k.declare(machine("*", machine("%", place, tall), k.named(height)), "lower")
        upper = k.declare(machine("min", k.named(n), machine("+", lower, k.named(height))), "upper")
        begin = k.declare(machine("*", machine("/", place, tall), imp.integer(lanes)), "begin")
        base = k.declare(machine("min", begin, machine("-", k.named(m), imp.integer(lanes))))
        _Tile(k, found, lanes, (lower, upper), base).run(let, kernel, begin)
    if holds(k.levels[0], imp.Fail | imp.Poll):
        return None
    host.unit.kernels.append(
        spaces.describe("product", kernel.space, let.pattern) + f", in tiles of {lanes} lanes"
    )
    items = product(r.extent for r in outer) * down * across
    host.add(k, "lanes", item, items * (1 - alone), 1)
    return alone


def width(itemsize: int) -> int:
    """The lanes of a row of sums: vectors beside which there is one for a row's own value."""
    own = registers()
    vectors = (own.count - 1) // (ROWS + 1)
    return vectors * min(own.bytes, _VECTOR) // itemsize


class _Tile:
    """What one item does: `lanes` columns from `base` on of the rows from `lower` to `upper`."""

    def __init__(
        self, k: Emitter, found: Contraction, lanes: int, rows: tuple[imp.Expr, imp.Expr],
        base: imp.Expr,
    ) -> None:  # fmt: skip
        self.k, self.found, self.lanes, self.base = k, found, lanes, base
        self.lower, self.upper = rows
        self.row, self.column = found.row.index.name, found.column.index.name
        (self.reduced,) = found.reduce.space
        self.dtype = found.reduce.neutral[0].type.dtype

    def run(self, let: fun.Let, kernel: fun.Kernel, begin: imp.Expr) -> None:
        """The kernel at these rows, and at the columns from `begin` on."""
        k, lanes = self.k, imp.integer(self.lanes)
        self.right = [k.local(v.type.dtype, BLOCK * self.lanes) for v in self.found.right.values]
        self.sums = k.local(self.dtype, _MOST * self.lanes, "sum")
        rows = k.declare(machine("-", self.upper, self.lower))
        steps = spaces.ceil(k, rows, imp.integer(ROWS))  # `_MOST` rows are whole steps
        self._clear(self.sums, machine("*", steps, imp.integer(ROWS)))
        extent, start = k.named(self.reduced.extent), k.unit.integer("g")
        with k.loop(start, imp.ZERO, extent, step=BLOCK):
            size = k.declare(machine("-", extent, start))
            size = k.declare(machine("min", size, imp.integer(BLOCK)))
            self._fill(start, size)
            first = k.unit.integer("row")
            with k.loop(first, self.lower, self.upper, step=ROWS):
                self._fold(first, start, size)
        row, lane = k.unit.integer("row"), k.unit.integer("lane")
        skipped = k.declare(machine("-", begin, self.base))
        with k.loop(row, self.lower, self.upper):
            k.bind(self.row, row)
            at = k.declare(machine("*", machine("-", row, self.lower), lanes))
            with simd(k, lane, skipped, lanes, wide=True):
                k.bind(self.column, k.declare(machine("+", self.base, lane)))
                total = loaded(k, self.sums, k.declare(machine("+", at, lane)))
                finish(k, let, kernel, self.found, total)

    def _clear(self, sums: imp.Pointer, rows: imp.Expr) -> None:
        """Rows of sums of no elements yet."""
        k, at = self.k, self.k.unit.integer("l")
        neutral = k.atom(self.found.reduce.neutral[0])
        count = k.declare(machine("*", k.declare(rows), imp.integer(self.lanes)))
        with simd(k, at, imp.ZERO, count, wide=True):
            k.emit(imp.Store(sums, at, neutral))

    def _fill(self, start: imp.Expr, size: imp.Expr) -> None:
        """What the columns give for the reduced indices from `start` on."""
        k, side, lanes = self.k, self.found.right, imp.integer(self.lanes)
        var, lane = k.unit.integer("k"), k.unit.integer("lane")

        def element() -> None:
            k.bind(self.reduced.index.name, k.declare(machine("+", start, var)))
            k.bind(self.column, k.declare(machine("+", self.base, lane)))
            lower_body(k, fun.Body(side.statements, ()))
            at = k.declare(machine("+", machine("*", var, lanes), lane))
            for value, array in zip(side.values, self.right, strict=True):
                k.emit(imp.Store(array, at, k.scalars[value.name]))

        if in_sequence(side, self.found.column):
            with k.loop(var, imp.ZERO, size), simd(k, lane, imp.ZERO, lanes, wide=True):
                element()
        else:
            with k.loop(lane, imp.ZERO, lanes), k.loop(var, imp.ZERO, size):
                element()

    def _fold(self, first: imp.Expr, start: imp.Expr, size: imp.Expr) -> None:
        """Some rows' sums of a block, combined with those of the blocks before."""
        k, lanes = self.k, imp.integer(self.lanes)
        folds = k.local(self.dtype, ROWS * self.lanes, "fold")
        self._clear(folds, imp.integer(ROWS))
        last = k.declare(machine("-", self.upper, imp.ONE))
        rows = [k.declare(machine("min", last, machine("+", first, imp.integer(r))))
                for r in range(ROWS)]  # fmt: skip
        var = k.unit.integer("k")
        with k.loop(var, imp.ZERO, size):
            k.bind(self.reduced.index.name, k.declare(machine("+", start, var)))
            line = k.declare(machine("*", var, lanes))
            for number, row in enumerate(rows):
                k.bind(self.row, row)
                lower_body(k, fun.Body(self.found.left.statements, ()))
                lane = k.unit.integer("lane")
                with simd(k, lane, imp.ZERO, lanes, wide=True):
                    at = k.declare(machine("+", line, lane))
                    for value, array in zip(self.found.right.values, self.right, strict=True):
                        k.bind(value.name, loaded(k, array, at))
                    own = k.declare(machine("+", imp.integer(number * self.lanes), lane))
                    now = loaded(k, folds, own)
                    k.emit(imp.Store(folds, own, Accumulation(k, self.found).of(now)))
        at = k.unit.integer("l")
        begin = k.declare(machine("*", machine("-", first, self.lower), lanes))
        with simd(k, at, imp.ZERO, imp.integer(ROWS * self.lanes), wide=True):
            place = k.declare(machine("+", begin, at))
            total, fold = loaded(k, self.sums, place), loaded(k, folds, at)
            k.emit(imp.Store(self.sums, place, combined(k, self.found, total, fold)))
