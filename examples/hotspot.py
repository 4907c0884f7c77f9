"""The temperature of a processor: heat flows between neighbours, to the air, and from the power.

Hotspot of the Rodinia benchmarks, written in two ways. `simulate` applies a stencil whose missing
neighbours take the cell's own value. `simulate_pieces` has no boundary rule: four corners, four
edges and the inner cells are computed apart, and concatenated, as in section 6.8.3 of *Static and
Dynamic Analyses for Efficient GPU Execution* (P. Munksgaard, 2023). Both run as one pass over the
plate, and neither copies anything.
"""

from pathlib import Path

import numpy as np

import weft as wf

DATA = Path(__file__).parent / "data" / "hotspot_512.npz"

SIDE = 0.016  # of the chip, in metres
THICKNESS = 0.0005
AMBIENT = 80.0
HEAT_CAPACITY = 437.5  # per square metre: half of the thickness times 1.75e6
CONDUCTION = 0.1  # twice the thickness times 100 W/(m K)


def coefficients(rows, columns):
    """The share of a flow that one step brings, and how well heat flows: both ways, and out."""
    height, width = SIDE / rows, SIDE / columns
    capacity = HEAT_CAPACITY * height * width
    vertical = CONDUCTION * width / height
    horizontal = CONDUCTION * height / width
    outward = height * width / (THICKNESS / 100)
    step = 0.001 / (3.0e6 / HEAT_CAPACITY)
    return step / capacity, vertical, horizontal, outward


def cell(here, north, south, west, east, power, coefficients):
    """The next temperature of a cell, or of many."""
    share, vertical, horizontal, outward = coefficients
    return here + share * (
        power
        + (north + south - 2 * here) * vertical
        + (east + west - 2 * here) * horizontal
        + (AMBIENT - here) * outward
    )


@wf.jit
def simulate(temperature, power, steps):
    """The temperature after some steps, by a stencil."""
    c = coefficients(*temperature.shape)

    def step(temperature):
        return wf.stencil(
            lambda t, p: cell(t[0, 0], t[-1, 0], t[1, 0], t[0, -1], t[0, 1], p[0, 0], c),
            temperature, power, boundary="edge",
        )  # fmt: skip

    return wf.iterate(step, temperature, steps)


# Along an axis: the first cell, the inner ones and the last, and for each the cells before them
# and after them, where those that are missing are the cell itself.
BANDS = (
    (slice(0, 1), slice(0, 1), slice(1, 2)),
    (slice(1, -1), slice(0, -2), slice(2, None)),
    (slice(-1, None), slice(-2, -1), slice(-1, None)),
)


@wf.jit
def simulate_pieces(temperature, power, steps):
    """The same for a plate of at least 2 x 2 cells, by nine pieces."""
    c = coefficients(*temperature.shape)

    def piece(t, rows, columns):
        here, north, south = rows
        middle, west, east = columns
        return cell(
            t[here, middle], t[north, middle], t[south, middle], t[here, west], t[here, east],
            power[here, middle], c,
        )  # fmt: skip

    def step(t):
        bands = [
            wf.concat([piece(t, rows, columns) for columns in BANDS], axis=1) for rows in BANDS
        ]
        return wf.concat(bands, axis=0)

    return wf.iterate(step, temperature, steps)


def main(steps: int = 360) -> np.ndarray:
    """A chip of 512 x 512 cells (temperature and power from Rodinia's data)."""
    data = np.load(DATA)
    return simulate(data["temperature"], data["power"], steps)


if __name__ == "__main__":
    after = main()
    shades = 9.99 * (after - after.min()) / np.ptp(after)
    for row in shades[::32, ::8]:
        print("".join(" .:-=+*#%@"[int(shade)] for shade in row))
    print(f"{after.min():.2f} to {after.max():.2f} K")
