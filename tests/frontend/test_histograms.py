"""Joint histograms, as NumPy counts them."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from typing import Any

import numpy as np
import pytest
from agreement.ways import Listed
from slow import every_second

import weft as wf
from weft.errors import ArgumentError, ShapeError, WeftError

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


@pytest.mark.parametrize(
    ("name", "count"), every_second(product(PLANES, [1, 7, 3001]), several=True)
)
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


@pytest.mark.parametrize("limit", ["26 MiB", "1 GiB"])
def test_numbers_are_counted_that_pass_the_limit(limit: str) -> None:
    """They, and weights, were read whole."""
    rng = np.random.default_rng(0)
    numbers = rng.integers(0, 300, 4_000_000).astype(np.int32)
    weights = rng.random(len(numbers)).astype(np.float32)
    with wf.config(memory_limit=limit):
        x, w = wf.open(Listed(numbers)), wf.open(Listed(weights))
        counts = np.asarray(np.bincount(x, minlength=310))
        sums = np.asarray(np.bincount(x, w))
    assert counts.dtype == np.intp
    np.testing.assert_array_equal(counts, np.bincount(numbers, minlength=310))
    np.testing.assert_allclose(sums, np.bincount(numbers, weights))


@pytest.mark.parametrize("dtype", [np.uint8, np.int8, np.uint16, np.uint64, np.int64])
def test_more_numbers_are_counted_than_a_dtype_has(dtype: Any) -> None:
    numbers = RNG.integers(0, 100, 5000).astype(dtype)
    for length in (50, 256, 70_000):
        expected = np.bincount(numbers, minlength=length)[:length]
        found = wf.jit(lambda x, length=length: wf.bincount(x, length=length))(numbers)
        np.testing.assert_array_equal(found, expected)


def test_all_numbers_of_an_unsigned_dtype_are_counted_while_tracing() -> None:
    def equalised(image: Any) -> Any:
        counts = np.bincount(image.ravel(), minlength=256)
        return (np.cumsum(counts) * 255 // image.size).astype(np.uint8)[image]

    image = RNG.integers(0, 256, (70, 50)).astype(np.uint8)
    for compiled in (wf.jit(equalised), wf.kernel(equalised)):
        np.testing.assert_array_equal(compiled(image), equalised(image))
    with pytest.raises(WeftError, match="the size of its result is unknown"):
        wf.jit(lambda x: np.bincount(x, minlength=255))(image.ravel())


def test_what_numpy_does_not_count_is_refused() -> None:
    numbers, weights = wf.asarray(np.array([1, 2, 2])), wf.asarray(np.ones(3))
    assert np.asarray(np.bincount(numbers[:0], minlength=2)).tolist() == [0, 0]
    assert np.bincount(numbers[:0]).shape == (0,)
    for x, w, least in [(numbers - 2, None, 0), (numbers, weights[:2], 0), (numbers, None, -1)]:
        with pytest.raises(ValueError, match=r"bincount|length|negative"):
            np.bincount(x, w, least)
    for x, w in [(weights, None), (numbers, weights * 1j)]:
        with pytest.raises(TypeError, match=r"numbers of float64|complex128"):
            np.bincount(x, w)
    with pytest.raises(ValueError, match="weights of shape"):
        np.bincount(numbers, 2.0)
