"""Sums that are rounded once, means of them; products of what comprehensions give."""

from __future__ import annotations

import math
import statistics
from typing import Any

import numpy as np
import pytest
from loops.agree import agrees

import weft as wf
from weft.errors import UnsupportedError

X = np.random.default_rng(0).random(60)


def sums(x: Any) -> Any:
    rolling = np.zeros(5)
    for i in range(5):
        rolling[i] = math.fsum(x[i : i + 9])
    return math.fsum(x), math.fsum(x[x > 0.5]), math.fsum(v * v for v in x), rolling


def means(x: Any) -> Any:
    return statistics.fmean(x), statistics.fmean(x[:9], x[9:18])


def products(x: Any) -> Any:
    return math.prod(v + 1 for v in x), math.prod(x[:5], start=2), math.prod((x[0], x[1]), start=3)


LARGE = 1e20 * X
VALUES = [
    X, np.concatenate([X, LARGE, 1e-300 * X, -LARGE, [1e100, 1.0, -1e100]]),
    np.array([1e16, 1.0, 1e-16]), np.array([1e16, -1.0, -1e-16]), np.array([2.0**53, 1, 2.0**-60]),
    np.array([1.0, np.inf]), np.array([np.nan, 1.0]), X.astype(np.float32), np.zeros(0),
]  # fmt: skip


def one(x: Any) -> Any:
    return math.fsum(x)


@pytest.mark.parametrize("values", VALUES, ids=len)
def test_a_sum_is_rounded_once(values: Any) -> None:
    np.testing.assert_equal(wf.kernel(one)(values), math.fsum(values))


def test_as_python_does() -> None:
    agrees(sums, X, rtol=0)
    agrees(means, X, rtol=0)
    agrees(products, X)


def test_no_mean_of_nothing() -> None:
    with pytest.raises(statistics.StatisticsError):
        wf.kernel(means)(X[:0])


def exact(x: Any) -> Any:
    return statistics.mean(x)


def test_fractions_are_refused() -> None:
    with pytest.raises(UnsupportedError, match=r"fractions(.|\n)*np.mean"):
        wf.kernel(exact)(X)
