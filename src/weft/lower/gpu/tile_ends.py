"""Which elements of an item's are near the ends of an array, in a tile of an iterated stencil.

Boundary rules concern them alone: see `weft.lower.gpu.overlapped`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from weft.fun import nodes as fun
from weft.fun import walk
from weft.imp import nodes as imp
from weft.imp.nodes import machine
from weft.lower import boundaries, bounds
from weft.lower.gpu.overlaps import Reads
from weft.lower.gpu.tile_memory import TileMemory
from weft.records import dataclass
from weft.sizes import ZERO, Poly, Size

FEW_AT_ENDS = 2  # elements at each end that boundary rules concern, for which there is code each


@dataclass(frozen=True, slots=True)
class AtEnd:
    """An element near an end of the array: which of an item's elements it is, if it has it.

    Attributes
    ----------
    end, way : int
        The row of the item's that has the array's first or last element, and the way from there.
    is_own : imp.Expr
        Whether it is one of the item's.
    number : int
        How far it is from the end: 0 for the first or the last.
    index : imp.Expr
    """

    end: int
    way: int
    is_own: imp.Expr
    number: int
    index: imp.Expr

    @property
    def row(self) -> int:
        return self.end + self.way * self.number

    def read(self, rule: fun.Boundary | None, distance: int) -> int | None:
        """The row of what it reads; None where that is a constant."""
        place = self.number + self.way * distance
        if place < 0 and rule is not None:
            if rule.kind == "constant":
                return None
            place = {"edge": 0, "reflect": -place, "symmetric": -place - 1}[rule.kind]
        return self.end + self.way * place


class TileEnds(TileMemory):
    """The kernel of some rounds on a tile, as far as it is about the ends of arrays."""

    # ------------------------------------------------------------ of a vector

    def have_fixed_rows(self) -> bool:
        """Whether what is near the ends can be the same elements of whichever items have it."""
        if self.shape.rank > 1 or self.tiling.wraps[0] or self._reads_others():
            return False
        rules = (
            rule
            for _, kernel in self.tiling.kernels
            for let in walk.statements(kernel.body)
            if isinstance(let.expr, fun.Index)
            for rule in filter(None, let.expr.boundary)
        )
        (r,) = self._space()
        known = all((rule.lower, rule.upper) == (ZERO, r.extent) for rule in rules)
        return known and self.shape.radius[0] <= FEW_AT_ENDS and self.tiling.has_whole_items

    def _reads_others(self) -> bool:
        """Whether kernels read what rounds do not change, which lies not beyond an array."""
        return any(
            isinstance(let.expr, fun.Index) and let.expr.array.name not in self.tiling.changed
            for _, kernel in self.tiling.kernels
            for let in walk.statements(kernel.body)
        )

    def _go_around(self) -> bool:
        """Whether what lies beyond an array is computed as what it repeats is, wherever that is."""
        if not all(self.tiling.wraps) or self._reads_others():
            return False
        return not any(
            {r.index.name for r in kernel.space}
            & walk.free_names(Reads.of(kernel, self.tiling.changed, inside=True).body)
            for _, kernel in self.tiling.kernels
        )

    def _fixed_rows(self) -> list[AtEnd]:
        """The elements near ends of an item, if it has them: always in the same rows."""
        k, own = self.k, self.shape.own
        _, first = self._first_element()
        end = k.declare(machine("+", first, imp.integer(own)))
        is_first = k.declare(machine("==", first, imp.ZERO))
        is_last = k.declare(machine("==", end, self.extents[0]))
        found = []
        for number in range(self.shape.radius[0]):
            last = k.declare(machine("-", self.extents[0], imp.integer(number + 1)))
            found.append(AtEnd(0, 1, is_first, number, imp.integer(number)))
            found.append(AtEnd(own - 1, -1, is_last, number, last))
        return found

    def _first_element(self) -> tuple[imp.Expr, imp.Expr]:
        """The place of an item's first element in the tile, and its index."""
        k = self.k
        place = k.declare(machine("*", self.chunk, imp.integer(self.shape.own)))
        return place, k.declare(machine("+", self.origin[0], place))

    def _each_near_an_end(self) -> Iterator[tuple[imp.Expr, imp.Expr, imp.Expr]]:
        """Of each element near an end: whether it is the item's, its index and its place."""
        k, extent = self.k, self.extents[0]
        for number in map(imp.integer, range(self.shape.radius[0])):
            last = k.declare(machine("-", machine("-", extent, imp.ONE), number))
            for index, there in (
                (number, machine("<", number, extent)), (last, machine(">=", last, imp.ZERO)),
            ):  # fmt: skip
                place = k.declare(machine("-", index, self.origin[0]), "row")
                shift = imp.integer(self.shape.own.bit_length() - 1)
                chunk = k.declare(machine(">>", place, shift))
                is_own = machine("&&", machine("==", chunk, self.chunk), there)
                yield k.declare(is_own), index, place

    def _is_read_near_ends(self) -> imp.Expr:
        """Whether boundary rules may lead to one of an item's elements."""
        k, reach = self.k, imp.integer(2 * self.shape.radius[0])
        _, first = self._first_element()
        end = k.declare(machine("+", first, imp.integer(self.shape.own)))
        at_begin = machine("<", first, reach)
        at_end = machine(">", machine("+", end, reach), self.extents[0])
        return k.declare(machine("||", at_begin, at_end))

    def _near_ends(self) -> tuple[imp.Expr, imp.Expr, imp.Expr]:
        """The place of an item's first element, and which of its elements are near ends.

        From one to before another: those that lie in an array, or all beyond it that wrap around.
        """
        k, own, radius = self.k, imp.integer(self.shape.own), imp.integer(self.shape.radius[0])
        place, first = self._first_element()
        left = k.declare(machine("-", self.extents[0], first))  # to the end of the array
        begin: imp.Expr = imp.ZERO
        end: imp.Expr = own
        if not self.tiling.wraps[0]:
            begin = k.declare(machine("max", begin, machine("-", imp.ZERO, first)))
            end = k.declare(machine("min", end, left))
        low, high = k.declare(machine("-", radius, first)), k.declare(machine("-", left, radius))
        begin = imp.Select(machine(">", low, imp.ZERO), begin, machine("max", imp.ZERO, high))
        end = imp.Select(machine("<", high, own), end, machine("min", own, low))
        return place, k.declare(begin, "begin"), k.declare(end, "end")

    # ------------------------------------------------------------ of any array

    def _far(self, space: Sequence[fun.Range]) -> tuple[Size, ...]:
        """What is >= 0 where no boundary rule applies."""
        indices = [(Poly.var(r.index.name), r.extent) for r in space]
        return tuple(
            fact
            for (index, extent), radius in zip(indices, self.shape.radius, strict=True)
            for fact in (index - radius, extent - index - (radius + 1))
        )

    def _within(self, space: Sequence[fun.Range]) -> list[imp.Expr]:
        """Conditions for indices to be in the array; those that wrap around are brought there."""
        k, found = self.k, []
        for r, around, extent in zip(space, self.tiling.wraps, self.extents, strict=True):
            index = k.scalars[r.index.name]
            if around:
                wrapped = fun.Boundary("wrap", ZERO, r.extent)
                k.bind(r.index.name, boundaries.mapped(k, wrapped, index))
            else:
                found.append(bounds.within(k, index, extent))
        return found
