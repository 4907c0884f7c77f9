"""Iterated stencils in boxes that lean: nothing is computed twice.

A box, rows lower to upper of the result, begins with rows lower + t*r to upper + t*r of the input,
and each of its t kernels goes r rows further to the front (`fun.leaning`). What it needs of the
rows before its own is what the box before it left in memory: (t + 1)*r rows, the *flank*, of every
array of a round, which it takes over and gives on. The first box begins where the arrays do, and
grows shorter; the last ends where they do, and grows longer.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from weft.fun import nodes as fun
from weft.fun import walk
from weft.fun.builder import Builder
from weft.fun.leaning import Lean, Leaning, Turns, turns_of
from weft.fun.stencils import Windows, on_windows
from weft.plan.loops import CutLoop, rows_of
from weft.records import dataclass
from weft.sizes import ONE, ZERO, Size
from weft.sizes.facts import SizeOperation

Derive = Callable[[SizeOperation, Size, Size, str], Size]


@dataclass(frozen=True, slots=True)
class Rows:
    """The rows of a box, as sizes that follow from where it begins and ends.

    Attributes
    ----------
    lower, upper : Size
        Of the result.
    first, last : Size
        0 for the first box and the last one, 1 for others.
    flank : Size
        How many rows boxes leave to the next; no more than there are.
    lean : Size
        How far the box leans.
    """

    lower: Size
    upper: Size
    first: Size
    last: Size
    flank: Size
    lean: Size

    @property
    def input(self) -> tuple[Size, Size]:
        """The rows that are new to the box."""
        return self.lower + self.first * self.lean, self.upper + self.last * self.lean

    @property
    def begin(self) -> Size:
        """The first row that it has."""
        return self.input[0] - self.first * self.flank

    @property
    def count(self) -> Size:
        """How many rows it has."""
        return self.input[1] - self.begin


def rows_of_box(
    cut: CutLoop, bounds: tuple[Size, Size], derive: Derive
) -> Rows:
    """The rows of the box of a loop that leans."""
    lower, upper = bounds
    first = derive("min", lower, ONE, "first")
    last = derive("min", cut.stencil.shape[0] - upper, ONE, "last")
    whole = cut.margins[0] + cut.stencil.radius[0]
    return Rows(
        lower, upper, first, last, derive("min", whole, cut.stencil.shape[0], "flank"),
        cut.margins[0],
    )  # fmt: skip


def flank_types(loop: fun.Loop, turns: Turns, rows: int | Size) -> tuple[fun.Array, ...]:
    """Of all arrays of a round the rows that boxes leave, in the order of `Leaning.state`."""
    arrays = [*loop.params, *(loop.params[n] for n in turns.spares), *turns.temporaries]
    extent = ONE * rows
    shapes = (walk.type_sizes(array.type) for array in arrays)
    return tuple(
        fun.Array(array.type.dtype, (extent, *shape[1:]))
        for array, shape in zip(arrays, shapes, strict=True)
    )


def leaning_on_box(
    loop: fun.Loop, cut: CutLoop, rows: Rows, found: Sequence[tuple[fun.Var, Size]],
    flanks: Sequence[fun.Var], left_over: tuple[Size, int], builder: Builder,
) -> tuple[tuple[fun.Var, ...], tuple[fun.Var, ...]]:  # fmt: skip
    """Emit a loop for a box that leans.

    Parameters
    ----------
    rows : Rows
    found : sequence of (fun.Var, Size)
        For each of `cut.reads` that follows the first axis a window of it, and where that begins.
    flanks : sequence of fun.Var
        What the box before left; before the first, anything.
    left_over : (Size, int)
        How often all arrays are back in their own memory, and how many rounds remain.

    Returns
    -------
    (results, flanks)
        The results on the box, and what it leaves.
    """
    stencil, turns = cut.stencil, turns_of(loop)
    assert turns is not None
    assert isinstance(loop.form, fun.For)
    count = len(loop.params)
    begin, end = rows.input
    new = [
        rows_of(builder, var, 0, begin - start, end - begin) for var, start in found[:count]
    ]
    state = [_with_flank(builder, flank, rows, new[n : n + 1]) for n, flank in enumerate(flanks)]
    given = {}
    for (name, (_, axes)), (var, start) in zip(stencil.given.items(), found[count:], strict=False):
        along = axes.index(0) if 0 in axes else None
        given[name] = rows_of(builder, var, along, rows.begin - start, rows.count)
    whole = _over_windows(loop, state[:count], given, rows, builder)
    radius = stencil.radius[0]
    lean = Lean(
        rows.first * (rows.flank - radius), rows.count - rows.last * radius,
        rows.first * radius, rows.last * radius,
    )  # fmt: skip
    leaning = Leaning(whole, lean, turns, state)
    leaning.rounds(builder, *left_over)
    at = rows.lower - rows.begin
    results = tuple(
        rows_of(builder, var, 0, at, rows.upper - rows.lower) for var in leaning.state[:count]
    )
    left = tuple(
        rows_of(builder, var, 0, rows.count - rows.flank, rows.flank) for var in leaning.by_memory
    )
    return results, left


def _with_flank(
    builder: Builder, flank: fun.Var, rows: Rows, new: Sequence[fun.Var]
) -> fun.Var:
    """An array of all rows of a box: those of the flank, and new ones if there are any."""
    shape = (rows.count, *walk.type_sizes(flank.type)[1:])
    type_ = fun.Array(flank.type.dtype, shape)
    kept = rows.first * rows.flank
    array = builder.let(fun.Empty(flank.type.dtype, shape), type_, "rows")
    parts = [(ZERO, rows_of(builder, flank, 0, rows.flank - kept, kept))]
    parts += [(kept, part) for part in new]
    for start, part in parts:
        dims = [fun.Span(ZERO, extent) for extent in shape]
        dims[0] = fun.Span(start, walk.type_sizes(part.type)[0])
        array = builder.let(fun.Update(array, tuple(dims), part), type_, "rows")
    return array


def _over_windows(
    loop: fun.Loop, initial: Sequence[fun.Var], given: Mapping[str, fun.Var], rows: Rows,
    builder: Builder,
) -> fun.Loop:  # fmt: skip
    """The loop as one of kernels over all rows of a box."""
    assert isinstance(loop.form, fun.For)
    shape = walk.type_sizes(loop.params[0].type)
    lows = (rows.begin, *(ZERO,) * (len(shape) - 1))
    windows = Windows(tuple(initial), given, lows, (rows.count, *shape[1:]))
    form = fun.For(builder.index("k"), ZERO, loop.form.upper - loop.form.lower)
    inner = builder.inner()
    on_windows(loop, windows, inner, form, loop.form.lower)
    made = inner.statements[-1].expr
    assert isinstance(made, fun.Loop)
    return made
