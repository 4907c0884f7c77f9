"""Speckles removed from an ultrasound image by diffusion that stops at edges: SRAD of Rodinia.

How much a cell diffuses depends on how its neighbourhood varies beside how the whole image does:
speckle reducing anisotropic diffusion (Yu and Acton, IEEE Transactions on Image Processing, 2002).
Each round is a reduction over the image and two stencils.
"""

from pathlib import Path

import numpy as np

import weft as wf

DATA = Path(__file__).parent / "data" / "srad_image.npz"
STRENGTH = 0.5


def differences(j):
    """What the neighbours above, below, left and right have more than a cell."""
    return [j[offsets] - j[0, 0] for offsets in ((-1, 0), (1, 0), (0, -1), (0, 1))]


def diffusion(j, speckle):
    """How freely a cell diffuses, from 0 (an edge) to 1."""
    d = differences(j)
    scale = 1 / j[0, 0]
    gradient = sum(step * step for step in d) * scale * scale
    laplacian = sum(d) * scale
    variation = (0.5 * gradient - laplacian**2 / 16) / (1 + laplacian / 4) ** 2
    return wf.clip(1 / (1 + (variation - speckle) / (speckle * (1 + speckle))), 0, 1)


def diffused(j, c):
    """The next value of a cell: its flows are weighed by its own c and by its neighbours'."""
    above, below, left, right = differences(j)
    here = c[0, 0]
    flow = here * above + c[1, 0] * below + here * left + c[0, 1] * right
    return j[0, 0] + STRENGTH / 4 * flow


def clear(image, rounds):
    """An image (grey values from 0 to 255) after some rounds of diffusion."""

    def step(j):
        speckle = wf.mean(j * j) / wf.mean(j) ** 2 - 1  # the variance, relative to the mean
        c = wf.stencil(lambda s: diffusion(s, speckle), j, boundary="edge")
        return wf.stencil(diffused, j, c, boundary="edge")

    return 255 * wf.log(wf.iterate(step, wf.exp(image / 255), rounds))


@wf.jit
def srad(image, rounds):
    """One image, float32 [rows, columns]."""
    return clear(image, rounds)


@wf.jit
def srad_batch(images, rounds):
    """Many images, each on its own: [image, rows, columns]."""
    return wf.map(lambda image: clear(image, rounds), images)


def main(rounds: int = 100) -> np.ndarray:
    """The image of Rodinia's data, 502 x 458."""
    return srad(np.load(DATA)["image"].astype(np.float32), rounds)


if __name__ == "__main__":
    image = main()
    for row in image[::16, ::8]:
        print("".join(" .:-=+*#%@"[min(int(max(v, 0) / 25.6), 9)] for v in row))
