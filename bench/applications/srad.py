"""SRAD of one image: a reduction and two stencils for each round."""

import numpy as np
from native import openmp

from applications import example, output

TITLE = "SRAD"
THESIS = ""
CASE = "srad-image"
TOLERANCE = 1e-3


def inputs(scale, rounds=100):
    image = np.load(example("srad").DATA)["image"].astype(np.float32)
    rows = max(2, int(scale * image.shape[0]))
    return {"image": np.tile(image, (-(-rows // image.shape[0]), 1))[:rows], "rounds": rounds}


def program(inputs):
    return example("srad").srad, tuple(inputs.values())


def c(inputs):
    image, rounds = inputs.values()
    j, following, weights = (output(k, image.shape, np.float32) for k in ("j", "next", "c"))
    openmp("srad", image, j, following, weights, *image.shape, rounds)
    return j
