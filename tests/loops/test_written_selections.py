"""What masks select, as arrays of their own: written by elements, in loops, and through views."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from devices.harness import device
from loops.agree import agrees

import weft as wf
from weft.errors import ShapeError

X = np.random.default_rng(0).random(24)


def elements(x: Any) -> Any:
    y = x[x > 0.5]
    y[0] = 1
    y += 2
    y[1:3] = 7
    y[-1] *= 3
    y[y > 4] = 0
    y[y.argmax()] -= 1
    return y, y.sum(), x


def in_loops(x: Any) -> Any:
    y, n = x[x > 0.5], 0
    for i in range(1, len(y)):
        y[i] += y[i - 1]
        if y[i] > 3:
            y[i] -= 3
    while n < 5:
        y[n % 3] += n
        n += 1
    return y


def insertion_sort(y: Any) -> None:
    for i in range(1, len(y)):
        value, j = y[i], i - 1
        while j >= 0 and y[j] > value:
            y[j + 1] = y[j]
            j -= 1
        y[j + 1] = value


def by_a_function(x: Any) -> Any:
    y = x[x > 0.2]
    insertion_sort(y)
    return y


def increased(y: Any) -> None:
    y += 1


def seen_by_others(x: Any) -> Any:
    y = x[x > 0.5]
    same, tail, copied, kept = y, y[1:], y.copy(), [y]
    y += 1
    same *= 2
    increased(y)
    another = np.array(y)
    another += 5
    return y, same, tail, copied, kept[0], another


def through_views(x: Any) -> Any:
    y = x[x > 0.3]
    tail, column = y[2:], y.reshape(-1, 1)
    tail[0] = 9
    column[-1] = 7
    y.T[1] = 3
    rows = x.reshape(8, 3)[x[:8] > 0.2]
    row = rows[1]
    row[0] = 5
    rows[0, 1] = 6
    return y, rows


def by_methods(x: Any) -> Any:
    y, z, w = x[x > 0.2], x[x > 0.4], x[x > 0.6]
    y.sort()
    z.fill(3.0)
    np.add.at(w, np.array([0, 0, 1]), 1.0)
    np.cumsum(w, out=w)
    return y, z, w


def in_rounds(x: Any, n: int) -> Any:
    found = np.zeros(n)
    z = x[x > 0.9]
    for t in range(n):
        y = x[x > 0.1 * t]
        y[0] = t
        z = z * 2
        z += t
        found[t] = y.sum() + z.sum()
    return found, z


def in_branches(x: Any) -> Any:
    y = x[x > 0.5]
    if x[0] > 0.2:
        y += 1
    else:
        y[0] = 0
    return y


def others_of_it(x: Any) -> Any:
    y = x[x > 0.2]
    y = y[y > 0.5]
    y[0] = 2
    labels, counts = np.unique((x * 5).astype(np.int32), return_counts=True)
    labels[1:] -= labels[:-1]
    counts[0] = 10
    return y, labels, counts


def narrowed(x: Any) -> Any:
    y, rows = x[x > 0.1], x.reshape(8, 3)[x[:8] > 0.2]
    for _ in range(3):
        mean, deviation = y.mean(), y.std()
        y = y[np.abs(y - mean) < 1.5 * deviation]
    rows = rows[rows[:, 0] > 0.3]
    return y, len(y), rows, y[y > 2], y[y > 0.5][0]


def written_back(x: Any) -> Any:
    mask = x > 0.5
    y = x[mask]
    y.sort()
    x[mask] = y
    x[x < 0.2] = x[x < 0.2][::-1]
    low, high = x[x < 0.5], x[x >= 0.5]
    x[: len(low)] = low
    x[len(low) :] = high
    rows = x.reshape(8, 3)
    chosen = rows[rows[:, 0] > 0.5]
    chosen[:, 0] += 1
    rows[rows[:, 0] > 0.5] = chosen[::-1]
    return x


def as_indices(x: Any) -> Any:
    places = np.flatnonzero(x > 0.4)
    x[places] += 1
    x[places[1:]] -= x[places[:-1]]
    places[0] = 0
    x[places] = 5
    return places, x


@pytest.mark.parametrize(
    "function",
    [elements, in_loops, by_a_function, seen_by_others, through_views, by_methods, in_branches,
     others_of_it, written_back, as_indices],
)  # fmt: skip
def test_they_are_written_as_arrays_are(function: Callable[..., Any]) -> None:
    agrees(function, X.copy())


def test_they_are_written_in_each_round() -> None:
    agrees(in_rounds, X.copy(), 7)


def test_they_are_narrowed_by_conditions() -> None:
    agrees(narrowed, X.copy())


def test_they_are_written_on_a_device() -> None:
    with wf.config(devices=device().name):
        agrees(in_loops, X.copy())
        agrees(written_back, X.copy())


def none_is_there(x: Any) -> Any:
    y = x[x > 2]
    y[0] = 1
    return y


def of_two_masks(x: Any) -> None:
    x[x > 0.5] = x[x > 0.25] + 1


def too_few(x: Any) -> Any:
    y = x[x > 0.5]
    y.sort()
    x[x > 0.3] = y
    return x


def grows_shorter(x: Any) -> Any:
    y, total = x[x > 0.5], 0.0
    while len(y) > 2:
        total += y[0]
        y = y[1:]
    return total


def test_errors_are_numpys() -> None:
    with pytest.raises(IndexError):
        wf.kernel(none_is_there)(X.copy())
    for function in (too_few, of_two_masks):
        with pytest.raises(ValueError, match="lengths that only the run knows"):
            wf.kernel(function)(X.copy())


def test_lengths_that_change_are_refused() -> None:
    with pytest.raises(ShapeError, match="y has shape"):
        wf.kernel(grows_shorter)(X.copy())


def contracted(x: Any) -> Any:
    h = int(10 * x[0])
    y, z = x[x > 0.3], 2 * x[x > 0.3]
    a, b = x[:h], x[h : 2 * h]
    return np.einsum("i,j->ij", y, a), np.einsum("i,i", y, z), np.einsum("i,i->i", a, b)


def test_axes_of_one_letter_are_compared_by_the_run() -> None:
    agrees(contracted, X.copy())
    with pytest.raises(ValueError, match="lengths that only the run knows"):
        wf.kernel(of_other_lengths)(X.copy())


def of_other_lengths(x: Any) -> Any:
    return np.einsum("i,i", x[x > 0.3], x[x > 0.6])
