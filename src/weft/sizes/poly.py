"""Integer polynomials in normal form: the sizes, offsets and indices of Weft.

Variables are names (strings): of sizes, of kernel indices, of int64 scalars.
Two polynomials are equal exactly when they are the same function of their
variables, so `==` and hashing decide equality.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import TypeAlias

Monomial: TypeAlias = tuple[str, ...]  # variables, sorted, repeated for powers; () is 1


class Poly:
    """An immutable integer polynomial: a sum of coefficient times monomial."""

    __slots__ = ("_hash", "terms")

    terms: dict[Monomial, int]  # no zero coefficients; never changed after construction

    def __init__(self, terms: Mapping[Monomial, int]) -> None:
        self.terms = {monomial: factor for monomial, factor in terms.items() if factor}
        self._hash: int | None = None

    @staticmethod
    def const(value: int) -> Poly:
        return _of({(): int(value)} if value else {})

    @staticmethod
    def var(name: str) -> Poly:
        return _of({(name,): 1})

    def __eq__(self, other: object) -> bool:
        if isinstance(other, Poly):
            return self is other or self.terms == other.terms
        if isinstance(other, int):
            return self.is_constant and self.constant == other
        return False

    def __hash__(self) -> int:
        if self._hash is None:
            self._hash = hash(frozenset(self.terms.items()))
        return self._hash

    def _plus(self, other: Poly | int, sign: int) -> Poly:
        added = other.terms if isinstance(other, Poly) else {(): int(other)} if other else {}
        if not added:
            return self
        terms = dict(self.terms)
        for monomial, factor in added.items():
            total = terms.get(monomial, 0) + sign * factor
            if total:
                terms[monomial] = total
            else:
                del terms[monomial]
        return _of(terms)

    def __add__(self, other: Poly | int) -> Poly:
        return self._plus(other, 1)

    __radd__ = __add__

    def __neg__(self) -> Poly:
        return _of({monomial: -factor for monomial, factor in self.terms.items()})

    def __sub__(self, other: Poly | int) -> Poly:
        return self._plus(other, -1)

    def __rsub__(self, other: int) -> Poly:
        return (-self)._plus(other, 1)

    def __mul__(self, other: Poly | int) -> Poly:
        if not isinstance(other, Poly):
            return self if other == 1 else Poly({m: f * other for m, f in self.terms.items()})
        return Poly(_times(self.terms, other.terms))

    __rmul__ = __mul__

    @property
    def is_constant(self) -> bool:
        return not self.terms or (len(self.terms) == 1 and () in self.terms)

    @property
    def constant(self) -> int:
        """The constant term."""
        return self.terms.get((), 0)

    @property
    def variable(self) -> str | None:
        """The name, when the polynomial is just one variable."""
        if len(self.terms) == 1:
            ((monomial, factor),) = self.terms.items()
            if factor == 1 and len(monomial) == 1:
                return monomial[0]
        return None

    def variables(self) -> frozenset[str]:
        return frozenset().union(*self.terms)

    def degree(self, name: str) -> int:
        return max((monomial.count(name) for monomial in self.terms), default=0)

    def coefficient(self, name: str) -> Poly:
        """The factor of `name` to the first power: p = coefficient * name + rest."""
        terms: dict[Monomial, int] = {}
        for monomial, factor in self.terms.items():
            if monomial.count(name) == 1:
                terms[tuple(v for v in monomial if v != name)] = factor
        return Poly(terms)

    def without(self, name: str) -> Poly:
        """The terms in which `name` does not occur."""
        return Poly({m: f for m, f in self.terms.items() if name not in m})

    def substitute(self, values: Mapping[str, Poly | int]) -> Poly:
        """Replace variables by polynomials, all at once."""
        keeps = values.keys().isdisjoint
        if all(map(keeps, self.terms)):
            return self
        total: dict[Monomial, int] = {}
        for monomial, factor in self.terms.items():
            product = {monomial: factor}
            if not keeps(monomial):
                product = {tuple(name for name in monomial if name not in values): factor}
                for name in monomial:
                    if name in values:
                        product = _times(product, as_poly(values[name]).terms)
            for moved, part in product.items():
                total[moved] = total.get(moved, 0) + part
        return Poly(total)

    def evaluate(self, values: Mapping[str, int]) -> int:
        """The value; a `KeyError` names a variable without one."""
        total = 0
        for monomial, factor in self.terms.items():
            for name in monomial:
                factor *= values[name]
            total += factor
        return total

    def __str__(self) -> str:
        if not self.terms:
            return "0"
        # Highest degree first, then by name: a stable order for printed IR.
        pieces: list[str] = []
        for monomial, factor in sorted(self.terms.items(), key=lambda t: (-len(t[0]), t[0])):
            body = "*".join(monomial)
            size = abs(factor)
            text = body if body and size == 1 else f"{size}*{body}" if body else str(size)
            if not pieces:
                pieces.append(f"-{text}" if factor < 0 else text)
            else:
                pieces.append(f" {'-' if factor < 0 else '+'} {text}")
        return "".join(pieces)

    def __repr__(self) -> str:
        return f"Poly({str(self)!r})"


def _times(left: dict[Monomial, int], right: dict[Monomial, int]) -> dict[Monomial, int]:
    """The terms of a product; there may be zeros among them."""
    terms: dict[Monomial, int] = {}
    for first, factor in left.items():
        for second, other in right.items():
            # Sorted already where one of them is constant.
            monomial = tuple(sorted(first + second)) if first and second else first or second
            terms[monomial] = terms.get(monomial, 0) + factor * other
    return terms


def _of(terms: dict[Monomial, int]) -> Poly:
    """The polynomial of terms that hold no zero."""
    new: Poly = object.__new__(Poly)
    new.terms = terms
    new._hash = None
    return new


ZERO = Poly({})
ONE = Poly({(): 1})

Size: TypeAlias = Poly


def as_poly(value: Poly | int) -> Poly:
    return value if isinstance(value, Poly) else Poly.const(value)


def product(factors: Iterable[Poly]) -> Poly:
    total = ONE
    for factor in factors:
        total = total * factor
    return total


_TERM = re.compile(r"\s*([+-])?\s*([A-Za-z0-9_.*]+)")


def parse_poly(text: str) -> Poly:
    """The polynomial that `str` printed: sums of products of integers and names."""
    total, position = ZERO, 0
    text = text.strip()
    while position < len(text):
        match = _TERM.match(text, position)
        if match is None:
            raise ValueError(f"not a polynomial: {text!r}")
        term = ONE
        for factor in match[2].split("*"):
            term = term * (int(factor) if factor.isdigit() else Poly.var(factor))
        total = total - term if match[1] == "-" else total + term
        position = match.end()
    return total
