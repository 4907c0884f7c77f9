"""Normalise the columns of a file that is larger than the memory that Weft may use.

The program is written for an array. Given a file it makes a lazy array, and runs when that is
stored: two passes over the file, because every column's mean and deviation are needed before the
first element can be normalised.
"""

import sys
import tempfile
from pathlib import Path

import numpy as np

import weft as wf


@wf.jit
def normalise(x):
    return (x - x.mean(axis=0)) / x.std(axis=0)


def main(directory: Path, rows: int = 400_000) -> Path:
    """Make a table of 32 columns in a file, and normalise it into another; returns that."""
    table = np.lib.format.open_memmap(directory / "table.npy", "w+", np.float32, (rows, 32))
    table[:] = np.random.default_rng(0).normal(5, 2, table.shape)

    lazy = normalise(wf.open(directory / "table.npy"))
    with wf.config(memory_limit="32 MiB"):
        print(wf.explain(lazy))
        wf.store(lazy, directory / "normalised.npy", progress=sys.stderr.isatty())
    return directory / "normalised.npy"


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as directory:
        result = np.load(main(Path(directory)))
        print("means", result.mean(axis=0)[:3], "deviations", result.std(axis=0)[:3])
