"""Heat in a plate: the smallest program, for the shape of a case."""

from __future__ import annotations

from typing import Any

import numpy as np
from applications.case import Case, example


def spread(plate: Any, steps: int) -> Any:
    plate = plate.copy()
    for _ in range(steps):
        inner = plate[1:-1, 1:-1]
        around = plate[:-2, 1:-1] + plate[2:, 1:-1] + plate[1:-1, :-2] + plate[1:-1, 2:]
        plate[1:-1, 1:-1] = inner + 0.2 * (around - 4 * inner)
    return plate


def case() -> Case:
    plate = np.random.default_rng(1).normal(size=(17, 13))
    return Case(example("heat").spread, (plate, 5), spread, relative=1e-12, absolute=1e-12)
