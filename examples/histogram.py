"""A histogram of a file, by a scatter that adds: bins are counted while the file streams by."""

import tempfile
from pathlib import Path

import numpy as np

import weft as wf


@wf.jit
def histogram(x, lowest, highest):
    """Counts in 100 bins between two bounds; what lies outside goes to the outermost bins."""
    position = wf.floor((x - lowest) * (100 / (highest - lowest)))
    bins = wf.astype(wf.clip(position, 0, 99), wf.int64)
    counts = wf.zeros(100, dtype=wf.int64)
    return wf.scatter(counts, bins, wf.ones(x.shape, dtype=wf.int64), combine="add")


def main(directory: Path, count: int = 2_000_000) -> np.ndarray:
    """The histogram of a file of random numbers."""
    path = directory / "values.npy"
    np.save(path, np.random.default_rng(1).normal(size=count))
    with wf.config(memory_limit="64 MiB"):
        return np.asarray(histogram(wf.open(path), -4.0, 4.0))


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as directory:
        counts = main(Path(directory))
    for low in range(0, 100, 5):
        print(f"{-4 + low * 0.08:5.1f} {'#' * (counts[low : low + 5].sum() // 8000)}")
