"""LocVolCalib: FinPar's medium data, 128 strikes on a grid of 256 prices and 32 volatilities."""

import numpy as np
from native import openmp

from applications import example, output

TITLE = "LocVolCalib"
THESIS = "1.04 to 1.12"
CASE = "locvolcalib"
TOLERANCE = 1e-12


def inputs(scale, strikes=128, prices=256, volatilities=32, times=64):
    x, y, t, i, j = example("locvolcalib").grids(prices, volatilities, times)
    strikes = 0.001 * np.arange(int(scale * strikes))
    return {"strikes": strikes, "x": x, "y": y, "t": t, "i": i, "j": j, "nu": 0.6, "beta": 0.5}


def program(inputs):
    return example("locvolcalib").calls, tuple(inputs.values())


def c(inputs):
    strikes, x, y, t, i, j, nu, beta = inputs.values()
    shape = (len(y), len(x))
    extents = {
        "value": (*shape, len(strikes)), "next": (*shape, len(strikes)), "local": shape,
        "inner_x": x.shape, "inner_y": y.shape, "prices": strikes.shape,
    }  # fmt: skip
    arrays = {name: output(name, shape, np.float64) for name, shape in extents.items()}
    openmp(
        "locvolcalib", strikes, x, y, t, *arrays.values(), len(strikes), len(x), len(y), len(t),
        i, j, nu, beta,
    )  # fmt: skip
    return arrays["prices"]
