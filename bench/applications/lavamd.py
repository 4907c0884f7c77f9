"""LavaMD: 10 x 10 x 10 boxes of 100 particles."""

import numpy as np
from native import openmp

from applications import example, output

TITLE = "LavaMD"
THESIS = ""
CASE = "lavamd"
TOLERANCE = 1e-12


def inputs(scale):
    potential, place, charge = example("lavamd").scatter_particles(
        round(10 * scale ** (1 / 3)), 100
    )
    return {"potential": potential, "place": np.ascontiguousarray(place), "charge": charge}


def program(inputs):
    return example("lavamd").forces, tuple(inputs.values())


def c(inputs):
    potential, place, charge = inputs.values()
    forces = output("forces", (4, *charge.shape), np.float64)
    openmp("lavamd", potential, place, charge, forces, len(charge), charge.shape[-1])
    return tuple(forces)
