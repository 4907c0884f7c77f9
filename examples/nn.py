"""The records nearest to a place, by as many rounds of arg-min.

NN of the Rodinia benchmarks: of hurricane records with a latitude and a longitude, the k that
are nearest to (30, 90), nearest first. Each round finds the smallest distance and replaces it by
infinity, in place.
"""

from pathlib import Path

import numpy as np

import weft as wf

DATA = Path(__file__).parent / "data" / "nn_records.npz"


@wf.jit
def nearest(latitude, longitude, k):
    """Indices and distances of the k nearest records; of equal ones the first comes first."""

    def choose(distances, _):
        winner = wf.argmin(distances)
        return distances.at[winner].set(np.inf), (winner, distances[winner])

    distances = wf.hypot(latitude - 30, longitude - 90)
    return wf.scan(choose, distances, None, length=k)[1]


def main(k: int = 10) -> tuple[np.ndarray, np.ndarray]:
    """The nearest of 42764 records (from Rodinia's data)."""
    records = np.load(DATA)
    return nearest(records["latitude"], records["longitude"], k)


if __name__ == "__main__":
    for index, distance in zip(*main(), strict=True):
        print(f"record {index}: {distance:.3f} away")
