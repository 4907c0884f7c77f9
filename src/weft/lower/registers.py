"""How many vector registers this machine's processor has, and how wide they are.

What is tiled for registers has the shape that fits them. The shape changes no bits: lanes and
rows of a tile are elements of their own.
"""

from __future__ import annotations

import platform
from functools import cache

from weft.lower import processor
from weft.records import dataclass


@dataclass(frozen=True, slots=True)
class Registers:
    """Vector registers: their number, and the bytes of each."""

    count: int
    bytes: int

    def tile(self, itemsize: int, loads: int) -> tuple[int, int]:
        """Rows and lanes of a tile of sums in registers.

        Of the shapes that leave room for `loads` vectors a lane group (what a row of the tile is
        combined with) and two more, the one that does the most work for each load, as in figure 6
        of R. van de Geijn and K. Goto, "Anatomy of High-Performance Matrix Multiplication" (2008).
        """
        shapes = [
            (rows, vectors)
            for vectors in (1, 2, 3)
            for rows in (2, 4, 6, 8)
            if rows * vectors + loads * vectors + 2 <= self.count
        ] or [(2, 1)]  # fmt: skip
        rows, vectors = max(shapes, key=lambda s: (s[0] * s[1] / (s[0] + s[1]), s[1]))
        return rows, vectors * (self.bytes // itemsize)


@cache
def registers() -> Registers:
    """Those of the processor that this runs on."""
    if platform.machine() not in ("x86_64", "AMD64"):
        return Registers(32, 16)
    text = processor.described()
    if " avx512f " in text:
        return Registers(32, 64)
    return Registers(16, 32 if " avx2 " in text or not text else 16)
