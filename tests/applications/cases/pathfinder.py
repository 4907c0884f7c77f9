"""Pathfinder, also of one row and of one column."""

from __future__ import annotations

from typing import Any

import numpy as np
from applications.case import Case, example


def reference(wall: Any) -> Any:
    """Row by row, on costs with a border that no way crosses."""
    costs = wall[0].astype(np.int64)
    for row in wall[1:]:
        wide = np.pad(costs, 1, constant_values=1 << 40)
        costs = row + np.minimum.reduce([wide[:-2], wide[1:-1], wide[2:]])
    return costs.astype(wall.dtype)


def cases() -> dict[str, Case]:
    cheapest = example("pathfinder").cheapest
    random = np.random.default_rng(5)

    def wall(rows: int, columns: int) -> Case:
        cells = random.integers(0, 10, (rows, columns), dtype=np.int32)
        return Case(cheapest, (cells,), reference)

    return {"walls": wall(23, 101), "one_row": wall(1, 13), "one_column": wall(11, 1)}
