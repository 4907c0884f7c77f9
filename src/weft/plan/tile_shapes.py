"""The shape of tiles, and the order in which they follow: what moves the fewest bytes in time.

    c[i, j] = sum_k a[i, k] * b[j, k]     rows of a stay while rows of b go by, or the other way

Tiles follow each other as a reflected Gray code counts, so that each differs from the one before
along one axis alone: an operand is copied again where an axis moves along which it has parts. With
n_d tiles along axis d that is (n_d - 1) times the product of n_e of all axes e outside of d. Many
shapes and orders are so compared by the largest tile of each; those that seem quickest, by all.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from itertools import permutations, product
from typing import Any

import numpy as np
import numpy.typing as npt

from weft.plan.code import Rates
from weft.plan.device_boxes import Work, counts, extent_of, lines, seconds
from weft.plan.tiles import Tiling, grid
from weft.records import dataclass

_MOST_TILES = 4096
_MOST_ALONG = (1024, 64, 24, 12)  # tiles along an axis, of one, two, three or four that are cut
_MOST_AXES = 4  # along which there are tiles: the longest ones
_MOST_SHAPES = 6000  # compared
NARROW = 32  # neighbours in memory: tiles have as many, where such fit
_LONG = 64  # indices of an axis that are not the last, to be whole lines
_TRIED = 4  # of each way, whose time is predicted
_COMPARED = 4  # shapes of which every tile is looked at
_APART = 0.4  # of the rate at which a processor copies, where rows lie apart
_GROUP = 64  # rows and columns of contractions that groups of items have, as a rule
_LAUNCHES = 2  # of a tile, about: they are known once it is compiled
_WAYS = ((1, 1), (2, 1), (2, 2), (3, 1), (3, 2))
"""Tiles in flight, and buffers of what stays from tile to tile."""


@dataclass(frozen=True, slots=True)
class Shape:
    """A way to cut a result into tiles.

    Attributes
    ----------
    extents : tuple of int
        Of a tile, along each axis.
    order : tuple of int
        The axes along which there are several, those that change most often last.
    slots, buffers : int
        Tiles in flight; buffers of what stays from tile to tile.
    work : Work
        What all tiles ask of a device.
    waits : int
        How often a tile cannot begin before those in flight have ended.
    memory : int
        Bytes of the device, but for what compiled programs take besides.
    """

    extents: tuple[int, ...]
    order: tuple[int, ...]
    slots: int
    buffers: int
    work: Work
    waits: int = 0
    memory: int = 0

    def seconds(self, rates: Rates) -> float:
        """How long all take, as predicted."""
        work = self.work
        alone = work.bytes_in / rates.copy_in + work.bytes_out / rates.copy_out
        return seconds(work, rates, self.slots) + self.waits * alone / work.boxes

    def rank(self, rates: Rates) -> tuple[Any, ...]:
        """The quickest first; of equally quick ones, what moves less or takes less memory."""
        return (
            self.seconds(rates), self.work.bytes_in, self.slots, self.buffers, self.extents,
            self.order,
        )  # fmt: skip


@dataclass(frozen=True, slots=True)
class Costs:
    """What tiles of many shapes cost: an element for each shape.

    Attributes
    ----------
    extents, counts : ndarray, (shapes, axes)
        Of tiles along each axis, and how many there are.
    read : ndarray, (operands, shapes)
        Bytes of a tile's part of each operand.
    moves : ndarray of bool, (operands, axes)
        Whether a step along an axis takes to another part of an operand.
    written : ndarray, (shapes,)
        Bytes of a tile's results.
    """

    extents: npt.NDArray[np.int64]
    counts: npt.NDArray[np.int64]
    read: npt.NDArray[np.int64]
    moves: npt.NDArray[np.bool_]
    written: npt.NDArray[np.float64]

    def tiles(self) -> npt.NDArray[np.int64]:
        found: npt.NDArray[np.int64] = self.counts.prod(axis=1)
        return found

    def moved(self, order: Sequence[int]) -> npt.NDArray[np.float64]:
        """Bytes that all tiles read."""
        steps, outer = np.zeros(self.counts.shape, np.int64), np.ones(len(self.counts), np.int64)
        for axis in order:
            steps[:, axis] = (self.counts[:, axis] - 1) * outer
            outer = outer * self.counts[:, axis]
        total = np.zeros(len(self.counts))
        for read, moves in zip(self.read, self.moves, strict=True):
            total += read * (1.0 + steps[:, moves].sum(axis=1))
        return total

    def memory(self, order: Sequence[int]) -> tuple[npt.NDArray[np.float64], ...]:
        """Bytes that every tile has, that stay from tile to tile, and that never change."""
        several = self.counts > 1
        # The axis along which neighbours follow: the last of those with several tiles.
        last = np.zeros(len(self.counts), np.int64)
        for axis in order:
            last = np.where(several[:, axis], axis, last)
        each, stays, whole = self.written.copy(), *np.zeros((2, len(self.counts)))
        for read, moves in zip(self.read, self.moves, strict=True):
            follows, changes = moves[last], (several & moves).any(axis=1)
            each += np.where(follows, read, 0)
            stays += np.where(changes & ~follows, read, 0)
            whole += np.where(changes, 0, read)
        return each, stays, whole


def shapes(
    tiling: Tiling, needed: Sequence[str], room: int, rates: Rates, slots: int | None,
    operations: float, contracts: bool = False,
) -> list[Shape]:  # fmt: skip
    """Shapes of tiles that fit into `room` bytes of a device, the quickest first.

    `slots`: tiles that are to be in flight; None: any number. `operations`: of all tiles.
    `contracts`: whether they are contractions.
    """
    if not rates.beside:
        rates = replace(rates, copy_in=_APART * rates.copy_in, copy_out=_APART * rates.copy_out)
    costs = _costs(tiling, needed)
    axes = np.flatnonzero(costs.counts.max(axis=0) > 1)
    found: dict[tuple[object, ...], Shape] = {}
    tiles = costs.tiles()
    wide = costs.extents[:, -1] >= min(NARROW, tiling.extents[-1])
    for order in permutations(axes.tolist()):
        moved = costs.moved(order)
        each, stays, whole = costs.memory(order)
        quick = moved / rates.copy_in + tiles * rates.box
        for flying, buffers in _WAYS if slots is None else ((slots, 1), (slots, 2)):
            memory = flying * each + buffers * stays + whole
            fits = (memory <= room) & (tiles > 1)
            (left,) = np.nonzero(fits & wide if (fits & wide).any() else fits)
            for candidate in left[np.argsort(quick[left], kind="stable")[:_TRIED]].tolist():
                shape = _shape(costs, candidate, order, (flying, buffers), operations)
                work = replace(shape.work, bytes_in=int(moved[candidate]))
                if contracts:
                    work = _in_groups(work, shape, rates)
                found[shape.extents, shape.order, flying, buffers] = replace(
                    shape, memory=int(memory[candidate]), work=work
                )
    few = sorted(found.values(), key=lambda shape: shape.rank(rates))[:_COMPARED]
    return sorted((_exact(tiling, shape) for shape in few), key=lambda shape: shape.rank(rates))


def _shape(
    costs: Costs, candidate: int, order: Sequence[int], way: tuple[int, int], operations: float
) -> Shape:
    """One of the shapes, but for the bytes that it reads and has."""
    slots, buffers = way
    extents, counts = (
        tuple(numbers[candidate].tolist()) for numbers in (costs.extents, costs.counts)
    )
    several = tuple(axis for axis in order if counts[axis] > 1)
    tiles = math.prod(counts)
    if len(extents) > 1:  # neighbours are done a line at a time
        operations *= lines(extents[-1]) * counts[-1] / lines(extents[-1] * counts[-1])
    written = int(costs.written[candidate] * tiles)
    waits = _waits(costs, several, tiles // counts[several[-1]]) if slots > buffers == 1 else 0
    work = Work(tiles, 0, written, _LAUNCHES, operations)
    return Shape(extents, several, slots, buffers, work, waits)


def _in_groups(work: Work, shape: Shape, rates: Rates) -> Work:
    """The work of contractions, done by groups that have `_GROUP` x `_GROUP` sums each.

    Those that no element needs take as long. Groups of all tiles in flight run beside each other.
    """
    extents = shape.extents[-2:]
    groups = math.prod(-(-extent // _GROUP) for extent in extents)
    more = groups * _GROUP ** len(extents) / math.prod(extents)
    groups *= shape.slots * math.prod(shape.extents[:-2])
    return replace(work, operations=work.operations * more, idle=rates.idle(groups))


def _waits(costs: Costs, order: tuple[int, ...], turns: int) -> int:
    """How often something changes that stays while tiles follow along the last axis."""
    stays = ~costs.moves[:, order[-1]]
    return turns - 1 if costs.moves[stays][:, list(order[:-1])].any() else 0


def _exact(tiling: Tiling, shape: Shape) -> Shape:
    """With the bytes of all tiles, as they are."""
    reached = tiling.reached(grid(tiling.extents, shape.extents, shape.order))
    copied = sum(map(int, tiling.copied(reached)))
    return replace(shape, work=replace(shape.work, bytes_in=copied))


def _costs(tiling: Tiling, needed: Sequence[str]) -> Costs:
    """The costs of all shapes that are compared."""
    extents = _candidates(tiling)
    total = np.array(tiling.extents)
    counts = -(-total // extents)
    read = np.zeros((len(tiling.operands), len(extents)), np.int64)
    for first in (extents * 0, counts // 2 * extents):  # the middle, where halos are whole
        bounds = zip(first.T, np.minimum(first + extents, total).T, strict=True)
        reached = tiling.reached(tuple(bounds))
        for most, size in zip(read, tiling.read_bytes(reached), strict=True):
            np.maximum(most, size, out=most)
    each = tiling.result_bytes(needed)
    return Costs(extents, counts, read, tiling.moves(), extents.prod(axis=1) * each)


def _candidates(tiling: Tiling) -> npt.NDArray[np.int64]:
    """Extents of tiles: whole cache lines where they are long; equal parts but of the last axis.

    All are multiples of the tiling's units.
    """
    extents = tiling.extents
    longest = sorted(range(len(extents)), key=lambda axis: -extents[axis])[:_MOST_AXES]
    longest = [axis for axis in longest if extents[axis] > 1]
    most = _MOST_ALONG[max(len(longest), 1) - 1]
    tried: list[list[int]] = []
    for axis, extent in enumerate(extents):
        across = axis == len(extents) - 1 > 0
        found = {extent}
        if axis in longest:
            for count in counts(extent, 1, 1):
                if count > most:
                    break
                if across or extent > _LONG * count:
                    found.add(min(extent_of(extent, 1, count, True), extent))
                if not across:
                    found.add(min(extent_of(extent, 1, count), extent))
            found.add(min(extent, -(-extent // _MOST_TILES) if len(longest) == 1 else 1))
        whole = {tiling.whole(axis, each) for each in found}
        tried.append(sorted(whole, reverse=True))
    while math.prod(map(len, tried)) > _MOST_SHAPES:
        widest = max(tried, key=len)
        widest[:] = [*widest[:-1:2], widest[-1]]
    every = np.array(list(product(*tried)), np.int64)
    tiles = (-(-np.array(extents) // every)).prod(axis=1)
    few: npt.NDArray[np.int64] = every[tiles <= _MOST_TILES]
    return few
