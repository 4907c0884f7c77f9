"""Heat spreading in a plate, by a stencil applied over and over."""

import numpy as np

import weft as wf


def step(plate):
    """One explicit step of the heat equation; the plate's rim keeps its temperature."""
    return wf.stencil(
        lambda t: t[0, 0] + 0.2 * (t[-1, 0] + t[1, 0] + t[0, -1] + t[0, 1] - 4 * t[0, 0]),
        plate,
        boundary="keep",
    )


@wf.jit
def spread(plate, steps):
    """The plate after some steps. Compiled once, for plates and step counts of any size."""
    return wf.iterate(step, plate, steps)


def main(size: int = 48, steps: int = 1000) -> np.ndarray:
    """A plate with a hot edge."""
    plate = np.zeros((size, size))
    plate[0] = 100
    return spread(plate, steps)


if __name__ == "__main__":
    plate = main()
    for row in plate[::3]:
        print("".join(" .:-=+*#%@"[min(int(t / 10), 9)] for t in row))
