"""Boxes of an array's indices, as what updates write and loops read: aggregated and compared.

A box is for each dimension a first index and an extent; where one is 0 or less, it is empty.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TypeAlias

from weft.fun import nodes as fun
from weft.sizes import ONE, Poly, Size
from weft.sizes.prove import Prover

Box: TypeAlias = tuple[tuple[Size, Size], ...]  # first index and extent
Range: TypeAlias = tuple[str, Size, Size]  # lower <= name < lower + extent


def ranges(expr: fun.Expr) -> tuple[Range, ...]:
    """The indices that an expression binds for its bodies, and what they run over."""
    match expr:
        case fun.Kernel(space) | fun.Reduce(space) | fun.Scan(space) | fun.Scatter(_, space):
            return tuple((r.index.name, Poly.const(0), r.extent) for r in space)
        case fun.Loop(_, _, fun.For(index, lower, upper)):
            return ((index.name, lower, upper - lower),)
        case _:
            return ()


def of_slice(dims: Sequence[fun.Span | Size]) -> Box | None:
    """The elements of a slice; None where a step leaves some out."""
    box: list[tuple[Size, Size]] = []
    for dim in dims:
        if not isinstance(dim, fun.Span):
            box.append((dim, ONE))
        elif dim.step == 1:
            box.append((dim.start, dim.extent))
        else:
            return None
    return tuple(box)


def of_reads(indices: Sequence[Size], space: Sequence[Range]) -> Box | None:
    """The elements read at `indices` over a space, if each is read once and they are a box."""
    left = {name: (lower, extent) for name, lower, extent in space if extent != ONE}
    box: list[tuple[Size, Size]] = []
    for index in indices:
        own = [name for name in index.variables() if name in left]
        if not own:
            box.append((index, ONE))
            continue
        (name, *others), rest = own, index - Poly.var(own[0])
        if others or name in rest.variables():
            return None
        lower, extent = left.pop(name)
        box.append((rest + lower, extent))
    return None if left else tuple(box)


def over_loop(box: Box, range_: Range, prover: Prover) -> Box | None:
    """The union over a loop's index; None where it is no box, or not known to be one.

    Exact: blocks that follow one another; or the same box in every round of at least one.
    """
    name, lower, extent = range_
    if any(name in size.variables() for _, size in box):
        return None
    moving = [d for d, (start, _) in enumerate(box) if name in start.variables()]
    if not moving:
        return box if prover.positive(extent) else None
    (d, *others) = moving
    start, size = box[d]
    if others or start.degree(name) != 1:
        return None
    factor = start.coefficient(name)
    if factor == size:
        first = start.substitute({name: lower})
    elif factor == -size:
        first = start.substitute({name: lower + extent - 1})
    else:
        return None
    return (*box[:d], (first, size * extent), *box[d + 1 :])


def joined(found: Iterable[Box], prover: Prover) -> list[Box]:
    """The same elements in fewer boxes, where one box begins where another ends."""
    done: list[Box] = []
    for box in found:
        place = 0
        while place < len(done):
            larger = _join(done[place], box, prover) or _join(box, done[place], prover)
            if larger is None:
                place += 1
            else:
                del done[place]
                box, place = larger, 0
        done.append(box)
    return done


def _join(left: Box, right: Box, prover: Prover) -> Box | None:
    apart = [
        d
        for d, (one, other) in enumerate(zip(left, right, strict=True))
        if not (prover.equal(one[0], other[0]) and prover.equal(one[1], other[1]))
    ]
    if len(apart) != 1:
        return left if not apart else None
    (d,) = apart
    (start, extent), (next_, more) = left[d], right[d]
    if not prover.equal(start + extent, next_):
        return None
    return (*left[:d], (start, extent + more), *left[d + 1 :])


def contains(larger: Box, box: Box, prover: Prover) -> bool:
    """Whether a box is proved to lie in another one."""
    return all(
        prover.less_equal(start, first) and prover.less_equal(first + count, start + extent)
        for (start, extent), (first, count) in zip(larger, box, strict=True)
    )


def disjoint(left: Box, right: Box, prover: Prover) -> bool:
    """Whether two boxes are proved to have no index in common."""
    return any(
        prover.less_equal(one + extent, other) or prover.less_equal(other + count, one)
        for (one, extent), (other, count) in zip(left, right, strict=True)
    )
