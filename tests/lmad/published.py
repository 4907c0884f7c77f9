"""Procedure 3.5 of P. Munksgaard's thesis (2023), section 3.6.2, as it is published.

Two LMADs become sums of strided intervals with the same strides and no offset; dimensions
that overlap themselves are split; then one pair of intervals that do not overlap suffices.
Two slips of the text are mended: it is the dimension after the offending one that is split
(as in its example), and both of the resulting parts keep the other intervals.
"""

from __future__ import annotations

from dataclasses import replace

from weft.lmad.interval_sum import Interval, IntervalSum
from weft.lmad.lmad import Lmad
from weft.sizes import ONE, ZERO, Poly
from weft.sizes.division import divide
from weft.sizes.prove import Prover

SPLITS = 4  # in a row

Pair = tuple[IntervalSum, IntervalSum]


def to_intervals(lmad: Lmad) -> IntervalSum:
    """Figure 3.8; the LMAD is normalised and not empty."""
    dims = (Interval(ZERO, extent - 1, stride) for extent, stride in lmad.dims)
    return IntervalSum(lmad.offset, tuple(dims))


def match_strides(left: IntervalSum, right: IntervalSum, prover: Prover) -> Pair | None:
    """Step 3: both with every stride of either, and 1, in decreasing order; empty where new."""
    strides = dict.fromkeys([i.stride for i in (*left.intervals, *right.intervals)] + [ONE])
    ordered: list[Poly] = []
    for stride in strides:
        place = 0
        while place < len(ordered) and prover.less_equal(stride, ordered[place]):
            place += 1
        if not all(prover.less_equal(smaller, stride) for smaller in ordered[place:]):
            return None
        ordered.insert(place, stride)
    return _with_strides(left, ordered), _with_strides(right, ordered)


def _with_strides(total: IntervalSum, strides: list[Poly]) -> IntervalSum:
    found = []
    for stride in strides:
        same = [i for i in total.intervals if i.stride == stride]
        low = sum((i.low for i in same), ZERO)
        found.append(Interval(low, sum((i.high for i in same), ZERO), stride))
    return IntervalSum(total.offset, tuple(found))


def distribute_offsets(left: IntervalSum, right: IntervalSum, prover: Prover) -> Pair | None:
    """Step 4: the difference of the offsets as multiples of the strides, largest first.

    Positive ones move the left sum's intervals up, negative ones the right sum's.
    """
    rest = left.offset - right.offset
    mine, yours = [], []
    for one, other in zip(left.intervals, right.intervals, strict=True):
        quotient, rest = divide(rest, one.stride)
        if prover.nonnegative(quotient):
            one = replace(one, low=one.low + quotient, high=one.high + quotient)
        elif prover.nonnegative(-quotient):
            other = replace(other, low=other.low - quotient, high=other.high - quotient)
        else:
            return None
        mine.append(one)
        yours.append(other)
    if rest != 0:
        return None
    return IntervalSum(ZERO, tuple(mine)), IntervalSum(ZERO, tuple(yours))


def self_overlapping(total: IntervalSum, prover: Prover) -> int | None:
    """Step 5: a dimension whose stride is not proved to exceed the span of those after it."""
    span = ZERO
    for axis in reversed(range(len(total.intervals))):
        interval = total.intervals[axis]
        if not prover.positive(interval.stride - span):
            return axis
        span = span + interval.high * interval.stride
    return None


def split(total: IntervalSum, axis: int) -> Pair:
    """The greatest index of a dimension apart: [l, u] => {u} and [l, u - 1]."""
    cut = total.intervals[axis]
    before, after = total.intervals[:axis], total.intervals[axis + 1 :]
    alone, rest = Interval(ZERO, ZERO, cut.stride), replace(cut, high=cut.high - 1)
    return (
        IntervalSum(total.offset + cut.high * cut.stride, (*before, alone, *after)),
        IntervalSum(total.offset, (*before, rest, *after)),
    )


def no_overlap(left: IntervalSum, right: IntervalSum, prover: Prover, splits: int = SPLITS) -> bool:
    """Whether two normalised sums are proved to be disjoint."""
    matched = match_strides(left, right, prover)
    distributed = None if matched is None else distribute_offsets(*matched, prover)
    if distributed is None:
        return False
    for side, total in enumerate(distributed):
        axis = self_overlapping(total, prover)
        if axis is not None:
            wide = (k for k, i in enumerate(total.intervals) if k > axis and i.low != i.high)
            cut = next(wide, None)
            if splits == 0 or cut is None:
                return False
            other = distributed[1 - side]
            return all(no_overlap(part, other, prover, splits - 1) for part in split(total, cut))
    pairs = zip(*(total.intervals for total in distributed), strict=True)
    return any(prover.less(a.high, b.low) or prover.less(b.high, a.low) for a, b in pairs)
