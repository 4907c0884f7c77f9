"""Arrays that NumPy makes in a kernel of numbers and sizes: the kernel's own, at each call."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest
from loops.agree import agrees

import weft as wf
from weft.errors import UnsupportedError

RANDOM = np.random.default_rng(32)


def test_ndarray_makes_an_array() -> None:
    def tridiagonal(x: Any) -> Any:
        rows, columns = x.shape[0], x.shape[1]
        c = np.ndarray((rows, columns), dtype=x.dtype)
        last = np.ndarray(rows)
        c[:, 0] = x[:, 0]
        for k in range(1, columns):
            c[:, k] = x[:, k] - 0.5 * c[:, k - 1]
        last[:] = c[:, columns - 1]
        return c, last

    kernel = agrees(tridiagonal, RANDOM.random((3, 4)).astype(np.float32))
    first, _ = kernel(np.ones((3, 4), np.float32))
    kernel(np.zeros((3, 4), np.float32))
    assert first[0, 1] == 0.5  # an array of its own at each call


def test_what_numpy_makes_of_numbers_can_be_written() -> None:
    def windowed(x: Any) -> Any:
        window = np.kaiser(5, 2.0)
        window /= window.sum()
        matrix = np.tri(3, k=1)
        matrix[0, 0] = x[0]
        return window * x[:5], matrix

    agrees(windowed, RANDOM.random(7))
    agrees(windowed, RANDOM.random(7))


def test_what_numpy_makes_of_sizes() -> None:
    def spectrum(x: Any) -> Any:
        k = np.fft.fftfreq(x.shape[0], d=0.1)
        k[0] = 1.0
        i, j = np.triu_indices(x.shape[0], 1)
        return x / k, x[i] - x[j], np.tri(x.shape[0], dtype=x.dtype) @ x

    kernel = agrees(spectrum, RANDOM.random(5))
    x = RANDOM.random(8)
    for found, wanted in zip(kernel(x), spectrum(x), strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-12)


def test_what_is_different_at_each_call_is_refused() -> None:
    @wf.kernel
    def noisy(x: Any) -> Any:
        return x + random.random()

    with pytest.raises(UnsupportedError, match="a call of 'random'"):
        noisy(np.zeros(2))


def test_grids() -> None:
    def grids(x: Any) -> Any:
        i, j = np.mgrid[0 : x.shape[0], 1 : x.shape[1] + 1]
        y, z = np.ogrid[0:1:3j, : x.shape[1]]
        whole = np.mgrid[: x.shape[0], 0:2:0.5]
        whole[0] += 1
        fixed = np.mgrid[0:3, 0.0:1.0:0.25]
        fixed[1, 0] = 7
        return (i - j) * x, y * z + x, whole, np.mgrid[2 : x.shape[1]], fixed

    agrees(grids, RANDOM.random((3, 5)))


def test_joined_by_subscripts() -> None:
    def joined(x: Any, n: int) -> Any:
        padded = np.r_[0, np.cumsum(x[0] > 0.5), n]
        columns = np.c_[x[0], np.arange(x.shape[1]), x.T]
        return padded, columns, np.r_[x[0, 0], 2.0, x[1], 0:n], np.r_[x, x]

    for dtype in (np.float64, np.float32):
        agrees(joined, RANDOM.random((2, 4)).astype(dtype), 3)

    with pytest.raises(UnsupportedError, match="a text in np"):
        wf.kernel(by_text)(RANDOM.random((2, 4)))


def by_text(x: Any) -> Any:
    return np.r_["0,2", x[0]]
