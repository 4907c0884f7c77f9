"""A file for each day, as one array: the mean and the hottest day of every cell, in one pass."""

import tempfile
from pathlib import Path

import numpy as np

import weft as wf


def main(directory: Path, days: int = 30) -> tuple[np.ndarray, np.ndarray]:
    """Write some days, then analyse them; two results share one reading of the files."""
    rng = np.random.default_rng(3)
    for day in range(days):
        field = 15 + 10 * np.sin(day / 5) + rng.normal(size=(180, 360))
        np.save(directory / f"day-{day:02}.npy", field.astype(np.float32))

    temperature = wf.open(str(directory / "day-*.npy"))  # (days, 180, 360): nothing is read yet
    mean = temperature.mean(axis=0)
    hottest = wf.argmax(temperature, axis=0)
    wf.store([mean, hottest], [directory / "mean.npy", directory / "hottest.zarr"])

    found = np.empty((180, 360), np.int64)
    wf.store(wf.open(directory / "hottest.zarr"), found)
    return np.load(directory / "mean.npy"), found


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as directory:
        mean, hottest = main(Path(directory))
        print(f"mean {mean.mean():.2f} degrees; hottest days {np.bincount(hottest.ravel())}")
