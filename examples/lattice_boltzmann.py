"""A lid-driven flow around obstacles by the lattice Boltzmann method: LBM of Parboil's benchmarks.

In every cell of a box move 19 populations of particles: one rests, the others go to the nearest
neighbours along an axis or a diagonal of a face (the lattice D3Q19). In each step the populations
of a cell collide, which moves them towards their equilibrium, and then each goes on to its
neighbour. Obstacles send back what reaches them.
"""

from itertools import product
from pathlib import Path

import numpy as np

import weft as wf

DATA = Path(__file__).parent / "data" / "lbm_obstacles.npz"

# Directions (z, y, x), the resting one first.
DIRECTIONS = sorted(
    (e for e in product((-1, 0, 1), repeat=3) if np.abs(e).sum() <= 2),
    key=lambda e: (np.abs(e).sum(), e),
)
WEIGHTS = [(1 / 3, 1 / 18, 1 / 36)[np.abs(e).sum()] for e in DIRECTIONS]
OPPOSITE = [DIRECTIONS.index((-z, -y, -x)) for z, y, x in DIRECTIONS]
RELAXATION = 1.95
LID = (0.0, 0.002, 0.005)  # velocity (z, y, x)


def collide(f, obstacle, lid):
    """The populations of each cell after they have met."""
    density = sum(f)
    velocity = []
    for axis, given in enumerate(LID):
        momentum = sum(e[axis] * f[a] for a, e in enumerate(DIRECTIONS) if e[axis])
        velocity.append(wf.where(lid, given, momentum / density))
    energy = 1.5 * sum(u * u for u in velocity)
    after = []
    for a, e in enumerate(DIRECTIONS):
        along = sum(e[axis] * velocity[axis] for axis in range(3) if e[axis])
        equilibrium = WEIGHTS[a] * density * (1 + along * (4.5 * along + 3) - energy)
        moved = (1 - RELAXATION) * f[a] + RELAXATION * equilibrium
        after.append(wf.where(obstacle, f[OPPOSITE[a]], moved))
    return after


def arriving(f):
    """Each population from where it was, by what a stencil sees of it."""
    return [f[a][-z, -y, -x] for a, (z, y, x) in enumerate(DIRECTIONS)]


@wf.jit
def simulate(f, obstacle, lid, steps):
    """The populations [19, z, y, x] after some steps, at least one.

    A step is a collision and then a streaming. The loop begins in between, so that each of its
    rounds is one pass that reads and writes every population once.
    """

    def met(*seen):
        *f, obstacle, lid = seen
        return collide(arriving(f), obstacle[0, 0, 0], lid[0, 0, 0])

    def step(f):
        return wf.stack(wf.stencil(met, *f, obstacle, lid, boundary="wrap"))

    f = wf.stack(collide(f, obstacle, lid))
    f = wf.iterate(step, f, steps - 1)
    return wf.stack(wf.stencil(lambda *f: arriving(f), *f, boundary="wrap"))


def box(obstacle):
    """What `simulate` takes: a fluid at rest, the walls closed, and where the lid drives it."""
    obstacle = np.pad(obstacle[1:-1, 1:-1, 1:-1], 1, constant_values=True)
    lid = np.zeros(obstacle.shape, bool)
    lid[[1, -2], 2:-2, 2:-2] = True
    weights = np.array(WEIGHTS, np.float32)
    return np.broadcast_to(weights[:, None, None, None], (19, *lid.shape)).copy(), obstacle, lid


def load() -> np.ndarray:
    """The obstacles of Parboil's data, 150 x 120 x 120."""
    data = np.load(DATA)
    shape = tuple(data["shape"])
    return np.unpackbits(data["obstacle_bits"])[: np.prod(shape)].reshape(shape).astype(bool)


def main(steps: int = 100) -> np.ndarray:
    """The speed of the fluid in the plane halfway along x."""
    f, obstacle, lid = box(load())
    f = simulate(f, obstacle, lid, steps)[..., f.shape[-1] // 2]
    momentum = np.tensordot(np.array(DIRECTIONS, np.float32).T, f, 1)
    speed = np.sqrt((momentum**2).sum(0)) / f.sum(0)
    return np.where(obstacle[..., f.shape[-1] // 2], 0, speed)


if __name__ == "__main__":
    speed = main()
    shades = 9.99 * (speed / speed.max()) ** 0.25
    for row in shades[::5, ::2]:
        print("".join(" .:-=+*#%@"[int(shade)] for shade in row))
    print(f"at most {speed.max():.4f} cells a step")
