"""Hotspot, by a stencil and by nine pieces, on plates of odd extents."""

from __future__ import annotations

from typing import Any

import numpy as np
from applications.case import Case, example


def reference(temperature: Any, power: Any, steps: int) -> Any:
    """The definition in float64, on a padded plate."""
    rows, columns = temperature.shape
    gh, gw = 0.016 / rows, 0.016 / columns
    capacity = 437.5 * gh * gw
    rx, ry, rz = gw / (0.1 * gh), gh / (0.1 * gw), 5e-6 / (gh * gw)
    step = 0.001 / (3e6 / 437.5)
    t = temperature.astype(np.float64)
    for _ in range(steps):
        around = np.pad(t, 1, mode="edge")
        north, south = around[:-2, 1:-1], around[2:, 1:-1]
        west, east = around[1:-1, :-2], around[1:-1, 2:]
        vertical = (north + south - 2 * t) / ry
        horizontal = (east + west - 2 * t) / rx
        t = t + step / capacity * (power + vertical + horizontal + (80 - t) / rz)
    return t.astype(np.float32)


def plate(rows: int, columns: int) -> tuple[Any, Any, int]:
    random = np.random.default_rng(rows)
    temperature = random.uniform(320, 345, (rows, columns)).astype(np.float32)
    return temperature, random.uniform(0, 3e-3, (rows, columns)).astype(np.float32), 4


def cases() -> dict[str, Case]:
    program = example("hotspot")
    return {
        "stencil": Case(program.simulate, plate(17, 23), reference),
        "stencil_of_one_row": Case(program.simulate, plate(1, 19), reference),
        "pieces": Case(program.simulate_pieces, plate(17, 23), reference),
        "pieces_without_inner_rows": Case(program.simulate_pieces, plate(2, 5), reference),
    }
