"""Verdicts about random LMADs against enumeration: never wrong, and how often they come."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest
from lmad.oracle import (
    PROVER,
    VALUES,
    elements,
    met_once,
    random_known,
    random_symbolic,
    random_tile,
)

from weft.lmad import Lmad, exact
from weft.lmad.overlap import disjoint, overlap
from weft.lmad.sets import contains, cover, is_injective, normalise
from weft.sizes import Poly, as_poly
from weft.sizes.prove import Prover

COUNT = 400
MANY = 50_000  # each pair for len(VALUES) values: more than two million instances

# Of the pairs that are disjoint at all values tried, what part is proved to be; measured
# 0.96 of arbitrary polynomials, 1.0 of blocks of a matrix, 0.967 of known numbers (which
# `exact` decides, all of them).
FLOORS = {random_symbolic: 0.94, random_tile: 0.99}
KNOWN_FLOOR = 0.94


def check_pairs(make: Callable[[random.Random], Lmad], seed: int, count: int) -> float:
    """Verdicts of random pairs, checked; the part of the disjoint pairs that is proved."""
    rng = random.Random(seed)
    apart = proved = 0
    for _ in range(count):
        left, right = make(rng), make(rng)
        verdict = overlap(left, right, PROVER)
        meets = [elements(left, v) & elements(right, v) != 0 for v in VALUES]
        if verdict.answer == "no":
            assert not any(meets), verdict
        elif verdict.answer == "yes":
            assert all(meets), verdict
        if not any(meets):
            apart += 1
            proved += verdict.answer == "no"
    return proved / apart


@pytest.mark.parametrize("make", FLOORS, ids=lambda make: make.__name__)
def test_overlap_is_never_wrong_and_seldom_unknown(make: Callable[[random.Random], Lmad]) -> None:
    assert check_pairs(make, 1, COUNT) >= FLOORS[make]


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("make", FLOORS, ids=lambda make: make.__name__)
def test_overlap_is_never_wrong_in_millions(make: Callable[[random.Random], Lmad]) -> None:
    assert check_pairs(make, 2, MANY) >= FLOORS[make]


def check_known(seed: int, count: int) -> float:
    """Exact answers, checked; the part of disjoint pairs that sums of intervals prove."""
    rng, known = random.Random(seed), Prover()
    apart = proved = 0
    for _ in range(count):
        left, right = random_known(rng), random_known(rng)
        both = elements(left, {}) & elements(right, {})
        element = exact.common(left, right)
        assert (element is not None) == (both != 0)
        if element is not None:
            assert elements(Lmad(as_poly(element), ()), {}) & both
        lines = disjoint(left, right, known)
        assert lines is None or not both, lines
        if not both:
            apart += 1
            proved += lines is not None
        clash = exact.collision(left)
        assert (clash is None) == met_once(left, {})
        if clash is not None:
            first, second = (tuple(map(as_poly, index)) for index in clash)
            assert first != second
            assert left.apply(first) == left.apply(second)
            for index in clash:
                ends = zip(index, left.shape, strict=True)
                assert all(0 <= i < extent.constant for i, extent in ends)
        assert not is_injective(left, known) or clash is None
    return proved / apart


def test_exact_answers_are_those_of_enumeration() -> None:
    assert check_known(3, 1500) >= KNOWN_FLOOR


def test_large_numbers_are_not_enumerated() -> None:
    million = 10**6
    rows = known_lmad(0, (million, 3 * million), (million, 2))
    assert exact.common(rows, known_lmad(1, (million, 3 * million), (million, 2))) is None
    assert exact.common(rows, known_lmad(2 * million, (million, 3 * million), (million, 1))) is None
    element = exact.common(rows, known_lmad(2 * million - 3, (million, 3 * million), (5, 1)))
    assert element is not None
    assert element % (3 * million) == 2 * million - 2
    assert exact.collision(rows) is None
    assert exact.collision(known_lmad(7, (million, 2 * million - 2), (million, 2))) == (
        (1, 0), (0, million - 1)
    )  # fmt: skip
    # Coprime strides: multiples of both.
    both = exact.common(known_lmad(0, (million, 1009)), known_lmad(1013, (million, 1013)))
    assert both is not None
    assert both % (1009 * 1013) == 0


def known_lmad(offset: int, *dims: tuple[int, int]) -> Lmad:
    return Lmad(as_poly(offset), tuple((as_poly(n), as_poly(stride)) for n, stride in dims))


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_exact_answers_are_those_of_enumeration_many_times() -> None:
    assert check_known(4, 300_000) >= KNOWN_FLOOR


@pytest.mark.parametrize("make", FLOORS, ids=lambda make: make.__name__)
def test_sets_keep_their_elements(make: Callable[[random.Random], Lmad]) -> None:
    rng = random.Random(5)
    sizes = Prover(sizes=("n", "m"))
    for _ in range(COUNT):
        lmad, element = make(rng), make(rng).offset
        normal = normalise(lmad, PROVER)
        once = is_injective(lmad, PROVER)
        inside = contains(lmad, element, PROVER).answer
        union = cover(lmad, "i", as_poly(0), Poly.var("n"), sizes)
        for values in VALUES:
            found = elements(lmad, values)
            if normal is not None:
                assert elements(normal, values) == found, (lmad, normal)
            assert not once or met_once(lmad, values), lmad
            member = found & elements(Lmad(element, ()), values) != 0
            assert inside == "unknown" or (inside == "yes") == member
            if union is not None:
                assert found & ~elements(union, values) == 0, (lmad, union)
