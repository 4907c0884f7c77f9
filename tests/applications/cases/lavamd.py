"""LavaMD: cubes of boxes, and one box alone."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
from applications.case import Case, example


def forces(potential: Any, place: Any, charge: Any) -> Any:
    """The definition, by one pair of boxes at a time."""
    shape = charge.shape[:3]
    total = np.zeros((4, *charge.shape))
    for box in np.ndindex(shape):
        for step in itertools.product((-1, 0, 1), repeat=3):
            other = tuple(b + s for b, s in zip(box, step, strict=True))
            if not all(0 <= o < n for o, n in zip(other, shape, strict=True)):
                continue
            here, there = place[:, *box][:, :, None], place[:, *other][:, None, :]
            dot = (here * there).sum(0)
            squared = potential[box][:, None] + potential[other] - dot
            weight = charge[other] * np.exp(-0.5 * squared)
            total[0][box] += weight.sum(1)
            total[1:, *box] += (2 * weight * (here - there)).sum(2)
    return tuple(total)


def particles(*shape: int) -> tuple[Any, Any, Any]:
    random = np.random.default_rng(shape[0])
    values = random.uniform(0.1, 1, (5, *shape))
    return values[0], values[1:4], values[4]


def cases() -> dict[str, Case]:
    function = example("lavamd").forces
    return {
        name: Case(function, particles(*shape), forces, 1e-10, 1e-10, counts=name != "long")
        for name, shape in {"": (3, 2, 4, 7), "long": (1, 1, 5, 71), "alone": (1, 1, 1, 1)}.items()
    }
