"""The Mandelbrot set: a while loop for each point, all of them in parallel."""

import numpy as np

import weft as wf


def escape_time(c, most: int):
    """Rounds of z -> z*z + c until z has escaped."""

    def inside(state):
        z, count = state
        return (wf.real(z) ** 2 + wf.imag(z) ** 2 <= 4.0) & (count < most)

    def advance(state):
        z, count = state
        return z * z + c, count + 1

    _, count = wf.while_loop(inside, advance, (c, 0))
    return count


def main(rows: int = 400, columns: int = 600, most: int = 100) -> np.ndarray:
    """Escape times over the set's usual window."""

    def point(i, j):
        x = -2.2 + 3.2 * wf.astype(j, wf.float64) / columns
        y = -1.2 + 2.4 * wf.astype(i, wf.float64) / rows
        return escape_time(x + 1j * y, most)

    return np.asarray(wf.generate((rows, columns), point))


if __name__ == "__main__":
    for row in main(24, 72):
        print("".join(" .:-=+*#%@"[min(int(n).bit_length(), 9)] for n in row))
