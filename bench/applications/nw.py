"""NW: blocks on anti-diagonals, written over the matrix that they read."""

import numpy as np
from native import openmp

from applications import example, output

TITLE = "NW"
THESIS = "1.13 to 1.31"
CASE = "nw-larger"
SIZE = 64


def inputs(scale, count=64):
    n = max(1, int(scale**0.5 * count)) * SIZE + 1
    similarity = np.random.default_rng(2).integers(-10, 11, (n, n), dtype=np.int32)
    return {"similarity": similarity, "penalty": 10, "size": SIZE}


def program(inputs):
    return example("nw").align, tuple(inputs.values())


def c(inputs):
    similarity, penalty, size = inputs.values()
    scores = output("scores", similarity.shape, np.int32)
    openmp("nw", similarity, scores, len(scores), size, penalty)
    return scores
