"""Proofs about polynomials: sound, never complete.

What is known is kept as polynomials that are >= 0. To prove p >= 0, a variable v in which
p = c*v + r is linear, with c of known sign, is eliminated by a bound d*v + g >= 0 (d of
c's sign): d*p >= d*r - c*g, and so on until only products of non-negative terms remain.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from weft.sizes.division import content, divided
from weft.sizes.facts import Derived, Fact, least
from weft.sizes.poly import Monomial, Poly, as_poly

if TYPE_CHECKING:
    from typing import Self

STEPS = 60  # eliminations tried for one question
DEPTH = 8  # eliminations in a row


class Prover:
    """Answers questions about polynomials from facts and ranges.

    Every answer True holds for all integers that satisfy what is known; False means "not
    proved". A variable of which nothing is known may be any integer.

    Parameters
    ----------
    facts : iterable of Fact
        What holds of the variables.
    lower, upper : mapping of str to Poly or int, optional
        Inclusive ranges of variables.
    sizes : iterable of str, optional
        Size variables: see `least`.
    derived : iterable of Derived, optional
        Sizes computed from others.
    """

    def __init__(
        self,
        facts: Iterable[Fact] = (),
        lower: Mapping[str, Poly | int] | None = None,
        upper: Mapping[str, Poly | int] | None = None,
        sizes: Iterable[str] = (),
        derived: Iterable[Derived] = (),
    ) -> None:
        self._equal: dict[str, Poly] = {}  # variable -> what it is equal to
        self._bounds: list[Poly] = []  # each >= 0
        self._divides: list[tuple[int, Poly]] = []
        self._nonzero: frozenset[Poly] = frozenset()
        self._ranks: dict[str, int] = {}  # variables introduced later are eliminated first
        self._reset()
        for name in sizes:
            self._add(Poly.var(name) - least(name))
        for size in derived:
            self._add_derived(size)
        for fact in facts:
            self._add_fact(fact)
        for name, bound in (lower or {}).items():
            self._add(Poly.var(name) - bound)
        for name, bound in (upper or {}).items():
            self._add(bound - Poly.var(name))

    # ------------------------------------------------------------ more knowledge

    def assuming(self, *facts: Fact) -> Self:
        """A prover that knows these facts too: the same one, with what it found."""
        new = self._assuming.get(facts)
        if new is None:
            new = self._assuming[facts] = self._copy()
            for fact in facts:
                new._add_fact(fact)
        return new

    def within(self, name: str, lower: Poly | int, upper: Poly | int) -> Self:
        """A prover that also knows lower <= name <= upper: the same one, with what it found."""
        limits = name, as_poly(lower), as_poly(upper)
        new = self._within.get(limits)
        if new is None:
            new = self._within[limits] = self._copy()
            new._add(Poly.var(name) - limits[1])
            new._add(limits[2] - Poly.var(name))
        return new

    def index(self, name: str, extent: Poly | int) -> Self:
        """A prover that also knows 0 <= name < extent."""
        return self.within(name, 0, as_poly(extent) - 1)

    # ------------------------------------------------------------ questions

    def nonnegative(self, poly: Poly | int) -> bool:
        """Whether poly >= 0 is proved."""
        return self._nonnegative(as_poly(poly))

    def positive(self, poly: Poly | int) -> bool:
        """Whether poly > 0 is proved."""
        return self._nonnegative(as_poly(poly) - 1)

    def less_equal(self, left: Poly | int, right: Poly | int) -> bool:
        """Whether left <= right is proved."""
        return self._nonnegative(as_poly(right) - left)

    def less(self, left: Poly | int, right: Poly | int) -> bool:
        """Whether left < right is proved."""
        return self._nonnegative(as_poly(right) - left - 1)

    def zero(self, poly: Poly | int) -> bool:
        """Whether poly == 0 is proved."""
        reduced = self.normal(poly)
        if reduced.is_constant:
            return reduced.constant == 0
        return self._nonnegative(reduced) and self._nonnegative(-reduced)

    def equal(self, left: Poly | int, right: Poly | int) -> bool:
        """Whether left == right is proved."""
        return left == right or self.zero(as_poly(left) - right)

    def nonzero(self, poly: Poly | int) -> bool:
        """Whether poly != 0 is proved."""
        reduced = self.normal(poly)
        if reduced in self._nonzero or -reduced in self._nonzero or _never_zero(reduced):
            return True
        return self.positive(reduced) or self.positive(-reduced)

    def divides(self, divisor: int, poly: Poly | int) -> bool:
        """Whether `divisor` divides poly is proved."""
        reduced = self.normal(poly)
        if _all_multiples(reduced, divisor):
            return True
        for known, multiple in self._divides:
            if known % divisor == 0 and (
                _all_multiples(reduced - self.normal(multiple), divisor)
                or _all_multiples(reduced + self.normal(multiple), divisor)
            ):
                return True
        return False

    def normal(self, poly: Poly | int) -> Poly:
        """The polynomial after substitution of the known equalities."""
        poly = as_poly(poly)
        return poly.substitute(self._equal) if self._equal else poly

    # ------------------------------------------------------------ what is known

    def _reset(self) -> None:
        self._answers: dict[Poly, bool] = {}
        self._lowest: dict[str, int] | None = None
        self._points: list[dict[str, int]] | None = None
        self._about: dict[str, list[tuple[int, Poly]]] | None = None
        self._scaled: dict[str, list[tuple[Poly, Poly]]] = {}
        self._within: dict[tuple[str, Poly, Poly], Self] = {}
        self._assuming: dict[tuple[Fact, ...], Self] = {}

    def _copy(self) -> Self:
        new = object.__new__(type(self))
        new._equal = dict(self._equal)
        new._bounds = list(self._bounds)
        new._divides = list(self._divides)
        new._nonzero = self._nonzero
        new._ranks = dict(self._ranks)
        new._reset()
        return new

    def _add_fact(self, fact: Fact) -> None:
        match fact.relation:
            case ">=0":
                self._add(fact.poly)
            case "==0":
                self._add_equality(fact.poly)
            case "divides":
                self._divides.append((fact.divisor, fact.poly))
            case "!=0":
                if self._nonnegative(self.normal(fact.poly)):
                    self._add(fact.poly - 1)
                elif self._nonnegative(self.normal(-fact.poly)):
                    self._add(-fact.poly - 1)
                else:
                    self._nonzero |= {self.normal(fact.poly)}

    def _add_equality(self, poly: Poly) -> None:
        """poly == 0: solve for a variable with factor 1 or -1 (the last introduced)."""
        poly = self.normal(poly)
        divisor = content(poly)
        if divisor > 1:  # 2*p == 0 => p == 0
            poly = Poly({monomial: f // divisor for monomial, f in poly.terms.items()})
        for name in sorted(poly.variables(), key=lambda v: (-self._ranks.get(v, 0), v)):
            factor = poly.coefficient(name)
            if poly.degree(name) == 1 and factor in (1, -1):
                solution = -poly.without(name) * factor.constant
                known = self._bounds
                self._equal = {v: p.substitute({name: solution}) for v, p in self._equal.items()}
                self._equal[name] = solution
                self._bounds = []
                for bound in known:
                    self._add(bound)
                return
        self._add(poly)
        self._add(-poly)

    def _add_derived(self, size: Derived) -> None:
        value, left, right = Poly.var(size.name), size.left, size.right
        match size.operation:
            case "floordiv" if right.is_constant and right.constant > 0:
                self._add(left - value * right)
                self._add(value * right + (right - 1) - left)
                if self.nonnegative(left):
                    self._add(value)
            case "floordiv" if self.positive(right):
                self._add(left - value * right)
                self._add(value * right + (right - 1) - left)
            case "mod" if right.is_constant and right.constant > 0:
                self._add(value)
                self._add(right - 1 - value)
            case "min":
                self._add(left - value)
                self._add(right - value)
            case "max":
                self._add(value - left)
                self._add(value - right)
            case "pow2floor":
                self._add(value - 1)
                if self.positive(left):
                    self._add(left - value)
            case _:
                pass

    def _add(self, poly: Poly) -> None:
        poly = _tight(self.normal(poly))
        for name in sorted(poly.variables()):
            self._ranks.setdefault(name, len(self._ranks))
        if not poly.is_constant and poly not in self._bounds:
            self._bounds.append(poly)
            self._reset()

    def _prepare(self) -> None:
        """Constant lower bounds of variables, and for each variable its bounds d*v + g.

        Those whose d is no constant are kept apart: they prove what has the same factor.
        """
        self._lowest, self._about, self._scaled = {}, {}, {}
        for bound in self._bounds:
            for name in bound.variables():
                factor = bound.coefficient(name)
                if bound.degree(name) != 1:
                    continue
                rest = bound.without(name)
                if not factor.is_constant:
                    self._scaled.setdefault(name, []).append((factor, rest))
                    continue
                self._about.setdefault(name, []).append((factor.constant, rest))
                if factor.constant > 0 and rest.is_constant:
                    low = -(rest.constant // factor.constant)  # ceil(-rest / factor)
                    self._lowest[name] = max(low, self._lowest.get(name, low))

    # ------------------------------------------------------------ proofs

    def _nonnegative(self, poly: Poly) -> bool:
        if poly.is_constant:
            return poly.constant >= 0
        poly = self.normal(poly)
        if poly.is_constant:
            return poly.constant >= 0
        known = self._answers.get(poly)
        if known is None:
            if self._about is None:
                self._prepare()
            self._steps = STEPS
            known = self._by_signs(poly) or (
                not self._refuted(poly) and self._prove(poly, DEPTH, {})
            )
            self._answers[poly] = known
        return known

    def _refuted(self, poly: Poly) -> bool:
        """Whether poly < 0 somewhere, or nothing is known of one of its variables."""
        assert self._about is not None
        if not self._about.keys() >= poly.variables():
            return True
        if self._points is None:
            self._points = self._choose_points()
        return any(poly.evaluate(point) < 0 for point in self._points)

    def _choose_points(self) -> list[dict[str, int]]:
        """A few points at which all that is known holds."""
        assert self._about is not None
        points = []
        names = sorted(self._about, key=lambda name: (self._ranks[name], name))
        for choice in range(4):  # of every other variable the least or the greatest value
            point: dict[str, int] = {}
            for position, name in enumerate(names):
                least, greatest = self._interval(name, point)
                high = choice in (1, 2 + position % 2)
                if least is None or (high and greatest is not None):
                    least = greatest if greatest is not None else 0
                elif high:
                    least += 5 + position
                point[name] = least
            known = (bound for bound in self._bounds if point.keys() >= bound.variables())
            if all(bound.evaluate(point) >= 0 for bound in known):
                points.append(point)
        return points

    def _interval(self, name: str, point: dict[str, int]) -> tuple[int | None, int | None]:
        """The least and the greatest value, by bounds whose other variables are chosen."""
        assert self._about is not None
        least: int | None = None
        greatest: int | None = None
        scaled = [
            (multiple.evaluate(point), rest)
            for multiple, rest in self._scaled.get(name, ())
            if point.keys() >= multiple.variables()
        ]
        for factor, rest in (*self._about[name], *scaled):
            if factor and point.keys() >= rest.variables():
                value = rest.evaluate(point)
                if factor > 0:
                    low = -(value // factor)
                    least = low if least is None else max(least, low)
                else:
                    high = value // -factor
                    greatest = high if greatest is None else min(greatest, high)
        return least, greatest

    def _prove(self, poly: Poly, depth: int, seen: dict[Poly, int]) -> bool:
        if poly.is_constant:
            return poly.constant >= 0
        if self._answers.get(poly) or self._by_signs(poly):
            return True
        # An earlier try with as many eliminations left has failed.
        if depth == 0 or self._steps <= 0 or seen.get(poly, 0) >= depth:
            return False
        seen[poly] = depth
        self._steps -= 1
        for name in sorted(poly.variables(), key=lambda v: (-self._ranks.get(v, 0), v)):
            if self._eliminate(poly, name, depth, seen):
                return True
        return False

    def _eliminate(self, poly: Poly, name: str, depth: int, seen: dict[Poly, int]) -> bool:
        assert self._about is not None
        bounds = self._about.get(name, ())
        if poly.degree(name) != 1:
            return False
        factor, rest = poly.coefficient(name), poly.without(name)
        for multiple, other in self._scaled.get(name, ()):
            # poly = bound + rest - other
            if multiple == factor and self._prove(rest - other, depth - 1, seen):
                return True
        sign = self._sign(factor, depth, seen)
        for scale, other in bounds:
            if scale * sign <= 0:
                continue
            size = abs(scale)
            # size * poly = |factor| * bound + left, so left > -size proves poly > -1.
            left = rest * size - (factor * other if scale > 0 else -factor * other)
            if self._prove(left + (size - 1), depth - 1, seen):
                return True
        return False

    def _sign(self, factor: Poly, depth: int, seen: dict[Poly, int]) -> int:
        """1 where factor >= 0 is proved, -1 where factor <= 0 is, else 0."""
        if factor.is_constant:
            return 1 if factor.constant >= 0 else -1
        if self._prove(factor, depth - 1, seen):
            return 1
        return -1 if self._prove(-factor, depth - 1, seen) else 0

    def _by_signs(self, poly: Poly) -> bool:
        """Whether no term is negative once each variable counts from its lowest value."""
        assert self._lowest is not None
        moved: dict[Monomial, int] = {}
        for monomial, factor in poly.terms.items():
            product: list[tuple[Monomial, int]] = [((), factor)]
            for name in monomial:
                low = self._lowest.get(name)
                if low is None:
                    return False
                constant = [(m, f * low) for m, f in product] if low else []
                product = [((*m, name), f) for m, f in product] + constant
            for m, f in product:
                moved[m] = moved.get(m, 0) + f
        return all(factor >= 0 for factor in moved.values())


def _tight(poly: Poly) -> Poly:
    """The strongest q for which poly >= 0 says q >= 0: 2*n - 3 >= 0 => n - 2 >= 0."""
    divisor = content(poly - poly.constant)
    if divisor <= 1:
        return poly
    return divided(poly, divisor)


def _never_zero(poly: Poly) -> bool:
    """Whether the factors of the variables have a divisor that the constant term lacks."""
    divisor = content(poly - poly.constant)
    return poly.constant % divisor != 0 if divisor else poly.constant != 0


def _all_multiples(poly: Poly, divisor: int) -> bool:
    return all(factor % divisor == 0 for factor in poly.terms.values())
