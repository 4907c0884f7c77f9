"""Few rounds, each by itself: where arrays have other lengths in each, or grow."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from loops.agree import agrees

import weft as wf
from weft.errors import ShapeError

RANDOM = np.random.default_rng(40)


def pyramid(image: Any, levels: int) -> Any:
    total = 0.0
    for _ in range(levels):
        h, w = image.shape
        small = np.zeros((h // 2, w // 2))
        for i in range(h // 2):
            for j in range(w // 2):
                small[i, j] = image[2 * i : 2 * i + 2, 2 * j : 2 * j + 2].mean()
        total += small.max()
        image = small
    return image, total


def coarser_and_finer(u: Any, levels: int) -> Any:
    n = len(u)
    r = u
    for _ in range(levels):
        n = (n + 1) // 2
        coarse = np.zeros(n)
        coarse[1:-1] = 0.25 * r[1:-3:2] + 0.5 * r[2:-2:2] + 0.25 * r[3:-1:2]
        r = coarse
    for _ in range(levels):
        n = 2 * n - 1
        fine = np.zeros(n)
        fine[::2] = r
        fine[1::2] = 0.5 * (r[:-1] + r[1:])
        r = fine
    return u + r


def products_of_roots(roots: Any, n: int) -> Any:
    p = np.ones(1)
    for k in range(n):
        q = np.zeros(len(p) + 1)
        q[:-1] += p
        q[1:] -= roots[k] * p
        p = q
    return p


def by_digits(radix: int, digits: int, x: Any) -> Any:
    size = radix**digits
    i, j = np.arange(radix)[:, None], np.arange(radix)
    roots = np.exp(-2j * np.pi * i * j / radix)
    for k in range(digits):
        parts = np.reshape(x, (radix**k, radix, radix ** (digits - k - 1)))
        turns = np.exp(-2j * np.pi * i * np.arange(radix**k) / radix ** (k + 1))
        twisted = np.transpose(parts, (1, 0, 2)) * turns[:, :, None]
        x = np.reshape(roots @ np.reshape(twisted, (radix, size // radix)), size)
    return x


def test_lengths_of_levels() -> None:
    agrees(pyramid, RANDOM.random((64, 48)), 3)
    agrees(coarser_and_finer, RANDOM.random(33), 3)


def test_arrays_that_grow() -> None:
    for n in (0, 1, 9):
        agrees(products_of_roots, RANDOM.random(9), n)


def test_fourier_by_digits() -> None:
    for radix, digits in ((2, 1), (2, 5), (3, 3)):
        x = RANDOM.random(radix**digits) + 0j
        kernel = agrees(by_digits, radix, digits, x)
        np.testing.assert_allclose(kernel(radix, digits, x), np.fft.fft(x), atol=1e-12)


def test_another_number_of_rounds_is_another_program() -> None:
    kernel = agrees(products_of_roots, RANDOM.random(9), 4)
    for n in (5, 0, 4):
        roots = RANDOM.random(9)
        np.testing.assert_allclose(kernel(roots, n), products_of_roots(roots, n))


def test_many_rounds_are_refused() -> None:
    with pytest.raises(ShapeError, match="before a round of this loop"):
        wf.kernel(products_of_roots)(RANDOM.random(40), 40)


def test_so_are_rounds_of_a_number_that_only_the_run_knows() -> None:
    def counted(counts: Any) -> Any:
        p = np.ones(1)
        for k in range(counts[0]):
            p = np.concatenate((p, p[:1] + k))
        return p

    with pytest.raises(ShapeError, match="before a round of this loop"):
        wf.kernel(counted)(np.array([3]))


def test_rounds_of_one_kind_stay_a_loop() -> None:
    def same(x: Any, n: int) -> Any:
        for k in range(n):
            x = x * 2 + k
        return x

    x = RANDOM.random(5)
    assert "loop" in agrees(same, x, 6).lower(x, 6).fun
