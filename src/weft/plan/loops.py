"""Loops that can be cut: iterated stencils, all of their rounds on one box.

    loop (v = x) for k from 0 to t { kernel (i < n) { f(v[i - r], .., v[i + r]) } }

A box lower <= i < upper of the result needs lower - t*r <= i < upper + t*r of x: boxes
overlap there, and what they share is computed by each of them.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping
from dataclasses import replace

from weft.fun import nodes as fun
from weft.fun import walk
from weft.fun.builder import Builder, Names
from weft.fun.stencils import Stencil, Windows, on_windows, stencil_of
from weft.plan.calls import Ends
from weft.records import dataclass
from weft.sizes import ZERO, Poly, Size

_MARGINS = 4  # a box is so many times as long as its margins, or longer


@dataclass(frozen=True, slots=True)
class CutLoop:
    """A loop as if it were a kernel over the shape of its arrays.

    Attributes
    ----------
    axes : tuple of (str, Size)
        For each axis that can be cut an index variable and its extent; they are the first ones.
    reads : tuple of (fun.Var, tuple of Ends)
        What the loop begins with and the arrays that it reads near its index, in the order
        of `CutLoop.windows`; for each axis the first and the last index, None for all of it.
    margins : tuple of Size
        How far beyond a box its rounds reach, for each axis.
    """

    stencil: Stencil
    axes: tuple[tuple[str, Size], ...]
    reads: tuple[tuple[fun.Var, tuple[Ends, ...]], ...]
    margins: tuple[Size, ...]


def cut_loop(let: fun.Let) -> CutLoop | None:
    """How a statement that repeats a stencil can be cut (None: not at all)."""
    if not isinstance(let.expr, fun.Loop):
        return None
    stencil = stencil_of(let.expr)
    if stencil is None or stencil.wraps[0]:
        return None
    if not all(isinstance(a, fun.Var) and isinstance(a.type, fun.Array) for a in let.expr.initial):
        return None
    rank = len(stencil.shape)
    # Dimensions from one on whose ends are neighbours are left whole.
    cuts = stencil.wraps.index(True) if True in stencil.wraps else rank
    names = [f"{let.pattern[0].name}.{axis}" for axis in range(cuts)]
    margins = tuple(stencil.rounds * reach for reach in stencil.reach)
    ends: list[Ends] = [
        (Poly.var(name) - margin, Poly.var(name) + margin)
        for name, margin in zip(names, margins, strict=False)
    ]
    ends += [None] * (rank - cuts)
    reads = [(a, tuple(ends)) for a in let.expr.initial if isinstance(a, fun.Var)]
    for array, follows in stencil.given.values():
        reads.append((array, tuple(None if axis is None else ends[axis] for axis in follows)))
    reads += [(array, (None,) * _rank(array)) for array in stencil.fixed.values()]
    axes = tuple(zip(names, stencil.shape, strict=False))
    return CutLoop(stencil, axes, tuple(reads), margins)


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

    def span(var: fun.Var, along: int | None, start: Size, extent: Size) -> fun.Var:
        shape = list(walk.type_sizes(var.type))
        if along is None or (start == ZERO and extent == shape[along]):
            return var
        dims = [fun.Span(ZERO, n) for n in shape]
        dims[along], shape[along] = fun.Span(start, extent), extent
        type_ = fun.Array(var.type.dtype, tuple(shape))
        return builder.let(fun.Slice(var, tuple(dims)), type_, var.name)

    count = len(loop.initial)
    initial = tuple(span(var, axis, low - begin, high - low) for var, begin in found[:count])
    given = {}
    for (name, (_, axes)), (var, begin) in zip(
        stencil.given.items(), found[count:], strict=False
    ):
        along = axes.index(axis) if axis in axes else None
        given[name] = span(var, along, low - begin, high - low)
    rank = range(len(stencil.shape))
    lows = tuple(low if d == axis else ZERO for d in rank)
    extents = tuple(high - low if d == axis else stencil.shape[d] for d in rank)
    form = fun.For(builder.index("k"), ZERO, stencil.rounds)
    windows = Windows(initial, given, lows, extents)
    results = on_windows(loop, windows, builder, form, loop.form.lower)
    return tuple(span(var, axis, lower - low, upper - lower) for var in results)


def split_rounds(program: fun.Program, sizes: Mapping[str, int], limit: int) -> fun.Program:
    """Iterated stencils of many rounds as several loops, one after another.

    loop (v = x) for k from 0 to t { .. }
        =>  let y = loop (v = x) for k from 0 to s { .. }
            loop (v = y) for k from s to t { .. }

    Removes: loops whose rounds together reach further than a box that fits `limit` bytes can
    have as a margin. Adds: for each, the fewest loops that do not. Ensures the same bits.
    """
    names = Names.of(program)
    statements: list[fun.Let] = []
    for let in program.body.statements:
        cut = cut_loop(let)
        if cut is None or not isinstance(let.expr, fun.Loop):
            statements.append(let)
            continue
        statements += _phases(let, let.expr, cut.stencil, sizes, limit, names)
    return replace(program, body=fun.Body(tuple(statements), program.body.results))


def _phases(
    let: fun.Let, loop: fun.Loop, stencil: Stencil, sizes: Mapping[str, int], limit: int,
    names: Names,
) -> list[fun.Let]:  # fmt: skip
    assert isinstance(loop.form, fun.For)
    rounds = int(stencil.rounds.evaluate(sizes))
    rows = rows_that_fit(stencil, sizes, limit)
    most = max(1, rows // (_MARGINS * 2 * max(stencil.reach[0], 1)))
    if rounds <= most or stencil.reach[0] == 0:
        return [let]
    count = -(-rounds // most)
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


def rows_that_fit(stencil: Stencil, sizes: Mapping[str, int], limit: int) -> int:
    """How many indices of the first axis a box can have: two buffers and two results."""
    inner = math.prod(int(extent.evaluate(sizes)) for extent in stencil.shape[1:])
    return limit // max(2 * stencil.itemsize * inner, 1)


def _rank(array: fun.Var) -> int:
    return len(walk.type_sizes(array.type))
