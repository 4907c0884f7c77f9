"""Linear systems by Gauss-Jordan elimination, of a matrix in a file that is larger than the limit.

*On Generating Out-Of-Core GPU Code for Multi-Dimensional Array Operations* (van Beurden and Scholz,
2022) leaves it as future work, in section 4: each step needs, to change a row, that row and the
pivot's. Weft does many steps on each box of rows, after those of the rows that are their pivots;
with partial pivoting, on boxes of columns.
"""

from pathlib import Path

import numpy as np

import weft as wf


@wf.jit
def eliminate(a):
    """The matrix beside its right-hand sides becomes the identity beside the solutions."""

    def step(k, a):
        row = a[k] / a[k, k]
        factors = a[:, k].at[k].set(0.0)
        return a.at[k].set(row) - factors[:, None] * row

    return wf.fori_loop(0, a.shape[0], step, a)


@wf.jit
def eliminate_pivoted(a):
    """The same; each step takes the row with the largest element in its column."""

    def step(k, a):
        most = k + wf.argmax(wf.abs(a[k:, k]))
        top, row = a[k], a[most] / a[most, k]
        a = a.at[most].set(top).at[k].set(row)
        factors = a[:, k].at[k].set(0.0)
        return a - factors[:, None] * row

    return wf.fori_loop(0, a.shape[0], step, a)


def main(
    folder: Path, n: int = 2000, sides: int = 8, memory: str = "36 MiB", pivoting: bool = False
) -> tuple[np.ndarray, int]:
    """The solutions for several right-hand sides, and in how many bytes they were found."""
    random = np.random.default_rng(1)
    system = random.standard_normal((n, n + sides))
    if not pivoting:
        system[:, :n] += n * np.eye(n)
    np.save(folder / "system.npy", system)
    function = eliminate_pivoted if pivoting else eliminate
    with wf.config(memory_limit=memory):
        lazy = function(wf.open(folder / "system.npy"))
        most = wf.explain(lazy).peak_bytes
        wf.store(lazy, folder / "solved.npy", mode="w")
    return np.load(folder / "solved.npy", mmap_mode="r")[:, n:], most


if __name__ == "__main__":
    import tempfile

    for pivoting in (False, True):
        with tempfile.TemporaryDirectory() as name:
            found, most = main(Path(name), pivoting=pivoting)
            system = np.load(Path(name) / "system.npy", mmap_mode="r")
            n = len(system)
            largest = np.abs(system[:, :n] @ found - system[:, n:]).max()
            print(f"{n} equations{' with pivoting' * pivoting}, in a file of "
                  f"{system.nbytes / 2**20:.0f} MiB, in at most {most / 2**20:.0f} MiB: "
                  f"largest residual {largest:.1e}")  # fmt: skip
