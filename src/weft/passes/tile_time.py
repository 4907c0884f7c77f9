"""tile_time: several steps of an iterated stencil on one tile after another, in the cache.

    loop (v = x) for k from 0 to t { let y = kernel(i < n) { f(v[i-1], v[i], v[i+1]) } in y }
 => with b elements a tile, s steps a phase, m = s, e = min(b + 2*m, n), c = n // b:
    loop (v = x) for p from 0 to ceil(t / s) {
      let main = kernel(j < c) {
        let lo = clamp(j*b - m, 0, n - e)
        let w = v[lo for e]
        let u = loop (w = w) for k from 0 to min(s, t - p*s) { kernel(i < e) { f(.. w ..) } }
        in u[j*b - lo for b]
      }
      let rest = (the same with one tile, of the last n - c*b elements)
      in concat(reshape(main, (c*b)), rest)
    }

Each tile is computed with a margin of as many elements as the steps of a phase can reach
(overlapped tiling), so tiles know nothing of each other. The outermost elements of a window
are wrong after a step, since what they need is not there; the error moves inwards by the
reach of one step each time and stops at the tile's edge. Where the window ends at the edge
of the array, it obeys the array's own boundary rules.

Removes: the loop. Adds: a loop over phases, kernels over tiles, derived sizes.
Requires: a fused program, in which reads still carry their boundary rules.
Ensures: the same bits: each element is computed by the same operations, at times twice.

Which loops qualify: those whose arrays all have one shape (of rank 1 or 2) and whose body is
kernels over that shape that read arrays at constant offsets from their index. A step that
needs a global result is left alone, and one of rank 2 with more operations an element than bytes,
which margins would slow down. Whether it pays depends on sizes: `time_tiles` gives what
to decide by, `when` decides.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TypeAlias

from weft.fun import nodes as fun
from weft.fun import walk
from weft.fun.builder import Builder, Names, derive
from weft.fun.stencils import Stencil, Windows, on_windows, stencil_of
from weft.ops.dtypes import DType
from weft.sizes import ZERO, Derived, Poly, Size, as_poly, product
from weft.sizes.facts import SizeOperation

WINDOW_BYTES = 640 << 10  # of all arrays of a tile: what a core's own cache holds
STEPS = (64, 8)  # of a phase, by rank less 1
ROW = 320  # elements of a window's last dimension, where it has another

_INDEX = fun.Scalar(DType.I64)


@dataclass(frozen=True, slots=True)
class TimeTile:
    """A loop that can be tiled in time.

    Attributes
    ----------
    loop : str
        The first result of the loop.
    rounds : Size
        The number of its steps.
    bytes : Size
        Of the arrays that one step reads and writes.
    """

    loop: str
    rounds: Size
    bytes: Size


When: TypeAlias = Callable[[TimeTile], bool]


def time_tiles(program: fun.Program) -> list[TimeTile]:
    """The loops that `tile_time` can tile, for a launch to decide on."""
    return [
        _candidate(let, stencil)
        for let in program.body.statements
        if (stencil := _stencil(program, let)) is not None
    ]


def tile_time(program: fun.Program, when: When = lambda _: True) -> fun.Program:
    """The program with those loops tiled in time that `when` accepts."""
    names = Names.of(program)
    derived = list(program.derived)
    statements: list[fun.Let] = []
    for let in program.body.statements:
        stencil = _stencil(program, let)
        if stencil is None or not when(_candidate(let, stencil)):
            statements.append(let)
        else:
            statements += _Tiling(let, stencil, names, derived).statements
    body = fun.Body(tuple(statements), program.body.results)
    return replace(program, body=body, derived=tuple(derived))


def _stencil(program: fun.Program, let: fun.Let) -> Stencil | None:
    """What the statement repeats, if it is a loop that qualifies."""
    if not isinstance(let.expr, fun.Loop):
        return None
    sizes = {*program.sizes, *(derived.name for derived in program.derived)}
    stencil = stencil_of(let.expr)
    if stencil is None or len(stencil.shape) > len(STEPS):
        return None
    if len(stencil.shape) > 1 and stencil.operations > stencil.itemsize:
        return None  # it waits for arithmetic, of which margins add more, not for memory
    known = all(size.variables() <= sizes for size in (*stencil.shape, stencil.rounds))
    return stencil if known else None


def _candidate(let: fun.Let, stencil: Stencil) -> TimeTile:
    arrays = product(stencil.shape) * stencil.itemsize
    return TimeTile(let.pattern[0].name, stencil.rounds, arrays)


class _Tiling:
    """One loop: the statements that take its place."""

    def __init__(
        self, let: fun.Let, stencil: Stencil, names: Names, derived: list[Derived]
    ) -> None:
        assert isinstance(let.expr, fun.Loop)
        self.loop = let.expr
        self.stencil = stencil
        self.names = names
        self.derived = derived
        rank = len(stencil.shape)
        self.steps = STEPS[rank - 1]
        self.margins = tuple(self.steps * reach for reach in stencil.reach)
        window = _window(rank, WINDOW_BYTES // stencil.itemsize)
        self.tile = tuple(max(w - 2 * m, w // 2) for w, m in zip(window, self.margins, strict=True))
        self.windows = tuple(
            self.derive("min", as_poly(b + 2 * m), n, "window")
            for b, m, n in zip(self.tile, self.margins, stencil.shape, strict=True)
        )
        self.top = Builder(names)
        self.top.place = let.place
        self.phases(let)
        self.statements = self.top.statements

    def derive(self, operation: SizeOperation, left: Size, right: Size, base: str) -> Size:
        return derive(self.derived, self.names, operation, left, right, base)

    # ------------------------------------------------------------ phases

    def phases(self, let: fun.Let) -> None:
        """The loop over phases, in place of the loop over steps."""
        rounds = self.stencil.rounds
        count = self.derive("floordiv", rounds + (self.steps - 1), as_poly(self.steps), "phases")
        phase = self.top.index("p")
        params = tuple(self.top.var(p.name, p.type) for p in self.loop.params)
        body = self.top.inner()
        first = Poly.var(phase.name) * self.steps
        left = body.scalar(rounds - first)
        steps = body.let(
            fun.Apply("minimum", (fun.Const(self.steps, DType.I64), left)), _INDEX, "steps"
        )
        results = self.joined(body, params, first, steps, (), 0)
        loop = fun.Loop(params, self.loop.initial, fun.For(phase, ZERO, count), body.body(results))
        self.top.statements.append(fun.Let(let.pattern, loop, let.place))

    def joined(
        self, builder: Builder, params: tuple[fun.Var, ...], first: Size, steps: fun.Var,
        chosen: tuple[bool, ...], axis: int,
    ) -> tuple[fun.Var, ...]:  # fmt: skip
        """All elements along the axes from `axis` on: whole tiles, and what is left of each.

        `chosen` says for each earlier axis whether these are its whole tiles.
        """
        if axis == len(self.stencil.shape):
            return self.tiles(builder, params, first, steps, chosen)
        pieces = [
            self.joined(builder, params, first, steps, (*chosen, whole), axis + 1)
            for whole in (True, False)
        ]
        parts = list(zip(*pieces, strict=True))
        joined = []
        for param, part in zip(self.loop.params, parts, strict=True):
            shape = tuple(
                self.extents(d, chosen[d])[1] if d < axis else extent
                for d, extent in enumerate(self.stencil.shape)
            )
            type_ = fun.Array(param.type.dtype, shape)
            joined.append(builder.let(fun.Concat(part, axis), type_, param.name))
        return tuple(joined)

    def extents(self, axis: int, whole: bool) -> tuple[Size, Size]:
        """The number of tiles along an axis, and how many elements they are together."""
        extent, tile = self.stencil.shape[axis], self.tile[axis]
        count = self.derive("floordiv", extent, as_poly(tile), "tiles")
        return (count, count * tile) if whole else (as_poly(1), extent - count * tile)

    # ------------------------------------------------------------ tiles

    def tiles(
        self, builder: Builder, params: tuple[fun.Var, ...], first: Size, steps: fun.Var,
        chosen: tuple[bool, ...],
    ) -> tuple[fun.Var, ...]:  # fmt: skip
        """kernel(tiles) { the steps of a phase on one window }, as arrays of the usual shape."""
        axes = range(len(chosen))
        counts = [self.extents(d, chosen[d])[0] for d in axes]
        totals = [self.extents(d, chosen[d])[1] for d in axes]
        sizes = [as_poly(self.tile[d]) if chosen[d] else totals[d] for d in axes]
        space = tuple(fun.Range(self.top.index("tile"), count) for count in counts)
        body = builder.inner()
        starts = [
            Poly.var(r.index.name) * self.tile[d]
            if chosen[d]
            else self.stencil.shape[d] - totals[d]
            for d, r in enumerate(space)
        ]
        lows = [self.low(body, d, start) for d, start in zip(axes, starts, strict=True)]
        results = self.window(body, params, lows, first, steps)
        kept = tuple(
            fun.Span(start - low, size)
            for start, low, size in zip(starts, lows, sizes, strict=True)
        )
        types = [fun.Array(r.type.dtype, tuple(sizes)) for r in results]
        own = [
            body.let(fun.Slice(r, kept), type_, "own")
            for r, type_ in zip(results, types, strict=True)
        ]
        arrays = tuple(fun.Array(t.dtype, (*counts, *sizes)) for t in types)
        made = builder.bind(fun.Kernel(space, body.body(own)), arrays, "tiles")
        return tuple(self.flat(builder, array, counts, sizes, totals) for array in made)

    def flat(
        self, builder: Builder, tiles: fun.Var, counts: list[Size], sizes: list[Size],
        totals: list[Size],
    ) -> fun.Var:  # fmt: skip
        """Tiles, one axis of tiles after another, as one array: [c, d, a, b] => [c*a, d*b]"""
        rank = len(counts)
        dtype = tiles.type.dtype
        axes = tuple(axis for d in range(rank) for axis in (d, rank + d))
        if rank > 1:
            both = (*counts, *sizes)
            moved = fun.Array(dtype, tuple(both[axis] for axis in axes))
            tiles = builder.let(fun.Permute(tiles, axes), moved, "tiles")
        shape = tuple(totals)
        return builder.let(fun.Reshape(tiles, shape), fun.Array(dtype, shape), "piece")

    def low(self, builder: Builder, axis: int, start: Size) -> Size:
        """Where the window of a tile begins: clamp(start - margin, 0, n - window)"""
        extent, window = self.stencil.shape[axis], self.windows[axis]
        last = builder.scalar(extent - window)
        before = builder.scalar(start - self.margins[axis])
        low = builder.let(fun.Apply("minimum", (before, last)), _INDEX, "low")
        zero = fun.Const(0, DType.I64)
        return Poly.var(builder.let(fun.Apply("maximum", (low, zero)), _INDEX, "low").name)

    def window(
        self, builder: Builder, params: tuple[fun.Var, ...], lows: list[Size], first: Size,
        steps: fun.Var,
    ) -> tuple[fun.Var, ...]:  # fmt: skip
        """The steps of a phase on one window."""
        loop, stencil = self.loop, self.stencil
        assert isinstance(loop.form, fun.For)
        spans = tuple(map(fun.Span, lows, self.windows))

        def seen(array: fun.Var, dims: tuple[fun.Span | Size, ...]) -> fun.Var:
            shape = tuple(dim.extent for dim in dims if isinstance(dim, fun.Span))
            return builder.let(fun.Slice(array, dims), fun.Array(array.type.dtype, shape), "window")

        around = {}
        for name, (array, axes) in stencil.given.items():
            extents = zip(axes, walk.type_sizes(array.type), strict=True)
            dims = tuple(fun.Span(ZERO, n) if d is None else spans[d] for d, n in extents)
            around[name] = seen(array, dims)
        initial = tuple(seen(param, spans) for param in params)
        return on_windows(
            loop, Windows(initial, around, tuple(lows), self.windows), builder,
            fun.For(builder.index("k"), ZERO, Poly.var(steps.name)), loop.form.lower + first,
        )  # fmt: skip


def _window(rank: int, elements: int) -> tuple[int, ...]:
    """The shape of a window of about so many elements."""
    if rank == 1:
        return (min(elements, 1 << 14),)
    return (max(elements // ROW, 16), ROW)
