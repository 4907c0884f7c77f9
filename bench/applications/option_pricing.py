"""OptionPricing: FinPar's medium data, a contract on three underlyings and five dates."""

import ctypes

import numpy as np
from native import openmp

from applications import example

TITLE = "OptionPricing, medium"
THESIS = "1.03 to 1.21"
CASE = "option_pricing-barrier"
TOLERANCE = 1e-10


def inputs(scale):
    arguments, _ = example("option_pricing").load("medium")
    return arguments | {"paths": int(scale * arguments["paths"])}


def program(inputs):
    names = ("contract", "paths", "directions", "bridge", "market", "rates")
    return example("option_pricing").price, tuple(inputs[name] for name in names)


def c(inputs):
    paths, market = inputs["paths"], inputs["market"]
    price = openmp(
        "option_pricing", inputs["contract"], paths, *market[1].shape, paths.bit_length(),
        inputs["directions"], *inputs["bridge"], *market, *inputs["rates"], result=ctypes.c_double,
    )  # fmt: skip
    return np.asarray(price)
