"""Scans of columns that lie side by side, on a GPU: a group does 32 of them, chunk by chunk.

An item for each column waits for memory once for each row, and there are too few columns for a GPU
to have much to do meanwhile. Here each of 256 items has a chunk of 32 elements of one column,
whose loads are under way together, neighbouring columns by neighbouring items; the totals of
chunks are told in the memory of the group, each item folds those before its own, and goes through
its elements once more, in registers. Each element is read once. The tree is that of
`weft.lower.gpu.row_scans`.

    let y = scan (i < n, j < m) { x[j, i] } with add
    =>  32 columns by 8 chunks for each 32 columns i:
          for start from 0 to m step 256 { v[l] = x[start + 32 chunk + l, i] for l < 32;
            totals[chunk, i] = v[0] + .. + v[31]; barrier; s = what stands before the chunk;
            for l < 32 { s = s + v[l]; y[i, start + 32 chunk + l] = s }; barrier }
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from weft.fun import nodes as fun
from weft.imp import nodes as imp
from weft.imp.nodes import machine
from weft.lower import reductions, spaces
from weft.lower.bodies import scalar_results
from weft.lower.emitter import Emitter, frozen
from weft.lower.gpu import versions
from weft.lower.gpu.host import Host
from weft.lower.gpu.tiles import CHUNK, TILE, Values, launch_groups
from weft.lower.unit import memory
from weft.sizes import Poly, Size, product

_COLUMNS = 32  # a warp's: a line of memory or more
_CHUNKS = 8  # of each column
_ROWS = _CHUNKS * CHUNK


def lower(host: Host, let: fun.Let, scan: fun.Scan, whether: Size) -> bool:
    """Launch a scan of columns if `whether` is 1; False where an item may fail."""
    count = product(r.extent for r in scan.space[:-1])
    groups = versions.ceil(host, count, _COLUMNS)

    def inside(k: Emitter, number: imp.Expr, lane: imp.Expr) -> None:
        _Chunk(k, let, scan, k.named(count)).run(number, lane)

    label, size = "scan columns by groups", _COLUMNS * _CHUNKS
    return launch_groups(host, let, scan.space, "columns", label, groups, whether, inside, size)


class _Chunk:
    """What an item does: its column's chunks of a number, in all tiles."""

    def __init__(self, k: Emitter, let: fun.Let, scan: fun.Scan, count: imp.Expr) -> None:
        self.k, self.let, self.scan, self.count = k, let, scan, count
        *self.outer, self.last = scan.space
        dtypes = [var.type.dtype for var in let.pattern]
        self.totals = [k.shared(dtype, _COLUMNS * _CHUNKS) for dtype in dtypes]
        self.near = [k.local(dtype, CHUNK, "chunk") for dtype in dtypes]

    def run(self, number: imp.Expr, lane: imp.Expr) -> None:
        """All of it."""
        k = self.k
        self.column = k.declare(machine("%", lane, imp.integer(_COLUMNS)), "column")
        self.chunk = k.declare(machine("/", lane, imp.integer(_COLUMNS)), "chunk")
        first = machine("*", number, imp.integer(_COLUMNS))
        row = k.declare(machine("+", first, self.column), "row")
        exists = k.declare(machine("<", row, self.count))
        # Who has no column reads none, and only waits for the others.
        spaces.decode(k, tuple(self.outer), k.declare(imp.Select(exists, row, imp.ZERO)))
        extent = k.named(self.last.extent)
        mine = k.declare(imp.Select(exists, extent, imp.ZERO))
        initial = [k.atom(atom) for atom in self.scan.initial]
        far, near, state = (
            [k.mutable(value.dtype, value, name) for value in initial]
            for name in ("far", "near", "state")
        )
        start = k.unit.integer("start")
        skipped = k.declare(machine("*", self.chunk, imp.integer(CHUNK)))
        with k.loop(start, imp.ZERO, extent, step=_ROWS):
            begin = k.declare(machine("+", start, skipped))
            left = k.declare(machine("-", mine, begin))
            self.begin, self.size = begin, left
            self.load()
            self.total(lane)
            k.emit(imp.Barrier())
            self.before(start, extent, far, near, state)
            k.emit(imp.Barrier())
            self.write(state)

    def load(self) -> None:
        """The item's elements, all under way together."""

        def element(at: imp.Expr) -> None:
            self.bind(at)
            _store(self.k, self.near, at, scalar_results(self.k, self.scan.body))

        self.each(element)

    def total(self, lane: imp.Expr) -> None:
        """The fold of the item's elements, told the others."""
        k = self.k
        with k.branch(machine(">", self.size, imp.ZERO)):
            state = [k.mutable(v.dtype, v, "total") for v in _load(k, self.near, imp.ZERO)]
            self.each(lambda at: self.advance(state, at), 1)
            _store(k, self.totals, lane, state)

    def before(
        self, start: imp.Expr, extent: imp.Expr, far: Sequence[imp.Var],
        near: Sequence[imp.Var], state: Sequence[imp.Var],
    ) -> None:  # fmt: skip
        """`state` becomes what stands before the chunk.

        `far` is what stands before the tile, `near` the fold of the tile's chunks so far.
        """
        k = self.k
        begins = machine("==", machine("%", start, imp.integer(TILE)), imp.ZERO)
        begins = k.declare(begins, "begins")
        for chunk in range(_CHUNKS):
            first = begins if chunk == 0 else None
            with frozen(k, far) as before, frozen(k, near) as folded:
                with k.branch(machine("==", self.chunk, imp.integer(chunk))):
                    self.assign(state, before, self.combine(before, folded), first)
                at = machine("+", start, imp.integer(chunk * CHUNK))
                with k.branch(machine("<", at, extent)):
                    place = machine("+", self.column, imp.integer(chunk * _COLUMNS))
                    found = _load(k, self.totals, k.declare(place))
                    self.assign(near, found, self.combine(folded, found), first)
        after = machine("+", start, imp.integer(_ROWS))
        ends = machine("==", machine("%", after, imp.integer(TILE)), imp.ZERO)
        with k.branch(ends), frozen(k, far) as before, frozen(k, near) as folded:
            self.assign(far, (), self.combine(before, folded), None)

    def write(self, state: Sequence[imp.Var]) -> None:
        """The results of the item's elements."""
        k, indices = self.k, tuple(Poly.var(r.index.name) for r in self.scan.space)

        def result(at: imp.Expr) -> None:
            before, after = self.advance(state, at)
            self.bind(at)
            results = before if self.scan.exclusive else after
            for var, value in zip(self.let.pattern, results, strict=True):
                k.store(memory(var), indices, value)

        self.each(result)

    def advance(self, state: Sequence[imp.Var], at: imp.Expr) -> tuple[Values, Values]:
        """One of the item's elements combined into a state: what stood there, and what does."""
        k = self.k
        with frozen(k, state) as now:
            after = self.combine(now, _load(k, self.near, at))
            self.assign(state, (), after, None)
        return now, after

    def each(self, do: Callable[[imp.Expr], object], first: int = 0) -> None:
        """`do` for the item's elements from the first on, written out: they are in registers."""
        k = self.k

        def whole() -> None:
            at = k.unit.integer("l")
            with k.loop(at, imp.integer(first), imp.integer(CHUNK), unroll=CHUNK):
                do(at)

        def part() -> None:
            at = k.unit.integer("l")
            every = k.loop(at, imp.integer(first), imp.integer(CHUNK), unroll=CHUNK)
            with every, k.branch(machine("<", at, self.size)):
                do(at)

        k.either(machine(">=", self.size, imp.integer(CHUNK)), whole, part)

    def bind(self, at: imp.Expr) -> None:
        index = self.k.declare(machine("+", self.begin, at))
        self.k.bind(self.last.index.name, index)

    def combine(self, left: Values, right: Values) -> list[imp.Expr]:
        return reductions.combine(self.k, self.scan.operator, left, right)

    def assign(
        self, slots: Sequence[imp.Var], first: Values, others: Values,
        is_first: imp.Expr | None,
    ) -> None:  # fmt: skip
        """New values: the first ones where that holds, if it may."""
        chosen = others if is_first is None else [
            imp.Select(is_first, one, other) for one, other in zip(first, others, strict=True)
        ]
        for slot, value in zip(slots, chosen, strict=True):
            self.k.emit(imp.Assign(slot, value))


def _load(k: Emitter, pointers: Sequence[imp.Pointer], at: imp.Expr) -> list[imp.Expr]:
    return [k.declare(imp.Load(p, at), depth=k.depth) for p in pointers]


def _store(
    k: Emitter, pointers: Sequence[imp.Pointer], at: imp.Expr, values: Values
) -> None:
    for pointer, value in zip(pointers, values, strict=True):
        k.emit(imp.Store(pointer, at, value))
