"""Which loops GPUs run in overlapping tiles (`weft.lower.gpu.overlapped`), and in which."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

from weft.fun import nodes as fun
from weft.fun import walk
from weft.imp import nodes as imp
from weft.imp.nodes import machine
from weft.lmad import Lmad
from weft.lower import shapes
from weft.lower.emitter import Emitter
from weft.lower.time_tiling import TimeTiling
from weft.lower.unit import memory
from weft.records import dataclass
from weft.sizes import ZERO, Poly, product

CHUNKS, LANES = (256, 4), (1, 64)  # by rank: a group's items along the first and last dimension
OWN = ((16, 8, 4), (16, 8, 4))  # elements of an item, the first that fit
ROUNDS = (128, 6)  # of a launch, at most
HALO = (128, 8)  # elements on each side of a tile's centre, at most
CENTRE = (0.87, 0.6)  # of a tile, at least
COSTS = (1 << 30, 32)  # of an element of each array, at most: others are not bound by memory
RESIDENT = 6  # groups of a vector's tiles for which a multiprocessor has memory; and registers,
_LIGHT = 16  # where an element of each array has at most so many operations
SHARED_BYTES = 40 << 10  # of a group: 48 KiB are on any GPU
_KEPT = 2  # columns of other arrays that items keep, at most
_BANKS = 32  # of a group's memory: neighbours of a warp's 32 items are to be in different ones


@dataclass(frozen=True, slots=True)
class Shape:
    """A group's tile, and how it lies in the group's memory.

    Of a vector, elements that items have at the same place of theirs lie side by side, with
    `spare` ones between these rows, which keep neighbours in different banks.
    """

    chunks: int
    lanes: int
    own: int
    rank: int
    radius: tuple[int, ...]

    @property
    def items(self) -> int:
        return self.chunks * self.lanes

    @property
    def extents(self) -> tuple[int, ...]:
        return (self.chunks * self.own, self.lanes)[: self.rank]

    @property
    def spare(self) -> int:
        """What is read beyond either end of a tile in memory, at least."""
        if self.rank == 1:
            return max(_BANKS // self.own, -(-self.radius[0] // self.own))
        return self.radius[0] * self.lanes + self.radius[1]

    @property
    def pitch(self) -> int:
        """From one row in memory to the next."""
        return self.chunks + self.spare if self.rank == 1 else self.lanes

    @property
    def room(self) -> int:
        """Elements in memory."""
        if self.rank == 1:
            return self.spare + self.own * self.pitch
        return math.prod(self.extents) + 2 * self.spare

    def centre(self, rounds: int, reach: Sequence[int]) -> float:
        """How much of a tile is right after some rounds that reach so far each."""
        left = (n - 2 * rounds * r for n, r in zip(self.extents, reach, strict=True))
        return math.prod(max(0, length) for length in left) / math.prod(self.extents)

    def apart(self, offsets: Sequence[int]) -> int:
        """From an item's first element to one at some distance, in memory."""
        if self.rank == 1:
            chunk, row = divmod(offsets[0], self.own)
            return row * self.pitch + chunk
        return offsets[0] * self.pitch + offsets[1]

    def address(self, e: Emitter, place: Sequence[imp.Expr]) -> imp.Expr:
        """Where the element at a place of the tile is."""
        row, *column = place
        if self.rank == 1:
            chunk = e.declare(machine(">>", row, imp.integer(self.own.bit_length() - 1)))
            row, column = machine("&", row, imp.integer(self.own - 1)), [chunk]
        lines = e.declare(machine("*", e.declare(row), imp.integer(self.pitch)))
        at = e.declare(machine("+", lines, column[0]))
        return e.declare(machine("+", at, imp.integer(self.spare)))


@dataclass(frozen=True, slots=True)
class Reads:
    """A kernel whose reads are taken out, by the names of what they give.

    Attributes
    ----------
    accesses : dict of str to fun.Index
        Of arrays that rounds change.
    given : dict of str to fun.Index
        Of others, near the index, if they are few, so that an item may keep what they give.
    body : fun.Body
        What is left.
    """

    accesses: Mapping[str, fun.Index]
    given: Mapping[str, fun.Index]
    body: fun.Body

    @staticmethod
    def of(
        kernel: fun.Kernel, changed: set[str], *, inside: bool = False, keep: bool = True
    ) -> Reads:
        """`inside`: boundary rules do not apply. `keep`: what is given is taken out too."""
        names = {r.index.name for r in kernel.space}
        accesses: dict[str, fun.Index] = {}
        given: dict[str, fun.Index] = {}
        # Elsewhere than inside, what branches read is there alone.
        statements = walk.statements(kernel.body) if inside else kernel.body.statements
        near = {
            let.expr for let in statements
            if isinstance(let.expr, fun.Index) and _is_near(let.expr, names, changed)
        }  # fmt: skip
        columns = {(access.array.name, access.indices[1:]) for access in near}
        kept = near if keep and len(columns) <= _KEPT else set()

        def without(body: fun.Body) -> fun.Body:
            left = []
            for let in body.statements:
                expr = walk.map_bodies(let.expr, without)
                if isinstance(expr, fun.Index):
                    found = accesses if expr.array.name in changed else given
                    is_out = found is accesses or expr in kept
                    if inside:
                        expr = replace(expr, boundary=_fixed_rules(expr, names))
                    if is_out:
                        found[let.pattern[0].name] = expr
                        continue
                left.append(replace(let, expr=expr))
            return fun.Body(tuple(left), body.results)

        return Reads(accesses, given, without(kernel.body))


def kernels_of(loop: fun.Loop) -> list[tuple[fun.Let, fun.Kernel]]:
    """The kernels of a round."""
    statements = loop.body.statements
    return [(let, let.expr) for let in statements if isinstance(let.expr, fun.Kernel)]


def _is_near(access: fun.Index, names: set[str], changed: set[str]) -> bool:
    """Whether a read of an array that rounds do not change is at a place of the space."""
    used = [index.variables() for index in access.indices]
    return access.array.name not in changed and any(used) and set().union(*used) <= names


def _fixed_rules(access: fun.Index, names: set[str]) -> tuple[fun.Boundary | None, ...]:
    """The rules of those dimensions that follow none of some indices."""
    rules = tuple(
        None if index.variables() & names else rule
        for index, rule in zip(access.indices, access.boundary, strict=False)
    )
    return rules if any(rules) else ()


@dataclass(slots=True)
class Tiling:
    """How the rounds of a loop are done in overlapped tiles.

    Attributes
    ----------
    results : dict of str to fun.Var
        What a round makes of each array parameter.
    kernels : list of (fun.Let, fun.Kernel)
    distances : dict of str to set of tuple of int
        How far from its index each array is read that a round changes or makes.
    wraps : tuple of bool
        The dimensions in which these are read around their ends.
    rounds : int
        Of a launch, at most.
    halo : tuple of int
        What these need on each side of a tile's centre.
    resident : int
        Groups that are to have their registers at once, where tiles of a vector are counted from
        both of its ends; 0 where the compiler decides.
    """

    time: TimeTiling
    shape: Shape
    results: dict[str, fun.Var]
    kernels: list[tuple[fun.Let, fun.Kernel]]
    distances: dict[str, set[tuple[int, ...]]]
    wraps: tuple[bool, ...]
    rounds: int
    halo: tuple[int, ...]
    resident: int = 0

    @property
    def changed(self) -> set[str]:
        return set(self.distances)

    @property
    def centre(self) -> tuple[int, ...]:
        return tuple(n - 2 * h for n, h in zip(self.shape.extents, self.halo, strict=True))

    @property
    def has_whole_items(self) -> bool:
        """Whether all elements of an item lie in the vector, or all beyond it, in any tile.

        Where tiles are counted from the end that they are nearer to, of four or more: what is near
        an end is then in one item, and no tile that is counted from the other end reaches it.
        """
        (halo, *_), (centre, *_), (radius, *_) = self.halo, self.centre, self.shape.radius
        own = self.shape.own
        whole = halo % own == centre % own == 0
        return whole and 2 * radius <= own and halo + radius <= centre

    def shared_rows(self, name: str) -> set[int]:
        """Which of its own elements of an array an item has to show others."""
        own, found = self.shape.own, set()
        for row, *column in self.distances[name]:
            for place in range(row, own + row):
                if any(column) or not 0 <= place < own:
                    found.add(place % own)
        return found


# ---------------------------------------------------------------- what suits


def tiling(time: TimeTiling) -> Tiling | None:
    """How a loop is tiled; None where it does not suit, or is not worth it."""
    stencil, loop = time.stencil, time.loop
    rank, reach = len(stencil.shape), max(stencil.reach)
    results = _in_turn(time)
    kernels = kernels_of(loop)
    if time.lean is not None or rank > len(CHUNKS) or not reach or results is None:
        return None
    made = [var for let, _ in kernels for var in let.pattern]
    params = [param for param in loop.params if param.name in results]
    reads = distances_of(kernels, {var.name for var in (*params, *made)})
    if reads is None or any(var.type.dtype.is_complex for var in (*params, *made)):
        return None
    distances, wraps = reads
    cost = sum((shapes.cost(kernel.body) for _, kernel in kernels), ZERO)
    if not cost.is_constant or cost.constant > COSTS[rank - 1] * len(params):
        return None
    for name, result in results.items():
        distances[name] = distances[result.name] = distances[name] | distances[result.name]
    of_results = {result.name for result in results.values()}
    bytes_ = sum(2 * param.type.dtype.itemsize for param in params)
    bytes_ += sum(var.type.dtype.itemsize for var in made if var.name not in of_results)
    for own in OWN[rank - 1]:
        shape = Shape(CHUNKS[rank - 1], LANES[rank - 1], own, rank, stencil.radius)
        rounds = min(ROUNDS[rank - 1], HALO[rank - 1] // reach)
        while rounds > 1 and shape.centre(rounds, stencil.reach) < CENTRE[rank - 1]:
            rounds -= 1
        if bytes_ * shape.room <= SHARED_BYTES and rounds > 1:
            halo = tuple(rounds * r for r in stencil.reach)
            light = rank == 1 and cost.constant <= _LIGHT * len(params)
            resident = RESIDENT if light else 0
            return Tiling(time, shape, results, kernels, distances, wraps, rounds, halo, resident)
    return None


def _in_turn(time: TimeTiling) -> dict[str, fun.Var] | None:
    """What is made of each array parameter, in the other of two buffers of its own."""
    loop = time.loop
    made = {var.name for let, _ in kernels_of(loop) for var in let.pattern}
    flips = {loop.params[number].name for number, _ in time.turns.flips}
    found: dict[str, fun.Var] = {}
    blocks: set[str] = set()
    for param, result in zip(loop.params, loop.body.results, strict=True):
        if not isinstance(param.type, fun.Array):
            continue
        if not isinstance(result, fun.Var) or result.name not in made:
            return None
        before, after = memory(param), memory(result)
        offset, count = before.index.offset, product(before.shape)
        turn = next(iter(flips & offset.variables()), None)
        if turn is None or offset.coefficient(turn) not in (count, -count):
            return None
        other = Lmad(offset.substitute({turn: 1 - Poly.var(turn)}), before.index.dims)
        if not before.index.is_dense or before.block != after.block or after.index != other:
            return None
        found[param.name] = result
        blocks.add(before.block)
    return found if len({r.name for r in found.values()}) == len(found) == len(blocks) else None


def distances_of(
    kernels: Sequence[tuple[fun.Let, fun.Kernel]], changed: set[str]
) -> tuple[dict[str, set[tuple[int, ...]]], tuple[bool, ...]] | None:
    """How far from its index each of some arrays is read, and in which dimensions around its ends.

    None where one is read elsewhere, or is read in a dimension around its ends and not.
    """
    found: dict[str, set[tuple[int, ...]]] = {name: set() for name in changed}
    around: dict[int, set[bool]] = {}
    for _, kernel in kernels:
        at = [Poly.var(r.index.name) for r in kernel.space]
        for inner in walk.statements(kernel.body):
            access = inner.expr
            if not isinstance(access, fun.Index) or access.array.name not in changed:
                continue
            apart = [index - here for index, here in zip(access.indices, at, strict=True)]
            if not all(distance.is_constant for distance in apart):
                return None
            found[access.array.name].add(tuple(distance.constant for distance in apart))
            for axis, rule in enumerate(access.boundary):
                if rule is not None and apart[axis] != ZERO:
                    around.setdefault(axis, set()).add(rule.kind == "wrap")
    if any(len(kinds) > 1 for kinds in around.values()):
        return None
    rank = len(kernels[0][1].space)
    return found, tuple(around.get(axis) == {True} for axis in range(rank))
