"""Joint histograms, as NumPy counts them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import weft as wf
from weft.errors import ArgumentError, ShapeError

RNG = np.random.default_rng(0)


def points(count: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Coordinates, some on edges, outside or not a number, and weights."""
    x, y = RNG.integers(0, 9, count) / 4, RNG.standard_normal(count)
    if count > 5:
        y[2], x[3] = np.inf, 2.0
    return x, y, RNG.random(count)


EDGES = np.array([0.0, 0.25, 1.0, 2.0])
PLANES: dict[str, Callable[[Any, Any, Any], Any]] = {
    "even": lambda x, y, w: np.histogram2d(x, y, 7, [[0, 2], [-1, 1]]),
    "edges": lambda x, y, w: np.histogram2d(x, y, EDGES),
    "both": lambda x, y, w: np.histogram2d(x, y, (EDGES, 4), [None, [-1, 1]]),
    "counts": lambda x, y, w: np.histogram2d(x, y, [3, 4], [[0, 2], [-1, 1]]),
    "weights": lambda x, y, w: np.histogram2d(x, y, EDGES, weights=w),
    "density": lambda x, y, w: np.histogram2d(x, y, (3, EDGES), [[0, 2], None], True),
    "range": lambda x, y, w: np.histogram2d(x, x + 1, 5),
    "three": lambda x, y, w: np.histogramdd((x, y, w), (3, EDGES, 2), [(0, 2), None, (0, 1)]),
    "rows": lambda x, y, w: np.histogramdd(np.stack((x, w), axis=1), 4),
    "line": lambda x, y, w: np.histogramdd((x,), 4, density=True),
}


@pytest.mark.parametrize("count", [1, 7, 3001])
@pytest.mark.parametrize("name", PLANES)
def test_histograms_of_points(name: str, count: int) -> None:
    given, count_points = points(count), PLANES[name]
    expected = count_points(*given)
    for found in (count_points(*map(wf.asarray, given)), wf.jit(count_points)(*given)):
        for one, other in zip(leaves(found), leaves(expected), strict=True):
            assert one.dtype == other.dtype
            np.testing.assert_allclose(np.asarray(one), other, rtol=1e-12)


def leaves(found: Any) -> list[Any]:
    counts, *edges = found
    return [counts, *(edges[0] if isinstance(edges[0], tuple | list) else edges)]


def test_histograms_in_boxes() -> None:
    x, y = RNG.random(1 << 21), RNG.random(1 << 21)
    counts, *_ = wf.histogram2d(wf.asarray(x), wf.asarray(y), 16, [(0, 1), (0, 1)])
    with wf.config(memory_limit="40 MiB"):
        np.testing.assert_array_equal(
            counts.numpy(), np.histogram2d(x, y, 16, [(0, 1), (0, 1)])[0]
        )


def test_refused() -> None:
    x = wf.asarray(RNG.random(9))
    with pytest.raises(ShapeError, match="bins of 3 dimensions"):
        wf.histogramdd((x, x), (1, 2, 3))
    with pytest.raises(ShapeError, match="range of 1 dimensions"):
        wf.histogramdd((x, x), range=[(0, 1)])
    with pytest.raises(ArgumentError, match="0 intervals"):
        wf.histogram2d(x, x, 0)
    with pytest.raises(ShapeError):
        wf.histogram2d(x, x[:5])
