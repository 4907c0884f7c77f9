"""NN: 855280 records (the data twenty times), the hundred nearest."""

import numpy as np
from native import openmp

from applications import example, output

TITLE = "NN"
THESIS = "1.05 to 1.55"
CASE = "nn"


def inputs(scale):
    data = np.load(example("nn").DATA)
    return {name: np.tile(data[name], int(scale * 20)) for name in data} | {"k": 100}


def program(inputs):
    return example("nn").nearest, tuple(inputs.values())


def c(inputs):
    latitude, longitude, k = inputs.values()
    distances = output("distances", latitude.shape, np.float32)
    indices, nearest = output("indices", (k,), np.int64), output("nearest", (k,), np.float32)
    openmp("nn", latitude, longitude, distances, indices, nearest, len(latitude), k)
    return indices, nearest
