"""Places in ordered vectors, as NumPy finds them."""

from __future__ import annotations

from itertools import product
from typing import Any, Literal

import numpy as np
import pytest
from slow import every_second

import weft as wf

RNG = np.random.default_rng(0)
SIDES: tuple[Literal["left", "right"], ...] = ("left", "right")


def some(count: int, dtype: str) -> np.ndarray:
    """Numbers of which many are equal; and of floats, some that are infinite or none."""
    numbers = RNG.integers(0, max(2, count), count).astype(dtype)
    if numbers.dtype.kind in "fc" and count > 3:
        numbers[RNG.integers(0, count, 3)] = np.nan, np.inf, -np.inf
    return numbers


@pytest.mark.parametrize(("dtype", "length"), every_second(
    product(["?", "u1", "i2", "u8", "i8", "f4", "f8", "c16"], [0, 1, 2, 3, 8, 9, 1000]),
    several=True,
))  # fmt: skip
def test_places(length: int, dtype: str) -> None:
    ordered, values = np.sort(some(length, dtype)), some(700, dtype)
    for side in SIDES:
        expected = np.searchsorted(ordered, values, side)
        searched = wf.jit(lambda x, y, side=side: wf.searchsorted(x, y, side=side))
        np.testing.assert_array_equal(searched(ordered, values), expected)
        with wf.config(interpret_below=0):
            found = wf.searchsorted(wf.asarray(ordered), values.reshape(7, 100), side=side)
            np.testing.assert_array_equal(np.asarray(found), expected.reshape(7, 100))


def test_places_in_boxes() -> None:
    ordered, values = np.sort(some(1000, "f8")), some(1 << 21, "f8")
    lazy = wf.searchsorted(wf.asarray(ordered), wf.asarray(values))
    total: Any = wf.sum(lazy)
    with wf.config(memory_limit="32 MiB"):
        assert int(total) == np.searchsorted(ordered, values).sum()


def test_places_and_what_is_made_of_them_are_one_kernel() -> None:
    edges, values = np.linspace(0, 1, 100), RNG.random(5000)
    kernels = wf.explain(lambda e, v: wf.digitize(v, e) * 2.0, edges, values).kernels
    assert [k for k in kernels if "5000" in k or "n1" in k] == ["map over (n1) giving f64"], kernels
    histogram = wf.jit(lambda e, v: np.histogram(v, e)[0])
    np.testing.assert_array_equal(histogram(edges, values), np.histogram(values, edges)[0])
