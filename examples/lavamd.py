"""Forces between the particles of a cube that is cut into boxes.

LavaMD of the Rodinia benchmarks: a particle feels those of its own box and of the 26 around it,
with a weight that falls off with distance.
"""

import numpy as np

import weft as wf


@wf.jit
def forces(potential, place, charge):
    """The weighted charge around each particle, and the force on it along three axes.

    Arrays by box and particle (z, y, x, particle); the place has three coordinates before. A
    potential is half the square of the distance at which a particle's own weight is one.
    """
    boxes = charge.shape[:3]

    def around(axis, index, visit, total):
        """Visit a box and its neighbours along an axis, as far as there are any."""
        first = wf.maximum(index - 1, 0)
        return wf.fori_loop(first, wf.minimum(index + 2, boxes[axis]), visit, total)

    def particle(*index):
        here = [axis[index] for axis in place]

        def feel(total, *box):
            """The total with what the particles of a box add to it."""
            there = [axis[box] for axis in place]
            product = sum(a * b for a, b in zip(here, there, strict=True))
            weight = charge[box] * wf.exp(-0.5 * (potential[index] + potential[box] - product))
            pulls = [2 * weight * (a - b) for a, b in zip(here, there, strict=True)]
            return [old + wf.sum(new) for old, new in zip(total, (weight, *pulls), strict=True)]

        def plane(z, total):
            return around(1, index[1], lambda y, total: row(z, y, total), total)

        def row(z, y, total):
            return around(2, index[2], lambda x, total: feel(total, z, y, x), total)

        return around(0, index[0], plane, [0.0] * 4)

    return wf.generate(charge.shape, particle)


def scatter_particles(boxes: int, count: int):
    """Potentials, places and charges at random, as Rodinia's: multiples of 0.1 up to 1."""
    random = np.random.default_rng(1)
    values = random.integers(1, 11, (5, boxes, boxes, boxes, count)) / 10
    return values[0], values[1:4], values[4]


def main(boxes: int = 4, count: int = 100):
    """The forces in a cube of 4 x 4 x 4 boxes with 100 particles each."""
    return forces(*scatter_particles(boxes, count))


if __name__ == "__main__":
    weight, *force = main()
    strength = np.sqrt(sum(axis**2 for axis in force)).mean(axis=-1)
    print("Mean force on a particle, by box:")
    for plane in strength:
        print("\n".join(" ".join(f"{box:7.1f}" for box in row) for row in plane), end="\n\n")
