"""What tiles read: boxes that are cut along every parallel axis of a result, not along one.

    c[i, j] = sum_k a[i, k] * b[j, k]     a tile of i and j reads rows of a and rows of b

A draft says which statements a stage computes; here each of them has a range for each of its
dimensions, from those of the target back to what it reads. Reads of an array that move alike are
one *operand*, of which a tile has the hull: x[i] * x[j] reads two parts of x.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from weft.fun import nodes as fun
from weft.plan.draft import NOWHERE, Draft, ReadKey
from weft.plan.footprint import Bounds
from weft.plan.protocols import Sink
from weft.plan.statements import Statement
from weft.records import dataclass

Box: TypeAlias = tuple[Bounds, ...]
"""For each axis the ranges of all tiles."""

_TOGETHER = 1.25  # times the elements of reads that are apart, which one hull of them may have


@dataclass(frozen=True, slots=True)
class Operand:
    """Reads of an array that move alike, from tile to tile."""

    array: str
    keys: tuple[ReadKey, ...]


@dataclass(frozen=True, slots=True)
class Reached:
    """What some tiles compute, and read.

    Attributes
    ----------
    computed : dict of int to Box
        For each statement, along each of its dimensions.
    read : tuple of Box
        For each operand.
    """

    computed: dict[int, Box]
    read: tuple[Box, ...]


@dataclass
class Tiling:
    """A draft of which boxes are tiles.

    Attributes
    ----------
    target : int
        The statement that is cut along its dimensions, `extents` long.
    units : tuple of int
        What tiles are multiples of along each: whole chunks of where results go.
    operands : tuple of Operand
    """

    draft: Draft
    target: int
    extents: tuple[int, ...]
    units: tuple[int, ...]
    operands: tuple[Operand, ...] = field(default=())

    @staticmethod
    def of(draft: Draft, sinks: Mapping[str, Sequence[Sink | None]]) -> Tiling | None:
        """How a draft can be tiled; None where its statements go one after another, or for two.

        `sinks`: where results of the program go.
        """
        if len(draft.targets) != 1 or not all(map(_is_free, map(draft.statement, draft.members))):
            return None
        (target,) = draft.targets
        statement = draft.statement(target)
        extents = tuple(draft.analysis.extent(statement, d) for d in range(len(statement.dims)))
        if not extents or not all(extents):
            return None
        units = [1] * len(extents)
        for name in statement.results:
            for sink in sinks.get(name, ()):
                # Results of one kernel may differ in rank: its own dimensions come first.
                chunks = () if sink is None or sink.chunks is None else sink.chunks
                units[: len(chunks)] = map(math.lcm, units, chunks)
        found = Tiling(draft, target, extents, tuple(map(min, units, extents)))
        found.operands = tuple(found._operands())
        return found

    def reached(self, box: Box) -> Reached:
        """What tiles with these ranges compute and read."""
        computed, reads = self._reads(box)
        found = []
        for operand in self.operands:
            hull = reads[operand.keys[0]]
            for key in operand.keys[1:]:
                hull = _hull(hull, reads[key])
            found.append(_or_none(hull))
        return Reached(computed, tuple(found))

    def _reads(self, box: Box) -> tuple[dict[int, Box], dict[ReadKey, Box]]:
        analysis, members = self.draft.analysis, self.draft.members
        computed: dict[int, Box] = {}
        reads: dict[ReadKey, Box] = {}
        needed: dict[int, Box] = {self.target: box}
        for position in sorted(members, reverse=True):
            statement = analysis.statements[position]
            ranges = _or_none(needed[position])[: len(statement.dims)]
            computed[position] = ranges
            for access, found in analysis.footprints_in(statement, dict(enumerate(ranges))):
                bounds = _or_nowhere(found)
                producer = analysis.producer.get(access.array, -1)
                if producer in members:
                    # Results of one kernel may differ in rank: its own dimensions come first.
                    bounds = bounds[: len(analysis.statements[producer].dims)]
                    known = needed.get(producer)
                    needed[producer] = bounds if known is None else _hull(known, bounds)
                else:
                    reads[position, access.array, access.node] = bounds
        return computed, reads

    def _steps(self, part: int = 16) -> Iterator[Bounds]:
        """Ranges of tiles that are each a step along one axis from the last of them.

        Their extents are one of so many parts of the axes.
        """
        boxes = len(self.extents) + 1
        for dim, extent in enumerate(self.extents):
            size = max(extent // part, 1)
            lower = np.full(boxes, (extent - size) // 2)
            lower[dim] = min(int(lower[dim]) + max(extent // 4, 1), extent - size)
            yield lower, lower + size

    def _operands(self) -> list[Operand]:
        """The reads of each array by how they move, and as long as one hull is no more to copy."""
        _, reads = self._reads(tuple(self._steps()))
        _, large = self._reads(tuple(self._steps(4)))
        alike: dict[tuple[object, ...], list[tuple[Box, list[ReadKey]]]] = {}
        for key, found in large.items():
            moves = tuple(tuple((lower - lower[-1]).tolist()) for lower, _ in reads[key])
            groups = alike.setdefault((key[1], moves), [])
            for number, (known, keys) in enumerate(groups):
                hull = _hull(known, found)
                if _count(hull)[-1] <= _TOGETHER * (_count(known)[-1] + _count(found)[-1]):
                    groups[number] = hull, [*keys, key]
                    break
            else:
                groups.append((found, [key]))
        return [
            Operand(keys[0][1], tuple(keys)) for groups in alike.values() for _, keys in groups
        ]

    # ------------------------------------------------------------ bytes

    def read_bytes(self, reached: Reached) -> list[npt.NDArray[np.int64]]:
        """Of each operand, what each tile reads."""
        types = self.draft.analysis.types
        return [
            _count(box) * types[operand.array].dtype.itemsize
            for operand, box in zip(self.operands, reached.read, strict=True)
        ]

    def stays(self, reached: Reached) -> list[npt.NDArray[np.bool_]]:
        """For each operand the tiles that read what the tile before did."""
        found = []
        for box in reached.read:
            same = [np.diff(bound) == 0 for bounds in box for bound in bounds]
            found.append(np.append(False, np.logical_and.reduce(same)))
        return found

    def copied(self, reached: Reached) -> list[np.int64]:
        """Bytes of each operand that tiles copy, one after another."""
        pairs = zip(self.read_bytes(reached), self.stays(reached), strict=True)
        return [size[~same].sum() for size, same in pairs]

    def whole(self, axis: int, extent: int) -> int:
        """The extent along an axis, or a little more, so that it is a multiple of the unit."""
        unit = self.units[axis]
        return min(-(-extent // unit) * unit, self.extents[axis])

    def moves(self) -> npt.NDArray[np.bool_]:
        """Of each operand (rows), whether a step along an axis takes to another part of it."""
        found = np.zeros((len(self.operands), len(self.extents)), np.bool_)
        for moves, box in zip(found, self.reached(tuple(self._steps())).read, strict=True):
            for bounds in box:
                for bound in bounds:
                    moves |= bound[:-1] != bound[-1]
        return found

    def result_bytes(self, names: Sequence[str]) -> float:
        """What one element of the target's space adds to results."""
        analysis = self.draft.analysis
        return sum(map(analysis.bytes, names)) / math.prod(self.extents)

    def cuts(self, reached: Reached) -> tuple[tuple[int, ...], ...]:
        """The axes along which tiles have parts of each statement and operand."""
        statements, computed = self.draft.analysis.statements, reached.computed
        made = [(statements[at].results[0], computed[at]) for at in sorted(computed)]
        read = zip((operand.array for operand in self.operands), reached.read, strict=True)
        return tuple(self.cut_axes(array, box) for array, box in (*made, *read))

    def cut_axes(self, array: str, box: Box) -> tuple[int, ...]:
        """The axes of which some tile has not all."""
        shape = self.draft.analysis.shapes[array]
        return tuple(
            axis
            for axis, ((lower, upper), extent) in enumerate(zip(box, shape, strict=False))
            if (lower > 0).any() or (upper < extent).any()
        )


def _is_free(statement: Statement) -> bool:
    """Whether a statement can be computed for any box, in any order."""
    return isinstance(statement.let.expr, fun.Kernel | fun.Reduce) and not statement.carried


def grid(extents: Sequence[int], shape: Sequence[int], order: Sequence[int]) -> Box:
    """Tiles of a shape, so that each differs from the one before along one axis alone.

    The last of `order` changes most often, there and back: a reflected Gray code.
    """
    counts = {axis: -(-extents[axis] // shape[axis]) for axis in order}
    number = np.arange(math.prod(counts.values()))
    box: list[Bounds] = [(number * 0, number * 0 + extent) for extent in extents]
    inner = len(number)
    for axis in order:
        inner //= counts[axis]
        outer, digit = np.divmod(number // inner, counts[axis])
        digit = np.where(outer % 2 == 1, counts[axis] - 1 - digit, digit)
        lower = digit * shape[axis]
        box[axis] = lower, np.minimum(lower + shape[axis], extents[axis])
    return tuple(box)


def _or_nowhere(box: Box) -> Box:
    """Boxes, without elements along an axis such that they add nothing to a hull along it.

    Along other axes they do: a read that a rule answers along one is checked along the others.
    """
    return tuple(
        (np.where(low < high, low, NOWHERE), np.where(low < high, high, -1)) for low, high in box
    )


def _hull(left: Box, right: Box) -> Box:
    return tuple(
        (np.minimum(a, c), np.maximum(b, d)) for (a, b), (c, d) in zip(left, right, strict=True)
    )


def _or_none(box: Box) -> Box:
    """Boxes, from 0 to 0 along axes along which they have no elements."""
    return tuple((np.where(low < high, low, 0), np.where(low < high, high, 0)) for low, high in box)


def _count(box: Box) -> npt.NDArray[np.int64]:
    found = np.ones_like(box[0][0])
    for lower, upper in box:
        found = found * np.maximum(upper - lower, 0)
    return found
