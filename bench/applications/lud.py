"""LUD: blocks of the diagonal, those below and beside them, then the rest."""

import numpy as np
from native import openmp

from applications import example, output

TITLE = "LUD"
THESIS = "1.19 to 1.39"
CASE = "lud-larger"
SIZE = 32


def inputs(scale, count=48):
    n = max(1, int(scale**0.5 * count)) * SIZE
    i = np.arange(n)
    matrix = (10 * np.exp(-0.001 * np.abs(i[:, None] - i))).astype(np.float32)
    return {"matrix": matrix, "size": SIZE}


def checked(scale):
    """Pivots far from 0: else roundings of different orders are far apart."""
    given = inputs(scale)
    return given | {"matrix": given["matrix"] + 10 * np.eye(len(given["matrix"]), dtype=np.float32)}


def program(inputs):
    return example("lud").decompose, tuple(inputs.values())


def c(inputs):
    matrix, size = inputs.values()
    both = output("both", matrix.shape, np.float32)
    openmp("lud", matrix, both, len(matrix), size)
    return both
