"""Unions of accesses: the theorems of the paper, and what is transferred against enumeration."""

from __future__ import annotations

import itertools
import math
import sys
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as some
from slow import examples

from weft.transfer import unions
from weft.transfer.accesses import Access, access, restricted
from weft.transfer.groups import components, elements, groups
from weft.transfer.packing import pack
from weft.transfer.unions import Union, union


def points(made: Access) -> list[tuple[dict[str, int], int]]:
    """Each combination of the values of an access's variables, with the element that it meets."""
    ranges: dict[str, range] = {}
    for dim in made.dims:
        for name, multiplier in dim.digit.terms:
            assert abs(multiplier) >= 1
            ranges[name] = VALUES[name]
    found = []
    for chosen in itertools.product(*ranges.values()):
        values = dict(zip(ranges, chosen, strict=True))
        total = made.base + sum(d.stride * d.digit.at(values) for d in made.dims)
        found.append((values, total))
    return found


VALUES: dict[str, range] = {}
FRESH = itertools.count()


def an_access(constant: int, *loops: tuple[int, int, int]) -> Access:
    """Loops (coefficient, lower, upper) of variables of its own; the upper bound is included."""
    variables = {f"i{next(FRESH)}": loop for loop in loops}
    VALUES.update({name: range(low, high + 1) for name, (_, low, high) in variables.items()})
    return access(constant, variables)


def check(accesses: list[Access]) -> None:
    """Every access finds each of its elements in the packed copy; gives no other."""
    memory = np.arange(max(a.last for a in accesses) + 1)
    covered: set[int] = set()
    moved = 0
    for component in components(accesses):
        for group in groups(accesses, component):
            made = group.union
            moved += made.count
            packed = pack(made, memory, np.empty)
            assert packed.shape == made.shape
            assert packed.size == made.count
            for number, member in enumerate(group.members):
                at = made.indices(number, accesses[member])
                for values, element in points(accesses[member]):
                    assert packed[tuple(index.at(values) for index in at)] == element
            covered |= set(packed.ravel().tolist())
            assert made.count == len(elements_of(made))  # none is met twice
            own = [accesses[member] for member in group.members]
            least, greatest = min(a.base for a in own), max(a.last for a in own)
            assert made.count <= greatest - least + 1
    needed = set(np.concatenate([a.elements() for a in accesses]).tolist())
    assert needed <= covered
    assert moved >= len(needed)


def elements_of(made: Union) -> set[int]:
    """The elements of a union, by enumeration."""
    found = {made.base + residue for residue in made.residues}
    for stride, extent in zip(made.strides, made.extents, strict=True):
        found = {element + stride * digit for element in found for digit in range(extent)}
    return found


def smallest(strides: tuple[int, int], accesses: list[Access]) -> int | None:
    """The fewest elements of a union under constraints 29 to 34, by trying them all."""
    first, extents = min(a.base for a in accesses), [a.extents(strides) for a in accesses]
    best: int | None = None
    for start in range(first - strides[0] + 1, first + 1):
        ways = []
        for a in accesses:
            distance = a.base - start
            ways.append([
                (t, u, residue)
                for t in range(distance // strides[0] + 1)
                for u in range((distance - t * strides[0]) // strides[1] + 1)
                if (residue := distance - t * strides[0] - u * strides[1]) < strides[1]
            ])  # fmt: skip
        for chosen in itertools.product(*ways):
            grown = [
                max(own[k] + way[k] for own, way in zip(extents, chosen, strict=True))
                for k in range(2)
            ]
            residues = sorted({way[2] for way in chosen})
            if restricted(strides, grown, residues[-1] - residues[0]):
                size = len(residues) * math.prod(grown)
                best = size if best is None else min(best, size)
    return best


# ---------------------------------------------------------------- the paper's examples


def test_one_dimension() -> None:
    """Figure 4: 3i + 2 over 5 iterations goes to 0, 1, 2, 3, 4."""
    found = union([an_access(2, (3, 0, 4))])
    assert (found.base, found.strides, found.shape) == (2, (3,), (5,))
    assert found.kind == "one-dimensional"


def test_interleaved() -> None:
    """Figure 5: 2i and 2i + 1 are one transfer of everything."""
    found = union([an_access(0, (2, 0, 4)), an_access(1, (2, 0, 4))])
    assert found.count == 10
    assert found.shape == (5, 2)


def test_stretched() -> None:
    """Figure 7: stride 4, bases 0, 5 and 15: three of four elements, 5 + 3 periods."""
    accesses = [an_access(base, (4, 0, 4)) for base in (0, 5, 15)]
    found = union(accesses)
    assert found.residues == (0, 1, 3)
    assert found.shape == (5 + 3, 3)
    assert found.ranks == (0, 1, 2)
    assert found.shifts == ((0,), (1,), (3,))
    assert found.kind == "equal strides"


def test_overlap_graph() -> None:
    accesses = [an_access(base, (2, 0, 4)) for base in (0, 100, 3, 107)]
    assert components(accesses) == [[0, 2], [1, 3]]


def test_rows_of_a_stencil() -> None:
    """Five points of a whole interior: all from the second element to the last but one."""
    n, m = 40, 50
    around = [an_access(m * (1 + di) + 1 + dj, (m, 0, n - 3), (1, 0, m - 3))
              for di, dj in ((0, 0), (-1, 0), (1, 0), (0, -1), (0, 1))]  # fmt: skip
    found = union(around)
    assert found.shape == (n * m - 2,)
    assert found.kind == "interval"
    check(around)


def test_a_tile_of_a_stencil() -> None:
    """A tile is as wide as the tile and its neighbours, in a row of any length."""
    width = 1000
    around = [an_access(width * (7 + di) + 31 + dj, (width, 0, 7), (1, 0, 7))
              for di, dj in ((0, 0), (-1, 0), (1, 0), (0, -1), (0, 1))]  # fmt: skip
    found = union(around)
    assert found.shape == (10, 10)
    assert found.kind == "multi-dimensional"
    check(around)


def test_stretched_columns_stay_columns() -> None:
    """Columns 2 and 5 of rows of 9, at different rows."""
    found = [an_access(2, (9, 0, 5)), an_access(9 * 2 + 5, (9, 0, 5))]
    assert union(found).shape == (8, 2)
    check(found)


def test_the_papers_overlap() -> None:
    """16i + 5j and 16i + 5j + 1 for i < 8, j < 4 do not obey condition 14: the interval."""
    accesses = [an_access(base, (16, 0, 7), (5, 0, 3)) for base in (0, 1)]
    assert not restricted((16, 5), (8, 4), 5 - 1)
    assert restricted((16, 5), (8, 4))
    check(accesses)
    meets = {a.elements().tobytes() for a in accesses}
    assert len(meets) == 2
    assert 16 + 0 == accesses[0].elements()[4] == accesses[1].elements()[3]
    assert union(accesses).kind == "interval"


# ---------------------------------------------------------------- theorems

LOOPS = some.lists(
    some.tuples(some.integers(-40, 40), some.integers(-2, 3), some.integers(0, 5)),
    min_size=0, max_size=3,
)  # fmt: skip


def of(constant: int, loops: list[tuple[int, int, int]]) -> Access:
    least = sum(min(c * low, c * (low + more)) for c, low, more in loops)
    return an_access(constant - min(least, 0), *((c, low, low + more) for c, low, more in loops))


@settings(max_examples=examples(40), deadline=None)
@given(some.integers(0, 20), LOOPS)
def test_theorem_1(constant: int, loops: list[tuple[int, int, int]]) -> None:
    """Elements of an RCSLMAD come in the order of its digits, so all are different."""
    made = of(constant, loops)
    if restricted(made.strides, [dim.extent for dim in made.dims]):
        steps = [range(0, dim.stride * dim.extent, dim.stride) for dim in made.dims]
        met = [made.base + sum(digits) for digits in itertools.product(*steps)]
        assert all(a < b for a, b in itertools.pairwise(met))
        assert union([made]).count == len(made.elements()) == len(met)


@settings(max_examples=examples(40), deadline=None)
@given(some.data())
def test_theorem_2(data: Any) -> None:
    """n RCSLMADs of equal strides under conditions 14 and 15 meet n * |D| elements."""
    last = data.draw(some.integers(2, 6))
    strides, extents, below = [last], [data.draw(some.integers(1, 4))], 0
    for _ in range(data.draw(some.integers(0, 2))):
        below = last - 1 + sum(s * (u - 1) for s, u in zip(strides, extents, strict=True))
        strides.insert(0, below + data.draw(some.integers(1, 9)))
        extents.insert(0, data.draw(some.integers(2, 4)))
    bases = data.draw(some.sets(some.integers(0, last - 1), min_size=1))
    assert restricted(strides, extents, last - 1)
    accesses = [
        an_access(b, *((s, 0, u - 1) for s, u in zip(strides, extents, strict=True)))
        for b in bases
    ]
    size = len(bases) * math.prod(extents)
    assert len(set(np.concatenate([a.elements() for a in accesses]).tolist())) == size
    # An access of one element in a dimension lacks it; then the interval may be as small.
    found = union(accesses)
    if min(extents) > 1:
        assert found.count == size
    assert found.count >= size


@settings(max_examples=examples(40), deadline=None)
@given(some.lists(some.tuples(some.integers(0, 60), LOOPS), min_size=1, max_size=4))
def test_never_fewer(parts: list[tuple[int, list[tuple[int, int, int]]]]) -> None:
    check([of(constant, loops) for constant, loops in parts])


@settings(max_examples=examples(40), deadline=None)
@given(some.lists(some.integers(0, 80), min_size=2, max_size=4), some.data())
def test_equal_strides(bases: list[int], data: Any) -> None:
    """Shifted copies of one pattern, as in a stencil."""
    width = data.draw(some.integers(9, 20))
    loops = ((width, 0, data.draw(some.integers(0, 4))), (1, 0, data.draw(some.integers(0, 4))))
    check([an_access(base, *loops) for base in bases])


@settings(max_examples=examples(100), deadline=None)
@given(
    some.tuples(some.integers(1, 3), some.integers(5, 14)),
    some.lists(some.integers(0, 40), min_size=2, max_size=3, unique=True),
    some.lists(
        some.tuples(some.integers(2, 3), some.integers(2, 3)), min_size=3, max_size=3
    ),
)
def test_no_union_of_the_form_is_smaller(
    strides: tuple[int, int], bases: list[int], extents: list[tuple[int, int]]
) -> None:
    """Nor is what is found much larger than the smallest: its sum of extents is the least."""
    pytest.importorskip("scipy")
    inner, outer = strides
    accesses = [
        an_access(base, (outer, 0, m - 1), (inner, 0, n - 1))
        for base, (m, n) in zip(bases, extents, strict=False)
    ]
    if any(a.strides != (outer, inner) for a in accesses):
        return  # of one dimension, joined
    best, whole = smallest((outer, inner), accesses), unions.interval(accesses).count
    found = union(accesses)
    if best is None:
        assert found.kind == "interval"
    else:
        assert min(best, whole) <= found.count <= 1.25 * best
    assert found.count <= whole


def test_as_few_residues_as_there_can_be() -> None:
    """12 is 9 + 2 + 1, but 2 * 9 - 3 * 2 too: one residue less is worth a larger extent."""
    pytest.importorskip("scipy")
    accesses = [an_access(18, (9, 0, 2), (2, 0, 1)), an_access(30, (9, 0, 2), (2, 0, 2))]
    found = union(accesses)
    assert found.count == smallest((9, 2), accesses)
    assert found.residues == (0,)


# ---------------------------------------------------------------- without the solver


def hard() -> list[Access]:
    """Shifts of a pattern that rounding alone does not bring together well."""
    return [an_access(base, (100, 0, 5), (10, 0, 3)) for base in (0, 195, 312, 9)]


def test_the_integer_program_is_solved() -> None:
    pytest.importorskip("scipy")
    strides, distances = (100, 10), [0, 40, 170]
    found = unions.solve(strides, distances, [(6, 4)] * 3, 9)
    assert found is not None
    start, parts = found
    for distance, (digits, residue) in zip(distances, parts, strict=True):
        reached = sum(s * t for s, t in zip(strides, digits, strict=True))
        assert start + residue + reached == distance
    check(hard())


def test_without_scipy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "scipy.optimize", None)
    unions.packed.cache_clear()
    assert unions.solve((100, 10), [0, 40], [(6, 4)] * 2, 9) is None
    check(hard())
    unions.packed.cache_clear()


def test_past_the_time_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    """Then what rounding or the interval gives is taken."""
    pytest.importorskip("scipy")
    monkeypatch.setattr(unions, "TIME_LIMIT", 0.0)
    unions.packed.cache_clear()
    check(hard())
    unions.packed.cache_clear()


def test_too_many_unknowns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(unions, "UNKNOWNS", 3)
    unions.packed.cache_clear()
    monkeypatch.setattr(unions, "solve", None)  # it is not asked
    check(hard())
    unions.packed.cache_clear()


def test_separate_where_that_is_less() -> None:
    """A left and a right part of the same rows are not joined by what lies between."""
    accesses = [an_access(base, (1000, 0, 9), (1, 0, 9)) for base in (0, 500)]
    found = groups(accesses, [0, 1])
    assert [g.members for g in found] == [(0,), (1,)]
    assert elements(found) == 200
    check(accesses)
