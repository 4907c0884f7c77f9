"""Contractions in tiles of registers and caches, from packed panels.

A tile of the space (rows, columns) is one thread's. For each block of the reduced dimension, what
the rows give (the left side) and what the columns give (the right side) is computed once and laid
out in panels, in the order in which it is used: for each reduced index, the values of as many rows
or columns as a tile of registers has. Then, for each pair of panels, a tile of registers is filled:
rows are unrolled and jammed, columns are vector lanes, and no sum goes to memory until the block
ends. Sums of blocks are combined in the thread's own memory; the rest of the kernel's body follows
when all blocks are done.

    for k below block {
      let x0 = left[k, 0]; let x1 = left[k, 1]; ..
      for simd l below lanes { sum0[l] = fma(x0, right[k, l], sum0[l]) }
      for simd l below lanes { sum1[l] = fma(x1, right[k, l], sum1[l]) }
      ..
    }

Where an element is a sum of products (rank-2k updates), all sums of a tile take the first, then all
the second. Products of one value of each side, each its own, are rounds of the same loop: their
values alternate in the panels. (Written out, they are more than compilers hold in registers.)

The loops around a tile of registers are those of R. van de Geijn and K. Goto, "Anatomy of
High-Performance Matrix Multiplication", ACM Transactions on Mathematical Software 34 (2008). An
element is folded from left to right in blocks of `contractions.BLOCK`, wherever it lies in its
tile, so that its bits depend on the reduced extent alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence, Set
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from itertools import product as product_of

from weft.fun import nodes as fun
from weft.fun.contractions import BLOCK, Contraction, Side, contraction, instead, is_tiled
from weft.imp import nodes as imp
from weft.imp.nodes import machine
from weft.lmad import Lmad
from weft.lower import bodies, bounds, rows, spaces
from weft.lower.accumulation import Accumulation
from weft.lower.emitter import Emitter
from weft.lower.halves import Part, wanted
from weft.lower.panels import Packing, Panels
from weft.lower.registers import registers
from weft.lower.rows import simd
from weft.lower.unit import memory
from weft.mem.nodes import MemArray
from weft.sizes import ONE, ZERO, Poly, Size, as_poly, product

ROWS = 1536  # bytes of a column of a tile that one thread computes, at most,
COLUMNS = 4096  # and of a row
PARTS = 2  # tiles of a triangle for each thread, or a multiple: a high one, and a low one


def suits(e: Emitter, kernel: fun.Kernel) -> bool:
    """Whether a kernel of the program's own statements is lowered here."""
    if e.in_tile or e.serial or e.of_reduction:
        return False
    found = contraction(kernel)
    return found is not None and is_tiled(found)


# ---------------------------------------------------------------- tiles


class _Tiles:
    """The lowering of one contraction."""

    def __init__(self, e: Emitter, let: fun.Let, found: Contraction) -> None:
        assert isinstance(let.expr, fun.Kernel)
        self.e, self.let, self.kernel, self.found = e, let, let.expr, found
        self.reduce = found.reduce
        self.dtype = self.reduce.neutral[0].type.dtype
        self.fact = found.fact
        one = Accumulation(e, found)
        self.terms = [(term, one.operands(term)) for term in one.terms()]
        columns = {value.name for value in found.right.values}
        loads = max(len(columns if used is None else columns & used) for _, used in self.terms)
        rows_, lanes = registers().tile(self.dtype.itemsize, loads)
        rounds = [_rounds(side, self.terms) for side in (found.left, found.right)]
        if not all(rounds):
            rounds = [(), ()]
        self.left, self.right = (
            Panels.of(e, side, range_, width, bytes_ // self.dtype.itemsize, names)
            for side, range_, width, bytes_, names in (
                (found.left, found.row, rows_, ROWS, rounds[0]),
                (found.right, found.column, lanes, COLUMNS, rounds[1]),
            )
        )
        row = -(-self.right.most * self.dtype.itemsize // 64) * 64 + 64  # rows in other cache sets
        self.stride = row // self.dtype.itemsize
        self.sums = e.unit.own_region(self.left.room(e) * row)

    def lower(self) -> None:
        e, found = self.e, self.found
        outer = self.kernel.space[:-2]
        n, m = e.named(found.row.extent), e.named(found.column.extent)
        height, width = self._shape(outer, n, m)
        down, across = spaces.ceil(e, n, height), spaces.ceil(e, m, width)
        plane = e.declare(machine("*", down, across))
        tiles = e.declare(machine("*", plane, e.named(product(r.extent for r in outer))))
        label = spaces.describe("contraction", self.kernel.space, self.let.pattern)
        with ExitStack() as scopes:
            for r in self.kernel.space:
                scopes.enter_context(e.index(r.index.name, imp.ZERO, ZERO, r.extent))
            tile = scopes.enter_context(spaces.parallel(e, tiles, label))
            one = imp.ONE
            spaces.decode(
                e, outer, e.declare(machine("/", tile, e.declare(machine("max", one, plane))))
            )
            place = e.declare(machine("%", tile, e.declare(machine("max", one, plane))))
            wide = e.declare(machine("max", one, across))
            down_, across_ = machine("/", place, wide), machine("%", place, wide)
            if self.fact is not None:
                down_ = self._folded(e.declare(down_), down)
            self._tile(
                self._cut(e.declare(down_), height, n), self._cut(e.declare(across_), width, m)
            )

    def _folded(self, number: imp.Expr, count: imp.Expr) -> imp.Expr:
        """The first, the last, the second, the last but one, ..: neighbours have equal work.

        So have the threads, which are dealt neighbours.
        """
        e = self.e
        half = e.declare(machine("/", number, imp.integer(2)))
        odd = machine("%", number, imp.integer(2))
        last = machine("-", count, machine("+", imp.ONE, machine("*", half, imp.integer(2))))
        return machine("+", half, machine("*", odd, last))

    def _shape(
        self, outer: tuple[fun.Range, ...], n: imp.Expr, m: imp.Expr
    ) -> tuple[imp.Expr, imp.Expr]:
        """Rows and columns of a tile: whole panels, and enough tiles for all threads."""
        e = self.e
        threads = e.poly(Poly.var("threads"))
        width = imp.integer(self.right.most)
        across = spaces.ceil(e, m, width)
        lines = machine("*", machine("*", n, across), e.named(product(r.extent for r in outer)))
        lines, most = e.declare(lines), imp.integer(self.left.most)
        rounds = spaces.ceil(e, lines, e.declare(machine("*", threads, most)))
        if self.fact is not None:
            parts = imp.integer(PARTS)
            pairs = spaces.ceil(e, rounds, parts)
            rounds = machine("*", e.declare(machine("max", pairs, imp.ONE)), parts)
        rounds = e.declare(machine("max", rounds, imp.ONE))
        share = spaces.ceil(e, lines, e.declare(machine("*", threads, rounds)))
        panel = imp.integer(self.left.width)
        whole = e.declare(machine("*", spaces.ceil(e, share, panel), panel))
        return e.declare(machine("max", panel, e.declare(machine("min", whole, most)))), width

    def _cut(self, part: imp.Expr, size: imp.Expr, extent: imp.Expr) -> Part:
        e = self.e
        lower = e.declare(machine("*", part, size), "lower")
        upper = e.declare(machine("min", extent, e.declare(machine("+", lower, size))), "upper")
        return Part(lower, upper, lower, e.declare(machine("-", upper, imp.ONE)))

    def _tile(self, down: Part, across: Part) -> None:
        e = self.e
        panels = tuple(
            spaces.ceil(e, e.declare(machine("-", part.upper, part.lower)), imp.integer(p.width))
            for part, p in ((down, self.left), (across, self.right))
        )
        none = machine("==", e.named(self.reduce.space[0].extent), imp.ZERO)
        with e.branch(e.declare(none)):
            self._clear(*panels)
        if self.fact is None:
            self._sum(down, across)
        else:
            self._sum_where(self.fact, down, across)
        self._finish(down, across)

    def _clear(self, down: imp.Expr, across: imp.Expr) -> None:
        """Sums of nothing, for so many panels."""
        e = self.e
        row, lane = e.unit.integer("r"), e.unit.integer("l")
        height = e.declare(machine("*", down, imp.integer(self.left.width)))
        width = e.declare(machine("*", across, imp.integer(self.right.width)))
        with e.loop(row, imp.ZERO, height):
            begin = e.declare(machine("*", row, imp.integer(self.stride)))
            with simd(e, lane, imp.ZERO, width, wide=True):
                pointer = e.pointer(self.sums, self.dtype)
                e.emit(imp.Store(pointer, machine("+", begin, lane), self._neutral()))

    def _neutral(self) -> imp.Expr:
        return self.e.atom(self.reduce.neutral[0])

    def _sum_where(self, fact: Size, down: Part, across: Part) -> None:
        """The sums of the tile's rows and columns that some element wants."""
        e, found = self.e, self.found
        i, j = found.row.index.name, found.column.index.name
        rows_ = wanted(e, fact, i, down, j, across)
        columns = wanted(e, fact, j, across, i, down)
        some = machine("<=", rows_.first, rows_.last)
        with e.branch(e.declare(some)), bounds.assumed(e, (fact,)):
            self._sum(rows_, columns)

    def _sum(self, down: Part, across: Part) -> None:
        """The sums of all blocks of the reduced dimension."""
        e, r = self.e, self.reduce.space[0]
        extent = e.named(r.extent)
        start = e.unit.integer("g")
        with (
            e.loop(start, imp.ZERO, extent, step=BLOCK),
            e.index(r.index.name, imp.ZERO, ZERO, r.extent),
        ):
            e.emit(imp.Poll())
            left = e.declare(machine("-", extent, start))
            size = e.declare(machine("min", imp.integer(BLOCK), left))
            filled = [
                Packing(
                    e, side, r.index.name, start, size, part.lower, part.first, part.last
                ).fill()
                for part, side in ((down, self.left), (across, self.right))
            ]
            q, p = e.unit.integer("q"), e.unit.integer("p")
            with (
                e.loop(q, *filled[1]),
                e.loop(p, *filled[0]),
                self._where(down.lower, p, across.lower, q),
            ):
                columns = e.declare(machine("-", across.upper, across.lower))
                self._pair(p, q, start, size, columns)

    @contextmanager
    def _where(self, row: imp.Expr, p: imp.Expr, column: imp.Expr, q: imp.Expr) -> Iterator[None]:
        """Inside is what a pair of panels needs of which some element is wanted."""
        e, fact = self.e, self.fact
        if fact is None:
            yield
            return
        for begin, panel, side in ((row, p, self.left), (column, q, self.right)):
            name = side.range.index.name
            first = machine("+", begin, machine("*", panel, imp.integer(side.width)))
            if fact.coefficient(name) == ONE:
                first = machine("+", first, imp.integer(side.width - 1))
            e.bind(name, e.declare(first))
        with e.branch(e.declare(machine(">=", e.named(fact), imp.ZERO))):
            yield

    # ------------------------------------------------------------ a tile of registers

    def _pair(
        self, p: imp.Expr, q: imp.Expr, start: imp.Expr, size: imp.Expr, columns: imp.Expr
    ) -> None:
        """A pair of panels: in one vector of columns where the last panel has no more."""
        e, one = self.e, registers().bytes // self.dtype.itemsize
        whole = self.right.width
        if one == whole:
            self._registers(p, q, start, size, whole)
            return
        begin = machine("*", q, imp.integer(whole))
        few = e.declare(machine("<=", machine("-", columns, begin), imp.integer(one)))
        e.either(
            few,
            lambda: self._registers(p, q, start, size, one),
            lambda: self._registers(p, q, start, size, whole),
        )

    def _registers(
        self, p: imp.Expr, q: imp.Expr, start: imp.Expr, size: imp.Expr, lanes: int
    ) -> None:
        """The sums of a pair of panels over a block, combined with those of the blocks before."""
        e, dtype, found = self.e, self.dtype, self.found
        height, width = self.left.width, imp.integer(lanes)
        neutral = self._neutral()
        sums = [e.local(dtype, lanes, "sum") for _ in range(height)]
        for pointer in sums:
            var = e.unit.integer("l")
            with simd(e, var, imp.ZERO, width, wide=True):
                e.emit(imp.Store(pointer, var, neutral))
        k, depth = e.unit.integer("k"), self.left.depth
        terms = self.terms[:1] if depth > 1 else self.terms
        with e.loop(k, imp.ZERO, e.declare(machine("*", size, imp.integer(depth)))):
            left, right = self.left.at(e, p, k), self.right.at(e, q, k)
            for (term, used), (row, pointer) in product_of(terms, enumerate(sums)):
                self.left.bind(e, machine("+", left, imp.integer(row)), used)
                var = e.unit.integer("l")
                with simd(e, var, imp.ZERO, width, wide=True):
                    self.right.bind(e, e.declare(machine("+", right, var)), used)
                    now = e.declare(imp.Load(pointer, var), depth=e.depth)
                    e.emit(imp.Store(pointer, var, Accumulation(e, found).of(now, term)))
        total = e.pointer(self.sums, dtype)
        first_block = e.declare(machine("==", start, imp.ZERO))
        first = e.declare(machine("*", p, imp.integer(height * self.stride)))
        first = e.declare(machine("+", first, machine("*", q, imp.integer(self.right.width))))
        for row, pointer in enumerate(sums):
            at = e.declare(machine("+", first, imp.integer(row * self.stride)))
            var = e.unit.integer("l")
            with simd(e, var, imp.ZERO, width, wide=True):
                place = e.declare(machine("+", at, var))
                held = imp.Select(first_block, neutral, imp.Load(total, place))
                both = [e.declare(held, depth=e.depth), imp.Load(pointer, var)]
                e.emit(imp.Store(total, place, *bodies.apply_lambda(e, self.reduce.operator, both)))

    # ------------------------------------------------------------ what follows

    def _finish(self, down: Part, across: Part) -> None:
        """The rest of the kernel's body for every element of the tile."""
        e, found = self.e, self.found
        e.bind("lower." + self.sums, down.lower)
        e.bind("left." + self.sums, across.lower)
        body = instead(self.kernel.body, found.let, (self._read(),))
        indices = tuple(Poly.var(r.index.name) for r in self.kernel.space)

        def store(values: list[imp.Expr]) -> None:
            for var, value in zip(self.let.pattern, values, strict=True):
                e.store(memory(var), indices, value)

        row = e.unit.integer("row")
        with e.loop(row, down.lower, down.upper, hoist=True):
            e.bind(found.row.index.name, row)
            rows.lower_row(e, found.column.index.name, across.lower, across.upper, body, store)

    def _read(self) -> fun.Let:
        """The sum of an element read from the thread's own memory, instead of the reduction."""
        found, stride = self.found, as_poly(self.stride)
        extents = (found.row.extent, found.column.extent)
        offset = -(Poly.var("lower." + self.sums) * stride + Poly.var("left." + self.sums))
        index = Lmad(offset, ((extents[0], stride), (extents[1], ONE)))
        array = fun.Var(self.sums, MemArray(self.dtype, extents, self.sums, index))
        at = (Poly.var(found.row.index.name), Poly.var(found.column.index.name))
        return replace(found.let, expr=fun.Index(array, at))


def _rounds(side: Side, terms: Sequence[tuple[fun.Atom, Set[str] | None]]) -> tuple[str, ...]:
    """The side's one value in each of several terms, where no two have the same; else none."""
    values = {value.name: value.type for value in side.values}
    own = [values.keys() & (used or ()) for _, used in terms]
    names = tuple(name for found in own for name in found)
    if any(len(found) != 1 for found in own) or any(len(used or ()) != 2 for _, used in terms):
        return ()
    apart = len(set(names)) == len(names) == len(values) > 1
    return names if apart and len(set(values.values())) == 1 else ()


def lower_contraction(e: Emitter, let: fun.Let) -> None:
    """A kernel that `suits`."""
    assert isinstance(let.expr, fun.Kernel)
    found = contraction(let.expr)
    assert found is not None
    _Tiles(e, let, found).lower()
    for var in let.pattern:
        e.depths["@" + var.name] = e.depth
