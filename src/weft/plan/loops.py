"""Loops that can be cut: iterated stencils, all of their rounds on one box.

    loop (v = x) for k from 0 to t { kernel (i < n) { f(v[i - r], .., v[i + r]) } }

A box lower <= i < upper of the result needs lower - t*r <= i < upper + t*r of x: boxes
overlap there, and what they share is computed by each of them.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Collection, Mapping
from dataclasses import replace

from weft.fun import nodes as fun
from weft.fun import walk
from weft.fun.builder import Builder, Names
from weft.fun.stencils import Stencil, Windows, on_windows, stencil_of
from weft.plan.calls import Ends
from weft.records import dataclass
from weft.sizes import ZERO, Poly, Size


@dataclass(frozen=True, slots=True)
class CutLoop:
    """A loop as if it were a kernel over the shape of its arrays.

    Attributes
    ----------
    axes : tuple of (str, Size)
        For each axis an index variable and its extent; of boxes that lean the first alone.
    reads : tuple of (fun.Var, tuple of Ends)
        What the loop begins with and the arrays that it reads near its index, in the order
        of `CutLoop.windows`; for each axis the first and the last index, None for all of it.
    margins : tuple of Size
        How far beyond a box its rounds reach, for each axis.
    cuts : tuple of int
        The axes that can be cut: those whose ends are not neighbours.
    leans : bool
        Whether boxes lean instead (`plan.leaning`): how far, is the margin.
    """

    stencil: Stencil
    axes: tuple[tuple[str, Size], ...]
    reads: tuple[tuple[fun.Var, tuple[Ends, ...]], ...]
    margins: tuple[Size, ...]
    cuts: tuple[int, ...]
    leans: bool = False


def cut_loop(let: fun.Let, leans: bool = False) -> CutLoop | None:
    """How a statement that repeats a stencil can be cut (None: not at all).

    `leans`: in boxes that lean, along the first axis.
    """
    if not isinstance(let.expr, fun.Loop):
        return None
    stencil = stencil_of(let.expr)
    if stencil is None or (stencil.wraps[0] if leans else all(stencil.wraps)):
        return None
    if not all(isinstance(a, fun.Var) and isinstance(a.type, fun.Array) for a in let.expr.initial):
        return None
    if leans:
        return _leaning(let.expr, stencil, let.pattern[0].name)
    rank = len(stencil.shape)
    names = [f"{let.pattern[0].name}.{axis}" for axis in range(rank)]
    margins = tuple(stencil.rounds * reach for reach in stencil.reach)
    # Dimensions whose ends are neighbours are left whole.
    ends: list[Ends] = [
        None if wraps else (Poly.var(name) - margin, Poly.var(name) + margin)
        for name, margin, wraps in zip(names, margins, stencil.wraps, strict=True)
    ]
    reads = [(a, tuple(ends)) for a in let.expr.initial if isinstance(a, fun.Var)]
    for array, follows in stencil.given.values():
        reads.append((array, tuple(None if axis is None else ends[axis] for axis in follows)))
    reads += [(array, (None,) * _rank(array)) for array in stencil.fixed.values()]
    axes = tuple(zip(names, stencil.shape, strict=True))
    cuts = tuple(axis for axis in range(rank) if not stencil.wraps[axis])
    return CutLoop(stencil, axes, tuple(reads), margins, cuts)


def is_counted(stencil: Stencil, sizes: Collection[str]) -> bool:
    """Whether its rounds are as many as sizes say: what a box needs is known before it runs."""
    return stencil.rounds.variables() <= set(sizes)


def _leaning(loop: fun.Loop, stencil: Stencil, name: str) -> CutLoop:
    """A box takes on those rows of what the loop begins with that its first kernel is for."""
    name, others = f"{name}.0", (None,) * (len(stencil.shape) - 1)
    row, lean = Poly.var(name), lean_of(loop, stencil)
    own: tuple[Ends, ...] = ((row + lean, row + lean), *others)
    reads = [(a, own) for a in loop.initial if isinstance(a, fun.Var)]
    near: Ends = (row - stencil.radius[0], row + lean)
    for array, follows in stencil.given.values():
        reads.append((array, tuple(near if axis == 0 else None for axis in follows)))
    reads += [(array, (None,) * _rank(array)) for array in stencil.fixed.values()]
    return CutLoop(stencil, ((name, stencil.shape[0]),), tuple(reads), (lean,), (0,), True)


def lean_of(loop: fun.Loop, stencil: Stencil) -> Size:
    """How far the rows of a box's last kernel lie before those of its input."""
    kernels = sum(isinstance(let.expr, fun.Kernel) for let in loop.body.statements)
    return stencil.rounds * (kernels * stencil.radius[0])


def loop_on_box(
    loop: fun.Loop, cut: CutLoop, axis: int, found: list[tuple[fun.Var, Size]],
    limits: tuple[Size, Size], box: tuple[Size, Size], builder: Builder,
) -> tuple[fun.Var, ...]:  # fmt: skip
    """Emit the loop for `box` along an axis.

    Parameters
    ----------
    found : list of (fun.Var, Size)
        For each of `cut.reads` that follows the axis a window of it, and where that begins.
    limits : (low, high)
        The box with its margins, inside the array.

    Returns
    -------
    tuple of fun.Var
        The results on the box.
    """
    stencil, (low, high), (lower, upper) = cut.stencil, limits, box
    assert isinstance(loop.form, fun.For)

    count = len(loop.initial)
    initial = tuple(
        rows_of(builder, var, axis, low - begin, high - low) for var, begin in found[:count]
    )
    given = {}
    for (name, (_, axes)), (var, begin) in zip(
        stencil.given.items(), found[count:], strict=False
    ):
        along = axes.index(axis) if axis in axes else None
        given[name] = rows_of(builder, var, along, low - begin, high - low)
    rank = range(len(stencil.shape))
    lows = tuple(low if d == axis else ZERO for d in rank)
    extents = tuple(high - low if d == axis else stencil.shape[d] for d in rank)
    form = fun.For(builder.index("k"), ZERO, stencil.rounds)
    windows = Windows(initial, given, lows, extents)
    results = on_windows(loop, windows, builder, form, loop.form.lower)
    return tuple(rows_of(builder, var, axis, lower - low, upper - lower) for var in results)


def rows_of(
    builder: Builder, var: fun.Var, along: int | None, start: Size, extent: Size
) -> fun.Var:
    """Some indices of an array along one axis (None: all of it)."""
    shape = list(walk.type_sizes(var.type))
    if along is None or (start == ZERO and extent == shape[along]):
        return var
    dims = [fun.Span(ZERO, n) for n in shape]
    dims[along], shape[along] = fun.Span(start, extent), extent
    type_ = fun.Array(var.type.dtype, tuple(shape))
    return builder.let(fun.Slice(var, tuple(dims)), type_, var.name)


def in_passes(
    let: fun.Let, stencil: Stencil, sizes: Mapping[str, int], count: int, names: Names
) -> list[fun.Let]:
    """A loop as so many, one after another."""
    loop = let.expr
    assert isinstance(loop, fun.Loop)
    assert isinstance(loop.form, fun.For)
    if count == 1:
        return [let]
    rounds = int(stencil.rounds.evaluate(sizes))
    ends = [rounds * number // count for number in range(1, count)]
    bounds = [loop.form.lower, *(loop.form.lower + end for end in ends), loop.form.upper]
    found = []
    begin = loop.initial
    for number, (lower, upper) in enumerate(itertools.pairwise(bounds)):
        last = number == count - 1
        pattern = tuple(
            var if last else fun.Var(names.fresh(var.name), var.type) for var in let.pattern
        )
        expr = loop
        if not last:
            copy = walk.Substitution(fresh=names.fresh).expr(loop)
            assert isinstance(copy, fun.Loop)
            expr = copy
        assert isinstance(expr.form, fun.For)
        form = replace(expr.form, lower=lower, upper=upper)
        found.append(fun.Let(pattern, replace(expr, initial=begin, form=form), let.place))
        begin = pattern
    return found


def rows_that_fit(stencil: Stencil, sizes: Mapping[str, int], limit: int, axis: int = 0) -> int:
    """How many indices of an axis a box can have: two buffers and two results."""
    others = (extent for d, extent in enumerate(stencil.shape) if d != axis)
    inner = math.prod(int(extent.evaluate(sizes)) for extent in others)
    return limit // max(2 * stencil.itemsize * inner, 1)


def _rank(array: fun.Var) -> int:
    return len(walk.type_sizes(array.type))
