"""Trapezoids of elements, as `for i in range(n): for j in range(i + 1)` meets them, packed.

Row i of m rows has length + growth * i elements. Rows i and m - 1 - i together have as many as
any other such pair, so packed in this order all pairs are rows of one rectangle:

    0             0 3 3 3 3            where an element of the rectangle lies in the trapezoid
    1 1       =>  1 1 2 2 2            takes a division, and a comparison
    2 2 2
    3 3 3 3

(and of an odd number of rows the middle one is half such a pair).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Literal, TypeAlias

import numpy as np
import numpy.typing as npt
from numpy.lib.stride_tricks import as_strided

from weft.records import dataclass
from weft.transfer.accesses import Access, Affine

NDArray: TypeAlias = npt.NDArray[Any]
Line: TypeAlias = tuple[int, int]
"""Constant and factor of a number that is affine in the row."""


@dataclass(frozen=True, slots=True)
class Trapezoid:
    """Of row first + i, for i < rows, the length + growth * i columns from low + lean * i on."""

    first: int
    rows: int
    low: int
    lean: int
    length: int
    growth: int

    @property
    def width(self) -> int:
        """Elements of a pair of rows."""
        return 2 * self.length + self.growth * (self.rows - 1)

    @property
    def count(self) -> int:
        """Elements of all rows."""
        return self.rows * self.width // 2

    def blocks(self) -> Iterator[Block]:
        """What is copied at once: rows of one length each, and of all lengths a row."""
        if not self.growth:
            half, last = self.rows // 2, self.rows - 1
            yield Block(
                self.first, self.low, (1, self.lean), self.rows - half, self.length, 0, self.width
            )
            yield Block(
                self.first + last, self.low + self.lean * last, (-1, -self.lean), half,
                self.length, self.length, self.width,
            )  # fmt: skip
            return
        for i in range(self.rows):
            pair = min(i, self.rows - 1 - i)
            start = pair * self.width
            if i > pair:
                start += self.length + self.growth * pair
            low, length = self.low + self.lean * i, self.length + self.growth * i
            yield Block(self.first + i, low, (1, self.lean), 1, length, start, self.width)


@dataclass(frozen=True, slots=True)
class Block:
    """Rows of a trapezoid of one length, which lie equally far apart.

    Attributes
    ----------
    row, column : int
        Of the first element.
    step : (int, int)
        From a row's first element to the next one's.
    rows, length : int
    start, apart : int
        Where the first row lies packed, and how much further the next.
    """

    row: int
    column: int
    step: tuple[int, int]
    rows: int
    length: int
    start: int
    apart: int

    def packed(self, values: NDArray) -> NDArray:
        """The rows in a packed array, of which they are the last dimension."""
        shape = (*values.shape[:-1], self.rows, self.length)
        strides = (*values.strides[:-1], self.apart * values.strides[-1], values.strides[-1])
        return as_strided(values[..., self.start :], shape, strides)


def trapezoid(extents: tuple[int, int], low: Line, high: Line) -> Trapezoid | None:
    """The columns from `low` to before `high`; None where there are none, or some outside.

    Parameters
    ----------
    extents : (int, int)
        How many rows and columns there may be.
    low, high : (int, int)
        Constant, and factor of the row.
    """
    lengths = (high[0] - low[0]) + (high[1] - low[1]) * np.arange(extents[0])
    (rows,) = np.nonzero(lengths > 0)
    if not rows.size:
        return None
    first, last = int(rows[0]), int(rows[-1])
    for row in (first, last):
        if low[0] + low[1] * row < 0 or high[0] + high[1] * row > extents[1]:
            return None
    return Trapezoid(
        first, last - first + 1, low[0] + low[1] * first, low[1], int(lengths[first]),
        high[1] - low[1],
    )  # fmt: skip


@dataclass(frozen=True, slots=True)
class PackedRows:
    """What accesses meet in memory in the iterations of a trapezoid, packed: each element once.

    Attributes
    ----------
    trapezoid : Trapezoid
    base : int
        The address of what row 0 and column 0 would meet.
    steps : (int, int)
        From a row to the next, and from a column.
    others : tuple of (int, int)
        Extent and step of the variables that are neither.
    names : tuple of str
        The variables by which the packed array is indexed: the others, and the position.
    """

    trapezoid: Trapezoid
    base: int
    steps: tuple[int, int]
    others: tuple[tuple[int, int], ...]
    names: tuple[str, ...]

    @property
    def kind(self) -> Literal["trapezoid"]:
        return "trapezoid"

    @property
    def shape(self) -> tuple[int, ...]:
        """Of the packed array."""
        return (*(extent for extent, _ in self.others), self.trapezoid.count)

    @property
    def count(self) -> int:
        """How many elements are transferred."""
        return int(np.prod(self.shape))

    def indices(self, number: int, access: Access) -> tuple[Affine, ...]:
        """Where the iteration of a trapezoid finds its element."""
        return tuple(Affine(0, ((name, 1),)) for name in self.names)

    def pack(self, memory: NDArray, empty: Callable[..., NDArray]) -> NDArray:
        """The elements in the shape of the packed array."""
        out = empty(self.shape, memory.dtype)
        row_step, column_step = self.steps
        for block in self.trapezoid.blocks():
            start = self.base + row_step * block.row + column_step * block.column
            if block.rows == 1 and not self.others and column_step > 0:  # as most are
                end = start + column_step * block.length
                out[block.start : block.start + block.length] = memory[start:end:column_step]
                continue
            into = block.packed(out)
            if into.size:
                between = row_step * block.step[0] + column_step * block.step[1]
                steps = (*(step for _, step in self.others), between, column_step)
                strides = tuple(step * memory.itemsize for step in steps)
                np.copyto(into, as_strided(memory[start:], into.shape, strides, writeable=False))
        return out


def unpack(shape: Trapezoid, values: NDArray, target: NDArray, axes: Sequence[int]) -> None:
    """Write packed rows to where they belong; `axes`: those of rows and columns."""
    rows_last = np.moveaxis(target, axes, (-2, -1))
    row_step, column_step = rows_last.strides[-2:]
    for block in shape.blocks():
        if block.rows == 1:
            columns = slice(block.column, block.column + block.length)
            part = values[..., block.start : block.start + block.length]
            rows_last[..., block.row, columns] = part
            continue
        rows = block.packed(values)
        if rows.size:
            between = row_step * block.step[0] + column_step * block.step[1]
            strides = (*rows_last.strides[:-2], between, column_step)
            start = rows_last[..., block.row :, block.column :]
            np.copyto(as_strided(start, rows.shape, strides), rows)
