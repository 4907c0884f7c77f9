"""Boxes of indices: against enumeration, for small numbers in the place of every symbol."""

from __future__ import annotations

import itertools
from collections.abc import Mapping

import pytest

from weft.fun import nodes as fun
from weft.passes import boxes
from weft.passes.boxes import Box
from weft.sizes import Poly, as_poly
from weft.sizes.prove import Prover

K, N, B = (Poly.var(name) for name in "knb")
PROVER = Prover(sizes=("n", "b"))


def box(*dims: tuple[Poly | int, Poly | int]) -> Box:
    return tuple((as_poly(start), as_poly(extent)) for start, extent in dims)


def elements(found: Box, values: Mapping[str, int]) -> set[tuple[int, ...]]:
    ranges = [range(s.evaluate(values), (s + e).evaluate(values)) for s, e in found]
    return set(itertools.product(*ranges))


LOOPS = {
    "rows": box((K, 1), (0, N)),
    "rows from the last one": box((N - K, 1), (0, N)),
    "blocks": box((K * B + 1, B), (2, 3)),
    "blocks from the last one": box((N - K * B, B)),
    "the same in every round": box((1, N), (0, 2)),
}


@pytest.mark.parametrize("one", LOOPS.values(), ids=LOOPS)
def test_over_a_loop(one: Box) -> None:
    union = boxes.over_loop(one, ("k", as_poly(1), N), PROVER)
    assert union is not None
    for n, b in itertools.product(range(2, 5), range(2, 4)):
        rounds = [elements(one, {"k": k, "n": n, "b": b}) for k in range(1, n + 1)]
        assert elements(union, {"n": n, "b": b}) == set().union(*rounds)


UNKNOWN = {
    "blocks that overlap": box((K, 2)),
    "blocks with gaps": box((2 * K, 1)),
    "a diagonal": box((K, 1), (K, 1)),
    "a triangle": box((0, K)),
    "squares": box((K * K, 1)),
}


@pytest.mark.parametrize("one", UNKNOWN.values(), ids=UNKNOWN)
def test_not_over_a_loop(one: Box) -> None:
    assert boxes.over_loop(one, ("k", as_poly(0), N), PROVER) is None


def test_the_same_box_in_a_loop_of_perhaps_no_rounds() -> None:
    assert boxes.over_loop(box((1, N)), ("k", as_poly(0), N - 2), PROVER) is None


def test_no_rounds_are_no_elements() -> None:
    union = boxes.over_loop(box((K * B, B)), ("k", as_poly(0), N - 2), PROVER)
    assert union is not None
    assert elements(union, {"n": 2, "b": 3}) == set()


def test_joined() -> None:
    parts = [box((0, 1), (0, N)), box((3, N - 3), (0, N)), box((1, 2), (0, N))]
    assert boxes.joined(parts, PROVER) == [box((0, N), (0, N))]
    apart = [box((0, 1), (0, N)), box((2, N - 2), (0, N))]
    assert boxes.joined(apart, PROVER) == apart
    other = [box((0, 1), (0, N)), box((1, N - 1), (0, N - 1))]
    assert boxes.joined(other, PROVER) == other


def test_joined_with_an_empty_one_has_no_element_more() -> None:
    values = {"n": 2}
    parts = [box((0, 1)), box((1, N - 4))]  # the second one is empty
    (whole,) = boxes.joined(parts, PROVER)
    assert elements(whole, values) <= elements(parts[0], values)


def test_contains_and_disjoint() -> None:
    inside = PROVER.within("k", 1, N - 1)
    rows = box((0, K), (0, N))
    assert boxes.contains(rows, box((K - 1, 1), (0, N)), inside)
    assert not boxes.contains(rows, box((K, 1), (0, N)), inside)
    assert not boxes.contains(rows, box((K - 2, 1), (0, N)), inside)  # -1 when k is 1
    assert boxes.disjoint(rows, box((K, 1), (0, N)), inside)
    assert not boxes.disjoint(rows, box((K - 1, 1), (0, N)), inside)


def test_of_reads() -> None:
    space = (("i", as_poly(0), N), ("j", as_poly(1), B))
    i, j = Poly.var("i"), Poly.var("j")
    assert boxes.of_reads((K, i, j + 2), space) == box((K, 1), (0, N), (3, B))
    assert boxes.of_reads((i, i), space) is None
    assert boxes.of_reads((K, i), space) is None  # each element b times
    assert boxes.of_reads((i + j, K), space) is None
    assert boxes.of_reads((2 * i, j), space) is None


def test_of_slice() -> None:
    assert boxes.of_slice((K, fun.Span(as_poly(1), N))) == box((K, 1), (1, N))
    assert boxes.of_slice((fun.Span(as_poly(1), N, 2),)) is None
