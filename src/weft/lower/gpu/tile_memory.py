"""Where a group of items has its tile of the arrays of an iterated stencil, on a GPU.

The elements of `weft.lower.gpu.overlapped`'s tiles: in the group's memory, in an item's registers,
and on the way between these and the device's memory.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import field
from functools import reduce

from weft.fun import nodes as fun
from weft.imp import nodes as imp
from weft.imp.nodes import machine
from weft.lower.bodies import lower_index
from weft.lower.gpu.elements import loaded
from weft.lower.gpu.host import Host
from weft.lower.gpu.overlaps import Tiling
from weft.records import dataclass
from weft.sizes import ZERO, Poly, Size


def all_of(conditions: Sequence[imp.Expr]) -> imp.Expr:
    """Whether all conditions hold."""
    return reduce(lambda one, other: machine("&&", one, other), conditions)


def any_of(conditions: Sequence[imp.Expr]) -> imp.Expr:
    """Whether one of the conditions holds."""
    return reduce(lambda one, other: machine("||", one, other), conditions)


@dataclass(slots=True)
class State:
    """Where arrays are during rounds.

    Attributes
    ----------
    shared : dict of str to imp.Pointer
        The group's memory of each.
    buffers : dict of str to imp.Expr
        Where in it an array begins now.
    own : dict of str to list of imp.Expr
        An item's elements.
    given : dict of (str, int) to imp.Expr
        Of arrays that rounds do not change, what a read gives for one of these elements.
    """

    shared: dict[str, imp.Pointer]
    buffers: dict[str, imp.Expr] = field(default_factory=dict)
    own: dict[str, list[imp.Expr]] = field(default_factory=dict)
    given: dict[tuple[str, int], imp.Expr] = field(default_factory=dict)


class TileMemory:
    """The kernel of some rounds on a tile, as far as it is about memory.

    Parameters
    ----------
    parts : sequence of Size
        How many tiles there are along each dimension.
    from_ends : bool
        Whether tiles of a vector are counted from the end of it that they are nearer to.
    """

    def __init__(
        self, host: Host, found: Tiling, parts: Sequence[Size], from_ends: bool
    ) -> None:
        self.from_ends = from_ends
        self.tiling, self.shape, self.loop = found, found.shape, found.time.loop
        self.stencil = found.time.stencil
        self.k, self.item = host.kernel_emitter(), host.unit.integer("item")
        k, shape = self.k, self.shape
        self.extents = [k.named(extent) for extent in self.stencil.shape]
        group = k.declare(machine("/", self.item, imp.integer(shape.items)), "group")
        lane = k.declare(machine("%", self.item, imp.integer(shape.items)), "lane")
        self.chunk: imp.Expr = lane
        self.column: imp.Expr = imp.ZERO
        if shape.rank > 1:
            lanes = imp.integer(shape.lanes)
            self.chunk = k.declare(machine("/", lane, lanes), "chunk")
            self.column = k.declare(machine("%", lane, lanes), "column")
        self.origin = self._origin(group, [k.named(part) for part in parts])
        self.params = [p for p in self.loop.params if p.name in found.results]

    def _origin(self, group: imp.Expr, parts: Sequence[imp.Expr]) -> list[imp.Expr]:
        """Where the tile of a group begins: groups that begin first have the last row of tiles.

        It is at an end of the array, and takes longer.
        """
        k, (down, *across) = self.k, parts
        row, column = group, []
        if across:
            row = k.declare(machine("/", group, across[0]))
            column = [k.declare(machine("%", group, across[0]))]
        is_last = k.declare(machine("==", row, imp.ZERO))
        above = machine("-", k.declare(imp.Select(is_last, down, row)), imp.ONE)
        found = []
        for number, centre, halo in zip(
            [k.declare(above), *column], self.tiling.centre, self.tiling.halo, strict=True
        ):
            begin = k.declare(machine("*", number, imp.integer(centre)))
            if self.from_ends:
                behind = k.declare(machine("-", down, number))
                length = k.declare(machine("*", behind, imp.integer(centre)))
                nearer = k.declare(machine("<", number, behind))
                from_end = k.declare(machine("-", self.extents[0], length))
                begin = k.declare(imp.Select(nearer, begin, from_end))
            found.append(k.declare(machine("-", begin, imp.integer(halo)), "origin"))
        return found

    def _places(self, unroll: int) -> Iterator[list[imp.Expr]]:
        """The places of the tile, an item's one after another, neighbours by neighbours."""
        k, number = self.k, self.k.unit.integer("n")
        with k.loop(number, imp.ZERO, imp.integer(self.shape.own), unroll=unroll):
            before = k.declare(machine("*", number, imp.integer(self.shape.chunks)))
            row = k.declare(machine("+", before, self.chunk), "row")
            yield [row, self.column][: self.shape.rank]

    @contextmanager
    def _at(self, place: Sequence[imp.Expr], space: Sequence[fun.Range]) -> Iterator[None]:
        """Inside, indices are those of a place of the tile."""
        k = self.k
        with ExitStack() as scopes:
            for r, at, origin in zip(space, place, self.origin, strict=True):
                index = k.declare(machine("+", origin, at), "at")
                scopes.enter_context(k.index(r.index.name, index, ZERO, r.extent))
            yield

    def _space(self) -> tuple[fun.Range, ...]:
        return self.tiling.kernels[0][1].space

    def _load(self, state: State, rules: Sequence[fun.Boundary | None]) -> None:
        """The tile and what is around it, for the first round."""
        k, space = self.k, self._space()
        at = tuple(Poly.var(r.index.name) for r in space)
        for place in self._places(self.shape.own):
            with self._at(place, space):
                for param in self.params:
                    value = lower_index(k, fun.Index(param, at, tuple(rules)))
                    spot = self.shape.address(k, place)
                    k.emit(imp.Store(state.shared[param.name], spot, value))
        k.emit(imp.Barrier())

    def _buffer(self, step: imp.Expr) -> imp.Expr:
        """Where the arrays of a round begin in the group's memory: in one of two halves."""
        odd = self.k.declare(machine("&", step, imp.ONE))
        return self.k.declare(machine("*", odd, imp.integer(self.shape.room)), "buffer")

    def _first(self, buffer: imp.Expr) -> imp.Expr:
        """Where an item's first element is, of what begins at `buffer`."""
        k, shape = self.k, self.shape
        at = self.chunk
        if shape.rank > 1:
            lines = machine("*", self.chunk, imp.integer(shape.own * shape.pitch))
            at = k.declare(machine("+", k.declare(lines), self.column))
        at = k.declare(machine("+", at, imp.integer(shape.spare)))
        return k.declare(machine("+", at, buffer))

    def _spot(self, first: imp.Expr, offsets: tuple[int, ...]) -> imp.Expr:
        return machine("+", first, imp.integer(self.shape.apart(offsets)))

    def _loaded(self, state: State, of: fun.Var, first: imp.Expr) -> list[imp.Expr]:
        """An item's elements, from the group's memory."""
        spots = (self._spot(first, (row, 0)) for row in range(self.shape.own))
        return [loaded(self.k, state.shared[of.name], spot) for spot in spots]
