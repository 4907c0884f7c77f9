"""Rows that a mask selects, reduced along them, changed and given; quantiles of what it selects."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from loops.agree import agrees

import weft as wf
from weft.errors import UnsupportedError

RANDOM = np.random.default_rng(4)
X, GROUPS = RANDOM.random((40, 3)), RANDOM.integers(0, 4, 40)


def clusters(x: np.ndarray, g: np.ndarray) -> Any:
    centers = x[:4].copy()
    for _ in range(3):
        distances = ((x[:, None, :] - centers[None, :, :]) ** 2).sum(axis=2)
        nearest = distances.argmin(axis=1)
        for j in range(4):
            centers[j] = x[nearest == j].mean(axis=0)
    return centers, np.array([x[g == j].sum(axis=0) for j in range(4)])


def moments(x: np.ndarray, g: np.ndarray) -> Any:
    found = np.zeros((4, 8))
    for j in range(4):
        s = x[g == j]
        found[j] = (
            s.std(), s.max(axis=0)[1], np.min(s, axis=0).sum(), len(s), s.size, s.shape[0],
            s.shape[1], ((s - s.mean(axis=0)) ** 2).sum(),
        )  # fmt: skip
    return found


def in_place(x: np.ndarray, g: np.ndarray) -> Any:
    for j in range(3):
        x[g == j] *= j + 1.5
        x[g == j] -= x[g == j].mean(axis=0)
    return x[g == 1], x[g == 2] + 1


def quantiles(x: np.ndarray, g: np.ndarray) -> Any:
    found = np.zeros(4)
    for j in range(4):
        found[j] = np.percentile(x[:, 0][g == j], 90) + np.quantile(x[g == j], 0.25)
    return found


def of_points(x: np.ndarray, g: np.ndarray) -> Any:
    points = []
    for i in range(len(x)):
        if g[i] == 2:
            points.append((x[i, 0], x[i, 1]))
    made = np.array(points)
    return made, made.mean(axis=0), made.shape[1]


@pytest.mark.parametrize("function", [clusters, moments, in_place, quantiles, of_points])
def test_rows(function: Callable[..., Any]) -> None:
    agrees(function, X, GROUPS)


def test_what_is_not_reduced_along_rows() -> None:
    def along_columns(x: np.ndarray) -> Any:
        return x[x[:, 0] > 0.5].sum(axis=1)

    with pytest.raises(UnsupportedError, match="sum along 1 of elements that a mask selects"):
        wf.kernel(along_columns)(X)


def counts(x: np.ndarray, g: np.ndarray) -> Any:
    found = np.zeros((4, 10), dtype=np.int64)
    weighted = np.zeros(4)
    for i in range(4):
        found[i] = np.bincount(g[i * 10 : i * 10 + 10], minlength=10)
        weighted += np.bincount(g, weights=x[:, 0], minlength=4)
    return found, weighted


def test_counts_of_a_given_length() -> None:
    kernel = agrees(counts, X, GROUPS)
    with pytest.raises(UnsupportedError, match="minlength does not count"):
        kernel(X, GROUPS + 4)
    with pytest.raises(ValueError, match="no negative elements"):
        kernel(X, GROUPS - 1)


def places(x: np.ndarray, g: np.ndarray) -> Any:
    found = np.flatnonzero(g == 2)
    (same,) = np.where(g == 2)
    rows, columns = np.nonzero(x > 0.5)
    return found, same * 2, rows, columns, len(found), x[found], x[found].sum(axis=0), g[found]


def test_where_elements_are() -> None:
    agrees(places, X, GROUPS)
    agrees(places, X, GROUPS * 0)
