"""LBM: one pass over 19 distributions for each step."""

import numpy as np
from native import openmp

from applications import example, output

TITLE = "LBM"
THESIS = "1.09 to 1.60"
CASE = "lattice_boltzmann-three_steps"


def inputs(scale, steps=10):
    program = example("lattice_boltzmann")
    obstacle = program.load()
    obstacle = np.tile(obstacle, (max(1, round(scale)), 1, 1))[: max(4, round(150 * scale))]
    f, obstacle, lid = program.box(obstacle)
    return {"f": f, "obstacle": obstacle, "lid": lid, "steps": steps}


def program(inputs):
    return example("lattice_boltzmann").simulate, tuple(inputs.values())


def c(inputs):
    f, obstacle, lid, steps = inputs.values()
    result, scratch = (output(name, f.shape, np.float32) for name in ("result", "scratch"))
    openmp("lattice_boltzmann", f, obstacle, lid, result, scratch, *f.shape[1:], steps)
    return result
