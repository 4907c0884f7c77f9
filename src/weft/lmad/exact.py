"""Exact answers about LMADs whose sizes are known: common elements and collisions.

Whether two LMADs meet is a linear Diophantine equation with bounds, sum of d_k * stride_k =
target. Strides that fill each other's gaps are joined, then values of the largest strides are
tried, pruned by ranges and greatest common divisors; the last two are solved in closed form.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import gcd
from typing import TypeAlias

from weft.errors import ArgumentError, Place
from weft.lmad.lmad import Lmad
from weft.records import dataclass

Index: TypeAlias = tuple[int, ...]


def common(left: Lmad, right: Lmad) -> int | None:
    """An element of both, or None where there is none."""
    (start, dims), (other, others) = _values(left), _values(right)
    if any(extent <= 0 for extent, _ in (*dims, *others)):
        return None
    unknowns = [(0, extent - 1, stride) for extent, stride in dims]
    unknowns += [(0, extent - 1, -stride) for extent, stride in others]
    found = solve(unknowns, other - start)
    if found is None:
        return None
    return start + sum(i * stride for i, (_, stride) in zip(found, dims, strict=False))


def collision(lmad: Lmad) -> tuple[Index, Index] | None:
    """Two different indices of the same element, or None where no element is met twice."""
    return _collision(_values(lmad)[1])


def refuse_collision(
    offset: int, dims: tuple[tuple[int, int], ...], array: str, place: Place | None
) -> None:
    """Raise `ArgumentError` where an LMAD to be updated meets an element twice."""
    found = _collision(dims)
    if found is None:
        return
    left, right = found
    element = offset + sum(i * stride for i, (_, stride) in zip(left, dims, strict=True))
    text = ", ".join(f"({extent} : {stride})" for extent, stride in dims)
    raise ArgumentError(
        f"an update of {array} at {offset} + {{{text}}} meets element {element} twice, "
        f"at the indices {_show(left)} and {_show(right)}",
        "an LMAD that meets no element twice",
        "update an LMAD that does not overlap itself, or add up with x.at[indices].add(values)",
        place,
    )


def _show(index: Index) -> str:
    return str(list(index))


def _collision(dims: Sequence[tuple[int, int]]) -> tuple[Index, Index] | None:
    if any(extent <= 0 for extent, _ in dims):
        return None
    for first in range(len(dims)):  # the first position at which the two differ
        unknowns = [(0, 0, stride) for _, stride in dims[:first]]
        extent, stride = dims[first]
        unknowns.append((1, extent - 1, stride))
        unknowns += [(1 - extent, extent - 1, stride) for extent, stride in dims[first + 1 :]]
        found = solve(unknowns, 0)
        if found is not None:
            return tuple(max(d, 0) for d in found), tuple(max(-d, 0) for d in found)
    return None


def solve(unknowns: list[tuple[int, int, int]], target: int) -> Index | None:
    """Integers d_k with low_k <= d_k <= high_k and sum of d_k * factor_k = target, or None.

    Parameters
    ----------
    unknowns : list of (low, high, factor)
    target : int
    """
    if any(low > high for low, high, _ in unknowns):
        return None
    runs = [_run(k, *unknown) for k, unknown in enumerate(unknowns) if unknown[2]]
    search = _Search(_joined(runs))
    values = search.find(0, target)
    if values is None:
        return None
    found = [low for low, _, _ in unknowns]
    for run, value in zip(search.runs, values, strict=True):
        _assign(run, value, found)
    return tuple(found)


# ---------------------------------------------------------------- joined unknowns


@dataclass(frozen=True, slots=True)
class _Run:
    """low <= value <= high, times a positive factor.

    An unknown of the caller (at `position`, negated where `sign` is -1), or two runs:
    value = step * major + minor, all of which occur because minor fills the gaps.
    """

    low: int
    high: int
    factor: int
    position: int = 0
    sign: int = 1
    step: int = 0
    parts: tuple[_Run, _Run] | None = None  # major, minor


def _run(position: int, low: int, high: int, factor: int) -> _Run:
    if factor > 0:
        return _Run(low, high, factor, position)
    return _Run(-high, -low, -factor, position, -1)


def _joined(runs: list[_Run]) -> list[_Run]:
    """Sorted by decreasing factor; what fills the gaps of a multiple is joined with it."""
    joined: list[_Run] = []
    for run in sorted(runs, key=lambda r: -r.factor):
        while joined and (wider := _join(joined[-1], run)) is not None:
            joined.pop()
            run = wider
        joined.append(run)
    return joined


def _join(major: _Run, minor: _Run) -> _Run | None:
    step, rest = divmod(major.factor, minor.factor)
    if rest or (minor.high - minor.low + 1 < step and major.high > major.low):
        return None
    low, high = step * major.low + minor.low, step * major.high + minor.high
    return _Run(low, high, minor.factor, step=step, parts=(major, minor))


def _assign(run: _Run, value: int, found: list[int]) -> None:
    """Write the values of the caller's unknowns that make up a run's value."""
    if run.parts is None:
        found[run.position] = run.sign * value
        return
    major, minor = run.parts
    upper = max(major.low, -((minor.high - value) // run.step))
    _assign(major, upper, found)
    _assign(minor, value - run.step * upper, found)


# ---------------------------------------------------------------- search


class _Search:
    """Depth first over the runs, largest factor first."""

    def __init__(self, runs: list[_Run]) -> None:
        self.runs = runs
        # Of the runs from each position on: their common divisor, least and greatest sum.
        self._divisor, self._least, self._greatest = [0], [0], [0]
        for run in reversed(runs):
            self._divisor.insert(0, gcd(self._divisor[0], run.factor))
            self._least.insert(0, self._least[0] + run.low * run.factor)
            self._greatest.insert(0, self._greatest[0] + run.high * run.factor)
        self._failed: set[tuple[int, int]] = set()

    def find(self, position: int, target: int) -> list[int] | None:
        """Values of the runs from a position on that sum up to the target."""
        if not self._least[position] <= target <= self._greatest[position]:
            return None
        if position == len(self.runs):
            return []
        if target % self._divisor[position] or (position, target) in self._failed:
            return None
        run = self.runs[position]
        for value in self._candidates(run, position, target):
            rest = self.find(position + 1, target - value * run.factor)
            if rest is not None:
                return [value, *rest]
        self._failed.add((position, target))
        return None

    def _candidates(self, run: _Run, position: int, target: int) -> range:
        """Values of a run that leave a sum in range, divisible by what comes after.

        Each leaves a solution where one run or none comes after.
        """
        low = max(run.low, -((self._greatest[position + 1] - target) // run.factor))
        high = min(run.high, (target - self._least[position + 1]) // run.factor)
        divisor = self._divisor[position + 1]
        if divisor == 0:  # the last: the target is a multiple of its factor
            return range(low, high + 1)
        # value * factor = target modulo the divisor
        shared = gcd(run.factor, divisor)
        step = divisor // shared
        start = target // shared * pow(run.factor // shared, -1, step) % step
        return range(low + (start - low) % step, high + 1, step)


def _values(lmad: Lmad) -> tuple[int, list[tuple[int, int]]]:
    """Offset and dimensions as ints."""
    sizes = [lmad.offset, *lmad.shape, *lmad.strides]
    if not all(size.is_constant for size in sizes):
        raise ValueError(f"the sizes of {lmad} are not all known")
    dims = [(extent.constant, stride.constant) for extent, stride in lmad.dims]
    return lmad.offset.constant, dims
