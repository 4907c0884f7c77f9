"""The published overlap test, step by step, and that Weft's own proves all that it proves."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable

import pytest
from lmad.oracle import PROVER, random_symbolic, random_tile
from lmad.published import (
    distribute_offsets,
    match_strides,
    no_overlap,
    self_overlapping,
    split,
    to_intervals,
)
from lmad.test_overlap import LUD, LUD_PARTS, NW, NW_READS, NW_WRITES

from weft.lmad import Lmad
from weft.lmad.interval_sum import Interval, IntervalSum
from weft.lmad.overlap import overlap
from weft.lmad.sets import normalise
from weft.sizes import Fact, parse_poly
from weft.sizes.prove import Prover


def intervals(text: str, offset: str = "0") -> IntervalSum:
    """A sum of "low high stride, low high stride, ..."."""
    parts = (map(parse_poly, part.split()) for part in text.split(","))
    return IntervalSum(parse_poly(offset), tuple(Interval(*part) for part in parts))


def test_the_worked_example_step_by_step() -> None:
    """Section 3.6.3: writes and reads of Needleman-Wunsch, n = q*b + 1."""
    writes, reads = NW_WRITES, NW_READS["left and above"]
    assert normalise(writes, NW) == writes
    assert normalise(reads, NW) == reads

    # Intervals, with the strides matched.
    matched = match_strides(to_intervals(writes), to_intervals(reads), NW)
    assert matched is not None
    assert matched[0] == intervals("0 i n*b-b, 0 b-1 n, 0 b-1 1", "i*b + n + 1")
    assert matched[1] == intervals("0 i n*b-b, 0 b n, 0 0 1", "i*b")

    # Offsets distributed: their difference is n + 1.
    distributed = distribute_offsets(*matched, NW)
    assert distributed == (
        intervals("0 i n*b-b, 1 b n, 1 b 1"), intervals("0 i n*b-b, 0 b n, 0 0 1")
    )  # fmt: skip

    # Both overlap themselves, since n*b - b is not greater than n*b: the second is split.
    assert [self_overlapping(total, NW) for total in distributed] == [0, 0]
    first_write, second_write = split(distributed[0], 1)
    first_read, second_read = split(distributed[1], 1)
    assert first_write == intervals("0 i n*b-b, 0 0 n, 1 b 1", "n*b")
    assert second_write == intervals("0 i n*b-b, 1 b-1 n, 1 b 1")
    assert first_read == intervals("0 i n*b-b, 0 0 n, 0 0 1", "n*b")
    assert second_read == intervals("0 i n*b-b, 0 b-1 n, 0 0 1")

    # New offsets: n*b = (n*b - b) + b.
    nothing = IntervalSum(parse_poly("0"), first_read.intervals)
    moved = distribute_offsets(first_write, nothing, NW)
    assert moved is not None
    assert moved[0] == intervals("1 i+1 n*b-b, 0 0 n, b+1 2*b 1")
    first_write_moved = moved[0]
    moved = distribute_offsets(first_read, nothing, NW)
    assert moved is not None
    assert moved[0] == intervals("1 i+1 n*b-b, 0 0 n, b b 1")
    first_read_moved = moved[0]

    # No part overlaps itself, and each pair has intervals apart: which ones.
    parts_written, parts_read = (first_write_moved, second_write), (first_read_moved, second_read)
    for total in (*parts_written, *parts_read):
        assert self_overlapping(total, NW) is None
    apart = [
        [
            axis
            for axis, (a, b) in enumerate(zip(left.intervals, right.intervals, strict=True))
            if NW.less(a.high, b.low) or NW.less(b.high, a.low)
        ]
        for left, right in itertools.product(parts_written, parts_read)
    ]
    assert [found[-1] for found in apart] == [2, 2, 1, 2]
    assert no_overlap(to_intervals(writes), to_intervals(reads), NW)


@pytest.mark.parametrize("reads", NW_READS)
def test_it_proves_needleman_wunsch(reads: str) -> None:
    assert published(NW_WRITES, NW_READS[reads], NW)


@pytest.mark.parametrize("pair", list(itertools.combinations(LUD_PARTS, 2)), ids="-".join)
def test_it_proves_lu_decomposition(pair: tuple[str, str]) -> None:
    assert published(LUD_PARTS[pair[0]], LUD_PARTS[pair[1]], LUD)


def test_small_sums() -> None:
    """The examples of section 3.6.2."""
    assert self_overlapping(intervals("0 1 10, 0 10 1"), Prover()) == 0
    assert split(intervals("0 1 10, 0 10 1"), 1) == (
        intervals("0 1 10, 0 0 1", "10"), intervals("0 1 10, 0 9 1")
    )  # fmt: skip
    assert no_overlap(intervals("0 2 10, 0 4 1"), intervals("0 2 10, 5 9 1"), Prover())
    assert not no_overlap(intervals("0 2 10, 0 5 1"), intervals("0 2 10, 5 9 1"), Prover())


@pytest.mark.parametrize("make", [random_symbolic, random_tile], ids=lambda make: make.__name__)
def test_what_it_proves_is_proved(make: Callable[[random.Random], Lmad]) -> None:
    rng = random.Random(6)
    proved = 0
    for _ in range(200):
        left, right = make(rng), make(rng)
        if published(left, right, PROVER):
            proved += 1
            assert overlap(left, right, PROVER).answer == "no", (left, right)
    assert proved > 20


def published(left: Lmad, right: Lmad, prover: Prover) -> bool:
    """Procedure 3.5 of LMADs that are not empty."""
    extents = (*left.shape, *right.shape)
    known = prover.assuming(*(Fact(">=0", extent - 1) for extent in extents))
    normal = normalise(left, known), normalise(right, known)
    if normal[0] is None or normal[1] is None:
        return False
    return no_overlap(to_intervals(normal[0]), to_intervals(normal[1]), known)


def test_needleman_wunsch_needs_splits() -> None:
    sums = to_intervals(NW_WRITES), to_intervals(NW_READS["left and above"])
    assert no_overlap(*sums, NW, splits=2)
    assert not no_overlap(*sums, NW, splits=1)
