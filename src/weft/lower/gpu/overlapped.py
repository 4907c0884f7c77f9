"""Several rounds of an iterated stencil in one launch on a GPU: overlapped tiles.

A group of items has a tile of each array, and of its neighbourhood as much as some rounds need,
does these rounds on it without the device's memory, and writes what is right then: the tile's
centre. What lies around it is computed by several groups.

    for k from 0 to t { launch kernel over n }
 => for phase p of s rounds {
      launch tiles { x = tile of v; for s rounds { x = kernel on x; barrier }; centre of w = x }
      v, w = w, v }

An item has `own` elements of the first dimension, one after another, in registers, and reads in
the group's memory what others have. (Overlapped tiles: J. Holewinski, L.-N. Pouchet and
P. Sadayappan, High-Performance Code Generation for Stencil Computations on GPU Architectures,
ICS 2012; registers: K. Matsumura et al., AN5D, CGO 2020.) Tiles that lie inside of an array need
no boundary rules. In others, rules lead to where the array's ends are in the tile; a dimension that
wraps around is continued beyond them when the tile is loaded.

Each element is computed by the same operations as by a launch for each round, and so has its bits.
"""

from __future__ import annotations

from collections.abc import Callable

from weft.fun import nodes as fun
from weft.imp import nodes as imp
from weft.imp.nodes import machine
from weft.imp.walk import may_leave
from weft.lower import spaces
from weft.lower.gpu import versions
from weft.lower.gpu.elements import loaded
from weft.lower.gpu.host import Host
from weft.lower.gpu.overlaps import tiling
from weft.lower.gpu.phases import in_phases
from weft.lower.gpu.tile_memory import State, all_of
from weft.lower.gpu.tile_rounds import TileRounds
from weft.lower.time_tiling import TimeTiling
from weft.lower.unit import memory
from weft.plan import launches
from weft.sizes import ONE, Poly, product

_SEVERAL = 4  # tiles of a vector, of which half are counted from its end
FEW = (1, 256)  # tiles, by rank: of fewer, a round is a launch


def lower(
    host: Host, let: fun.Let, time: TimeTiling, by_rounds: Callable[[], None]
) -> None:
    """A loop in overlapped tiles if it suits and there are many of them, else `by_rounds`."""
    found = tiling(time)
    if found is None:
        by_rounds()
        return
    parts = [
        versions.ceil(host, extent, centre)
        for extent, centre in zip(time.stencil.shape, found.centre, strict=True)
    ]

    def launch(phase: str) -> bool:
        tiles = _Tiles(host, found, parts, phase)
        forms = [(tiles, ONE)]
        if tiles.have_fixed_rows():
            several = 1 - versions.below(host, parts[0], _SEVERAL)
            from_ends = _Tiles(host, found, parts, phase, from_ends=True)
            forms = [(from_ends, several), (tiles, 1 - several)]
        for form, _ in forms:
            form.lower()
            if may_leave(form.k.levels[0]):
                return False
        host.unit.kernels.append(tiles.label())
        group = found.shape.items
        for form, whether in forms:
            items = whether * product(parts) * group
            resident = found.resident if form.from_ends else 0
            host.add(form.k, "overlapped", form.item, items, group, resident)
        return True

    with host.inside() as in_tiles:
        suits = in_phases(host, let, time, found.rounds, launch)
    if not suits:
        by_rounds()
        return
    few = FEW[len(parts) - 1]
    if few <= 1:
        host.steps += in_tiles
        return
    with host.inside() as otherwise:
        by_rounds()
    many = host.unit.fresh("tiles.")
    host.define(many, 1 - versions.below(host, product(parts), few))
    host.steps.append(launches.Branch(many, tuple(in_tiles), tuple(otherwise)))


# ---------------------------------------------------------------- a launch


class _Tiles(TileRounds):
    """The kernel of one phase."""

    def label(self) -> str:
        (first, _), *others = self.tiling.kernels
        whole = spaces.describe("map", self._space(), first.pattern)
        more = f" and {len(others)} more" if others else ""
        tile = " x ".join(map(str, self.tiling.shape.extents))
        return (
            f"{whole}{more}, {self.tiling.rounds} rounds at a time in overlapping tiles of {tile}"
        )

    def lower(self) -> None:
        k = self.k
        inside: list[imp.Expr] = []
        for origin, extent, length, radius in zip(
            self.origin, self.extents, self.shape.extents, self.shape.radius, strict=True
        ):
            end = k.declare(machine("+", origin, imp.integer(length + radius)))
            inside.append(machine(">=", origin, imp.integer(radius)))
            inside.append(machine("<=", end, extent))
        whole = k.declare(all_of(inside))
        results = {result.name: name for name, result in self.tiling.results.items()}
        pointers: dict[str, imp.Pointer] = {}
        for param in self.params:
            pointers[param.name] = k.shared(param.type.dtype, 2 * self.shape.room)
        for let, _ in self.tiling.kernels:
            for var in let.pattern:
                if var.name in results:
                    pointers[var.name] = pointers[results[var.name]]
                else:
                    pointers[var.name] = k.shared(var.type.dtype, self.shape.room)
        state = State(pointers)
        k.either(whole, lambda: self._inside(state), lambda: self._at_ends(state))
        k.emit(imp.Barrier())
        self._write(state)

    def _write(self, state: State) -> None:
        """The tile's centre, after the last round."""
        k, space = self.k, self._space()
        at = tuple(Poly.var(r.index.name) for r in space)
        buffer = self._buffer(self.steps)
        for place in self._places(self.shape.own):
            with self._at(place, space):
                wanted: list[imp.Expr] = []
                for one, halo, centre, r, extent in zip(
                    place, self.tiling.halo, self.tiling.centre, space, self.extents, strict=True
                ):
                    wanted.append(machine(">=", one, imp.integer(halo)))
                    wanted.append(machine("<", one, imp.integer(halo + centre)))
                    wanted.append(machine("<", k.scalars[r.index.name], extent))
                with k.branch(all_of(wanted)):
                    spot = k.declare(machine("+", buffer, self.shape.address(k, place)))
                    for param in self.params:
                        value = loaded(k, state.shared[param.name], spot)
                        k.store(memory(self.tiling.results[param.name]), at, value)
