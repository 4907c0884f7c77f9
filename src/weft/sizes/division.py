"""Division of polynomials with remainder."""

from __future__ import annotations

from collections import Counter
from functools import reduce
from math import gcd
from operator import and_

from weft.sizes.poly import ZERO, Monomial, Poly, product

STEPS = 16  # terms moved into one quotient


def divide(dividend: Poly, divisor: Poly) -> tuple[Poly, Poly]:
    """Quotient and remainder: dividend = quotient * divisor + remainder.

    Terms that the leading term of the divisor divides go into the quotient, as in
    n*b = 1 * (n*b - b) + b. The leading term has the highest degree, and among those a
    positive factor: the divisors are strides, and that term makes them large. Factors are
    divided rounding towards 0. The identity always holds; how much ends in the quotient is a
    heuristic.
    """
    if not divisor.terms:
        return ZERO, dividend
    lead, factor = max(divisor.terms.items(), key=lambda term: (len(term[0]), term[1] > 0, term))
    quotient, rest = ZERO, dividend
    for _ in range(STEPS):
        piece = _largest(rest, lead, factor)
        if piece is None:
            break
        quotient = quotient + piece
        rest = rest - piece * divisor
    return quotient, rest


def exact_quotient(dividend: Poly, divisor: Poly) -> Poly | None:
    """The polynomial q with dividend = q * divisor, where the division finds one."""
    quotient, rest = divide(dividend, divisor)
    return None if rest.terms else quotient


def divided(poly: Poly, by: int) -> Poly:
    """The polynomial whose factors are those of `poly` divided by an integer, rounded down."""
    return Poly({monomial: factor // by for monomial, factor in poly.terms.items()})


def content(poly: Poly) -> int:
    """The greatest integer that divides every factor (0 of the polynomial 0)."""
    return gcd(*poly.terms.values())


def factors(poly: Poly) -> list[Poly]:
    """Divisors that all terms share: the greatest integer, each variable, and their product."""
    shared = reduce(and_, map(Counter, poly.terms), Counter(next(iter(poly.terms), ())))
    amount = content(poly)
    found = [Poly.const(amount), *(Poly.var(name) for name in sorted(shared))]
    return [*found, product(Poly.var(name) for name in shared.elements()) * amount]


def _largest(poly: Poly, lead: Monomial, factor: int) -> Poly | None:
    """The term of highest degree that factor * lead divides, divided by it."""
    for monomial, amount in sorted(poly.terms.items(), key=lambda t: (-len(t[0]), t[0])):
        left = Counter(monomial)
        left.subtract(lead)
        times = abs(amount) // abs(factor)
        if (amount > 0) != (factor > 0):
            times = -times
        if times and min(left.values(), default=0) >= 0:
            return Poly({tuple(sorted(left.elements())): times})
    return None
