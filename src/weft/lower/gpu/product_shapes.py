"""Tiles of contractions on a device: what a group computes, and how its items share it out."""

from __future__ import annotations

from weft.fun.contractions import Contraction
from weft.records import dataclass

_FEW_BYTES = 16  # of all values of a row and a column, where items have registers for large tiles


@dataclass(frozen=True, slots=True)
class Shape:
    """So many items down and across in a group, with so many rows and columns each.

    `step`: the reduced indices of a slice. `resident`: so many groups have their registers at once
    on a multiprocessor, where whole slices are apart, and sums far; else 0. `least`: so many items
    there are at least of all groups, or finer tiles keep more multiprocessors busy.
    """

    down: int
    across: int
    rows: int
    columns: int
    step: int
    resident: int = 0
    least: int = 1 << 15

    @property
    def group(self) -> int:
        return self.down * self.across

    def __str__(self) -> str:
        return f"{self.down * self.rows} x {self.across * self.columns}"


LARGE = {
    (False, True): Shape(16, 16, 8, 8, 16, 2, 1 << 16),
    (False, False): Shape(16, 8, 8, 8, 8),
    (True, True): Shape(16, 16, 8, 4, 8, 2),
    (True, False): Shape(8, 16, 8, 8, 8, 2, 1 << 16),
}
"""Large tiles: whether sums have 64 bits, and values of a row and a column 64 together at most.

Folds are 64 registers of 32 bits for each item, of the 128 that two groups of 256 leave it; or
twice as many, of groups of 128: float64 takes 0.93 of the time of 8 x 4 elements on an H200.
"""

MIDDLE = {
    (False, True): Shape(16, 16, 4, 4, 16, 4, 1 << 13),
    (True, False): Shape(16, 16, 4, 4, 16, 2, 1 << 13),
}
"""Tiles where large ones would be few: as `LARGE`, of half the registers."""


def shapes(found: Contraction) -> list[Shape]:
    """Those of a contraction's tiles, from the largest to the finest."""
    bytes_ = sum(v.type.dtype.itemsize for v in (*found.left.values, *found.right.values))
    fine = Shape(16, 16, 1, 1, 16)
    if bytes_ > _FEW_BYTES:
        return [Shape(16, 16, 4, 4, 8), fine]
    key = found.reduce.neutral[0].type.dtype.itemsize == 8, bytes_ <= 8
    return [LARGE[key], MIDDLE.get(key, Shape(16, 16, 4, 4, 16)), fine]
