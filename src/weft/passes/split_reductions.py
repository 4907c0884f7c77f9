"""split_reductions: a large reduction as tiles reduced independently, then combined.

    let s = reduce[add, 0.0] (i < n) { x[i] }
 => with T = 65536, c = ceil(n / T):
    let p = kernel(t < c) {
        let e = minimum(T, n - t*T); let q = reduce[add, 0.0] (i < e) { x[t*T + i] }; in q }
    let s = reduce[add, 0.0; counter] (t < c) { p[t] }

Tiles are aligned subtrees of the reduction's fixed tree (docs/design/bits.md, "Reductions"):
65536 elements of the last reduced dimension; of each dimension outside it, the power of two
of rows that makes up to 65536 elements. Elements that are computed by loops or kernels of their
own are worth smaller tiles: a power of two of them, at least 32 (the grain of such bodies), that
makes about 128 tiles. Where columns are added up side by side
(`vector_dimension` "kept"), a tile is a power of two of rows, at least 32, that makes about
2**20 elements, and its result is a row. Devices have room for fewer, perhaps: what an item does
(`weft.lower.gpu.items`) has no other tree in smaller tiles.

Removes: reductions outside of kernels whose index space gives little parallelism otherwise.
Adds: for each, a kernel over tiles and a reduction with `counter`; derived sizes.
Requires: nothing. Reductions over data-dependent sizes stay as they are.
Ensures: the same bits, by the tree. (Columns summed over several dimensions are always split,
    so that the tree is that of their tiles.)
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TypeAlias

from weft.fun import nodes as fun
from weft.fun import walk
from weft.fun.builder import Builder, Names, derive
from weft.fun.shift import shift
from weft.ops.dtypes import DType
from weft.passes.vector_dimension import vector_dimension
from weft.sizes import ONE, ZERO, Poly, Size, as_poly, product
from weft.sizes.facts import SizeOperation

TILE = 65536  # elements of a tile along the last reduced dimension
LEAST = 32  # of a tile whose elements take loops of their own: the grain of such bodies
TILES = 128  # about so many of them
GRAIN = 1024  # elements of the longest grain: no tile has fewer
COLUMN_ROWS = 32  # rows of a grain where columns are added up side by side
COLUMN_TILE = 1 << 20  # elements of such a tile, about

When: TypeAlias = Callable[[fun.Reduce], bool]


def always(_: fun.Reduce) -> bool:
    """Split every reduction."""
    return True


def unless_rows(reduce: fun.Reduce) -> bool:
    """Split all but reductions of rows, whose kept dimensions are parallel already."""
    return reduce.reduced == len(reduce.space) or vector_dimension(reduce) == "kept"


def split_reductions(
    program: fun.Program, when: When = unless_rows, most: int | None = None
) -> fun.Program:
    """The program with those reductions outside of kernels split for which `when` says so.

    Parameters
    ----------
    program : fun.Program
    when : callable
        `unless_rows`, `always`, or a decision taken at launch.
    most : int, optional
        Elements of a tile, unless the smallest has more; as many as above if not given.
    """
    if not any(isinstance(let.expr, fun.Reduce) for let in walk.sequential(program.body)):
        return program
    split = _Split(program, when, most)
    return replace(program, body=split.body(program.body), derived=tuple(split.derived))


class _Split:
    def __init__(self, program: fun.Program, when: When, most: int | None) -> None:
        self.when = when
        self.limit = most
        self.names = Names.of(program)
        self.top = Builder(self.names)  # of the body that is being made
        self.derived = list(program.derived)
        self.sizes = {*program.sizes, *(derived.name for derived in program.derived)}

    def body(self, body: fun.Body) -> fun.Body:
        """A body outside of kernels, with its reductions split."""
        around, self.top = self.top, self.top.inner()
        for let in body.statements:
            match let.expr:
                case fun.Reduce() as reduce:
                    if not reduce.counter and self.sized(reduce) and self.when(reduce):
                        self.reduce(let, reduce)
                    else:
                        self.top.statements.append(let)
                case fun.If() | fun.Loop():
                    inside = walk.map_bodies(let.expr, self.body)
                    self.top.statements.append(replace(let, expr=inside))
                case _:
                    self.top.statements.append(let)
        made, self.top = self.top.body(body.results), around
        return made

    def sized(self, reduce: fun.Reduce) -> bool:
        """Whether the extents are known at launch."""
        return all(r.extent.variables() <= self.sizes for r in reduce.space)

    def derive(self, operation: SizeOperation, left: Size, right: Size, base: str) -> Size:
        size = derive(self.derived, self.names, operation, left, right, base)
        self.sizes |= size.variables()
        return size

    def ceildiv(self, size: Size, tile: Size) -> Size:
        if tile == ONE:
            return size
        return self.derive("floordiv", size + tile - 1, tile, "tiles")

    def pow2(self, elements: Size, inner: Size, least: int) -> Size:
        """The power of two of rows of `inner` elements that makes up to `elements`."""
        divisor = self.derive("max", inner, ONE, "least")
        rows = self.derive("floordiv", elements, divisor, "rows")
        if least > 1:
            rows = self.derive("max", rows, as_poly(least), "rows")
        return self.derive("pow2floor", rows, ZERO, "tile")

    def most(self, reduce: fun.Reduce, columns: bool) -> Size:
        """The elements of a tile along the last reduced dimension."""
        if columns or not _is_long(reduce.body):
            most = COLUMN_TILE if columns else TILE
            return as_poly(most if self.limit is None else min(most, max(self.limit, GRAIN)))
        count = product(r.extent for r in reduce.space[len(reduce.space) - reduce.reduced :])
        share = self.derive("floordiv", count, as_poly(TILES), "share")
        share = self.derive("max", share, as_poly(LEAST), "share")
        share = self.derive("min", share, as_poly(TILE), "share")
        return self.derive("pow2floor", share, ZERO, "share")

    # ------------------------------------------------------------ one reduction

    def reduce(self, let: fun.Let, reduce: fun.Reduce) -> None:
        self.top.place = let.place
        kept = len(reduce.space) - reduce.reduced
        columns = vector_dimension(reduce) == "kept"
        reduced = reduce.space[kept:]
        one = reduce.space[kept - 1].extent if columns else ONE
        most = self.most(reduce, columns)
        least = COLUMN_ROWS if columns else 1
        sizes = [
            self.pow2(most, one * product(r.extent for r in reduced[d + 1 :]), 1)
            for d in range(len(reduced) - 1)
        ] + [self.pow2(most, one, least)]
        counts = [self.ceildiv(r.extent, size) for r, size in zip(reduced, sizes, strict=True)]
        if all(count == ONE for count in counts):
            self.top.statements.append(let)
            return
        tiles = tuple(fun.Range(self.top.index("tile"), count) for count in counts)
        # Columns stay together inside a tile; other kept dimensions are parallel themselves.
        last = kept - columns
        inner = reduce.space[last:kept]
        outer = (*tiles, *reduce.space[:last]) if columns else (*reduce.space[:last], *tiles)
        partial = self.partial(reduce, let.pattern, outer, inner, tiles, sizes)
        self.combine(reduce, let, kept, counts, partial, columns)

    def partial(
        self,
        reduce: fun.Reduce,
        pattern: tuple[fun.Var, ...],
        outer: tuple[fun.Range, ...],
        columns: tuple[fun.Range, ...],
        tiles: tuple[fun.Range, ...],
        sizes: list[Size],
    ) -> tuple[fun.Var, ...]:
        """`kernel(outer) { reduce(columns; elements of the tile) }`."""
        body = self.top.inner()
        old = reduce.space[len(reduce.space) - reduce.reduced :]
        shifted: dict[str, Size] = {}
        space = list(columns)
        for range_, tile, size in zip(old, tiles, sizes, strict=True):
            start = Poly.var(tile.index.name) * size
            rest = body.scalar(range_.extent - start)
            whole = body.scalar(size)
            extent = body.let(fun.Apply("minimum", (whole, rest)), fun.Scalar(DType.I64), "extent")
            index = self.top.index()
            shifted[range_.index.name] = start + Poly.var(index.name)
            space.append(fun.Range(index, Poly.var(extent.name)))
        inner = shift(reduce.body, shifted, self.names)
        row = tuple(r.extent for r in columns)
        types: list[fun.Type] = [
            fun.Array(var.type.dtype, row) if row else fun.Scalar(var.type.dtype) for var in pattern
        ]
        tile_reduce = replace(reduce, space=tuple(space), body=inner)
        results = body.bind(tile_reduce, tuple(types), "tile")
        shape = tuple(r.extent for r in outer) + row
        arrays = tuple(fun.Array(var.type.dtype, shape) for var in pattern)
        return self.top.bind(fun.Kernel(outer, body.body(results)), arrays, "partial")

    def combine(
        self,
        reduce: fun.Reduce,
        let: fun.Let,
        kept: int,
        counts: list[Size],
        partial: tuple[fun.Var, ...],
        columns: bool,
    ) -> None:
        """`reduce[counter] (kept, tiles) { partial[..] }`."""
        body = self.top.inner()
        outer = tuple(fun.Range(self.top.index(), r.extent) for r in reduce.space[:kept])
        tiles = tuple(fun.Range(self.top.index("tile"), count) for count in counts)
        order = (*tiles, *outer) if columns else (*outer, *tiles)
        indices = tuple(Poly.var(r.index.name) for r in order)
        values = [
            body.let(fun.Index(array, indices), fun.Scalar(array.type.dtype)) for array in partial
        ]
        operator = walk.Substitution(fresh=self.names.fresh).function(reduce.operator)
        final = fun.Reduce(
            (*outer, *tiles), reduce.reduced, body.body(values), operator, reduce.neutral,
            counter=True,
        )  # fmt: skip
        self.top.statements.append(fun.Let(let.pattern, final, let.place))


def _is_long(body: fun.Body) -> bool:
    """Whether an element takes loops of its own, so that 32 of them are a grain."""
    return any(
        isinstance(let.expr, fun.Kernel | fun.Loop | fun.Scan | fun.Scatter)
        or (
            isinstance(let.expr, fun.Reduce)
            and not all(r.extent.is_constant for r in let.expr.space)
        )
        for let in body.statements
    )
