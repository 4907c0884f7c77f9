"""Lists of arrays of one shape, and of tuples that hold some, that grow in loops."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from loops.agree import agrees, same

import weft as wf
from weft.errors import UnsupportedError

X = np.random.default_rng(5).random((12, 3))


def selected(x: Any) -> Any:
    rows = []
    for i in range(len(x)):
        if x[i, 0] > 0.3:
            rows.append(x[i])
    return np.array(rows), np.array(rows).mean(axis=0)


def from_the_last(x: Any) -> Any:
    rows = [x[0]]
    for i in range(1, len(x)):
        rows.append(rows[-1] * 0.5 + x[i])
    return np.stack(rows), np.vstack(rows)


def of_another_dtype(x: Any) -> Any:
    rows = []
    for i in range(len(x)):
        rows.append(x[i].astype(np.float32) if x[i, 0] > 2 else x[i].astype(np.float32) * 2)
    return np.array(rows)


def steps(x: Any) -> Any:
    state, speed, states, times, t = x[0].copy(), np.zeros(3), [], [0.0], 0.0
    while t < 1:
        speed -= state * 0.1
        state += speed * 0.1
        t += 0.07
        states.append(state.copy())
        times.append(t)
    total = 0.0
    for row in states:
        total += row.sum()
    return np.array(times), np.array(states), total


def matrices(x: Any) -> Any:
    found = []
    for i in range(len(x)):
        found.append(np.outer(x[i], x[i]))
    found[2] = np.eye(3)
    last = found.pop()
    first = found.pop(0)
    return np.array(found), last, first, len(found)


def comprehension(x: Any) -> Any:
    return np.stack([row * 2 for row in x])


@pytest.mark.parametrize("function", [
    selected, from_the_last, of_another_dtype, steps, matrices, comprehension,
])  # fmt: skip
def test_lists_of_arrays(function: Callable[..., Any]) -> None:
    agrees(function, X)


def test_a_list_of_tuples_with_arrays_is_given_back() -> None:
    def pairs(x: Any) -> Any:
        found, row = [], x[0]
        for i in range(len(x)):
            row = row * 0.9
            found.append((i, row))
        return found

    for (i, row), (k, wanted) in zip(wf.kernel(pairs)(X), pairs(X), strict=True):
        assert i == k
        same(row, wanted, 1e-12)


def shown_twice(x: Any) -> Any:
    state, found = x[0].copy(), []
    for k in range(len(x)):
        state += x[k]
        found.append(state)
    return np.array(found)


def element_written(x: Any) -> Any:
    found = []
    for k in range(len(x)):
        found.append(x[k].copy())
    found[1][0] = 7
    return found


def several_shapes(x: Any) -> Any:
    found = []
    for k in range(len(x)):
        found.append(x[:k, 0])
    return found


def one_of_two_shapes(x: Any) -> Any:
    found = []
    for k in range(len(x)):
        found.append(x[k])
        found.append(x[k, :2])
    return found


@pytest.mark.parametrize(("function", "message"), [
    (shown_twice, "copy"), (element_written, "element of a list"),
    (several_shapes, "whose shape is not known"), (one_of_two_shapes, "of shapes"),
])  # fmt: skip
def test_what_would_differ_is_refused(function: Callable[..., Any], message: str) -> None:
    with pytest.raises(UnsupportedError, match=message):
        wf.kernel(function)(X)
