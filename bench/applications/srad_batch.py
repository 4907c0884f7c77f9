"""SRAD of 1024 images of 16 x 16: all rounds of an image while it is in the cache."""

import numpy as np
from native import openmp

from applications import example, output

TITLE = "SRAD, 1024 small images"
THESIS = ""
CASE = "srad-batch"
TOLERANCE = 1e-3


def inputs(scale, rounds=100):
    image = np.load(example("srad").DATA)["image"].astype(np.float32)
    count = max(2, int(scale * 1024))
    tiles = np.tile(image, (8, 8))[: 16 * 64, : 16 * 64]
    tiles = tiles.reshape(64, 16, 64, 16).transpose(0, 2, 1, 3).reshape(4096, 16, 16)
    return {"images": tiles[:count].copy(), "rounds": rounds}


def program(inputs):
    return example("srad").srad_batch, tuple(inputs.values())


def c(inputs):
    images, rounds = inputs.values()
    result = output("result", images.shape, np.float32)
    openmp("srad_batch", images, result, *images.shape, rounds, source="srad")
    return result
