"""The cheapest way down a wall: each row from the one above, where three cells may be left.

Pathfinder of the Rodinia benchmarks: dynamic programming over rows, in parallel over columns. From
each cell the way leads straight down, or diagonally to either side.
"""

import numpy as np

import weft as wf


@wf.jit
def cheapest(wall):
    """For each cell of the last row the least sum of the cells on a way to it."""

    def row(costs, cells):
        return cells + wf.stencil(
            lambda s: wf.minimum(wf.minimum(s[-1], s[0]), s[1]), costs, boundary="edge"
        )

    return wf.fori_loop(1, wall.shape[0], lambda i, costs: row(costs, wall[i]), wall[0])


def main(rows: int = 100, columns: int = 100_096) -> np.ndarray:
    """A random wall of digits, as Rodinia's."""
    wall = np.random.default_rng(7).integers(0, 10, (rows, columns), dtype=np.int32)
    return cheapest(wall)


if __name__ == "__main__":
    costs = main()
    print(f"cheapest way: {costs.min()}, ending in column {costs.argmin()}")
    counts, edges = np.histogram(costs, 8)
    for count, low in zip(counts, edges[:-1], strict=True):
        print(f"from {low:4.0f}: {count:6d} columns " + "#" * (count * 50 // max(counts)))
