"""SRAD of an image, and of a batch of them, in float64."""

from __future__ import annotations

from typing import Any

import numpy as np
from applications.case import Case, example


def reference(image: Any, rounds: int) -> Any:
    j = np.exp(image.astype(np.float64) / 255)
    for _ in range(rounds):
        q0 = j.var() / j.mean() ** 2
        p = np.pad(j, 1, mode="edge")
        north, south, west, east = p[:-2, 1:-1], p[2:, 1:-1], p[1:-1, :-2], p[1:-1, 2:]
        dn, ds, dw, de = north - j, south - j, west - j, east - j
        g = (dn**2 + ds**2 + dw**2 + de**2) / j**2
        laplacian = (dn + ds + dw + de) / j
        q = (g / 2 - laplacian**2 / 16) / (1 + laplacian / 4) ** 2
        c = np.pad(np.clip(1 / (1 + (q - q0) / (q0 * (1 + q0))), 0, 1), 1, mode="edge")
        here, south_c, east_c = c[1:-1, 1:-1], c[2:, 1:-1], c[1:-1, 2:]
        j = j + 0.5 / 4 * (here * dn + south_c * ds + here * dw + east_c * de)
    return (255 * np.log(j)).astype(np.float32)


def cases() -> dict[str, Case]:
    program = example("srad")
    random = np.random.default_rng(8)
    image = random.uniform(12, 255, (13, 17)).astype(np.float32)
    batch = random.uniform(12, 255, (5, 7, 6)).astype(np.float32)
    return {
        "image": Case(program.srad, (image, 4), reference, 1e-4, 1e-3),
        "column": Case(program.srad, (image[:, :1], 3), reference, 1e-4, 1e-3),
        "batch": Case(
            program.srad_batch, (batch, 4),
            lambda images, rounds: np.stack([reference(i, rounds) for i in images]), 1e-4, 1e-3,
        ),
    }  # fmt: skip
