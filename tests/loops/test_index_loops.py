"""Loops by NumPy's iterators: over indices, over elements with these, over all elements."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
from loops.agree import agrees

import weft as wf
from weft.errors import WeftError

RANDOM = np.random.default_rng(39)


def indices(a: Any) -> Any:
    total = 0.0
    for i, j in np.ndindex(a.shape):
        total += a[i, j] * (i - 2 * j)
    for i, j, k in np.ndindex(2, a.shape[0], 3):
        total += a[j, 0] * (i + k)
    return total


def elements(a: Any) -> Any:
    out = np.zeros(a.shape)
    for (i, j), x in np.ndenumerate(a):
        if x < 0.2:
            continue
        out[i, j] = 2 * x + i
    return out


def indices_as_one(a: Any) -> Any:
    out = np.zeros(a.shape)
    for at in np.ndindex(a.shape):
        out[at] = a[at] + at[0]
    for at, x in np.ndenumerate(a):
        out[at] *= x
    for (k,) in np.ndindex(3):
        out[0] += k
    return out


def all_elements(a: Any) -> Any:
    total = 1.0
    for x in a.flat:
        total = 0.5 * total + x
    a.flat[0] = total
    return total


def until_found(a: Any) -> Any:
    found = -1
    for i, j in np.ndindex(a.shape):
        if a[i, j] > 0.5:
            found = 10 * i + j
            break
    for i, j in np.ndindex(a.shape):
        for _ in range(3):
            if a[i, j] > 0.9:
                break
            found += 1
    return found


def returned(a: Any) -> Any:
    for (i, j), x in np.ndenumerate(a):
        if x > 0.6:
            return i, j
    return -1, -1


@pytest.mark.parametrize("shape", [(1, 1), (4, 7), (3, 1)])
@pytest.mark.parametrize(
    "function", [indices, elements, indices_as_one, all_elements, until_found, returned]
)
def test_loops(function: Any, shape: tuple[int, int]) -> None:
    agrees(function, RANDOM.random(shape))


def test_rounds_are_proved_to_be_parallel() -> None:
    def smooth(a: Any, out: Any) -> None:
        for i, j in np.ndindex(a.shape[0] - 2, a.shape[1] - 2):
            out[i, j] = a[i, j] + a[i + 1, j + 1] + a[i + 2, j + 2]

    a, out = RANDOM.random((9, 8)), np.zeros((9, 8))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        kernel = agrees(smooth, a, out)
    assert "loop" not in kernel.lower(a, out).fun


def test_as_many_indices_as_dimensions() -> None:
    def too_few(a: Any) -> Any:
        total = 0
        for i, j in np.ndindex(a.shape):
            total += i * j
        return total

    with pytest.raises(WeftError, match="3 values"):
        wf.kernel(too_few)(np.zeros((2, 3, 4)))


def test_a_name_of_the_function_is_no_iterator() -> None:
    def own(a: Any) -> Any:
        ndindex = a
        total = 0.0
        for x in ndindex:
            total += x
        return total

    agrees(own, RANDOM.random(4))
