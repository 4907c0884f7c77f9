"""Upper bounds of extents: what a block must hold when an extent varies at run time."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from weft.errors import ShapeError
from weft.fun import nodes as fun
from weft.sizes import ONE, ZERO, Poly, Size, as_poly, product

_STEPS = 64  # substitutions before a search is given up


class Bounds:
    """Bounds of the int64 scalars in scope, by polynomials of sizes and other scalars.

    Size variables are never negative, nor are kernel indices.
    """

    def __init__(self, sizes: Iterable[str]) -> None:
        self.sizes = frozenset(sizes)
        self.lower: dict[str, Size] = {}
        self.upper: dict[str, tuple[Size, ...]] = {}  # alternatives

    def index(self, name: str, lower: Size, upper: Size) -> None:
        """`lower <= name < upper`."""
        self.lower[name], self.upper[name] = lower, (upper - 1,)

    def define(self, name: str, expr: fun.Expr) -> None:
        """What the definition of a scalar says of it."""
        match expr:
            case fun.SizeValue(size):
                self.lower[name], self.upper[name] = size, (size,)
            case fun.Apply("minimum", (left, right)):
                self.upper[name] = (_poly(left), _poly(right))
                self._nonnegative(name, left, right)
            case fun.Apply("maximum", (left, right)):
                above = [self._above_zero(_poly(atom)) for atom in (left, right)]
                if above[0] is not None and above[1] is not None:
                    self.upper[name] = (above[0] + above[1],)
                self.lower[name] = ZERO if self._sure(_poly(right)) else _poly(left)
            case fun.Apply("add", (left, right)):
                size = _poly(left) + _poly(right)
                self.lower[name], self.upper[name] = size, (size,)
            case fun.Apply("subtract", (left, right)):
                size = _poly(left) - _poly(right)
                self.lower[name], self.upper[name] = size, (size,)
            case fun.Apply("multiply", (left, right)):
                size = _poly(left) * _poly(right)
                self.lower[name], self.upper[name] = size, (size,)
            case fun.Apply("floor_divide", (left, fun.Const(value=value))):
                most = self._above_zero(_poly(left))
                if isinstance(value, int) and value > 0 and most is not None:
                    self.upper[name] = (most,)
                    self._nonnegative(name, left)
            case fun.Apply("remainder", (_, right)):
                if self._sure(_poly(right)):
                    self.lower[name], self.upper[name] = ZERO, (_poly(right),)
            case _:
                pass

    def _nonnegative(self, name: str, *atoms: fun.Atom) -> None:
        if all(self._sure(_poly(atom)) for atom in atoms):
            self.lower[name] = ZERO

    def _sure(self, poly: Size) -> bool:
        """Whether the polynomial is plainly >= 0."""
        least = self._eliminate(poly, upper=False, steps=_STEPS)
        return least is not None and _all_positive(least)

    def _above_zero(self, poly: Size) -> Size | None:
        """A polynomial that is plainly at least max(poly, 0)."""
        if self._sure(poly):
            return poly
        name = poly.variable
        for choice in (poly,) if name is None else self.upper.get(name, ()):
            if all(self._sure(Poly.var(v)) for v in choice.variables()):
                return _positive_part(choice)
        return None

    def elements(self, shape: Sequence[Size]) -> Size:
        """A polynomial of size variables alone, at least the elements of an array, and 0.

        That of their number, or else the product of those of the dimensions.

        Raises
        ------
        ShapeError
            Where none is found.
        """
        count = product(shape)
        if count.variables() <= self.sizes:
            return count
        found = self._eliminate(count, upper=True, steps=_STEPS)
        if found is not None:
            return _positive_part(found)
        return product(_positive_part(self.bound(extent)) for extent in shape)

    def bound(self, poly: Size) -> Size:
        """A polynomial of size variables alone that is at least `poly`.

        Raises
        ------
        ShapeError
            Where none is found.
        """
        found = self._eliminate(poly, upper=True, steps=_STEPS)
        if found is None:
            raise ShapeError(
                f"an array of a length that only the run knows: no bound of the extent {poly}",
                "a length that sizes bound, since memory is allocated before the program runs",
                "an argument that is an int, or wf.minimum(length, bound)",
            )
        return found

    def _eliminate(self, poly: Size, upper: bool, steps: int) -> Size | None:
        name = next((v for v in sorted(poly.variables()) if self._known(v)), None)
        if name is None:
            return poly if poly.variables() <= self.sizes else None
        if steps == 0 or poly.degree(name) > 1:
            return self._eliminate_power(poly, name, upper, steps)
        factor, rest = poly.coefficient(name), poly.without(name)
        rises, falls = _positive_part(factor), -_positive_part(-factor)
        for above in self._ends(name, upper) if rises.terms else (ZERO,):
            for below in self._ends(name, not upper) if falls.terms else (ZERO,):
                ended = rises * above + falls * below + rest
                found = self._eliminate(ended, upper, steps - 1)
                if found is not None:
                    return found
        return None

    def _eliminate_power(self, poly: Size, name: str, upper: bool, steps: int) -> Size | None:
        powers = Poly({m: f for m, f in poly.terms.items() if name in m})
        if steps == 0 or not (_all_positive(powers) and self._sure(Poly.var(name)) and upper):
            return None
        for end in self._ends(name, True):
            found = self._eliminate(poly.substitute({name: end}), upper, steps - 1)
            if found is not None:
                return found
        return None

    def _known(self, name: str) -> bool:
        return name in self.lower or name in self.upper

    def _ends(self, name: str, upper: bool) -> tuple[Size, ...]:
        if upper:
            return self.upper.get(name, ())
        return (self.lower[name],) if name in self.lower else ()


def _poly(atom: fun.Atom) -> Size:
    if isinstance(atom, fun.Const):
        return as_poly(atom.value) if isinstance(atom.value, int) else ONE
    return Poly.var(atom.name)


def _positive_part(poly: Size) -> Size:
    """Without its negative terms: where a loop does no round, its bounds may be negative."""
    return Poly({monomial: factor for monomial, factor in poly.terms.items() if factor > 0})


def _all_positive(poly: Size) -> bool:
    return all(factor > 0 for factor in poly.terms.values())
