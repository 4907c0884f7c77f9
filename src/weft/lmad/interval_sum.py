"""Sums of strided intervals, and proofs that they do not contain 0.

Two LMADs meet where the difference of their elements is 0: the difference is again a sum of
strided intervals, in which intervals of the same stride are added up. A sum is split at a
modulus g into the intervals whose strides g divides, and the rest: where the rest lies within
few multiples of g, it has to equal one of them, and either part can show that it does not.

This extends procedure 3.5 of P. Munksgaard, *Static and Dynamic Analyses for Efficient GPU
Execution* (2023): its non-overlap theorem 3.6.2 is the case in which the rest lies between -g
and g, its splits of dimensions that overlap themselves are the cases of a few multiples, and
its distribution of offsets is the division of the rest's offset by g. The one-dimensional test
by greatest common divisors is the case of a rest without intervals.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from weft.records import dataclass
from weft.sizes import ONE, ZERO, Poly
from weft.sizes.division import divide, exact_quotient, factors
from weft.sizes.prove import Prover

BUDGET = 24  # sums looked at for one question
DEPTH = 6  # splits in a row
MULTIPLES = range(-2, 4)  # bounds tried of the multiple of a modulus


@dataclass(frozen=True, slots=True)
class Interval:
    """The integers low, ..., high, each times a stride."""

    low: Poly
    high: Poly
    stride: Poly

    def __str__(self) -> str:
        return f"[{self.low}, {self.high}]*({self.stride})"


@dataclass(frozen=True, slots=True)
class IntervalSum:
    """offset + every sum of one element of each interval."""

    offset: Poly
    intervals: tuple[Interval, ...]

    @property
    def least(self) -> Poly:
        """The least element, where strides are positive and no interval is empty."""
        return sum((i.low * i.stride for i in self.intervals), self.offset)

    @property
    def greatest(self) -> Poly:
        return sum((i.high * i.stride for i in self.intervals), self.offset)

    def __str__(self) -> str:
        return " + ".join([str(self.offset), *map(str, self.intervals)])


def interval_sum(offset: Poly, intervals: Iterable[Interval]) -> IntervalSum:
    """Intervals of the same stride added up; single elements are part of the offset."""
    by_stride: dict[Poly, tuple[Poly, Poly]] = {}
    for interval in intervals:
        low, high = by_stride.get(interval.stride, (ZERO, ZERO))
        by_stride[interval.stride] = (low + interval.low, high + interval.high)
    wide = []
    for stride, (low, high) in by_stride.items():
        if low == high:
            offset = offset + low * stride
        else:
            wide.append(Interval(low, high, stride))
    wide.sort(key=lambda i: by_size(i.stride), reverse=True)
    return IntervalSum(offset, tuple(wide))


def by_size(stride: Poly) -> tuple[int, int, str]:
    """By degree, then by the greatest factor: a guess of which stride is larger."""
    degree = max(map(len, stride.terms), default=0)
    return degree, max(stride.terms.values(), default=0), str(stride)


@dataclass(frozen=True, slots=True)
class _Split:
    """A sum at a modulus: group + rest = 0 only if group = -rest = multiple * modulus."""

    modulus: Poly
    group: IntervalSum
    rest: IntervalSum
    multiples: range

    def parts(self, multiple: int) -> tuple[IntervalSum, IntervalSum]:
        """What has to contain 0 for this multiple, both: of the group and of the rest."""
        amount = self.modulus * multiple
        return (
            IntervalSum(self.group.offset - amount, self.group.intervals),
            IntervalSum(self.rest.offset + amount, self.rest.intervals),
        )


class ZeroFree:
    """Proves that sums of strided intervals do not contain 0.

    Strides are positive and intervals are not empty, by what the prover knows. With `terms`,
    divisors of the offset's terms are moduli too: 768*t is a multiple of 768, whatever t is.
    """

    def __init__(self, prover: Prover, terms: bool = False) -> None:
        self._prover = prover
        self._terms = terms
        self.looked_at = 0

    def argument(self, total: IntervalSum, depth: int = DEPTH) -> list[str] | None:
        """Why 0 is not in a sum, in lines; None where that is not proved."""
        self.looked_at += 1
        if self.looked_at > BUDGET:
            return None
        found = self._by_value(total)
        if found is not None or depth == 0:
            return found
        splits = []
        for split in self._splits(total):
            if not split.multiples:
                return [f"{total} != 0: {split.rest} is no multiple of {split.modulus}"]
            splits.append(split)
        for split in sorted(splits, key=lambda s: len(s.multiples)):
            found = self._by_cases(total, split, depth)
            if found is not None:
                return found
        return None

    def _by_value(self, total: IntervalSum) -> list[str] | None:
        if not total.intervals and self._prover.nonzero(total.offset):
            return [f"{total} != 0"]
        if self._prover.positive(total.least):
            return [f"{total} != 0: it is at least {total.least} > 0"]
        if self._prover.positive(-total.greatest):
            return [f"{total} != 0: it is at most {total.greatest} < 0"]
        return None

    def _by_cases(self, total: IntervalSum, split: _Split, depth: int) -> list[str] | None:
        """For each multiple one of the two parts is not what it has to be."""
        where = " or ".join(str(split.modulus * multiple) for multiple in split.multiples)
        lines = [f"{total} != 0: {split.group} is a multiple of {split.modulus}, here {where}"]
        for multiple in split.multiples:
            group, rest = split.parts(multiple)
            found = self.argument(rest, depth - 1)
            if found is None and group.intervals != total.intervals:
                found = self.argument(group, depth - 1)
            if found is None:
                return None
            lines += [f"  {line}" for line in found]
        return lines

    # ------------------------------------------------------------ splits

    def _splits(self, total: IntervalSum) -> Iterator[_Split]:
        for modulus in self._moduli(total):
            group: list[Interval] = []
            rest: list[Interval] = []
            for interval in total.intervals:
                (group if self._divides(modulus, interval.stride) else rest).append(interval)
            for offset in self._offsets(total.offset, rest, modulus):
                part = IntervalSum(offset, tuple(rest))
                multiples = self._multiples(part, modulus)
                if multiples is not None:
                    whole = IntervalSum(total.offset - offset, tuple(group))
                    if rest or offset.terms or not multiples:
                        yield _Split(modulus, whole, part, multiples)
                    break

    def _moduli(self, total: IntervalSum) -> Iterator[Poly]:
        """Every stride, and every divisor that its terms share; of a point its terms' divisors."""
        strides = [interval.stride for interval in total.intervals]
        terms = [Poly({m: f}) for m, f in total.offset.terms.items() if m]
        shared = [part for poly in strides or terms for part in factors(poly)]
        if strides and self._terms:
            shared += [part for term in terms for part in factors(term)]
        seen = {ONE}
        for modulus in (*strides, *shared):
            if modulus not in seen:
                seen.add(modulus)
                if self._prover.positive(modulus):
                    yield modulus

    def _divides(self, modulus: Poly, stride: Poly) -> bool:
        if modulus.is_constant:
            return self._prover.divides(modulus.constant, stride)
        return exact_quotient(stride, modulus) is not None

    def _offsets(self, offset: Poly, rest: list[Interval], modulus: Poly) -> Iterator[Poly]:
        """Ways to distribute the offset: what is left with the rest."""
        low = sum((i.low * i.stride for i in rest), ZERO)
        high = sum((i.high * i.stride for i in rest), ZERO)
        seen = set()
        for end in (low, high):
            left = divide(offset + end, modulus)[1]
            if modulus.is_constant:  # multiples that are known to be some
                for monomial, factor in list(left.terms.items()):
                    term = Poly({monomial: factor})
                    if self._prover.divides(modulus.constant, term):
                        left = left - term
            if left not in seen:
                seen.add(left)
                yield left - end

    def _multiples(self, rest: IntervalSum, modulus: Poly) -> range | None:
        """The multiples of the modulus whose negative can be in the rest."""
        last = self._reach(rest.least, modulus)
        if last is None:
            return None
        first = self._reach(-rest.greatest, modulus)
        return None if first is None else range(-first, last + 1)

    def _reach(self, start: Poly, modulus: Poly) -> int | None:
        """The least m tried with start + (m + 1) * modulus > 0; None where no m is."""
        widest = MULTIPLES[-1]
        if not self._prover.positive(start + modulus * (widest + 1)):
            return None
        found = (m for m in MULTIPLES if self._prover.positive(start + modulus * (m + 1)))
        return next(found, widest)
