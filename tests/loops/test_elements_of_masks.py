"""Elements of what masks select, by number; distinct values and how many; places as rows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from loops.agree import agrees

import weft as wf
from weft.errors import ShapeError

X = np.random.default_rng(0).random((12, 3))


def modes(x: Any) -> Any:
    labels, found, entropies = (x * 4).astype(np.int64), 0, np.zeros(len(x))
    for i in range(len(x)):
        values, counts = np.unique(labels[i], return_counts=True)
        found += values[np.argmax(counts)] * 10 + counts.max()
        shares = counts / counts.sum()
        entropies[i] = -np.sum(shares * np.log(shares))
    return found, entropies


def distinct(x: Any) -> Any:
    y = np.floor(x[:, 0] * 4)
    y[2] = y[5] = np.nan
    values, counts = np.unique(y, return_counts=True)
    return values, counts


def first_and_last(x: Any) -> Any:
    y = x[:, 0]
    total = 0.0
    for t in range(3):
        high = x[y > 0.2 * t]
        total += high[t].sum() + high[-1].sum()
    return np.flatnonzero(y > 0.5)[0], np.where(y > 0.5)[0][-1], y[y > 0.5][1], total


def places(x: Any) -> Any:
    return np.argwhere(x > 0.5), np.argwhere(x[0] > 0.5)


def kinds(x: Any) -> Any:
    if isinstance(x, np.ndarray) and isinstance(len(x), int) and not isinstance(x, list | float):
        return x[0, 0] if isinstance(x[0, 0], float) and isinstance(1.0 * len(x), float) else 0.0
    return -1.0


def gone_over(x: Any) -> Any:
    y, places, total = x[:, 0].copy(), [], 0.0
    for i in np.flatnonzero(y > 0.3):
        if y[i] > 0.9:
            break
        y[i] = 0.0  # which was selected before
        places.append(i)
    for t in range(3):
        for value in x[x > 0.4 * t]:
            total = 0.5 * total + value
    for row in x[x[:, 1] > 0.5]:
        total += row[0] * row.max()
    for (i, j), k in zip(np.argwhere(x > 0.6), reversed(range(len(x))), strict=False):
        total -= x[i, j] * k
    for i, j in zip(*np.nonzero(x < 0.1), strict=False):
        total += x[i, j] * i
    rows, columns = np.where(x > 0.2)
    for k in range(len(rows)):
        total += x[rows[k], columns[-1 - k]]
    return y, np.array(places), total


def elements_as_arguments(x: Any) -> Any:
    total = np.hypot(*x[0, :2])
    for i in range(len(x)):
        total += max(*x[i], 0.1)
    for a, b in zip(*x[:2], strict=True):
        total += a * b
    return total, np.array([*x[1], 7.0])


@pytest.mark.parametrize(
    "function",
    [modes, distinct, first_and_last, places, kinds, gone_over, elements_as_arguments],
)
def test_elements(function: Callable[..., Any]) -> None:
    agrees(function, X)


def test_a_loop_over_nothing_has_no_rounds() -> None:
    def counted(x: Any) -> Any:
        total = 0
        for i in np.flatnonzero(x > 2):
            total += i + 1
        for _ in x[x < 0]:
            total += 1
        return total

    agrees(counted, X[:, 0])
    agrees(counted, X[:0, 0])


@pytest.mark.parametrize("count", [12, 1, 0])
def test_how_many_there_are_is_a_length(count: int) -> None:
    def ranked(x: Any) -> Any:
        places, high = np.flatnonzero(x > 0.3), []
        for i in range(len(x)):
            if x[i] > 0.6:
                high.append(x[i])
        shares, ranks = np.zeros(len(high)), np.zeros((len(places), 2))
        for k in range(len(high)):
            shares[k] = high[k] / len(high)
        for k in range(len(places)):
            ranks[k] = x[places[k]] * k
        return shares.sum(), ranks.sum(), len(ranks)

    agrees(ranked, X[:count, 0])


def test_an_index_beyond_them_is_an_error_of_the_run() -> None:
    @wf.kernel
    def first(x: Any) -> Any:
        return np.flatnonzero(x > 0.5)[0]

    assert first(X[:, 0]) == first.function(X[:, 0])
    for nothing in (X[:, 0] - 1, X[:0, 0]):
        with pytest.raises(IndexError, match="out of bounds"):
            first(nothing)


def computed_of_them(x: Any, c: float) -> Any:
    p, at = x[x > c], np.flatnonzero(x > c)
    q = p * np.arange(len(p))
    return p[1:] - p[:-1], np.diff(at), p @ q


def of_two_masks(x: Any, c: float) -> Any:
    low, high = x[x < c], x[x >= c]
    n = min(len(low), len(high))
    return np.concatenate((high, low)), low[:n] * high[:n], np.stack([low, low])


def within_a_loop(x: Any, c: float) -> Any:
    total = 0.0
    for k in range(len(x)):
        total += x[x > c / (k + 1)][::-1][:2].sum()
    return (total,)


@pytest.mark.parametrize("function", [computed_of_them, of_two_masks, within_a_loop])
def test_what_masks_select_is_an_array_of_its_own_length(function: Any) -> None:
    kernel = agrees(function, X[:, 0], 0.3)
    for c in (-9.0, 9.0):
        for found, wanted in zip(kernel(X[:, 0], c), function(X[:, 0], c), strict=True):
            np.testing.assert_allclose(found, wanted, rtol=1e-12)


def test_masks_along_some_axes() -> None:
    def columns(a: Any, mask: Any) -> Any:
        return a[:, mask], a[1:3, mask].sum(), a[a[:, 0] > 0.5][:, mask]

    agrees(columns, X, np.arange(X.shape[1]) % 2 == 0)
    agrees(columns, X, np.zeros(X.shape[1], bool))


def test_what_is_stacked_has_one_length() -> None:
    def stacked(x: Any, c: float) -> Any:
        return np.stack([x[x > c], x[x <= c]])

    kernel = agrees(stacked, np.arange(8.0), 3.0)
    with pytest.raises(ShapeError, match="are not equal in some round"):
        kernel(np.arange(8.0), 5.0)
