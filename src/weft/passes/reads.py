"""Where the statements of a body read arrays, how often, and at what cost.

A *site* is one `Index`, with the ranges of the indices around it (up to the statement at
hand): how it is executed.
"""

from __future__ import annotations

from collections.abc import Container, Sequence
from math import inf
from typing import TypeAlias, assert_never

from weft.fun import nodes as fun
from weft.fun import walk
from weft.ops import table
from weft.records import dataclass
from weft.sizes import ONE, Poly, Size

Ranges: TypeAlias = tuple[tuple[str, Size | None], ...]  # None: who knows how often

_MANY: Ranges = (("", None),)
_WEIGHT = {"cheap": 1.0, "moderate": 4.0, "expensive": inf}


@dataclass(frozen=True, slots=True)
class Site:
    """One read: executed once for each index of `ranges`, in the body `scope`."""

    array: fun.Var
    indices: tuple[Size, ...]
    boundary: tuple[fun.Boundary | None, ...]
    ranges: Ranges
    scope: int


@dataclass(slots=True)
class Reads:
    """The read sites of a statement, and the arrays it uses in any other way."""

    sites: list[Site]
    whole: set[str]

    @staticmethod
    def of(expr: fun.Expr) -> Reads:
        reads = Reads([], set())
        reads.expr(expr, (), 0)
        return reads

    def use(self, atoms: Sequence[fun.Atom]) -> None:
        for atom in atoms:
            if isinstance(atom, fun.Var) and isinstance(atom.type, fun.Array):
                self.whole.add(atom.name)

    def body(self, body: fun.Body, ranges: Ranges) -> None:
        scope = id(body)
        for let in body.statements:
            self.expr(let.expr, ranges, scope)
        self.use(body.results)

    def expr(self, expr: fun.Expr, ranges: Ranges, scope: int) -> None:
        match expr:
            case fun.Apply() | fun.Cast() | fun.SizeValue() | fun.Empty():
                pass
            case fun.Index(array, indices, boundary):
                self.sites.append(Site(array, indices, boundary, ranges, scope))
            case fun.Kernel(space, body):
                self.body(body, ranges + of_space(space))
            case fun.Reduce(space, _, body, operator) | fun.Scan(space, body, operator):
                self.body(body, ranges + of_space(space))
                self.body(operator.body, ranges + _MANY)
            case fun.Scatter(destinations, space, body, combine):
                self.use(destinations)
                self.body(body, ranges + of_space(space))
                if combine is not None:
                    self.body(combine.body, ranges + _MANY)
            case fun.If(_, then, otherwise):
                self.body(then, ranges)
                self.body(otherwise, ranges)
            case fun.Loop(_, initial, form, body):
                self.use(initial)
                match form:
                    case fun.For(index, lower, upper):
                        ranges = (*ranges, (index.name, upper - lower))
                    case fun.While(condition):
                        ranges = ranges + _MANY
                        self.body(condition, ranges)
                    case _:
                        assert_never(form)
                self.body(body, ranges)
            case (
                fun.Slice() | fun.LmadSlice() | fun.Permute() | fun.Reshape() | fun.Broadcast()
                | fun.Concat() | fun.Update() | fun.LmadUpdate() | fun.Copy() | fun.Call()
            ):  # fmt: skip
                self.use(walk.operands(expr)[0])
            case _:
                assert_never(expr)


def of_space(space: Sequence[fun.Range]) -> Ranges:
    return tuple((r.index.name, r.extent) for r in space)


def work(body: fun.Body) -> float:
    """Operations and reads for one index, in additions; infinite where duplicating is out."""
    total = 0.0
    for let in body.statements:
        match let.expr:
            case fun.Apply(operation, _):
                total += _WEIGHT[table.TABLE[operation].cost]
            case fun.Cast() | fun.Index():
                total += 1
            case fun.SizeValue():
                pass
            case fun.If(_, then, otherwise):
                total += 1 + work(then) + work(otherwise)
            case _:
                return inf
    return total


def each_at_most_once(indices: Sequence[Size], ranges: Ranges, fixed: Container[str]) -> bool:
    """Whether different values of the ranges' indices read different elements.

    Every range must be told apart by one dimension: by a multiple of its index, or by a
    mixed-radix number such as m*i + j with 0 <= j < m. Other variables must be `fixed`.
    """
    left = {name: extent for name, extent in ranges if extent != ONE}
    for index in indices:
        names = index.variables()
        own = [name for name in names if name in left]
        if any(name not in left and name not in fixed for name in names):
            continue
        if not own or any(index.degree(name) != 1 for name in own):
            continue
        if len(own) == 1 or _mixed_radix(index, own, left):
            for name in own:
                del left[name]
    return not left


def _mixed_radix(index: Size, names: Sequence[str], extents: dict[str, Size | None]) -> bool:
    factors = {index.coefficient(name): name for name in names}
    place: Size = ONE
    while factors:
        name = factors.pop(place, None)
        extent = None if name is None else extents[name]
        if extent is None:
            return False
        place = place * extent
    return True


def covers(indices: Sequence[Size], space: Sequence[fun.Range]) -> bool:
    """Whether a read depends on every index of a space: as many elements as the space has."""
    names: set[str] = set()
    for index in indices:
        for monomial in index.terms:
            names.update(monomial)
    return all(r.index.name in names or r.extent == ONE for r in space)


def is_own_index(indices: Sequence[Size], space: Sequence[fun.Range]) -> bool:
    """Whether a read is at the space's own index, in order."""
    return len(indices) == len(space) and all(
        index == Poly.var(r.index.name) or (r.extent == ONE and index.is_constant)
        for index, r in zip(indices, space, strict=True)
    )
