"""Hotspot by `wf.stencil`: a pass over the plate for each step."""

import numpy as np
from native import openmp

from applications import example, output

TITLE = "Hotspot, stencil"
THESIS = ""
CASE = "hotspot-stencil"


def inputs(scale, steps=10):
    rows, columns = int(scale * 4096), 4096
    data = np.load(example("hotspot").DATA)
    times = (-(-rows // 512), -(-columns // 512))
    tiled = {name: np.tile(data[name], times)[:rows, :columns].copy() for name in data}
    return {"temperature": tiled["temperature"], "power": tiled["power"], "steps": steps}


def checked(scale):
    """One step: at such a size Rodinia's steps are too long, and magnify roundings."""
    return inputs(scale, steps=1)


def program(inputs):
    return example("hotspot").simulate, tuple(inputs.values())


def c(inputs):
    temperature, power, steps = inputs.values()
    first = output("first", temperature.shape, np.float32)
    second = output("second", temperature.shape, np.float32)
    openmp("hotspot", temperature, power, first, second, *temperature.shape, steps)
    return second if steps % 2 == 0 else first
