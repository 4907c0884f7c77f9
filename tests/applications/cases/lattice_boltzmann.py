"""LBM in a small box: collision, then streaming, both over whole arrays, in float64."""

from __future__ import annotations

from typing import Any

import numpy as np
from applications.case import Case, example

AXES = [(0, 0, 1), (0, 1, 0), (1, 0, 0)]
DIAGONALS = [(0, 1, 1), (0, 1, -1), (1, 0, 1), (1, 0, -1), (1, 1, 0), (1, -1, 0)]


def velocities(order: Any) -> tuple[Any, Any]:
    """The 19 directions and their weights, in the example's order."""
    halves = [*((a, 1 / 18) for a in AXES), *((d, 1 / 36) for d in DIAGONALS)]
    weights = {(0, 0, 0): 1 / 3}
    for (z, y, x), weight in halves:
        weights[z, y, x] = weights[-z, -y, -x] = weight
    assert set(weights) == set(order)
    return np.array(order), np.array([weights[tuple(e)] for e in order])


def reference(f: Any, obstacle: Any, lid: Any, steps: int) -> Any:
    e, w = velocities(example("lattice_boltzmann").DIRECTIONS)
    opposite = [int(np.flatnonzero((e == -d).all(1))[0]) for d in e]
    f = f.astype(np.float64)
    for _ in range(steps):
        rho = f.sum(0)
        u = np.einsum("ad,azyx->dzyx", e, f) / rho
        u[:, lid] = np.array([0, 0.002, 0.005])[:, None]
        eu = np.einsum("ad,dzyx->azyx", e, u)
        equilibrium = w[:, None, None, None] * rho * (1 + eu * (4.5 * eu + 3) - 1.5 * (u**2).sum(0))
        after = (1 - 1.95) * f + 1.95 * equilibrium
        after[:, obstacle] = f[opposite][:, obstacle]
        f = np.stack([np.roll(p, d, (0, 1, 2)) for p, d in zip(after, e, strict=True)])
    return f.astype(np.float32)


def cases() -> dict[str, Case]:
    program = example("lattice_boltzmann")
    random = np.random.default_rng(5)
    f, obstacle, lid = program.box(random.random((5, 6, 7)) < 0.2)
    f *= random.uniform(0.9, 1.1, f.shape).astype(np.float32)
    return {
        "one_step": Case(program.simulate, (f, obstacle, lid, 1), reference),
        "three_steps": Case(program.simulate, (f, obstacle, lid, 3), reference),
    }
