"""What a list is that grows in loops and branches (`grown` says how), and signals of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field
from typing import Any, TypeAlias

import numpy as np

from weft import functions
from weft.array import Array
from weft.errors import UnsupportedError, user_place
from weft.frontend import extent as extents
from weft.frontend import layout, operations
from weft.frontend.elementwise import as_dtype, common_dtype
from weft.frontend.extent import Extent
from weft.frontend.graph import Shape, make, scalar_constant, size_scalar
from weft.functions.creation import filled
from weft.kernel.values import Cell, Region, Selection
from weft.ops.dtypes import DType, from_numpy
from weft.records import dataclass

Kind: TypeAlias = tuple[DType, bool]
"""A dtype, and whether the numbers are Python's."""

MOST_ROOM = 1 << 26
"""So many elements a list may have whose length no loop's extents bound."""


class ListFullError(UnsupportedError):
    """A run met more elements than there was room for."""


class Grows(Exception):  # noqa: N818 - a signal: trace the function again
    """A list grows in a loop or branch that it was made outside of, by an expression at a place.

    `is_common`: or it is one of several, of which a branch or loop chooses.
    """

    def __init__(self, place: Any, is_common: bool = False) -> None:
        super().__init__()
        self.place = place
        self.is_common = is_common


class Outgrown(Exception):  # noqa: N818 - a signal: trace the loop or branch again
    """A list is to have more room, or another dtype, before a region begins."""

    def __init__(self, region: Region, grown: Grown, key: Any, more: Sequence[Extent]) -> None:
        super().__init__()
        self.region = region
        self.grown = grown
        self.key = key
        self.more = more

    def settle(self, region: Region | None, granted: set[Any]) -> bool:
        """Let there be room, if the region is that; it has been left."""
        if region is not self.region:
            return False
        granted.add(self.key)
        self.grown.enlarge(self.more)
        return True


class NothingYet(Exception):  # noqa: N818 - a signal: a later round may append something
    """An element is read of a list to which nothing has been appended so far."""

    def __init__(self, error: IndexError) -> None:
        super().__init__()
        self.error = error


@dataclass(eq=False, slots=True)
class Grown:
    """A list of numbers or of arrays of one shape, or of tuples of as many of them.

    Attributes
    ----------
    depth, scopes : int
        How many loops and branches, and how many scopes, were being traced when it was made.
    count, first : Cell
        How many elements there are, and where the first one is, before which others were.
    kinds : list of Kind
        Of the numbers of an element.
    shapes : list of Shape
        Of these, which may be arrays.
    parts : list of Cell
        Their arrays.
    room : Extent
        How many elements these have.
    of_tuples : bool
    is_checked : bool
        Whether only a run tells if there is room.
    held : int
        How many loops go over it.
    origin : Place or None
        Where the expression stands that made it.
    is_common : bool
        Whether its room is that of others, of which it is one (`weft.kernel.rebound`).
    """

    depth: int
    scopes: int
    count: Cell
    first: Cell
    room: Extent = layout.ZERO
    kinds: list[Kind] = field(default_factory=list)
    shapes: list[Shape] = field(default_factory=list)
    parts: list[Cell] = field(default_factory=list)
    of_tuples: bool = False
    is_checked: bool = False
    held: int = 0
    origin: Any = None
    is_common: bool = False

    def enlarge(self, factors: Sequence[Extent]) -> None:
        """Let there be room for more elements of the kinds that there are now: a product.

        Of what may be negative, where it is to be 0; that is computed where the room is made.
        """
        more = product(factors)
        before = self.room
        has_some = self.parts or self.is_common
        self.room = before + more if has_some else more + 1  # so that there always is an element
        for k, (dtype, _) in enumerate(self.kinds):
            zero = scalar_constant(0, dtype)
            if k == len(self.parts):
                shape = (self.room, *self.shapes[k])
                self.parts.append(Cell(Array(filled(zero, shape)), self.depth, name="list"))
                continue
            cell = self.parts[k]
            array = Array(as_dtype(cell.array._node, dtype))
            extra = self.room - before
            is_enough = not extra.symbols and extra.value == 0
            cell.array = array if is_enough else functions.concat(
                [array, Array(filled(zero, (extra, *self.shapes[k])))]
            )  # fmt: skip

    def length(self) -> Array:
        """How many elements there are: a Python int, which extents know to be 0 to all."""
        count = functions.minimum(
            functions.maximum(self.count.array, 0), Array(size_scalar(self.room))
        )
        return _pythons(count, DType.I64)

    def numbers(self) -> Selection:
        """All that it holds: the first elements of an array."""
        places = functions.arange(self.room)
        held = (places >= self.first.array) & (places < self.place(self.count.array))
        arrays = [cell.array for cell in self.parts] or [functions.zeros(1)]
        array = arrays[0]
        if self.of_tuples:
            if any(self.shapes):
                raise UnsupportedError("an array of tuples that hold arrays", "a list of each", "",
                                       place=user_place())  # fmt: skip
            array = functions.stack(arrays, axis=1)
        return Selection(array, held)

    def place(self, number: Any) -> Array:
        """Where in the arrays the element of a number is."""
        place: Array = self.first.array + number
        return place

    def taken(self, position: Array) -> Any:
        """The element of a number, which is within the array."""
        found = [
            _pythons(cell.array[position], dtype) if is_weak else cell.array[position]
            for cell, (dtype, is_weak) in zip(self.parts, self.kinds, strict=True)
        ]
        return tuple(found) if self.of_tuples else found[0]


def joined(one: Kind, other: Kind) -> Kind:
    """The kind of a list's elements that are of two: as NumPy makes an array of them."""
    if one == other:
        return one
    if one[1] and other[1]:
        nodes = [scalar_constant(0, dtype, weak=True) for dtype, _ in (one, other)]
        return common_dtype(tuple(nodes)), True
    return from_numpy(np.result_type(one[0].numpy, other[0].numpy)), False


def product(factors: Sequence[Extent]) -> Extent:
    """Of extents that may be negative, and are 0 then."""
    found: Extent = extents.constant(1)
    for factor in factors:
        found = found * layout.limited("maximum", factor, layout.ZERO)
    return found


def _pythons(number: Array, dtype: DType) -> Array:
    return Array(make(operations.Cast(dtype), (number._node,), (), dtype, weak=True))
