"""Parboil's Coulombic potential: the energy at each point of a plane, of charges around it."""

import math

import numpy as np

import weft as wf


@wf.kernel
def potential(atoms, spacing, energy):
    """energy[j, i] = sum over atoms (x, y, z, q) of q / distance to (i, j) * spacing."""
    for j in wf.prange(energy.shape[0]):
        for i in wf.prange(energy.shape[1]):
            total = 0.0
            for n in range(atoms.shape[0]):
                dx = spacing * i - atoms[n, 0]
                dy = spacing * j - atoms[n, 1]
                dz = atoms[n, 2]
                total += atoms[n, 3] / math.sqrt(dx * dx + dy * dy + dz * dz)
            energy[j, i] = total


def main(size: int = 256, count: int = 1000, dtype: str = "float32") -> np.ndarray:
    """The energies on a grid of `size` by `size` points."""
    random = np.random.default_rng(1)
    plane = 0.1 * size
    atoms = random.random((count, 4)) * [plane, plane, 3, 2] + [0, 0, 0.5, -1]
    atoms = atoms.astype(dtype)
    energy = np.empty((size, size), dtype)
    potential(atoms, atoms.dtype.type(0.1), energy)
    return energy


if __name__ == "__main__":
    for dtype in ("float32", "float64"):
        energy = main(dtype=dtype)
        print(f"{dtype}: energies from {energy.min():.3f} to {energy.max():.3f}")
