"""Pathfinder: a row after another, each a pass over the one before."""

import numpy as np
from native import openmp

from applications import example, output

TITLE = "Pathfinder"
THESIS = ""
CASE = "pathfinder-walls"


def inputs(scale, rows=100, columns=100_096):
    columns = max(1, int(scale * columns))
    wall = np.random.default_rng(7).integers(0, 10, (rows, columns), dtype=np.int32)
    return {"wall": wall}


def program(inputs):
    return example("pathfinder").cheapest, tuple(inputs.values())


def c(inputs):
    (wall,) = inputs.values()
    rows, columns = wall.shape
    first = output("first", (columns,), np.int32)
    second = output("second", (columns,), np.int32)
    openmp("pathfinder", wall, first, second, rows, columns)
    return second if rows % 2 else first
