"""LMADs as sets of elements: operations that keep the set, and aggregation over loops.

After section 3.5 of P. Munksgaard, *Static and Dynamic Analyses for Efficient GPU Execution*
(2023). Where an extent is 0 or less the set is empty.
"""

from __future__ import annotations

import itertools
from functools import cmp_to_key

from weft.lmad.interval_sum import Interval, ZeroFree, by_size, interval_sum
from weft.lmad.lmad import Lmad
from weft.lmad.overlap import Verdict, overlap
from weft.sizes import ONE, ZERO, Fact, Poly, Size, product
from weft.sizes.division import exact_quotient
from weft.sizes.prove import Prover

# ---------------------------------------------------------------- the same set


def normalise(lmad: Lmad, prover: Prover) -> Lmad | None:
    """The same set with positive strides in decreasing order and no single elements.

    None where signs or the order of strides are not known.
    """
    offset, dims = lmad.offset, []
    for extent, stride in lmad.dims:
        if prover.equal(extent, 1):
            continue
        if prover.zero(stride):
            if not prover.positive(extent):
                return None
        elif prover.positive(stride):
            dims.append((extent, stride))
        elif prover.positive(-stride):
            # {0, -s, ..., -(n-1)s} => -(n-1)s + {0, s, ..., (n-1)s}
            offset = offset + (extent - 1) * stride
            dims.append((extent, -stride))
        else:
            return None
    pairs = itertools.combinations([stride for _, stride in dims], 2)
    if not all(prover.less_equal(a, b) or prover.less_equal(b, a) for a, b in pairs):
        return None

    def order(left: tuple[Size, Size], right: tuple[Size, Size]) -> int:
        return 0 if left[1] == right[1] else 1 if prover.less_equal(left[1], right[1]) else -1

    return Lmad(offset, tuple(sorted(dims, key=cmp_to_key(order))))


def join(lmad: Lmad, axis: int) -> Lmad | None:
    """The same set with dimensions axis and axis + 1 as one; None where they do not join.

    {(m : n*s), (n : s)} => {(m*n : s)}
    """
    (outer, wide), (inner, stride) = lmad.dims[axis : axis + 2]
    if wide != inner * stride:
        return None
    return Lmad(lmad.offset, (*lmad.dims[:axis], (outer * inner, stride), *lmad.dims[axis + 2 :]))


def split(lmad: Lmad, axis: int, inner: Size) -> Lmad | None:
    """The same set with a dimension as two, of which the second has `inner` elements.

    None where `inner` does not divide the extent. {(m*n : s)} => {(m : n*s), (n : s)}
    """
    extent, stride = lmad.dims[axis]
    outer = exact_quotient(extent, inner)
    if outer is None:
        return None
    parts = ((outer, inner * stride), (inner, stride))
    return Lmad(lmad.offset, (*lmad.dims[:axis], *parts, *lmad.dims[axis + 1 :]))


# ---------------------------------------------------------------- loops


def expand(lmad: Lmad, name: str, lower: Size, extent: Size) -> Lmad | None:
    """The union over lower <= name < lower + extent; None where it is no single LMAD.

    Procedure 3.4: the variable occurs in the offset only, and there to the first power.
    """
    if any(name in size.variables() for size in (*lmad.shape, *lmad.strides)):
        return None
    if lmad.offset.degree(name) > 1:
        return None
    stride = lmad.offset.coefficient(name)
    start = lmad.offset.substitute({name: lower})
    return Lmad(start, ((extent, stride), *lmad.dims))


def cover(lmad: Lmad, name: str, lower: Size, extent: Size, prover: Prover) -> Lmad | None:
    """A superset of the union over lower <= name < lower + extent.

    What `expand` gives where it can. Extents in which the variable occurs become their
    maximum; a dimension that ends where the variable has no say is counted from its end, so
    that name + {(n - name : 1)} is covered by {(n : 1)}.
    """
    if any(name in stride.variables() for stride in lmad.strides):
        return None
    inside = prover.within(name, lower, lower + extent - 1)
    ends = {True: lower + extent - 1, False: lower}
    moving = [d for d, (n, _) in enumerate(lmad.dims) if name in n.variables()]
    dims = list(lmad.dims)
    for d in moving:
        size, stride = dims[d]
        factor = size.coefficient(name)
        if size.degree(name) > 1 or not (
            (rising := inside.nonnegative(factor)) or inside.nonnegative(-factor)
        ):
            return None
        dims[d] = size.substitute({name: ends[rising]}), stride
    found: list[Lmad] = []
    for turned in itertools.product((False, True), repeat=min(len(moving), 3)):
        offset, new = lmad.offset, list(dims)
        for d in itertools.compress(moving, turned):
            size, stride = lmad.dims[d]
            offset = offset + (size - 1) * stride
            new[d] = new[d][0], -stride
        larger = expand(Lmad(offset, tuple(new)), name, lower, extent)
        if larger is not None:
            found.append(larger)
    # Best where the variable is no more in the offset.
    return min(found, key=lambda larger: larger.dims[0][1] != 0, default=None)


# ---------------------------------------------------------------- questions


def size(lmad: Lmad) -> Size:
    """How many indices it has: the number of elements where it meets none twice."""
    return product(lmad.shape)


def contains(lmad: Lmad, element: Size, prover: Prover) -> Verdict:
    """Whether an element is in the set."""
    return overlap(lmad, Lmad(element, ()), prover)


def is_injective(lmad: Lmad, prover: Prover) -> bool:
    """Whether it is proved that different indices have different elements."""
    dims = [(prover.normal(n), prover.normal(s)) for n, s in lmad.dims]
    dims = [(n, s) for n, s in dims if n != 1 and not prover.less_equal(n, 1)]
    dims.sort(key=lambda dim: by_size(dim[1]), reverse=True)
    return all(_no_collision(dims[first:], prover) for first in range(len(dims)))


def _no_collision(dims: list[tuple[Poly, Poly]], prover: Prover) -> bool:
    """Whether no two indices that differ in the first dimension have the same element."""
    (first, _), *rest = dims
    facts = [Fact(">=0", first - 2), *(Fact(">=0", extent - 1) for extent, _ in rest)]
    known = prover.assuming(*facts)
    intervals = []
    for position, (extent, stride) in enumerate(dims):
        least, last = (ONE if position == 0 else 1 - extent), extent - 1
        if known.positive(stride):
            intervals.append(Interval(least, last, stride))
        elif known.positive(-stride):
            intervals.append(Interval(-last, -least, -stride))
        else:
            return False
    return ZeroFree(known).argument(interval_sum(ZERO, intervals)) is not None
