"""Backprop: the weights read for the hidden units, then read and changed."""

import numpy as np
from native import openmp

from applications import example, output

TITLE = "Backprop"
THESIS = ""
CASE = "backprop-as_published"
HIDDEN = 16


def inputs(scale, count=1 << 20):
    random = np.random.default_rng(3)
    count = max(2, int(scale * count))
    spread = count**-0.5  # so that no sigmoid saturates
    return {
        "x": random.random(count, np.float32),
        "into_hidden": random.uniform(-spread, spread, (count + 1, HIDDEN)).astype(np.float32),
        "into_output": random.uniform(-0.5, 0.5, HIDDEN + 1).astype(np.float32),
    }


def program(inputs):
    return example("backprop").train, tuple(inputs.values())


def c(inputs):
    x, w, v = inputs.values()
    new_w, new_v = output("w", w.shape, np.float32), output("v", v.shape, np.float32)
    value = openmp("backprop", x, w, v, new_w, new_v, len(x), HIDDEN, result=float)
    return new_w, new_v, np.float32(value)
