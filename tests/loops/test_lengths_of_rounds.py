"""Lengths that only the run knows: it compares them, and says where they are not equal."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from loops.agree import agrees

import weft as wf
from weft.errors import ShapeError

RANDOM = np.random.default_rng(37)
LENGTHS = np.array([3, 1, 4, 1, 5, 0, 2, 6])


def halves(x: Any) -> Any:
    h = x.shape[0] // 2
    while h >= 1:
        x[:h] += x[h : 2 * h]
        h //= 2
    return x[0]


def haar(x: Any) -> None:
    n = x.shape[0]
    while n > 1:
        h = n // 2
        mean = (x[0:n:2] + x[1:n:2]) * 0.5
        difference = (x[0:n:2] - x[1:n:2]) * 0.5
        x[:h] = mean
        x[h:n] = difference
        n = h


def fourier(x: Any) -> None:
    n = x.shape[0]
    size = 2
    while size <= n:
        half = size // 2
        roots = np.exp(-2j * np.pi * np.arange(half) / size)
        for s in range(0, n, size):
            odd = x[s + half : s + size] * roots
            even = x[s : s + half].copy()
            x[s : s + half] = even + odd
            x[s + half : s + size] = even - odd
        size *= 2


def doubled_steps(x: Any) -> None:
    d = 1
    while d < len(x):
        x[d:] += x[: len(x) - d].copy()
        d <<= 1


@pytest.mark.parametrize("size", [1, 2, 64])
@pytest.mark.parametrize("function", [halves, haar, doubled_steps])
def test_programs_that_halve_or_double(function: Any, size: int) -> None:
    agrees(function, RANDOM.random(size))


@pytest.mark.parametrize("size", [1, 2, 32])
def test_fourier(size: int) -> None:
    agrees(fourier, RANDOM.random(size) + 1j * RANDOM.random(size))


def test_writes() -> None:
    def written(x: Any, w: Any) -> Any:
        for i in range(len(w)):
            y = x[i : i + w[i]]
            y += x[20 : 20 + w[i]]
            x[10 : 10 + w[i]] = np.sqrt(y)
            y[:] = x[3 : 3 + w[i]]
            np.add(y, x[1 : 1 + w[i]], out=y)
        return x

    def in_two_dimensions(x: Any, w: Any) -> Any:
        for i in range(len(w)):
            x[i : i + w[i], 1 : 1 + w[i]] += x[2 : 2 + w[i], : w[i]].T
            x[: w[i], 0] = 1 + x[3 : 3 + w[i], 2]
        return x

    agrees(written, RANDOM.random(40), LENGTHS)
    agrees(in_two_dimensions, RANDOM.random((20, 20)), LENGTHS)


def test_products_and_comparisons() -> None:
    def products(x: Any, w: Any) -> Any:
        out = np.zeros(len(w))
        for i in range(len(w)):
            out[i] = np.dot(x[i : i + w[i]], x[: w[i]]) + x[i : i + w[i]] @ x[2 : 2 + w[i]]
        return out

    def compared(x: Any, w: Any) -> Any:
        count = 0
        for i in range(len(w)):
            count += np.where(x[: w[i]] > x[i : i + w[i]], 2, 1).sum()
            if np.any(x[: w[i]] == x[i : i + w[i]]):
                count += 1
        return count

    agrees(products, RANDOM.random(40), LENGTHS)
    agrees(compared, RANDOM.random(40), LENGTHS)


def summed(x: Any, w: Any) -> Any:
    out = np.zeros(len(w))
    for i in wf.prange(len(w)):
        out[i] = (x[: w[i]] * x[1:4]).sum()
    return out


def stored(x: Any, w: Any) -> Any:
    for i in range(len(w)):
        x[: w[i]] = 2 * x[1:4]
    return x


def multiplied(x: Any, w: Any) -> Any:
    total = 0.0
    for i in range(len(w)):
        total += x[: w[i]] @ x[1:4]
    return total


@pytest.mark.parametrize("function", [summed, stored, multiplied])
def test_other_lengths_are_refused(function: Any) -> None:
    kernel = agrees(function, RANDOM.random(10), np.array([3, 3, 3]))
    for lengths in ([3, 4, 3], [3, 3, 0], [2, 2, 2]):
        with pytest.raises(ShapeError, match=r"not equal in some round[^~]*x\[1:4\]"):
            kernel(RANDOM.random(10), np.array(lengths))


def test_one_is_not_repeated_where_the_run_knows_alone() -> None:
    with pytest.raises(ShapeError, match="one of a single element is not repeated here"):
        wf.kernel(summed)(RANDOM.random(10), np.array([3, 1, 3]))


def test_conditions_bound_what_arrays_are_made_by() -> None:
    def either_side(n: int, step: int) -> Any:
        total = 0
        k = 1
        while n > k and total >= 0:
            total += np.arange(k // 2).sum()
            k += step
        return total, k

    agrees(either_side, 50, 7)
    agrees(either_side, 0, 7)


def test_what_is_not_bounded_is_refused() -> None:
    def grows(x: Any) -> Any:
        k, total = 1, 0.0
        while total < 100:
            total += np.sort(np.ones(k) * x)[0]
            k *= 2
        return total

    with pytest.raises(ShapeError, match="no bound of the extent"):
        wf.kernel(grows)(3.0)


def test_lengths_may_be_found_negative() -> None:
    def made(x: Any, w: Any) -> Any:
        total = 0.0
        for k in w:
            total += (np.ones(min(k, 8)) + x[: min(k, 8)]).sum()
        return total

    kernel = agrees(made, RANDOM.random(9), LENGTHS)
    with pytest.raises(ValueError, match="less than 0 in some round"):
        kernel(RANDOM.random(9), np.array([3, -1]))
