"""N-body: every body pulls every other, as two loops that also run in plain Python."""

import math

import numpy as np

import weft as wf

SOFTENING = 50.0


@wf.kernel
def step(p, v, mass, dt, moved):
    """v += dt a, moved = p + dt (old v), with a_i = sum m_j (p_j - p_i) / (r^2 + eps^2)^1.5."""
    for i in wf.prange(p.shape[0]):
        ax = ay = az = 0.0
        for j in range(p.shape[0]):
            dx, dy, dz = p[j, 0] - p[i, 0], p[j, 1] - p[i, 1], p[j, 2] - p[i, 2]
            squared = dx * dx + dy * dy + dz * dz + SOFTENING * SOFTENING
            pull = mass[j] / (squared * math.sqrt(squared))
            ax += dx * pull
            ay += dy * pull
            az += dz * pull
        for k in range(3):
            moved[i, k] = p[i, k] + v[i, k] * dt
        v[i, 0] += ax * dt
        v[i, 1] += ay * dt
        v[i, 2] += az * dt


def main(bodies: int = 1000, steps: int = 10, dtype: str = "float64") -> np.ndarray:
    """Where the bodies are after so many steps of length 1."""
    random = np.random.default_rng(1)
    p = (1000 * random.random((bodies, 3))).astype(dtype)
    v, mass = np.zeros_like(p), random.random(bodies).astype(dtype)
    moved = np.empty_like(p)
    for _ in range(steps):
        step(p, v, mass, p.dtype.type(1), moved)
        p, moved = moved, p
    return p


if __name__ == "__main__":
    for dtype in ("float32", "float64"):
        print(f"{dtype}: the middle of all bodies is {main(dtype=dtype).mean(axis=0)}")
