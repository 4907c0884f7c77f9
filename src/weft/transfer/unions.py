"""Unions of accesses as one packed array, and where each access finds its elements in it.

The accesses of a group have the same strides; each lies in the union

    base + sum of strides_k * i_k + residues_p      (i_k < extents_k)

which theorem 2 proves to meet no element twice. Of several one-dimensional accesses the union
has a closed form (section 4.3.2); of several multi-dimensional ones it is the solution of an
integer program (section 4.3.4), which SciPy's HiGHS solves; where there is none, the interval
from the least to the greatest element is taken.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from typing import Any, Literal, TypeAlias

import numpy as np

from weft.records import dataclass
from weft.transfer.accesses import Access, Affine, restricted

TIME_LIMIT = 0.5
"""Seconds that the solver of one integer program may take."""

UNKNOWNS = 400
"""Unknowns of an integer program, at most."""

_CLOSE = 1.05  # of the fewest elements that there can be: no integer program is solved
_EXACT = 1 << 40  # numbers below are exact in the solver's arithmetic

Kind: TypeAlias = Literal["one-dimensional", "equal strides", "multi-dimensional", "interval"]


@dataclass(frozen=True, slots=True)
class Union:
    """A packed superset of the elements of some accesses.

    Attributes
    ----------
    base : int
        The address of the first element.
    strides, extents : tuple of int
        The axes of the packed array: strides of its elements in memory, decreasing.
    residues : tuple of int
        Offsets, increasing, from 0 on: the last axis of the packed array, where it has several.
    shifts : tuple of tuple of int
        For each access what is added to its digits.
    ranks : tuple of int
        For each access which of the residues is its own.
    kind : str
    """

    base: int
    strides: tuple[int, ...]
    extents: tuple[int, ...]
    residues: tuple[int, ...]
    shifts: tuple[tuple[int, ...], ...]
    ranks: tuple[int, ...]
    kind: Kind

    @property
    def count(self) -> int:
        """How many elements are transferred."""
        return len(self.residues) * math.prod(self.extents)

    @property
    def shape(self) -> tuple[int, ...]:
        """Of the packed array."""
        if len(self.residues) == 1 and self.extents:
            return self.extents
        return (*self.extents, len(self.residues))

    def indices(self, number: int, access: Access) -> tuple[Affine, ...]:
        """Where the access of this number finds its element in the packed array.

        Algorithm 1 of the paper, before its rows are laid one after another; where that adds
        b' + r_m - b_0, the rank of r_m among the residues belongs, as in its section 4.3.2.
        """
        if self.kind == "interval":
            total = Affine(access.base - self.base)
            for dim in access.dims:
                total = total.plus(dim.digit, dim.stride)
            return (total,)
        digits = zip(self.shifts[number], access.digits(self.strides), strict=True)
        found = tuple(digit.plus(Affine(shift)) for shift, digit in digits)
        if len(self.shape) == len(found):
            return found
        return (*found, Affine(self.ranks[number]))


def union(accesses: Sequence[Access]) -> Union:
    """The smallest union that is found: never larger than the interval."""
    whole = interval(accesses)
    strides = tuple(sorted({s for a in accesses for s in a.strides}, reverse=True))
    bases = tuple(a.base for a in accesses)
    found = packed(strides, bases, tuple(a.extents(strides) for a in accesses))
    return whole if found is None or found.count > whole.count else found


def interval(accesses: Sequence[Access]) -> Union:
    """Everything from the least to the greatest element."""
    low, high = min(a.base for a in accesses), max(a.last for a in accesses)
    nothing = tuple((0,) for _ in accesses)
    return Union(low, (1,), (high - low + 1,), (0,), nothing, (0,) * len(accesses), "interval")


@lru_cache(maxsize=512)
def packed(
    strides: tuple[int, ...], bases: tuple[int, ...], extents: tuple[tuple[int, ...], ...]
) -> Union | None:
    """The union of LMADs of the same strides; None where the theorems promise none."""
    if len(set(bases)) == 1:
        largest = tuple(map(max, zip(*extents, strict=True)))
        if not restricted(strides, largest):
            return None
        kind: Kind = "one-dimensional" if len(strides) < 2 else "multi-dimensional"
        zero = (0,) * len(strides)
        return Union(
            bases[0], strides, largest, (0,), (zero,) * len(bases), (0,) * len(bases), kind
        )
    if len(strides) < 2:
        start = min(bases)
        return _made(strides, bases, extents, start, [_floored(strides, b - start) for b in bases])
    candidates = [
        _made(strides, bases, extents, *_shifted(strides, bases, nearest))
        for nearest in (True, False)
    ]
    best = _smallest(candidates)
    if best is not None and best.count <= _CLOSE * _fewest(strides, bases, extents):
        return best
    return _smallest([best, _solved(strides, bases, extents)])


Digits: TypeAlias = tuple[tuple[int, ...], int]
"""The multiples of the strides in a distance, and what is left of it."""


def _floored(strides: Sequence[int], distance: int, nearest: bool = False) -> Digits:
    """A distance as multiples of the strides and a residue; `nearest`: of all but the last."""
    digits = []
    for stride in strides:
        more = stride // 2 if nearest and stride != strides[-1] else 0
        digit = (distance + more) // stride
        digits.append(digit)
        distance -= digit * stride
    return tuple(digits), distance


def _shifted(
    strides: tuple[int, ...], bases: tuple[int, ...], nearest: bool
) -> tuple[int, list[Digits]]:
    """A start from which all bases are reached by digits that are not negative."""
    first = min(bases)
    found = [_floored(strides, base - first, nearest) for base in bases]
    least = tuple(map(min, zip(*(digits for digits, _ in found), strict=True)))
    start = first + sum(s * t for s, t in zip(strides, least, strict=True))
    moved = [
        (tuple(t - low for t, low in zip(digits, least, strict=True)), residue)
        for digits, residue in found
    ]
    return start, moved


def _made(
    strides: tuple[int, ...], bases: tuple[int, ...], extents: tuple[tuple[int, ...], ...],
    start: int, parts: Sequence[Digits],
) -> Union | None:  # fmt: skip
    """The union from digits and residues; None where theorem 2 does not hold of it."""
    for base, (digits, residue) in zip(bases, parts, strict=True):
        reached = start + residue + sum(s * t for s, t in zip(strides, digits, strict=True))
        if reached != base or residue < 0 or any(t < 0 for t in digits):
            return None
    grown = tuple(
        max(u[k] + digits[k] for u, (digits, _) in zip(extents, parts, strict=True))
        for k in range(len(strides))
    )
    least = min(residue for _, residue in parts)
    residues = sorted({residue - least for _, residue in parts})
    if not restricted(strides, grown, residues[-1]):
        return None
    return Union(
        start + least, strides, grown, tuple(residues), tuple(digits for digits, _ in parts),
        tuple(residues.index(residue - least) for _, residue in parts),
        "multi-dimensional" if len(strides) > 1 else "equal strides",
    )  # fmt: skip


def _smallest(candidates: Sequence[Union | None]) -> Union | None:
    found = [candidate for candidate in candidates if candidate is not None]
    return min(found, key=lambda candidate: candidate.count, default=None)


def _fewest(
    strides: tuple[int, ...], bases: tuple[int, ...], extents: tuple[tuple[int, ...], ...]
) -> int:
    """What no union of this form can have fewer elements than."""
    residues = {base % math.gcd(*strides) for base in bases}
    largest: list[int] = [max(column) for column in zip(*extents, strict=True)]
    return len(residues) * math.prod(largest)


# ---------------------------------------------------------------- the integer program


def _solved(
    strides: tuple[int, ...], bases: tuple[int, ...], extents: tuple[tuple[int, ...], ...]
) -> Union | None:
    """The union whose extents grow least, from constraints 29 to 34 of the paper.

    None without SciPy, past the time limit, or where the constraints have no solution. The
    paper minimises the sum of the extents; here each is weighted by what one more of it costs,
    and since a sum does not count residues, a solution with as few as there can be is tried too.
    """
    first, d = min(bases), len(strides)
    known = dict.fromkeys(bases, (1,) * d)
    for base, own in zip(bases, extents, strict=True):
        known[base] = tuple(map(max, zip(known[base], own, strict=True)))
    distances = [base - first for base in known]
    if (2 + d + len(known) * (d + 1)) > UNKNOWNS or strides[0] + max(distances) >= _EXACT:
        return None
    found: list[Union | None] = []
    for greatest in {strides[-1] - 1, math.gcd(*strides) - 1}:
        values = solve(strides, distances, list(known.values()), greatest)
        if values is not None:
            start, parts = values
            by_base = dict(zip(known, parts, strict=True))
            found.append(
                _made(strides, bases, extents, first + start, [by_base[base] for base in bases])
            )
    return _smallest(found)


def solve(
    strides: Sequence[int], distances: Sequence[int], extents: Sequence[tuple[int, ...]],
    greatest: int,
) -> tuple[int, list[Digits]] | None:  # fmt: skip
    """The integer program of section 4.3.4, by `scipy.optimize.milp`.

    No residue is above `greatest`. The unknowns are the extents u', the start b' (from the first
    base), the greatest residue, and for each LMAD its shifts t and its residue r.
    """
    try:
        from scipy.optimize import Bounds, LinearConstraint, milp
    except ImportError:
        return None
    d, n = len(strides), len(distances)
    start, top, count = d, d + 1, d + 2 + n * (d + 1)

    def shift(m: int, k: int) -> int:
        return d + 2 + m * (d + 1) + k

    rows: list[dict[int, int]] = []
    low: list[float] = []
    high: list[float] = []

    def constrain(row: dict[int, int], least: float, most: float = math.inf) -> None:
        rows.append(row)
        low.append(least)
        high.append(most)

    for m, distance in enumerate(distances):
        reached = {shift(m, k): s for k, s in enumerate(strides)}
        constrain({**reached, shift(m, d): 1, start: 1}, distance, distance)  # (30)
        for k in range(d):
            constrain({k: 1, shift(m, k): -1}, extents[m][k])  # (31)
        constrain({top: 1, shift(m, d): -1}, 0)
    for k in range(d - 1):  # (32), with the greatest residue for s_d - 1
        below = {p: -strides[p] for p in range(k + 1, d)}
        constrain({**below, top: -1}, 1 - strides[k] - sum(strides[k + 1 :]))
    matrix = np.zeros((len(rows), count))
    for number, row in enumerate(rows):
        for column, factor in row.items():
            matrix[number, column] = factor
    least, most = np.zeros(count), np.full(count, np.inf)
    least[start], most[start] = 1 - strides[0], 0  # (34)
    most[top] = greatest  # (29)
    largest: list[int] = [max(column) for column in zip(*extents, strict=True)]
    weights = np.zeros(count)
    weights[:d] = [1 / size for size in largest]
    found: Any = milp(
        weights / weights.max(), integrality=np.ones(count), bounds=Bounds(least, most),
        constraints=LinearConstraint(matrix, low, high), options={"time_limit": TIME_LIMIT},
    )  # fmt: skip
    if found.x is None:
        return None
    numbers = [round(value) for value in found.x]
    parts = [
        (tuple(numbers[shift(m, k)] for k in range(d)), numbers[shift(m, d)]) for m in range(n)
    ]
    return numbers[start], parts
