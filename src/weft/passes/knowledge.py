"""What is proved of sizes for all calls, and what is taken from the sizes of one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field, replace

from weft.fun import nodes as fun
from weft.records import dataclass
from weft.sizes import Fact, Poly, Size, as_poly
from weft.sizes.prove import Prover


@dataclass(frozen=True, slots=True)
class Knowledge:
    """A prover, the ranges of the indices in scope, and the sizes of one call.

    Attributes
    ----------
    prover : Prover
    sizes : frozenset of str
        The program's own, and those that are computed from them.
    values : mapping of str to int
        The sizes of the call for which the program is made; empty where it is for all.
    assumed : dict of Fact
        What was taken from them: the program holds where these facts do. Shared.
    ranges : mapping of str to (Size, Size)
        Inclusive, of indices; inner ones come later.
    """

    prover: Prover
    sizes: frozenset[str] = frozenset()
    values: Mapping[str, int] = field(default_factory=dict)
    assumed: dict[Fact, None] = field(default_factory=dict)
    ranges: Mapping[str, tuple[Size, Size]] = field(default_factory=dict)

    @staticmethod
    def of(program: fun.Program, values: Mapping[str, int] | None = None) -> Knowledge:
        known = {name: (values or {})[name] for name in program.sizes if name in (values or {})}
        for entry in program.derived:
            if entry.left.variables() | entry.right.variables() <= known.keys():
                known[entry.name] = entry.evaluate(known)
        prover = Prover(program.facts, sizes=program.sizes, derived=program.derived)
        sizes = frozenset((*program.sizes, *(entry.name for entry in program.derived)))
        return Knowledge(prover, sizes, known)

    def within(self, name: str, lower: Size, upper: Size) -> Knowledge:
        """Where also lower <= name <= upper."""
        ranges = {**self.ranges, name: (lower, upper)}
        return replace(self, prover=self.prover.within(name, lower, upper), ranges=ranges)

    def index(self, name: str, extent: Size) -> Knowledge:
        return self.within(name, as_poly(0), extent - 1)

    # ------------------------------------------------------------ questions

    def is_size(self, poly: Size) -> bool:
        """Whether it is known before the program runs."""
        return poly.variables() <= self.sizes

    def nonnegative(self, poly: Size) -> bool:
        """Whether poly >= 0 for all indices in scope."""
        if self.prover.nonnegative(poly):
            return True
        least = self._least(self.prover.normal(poly))
        if least is None or least.evaluate(self.values) < 0:
            return False
        self.assumed[Fact(">=0", least)] = None
        return True

    def negative(self, poly: Size) -> bool:
        return self.nonnegative(-poly - 1)

    def equal(self, left: Size, right: Size) -> bool:
        if self.prover.equal(left, right):
            return True
        difference = self.prover.normal(left - right)
        if not difference.variables() <= self.values.keys() or difference.evaluate(self.values):
            return False
        self.assumed[Fact("==0", difference)] = None
        return True

    def nonzero(self, poly: Size) -> bool:
        return self.prover.nonzero(poly)

    def _least(self, poly: Poly) -> Poly | None:
        """A size that is at most poly for all indices; None where that is not found."""
        for name in reversed(list(self.ranges)):
            if name not in poly.variables():
                continue
            factor = poly.coefficient(name)
            if poly.degree(name) != 1:
                return None
            lower, upper = self.ranges[name]
            if self.prover.nonnegative(factor):
                poly = poly.substitute({name: lower})
            elif self.prover.nonnegative(-factor):
                poly = poly.substitute({name: upper})
            else:
                return None
        return poly if poly.variables() <= self.values.keys() else None
