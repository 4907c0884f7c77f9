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
