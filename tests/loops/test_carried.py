"""What loops carry that is no number or array: tuples, lists, and what is None at first."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from loops.agree import agrees

import weft as wf
from weft.errors import WeftError

NUMBERS = np.array([3.0, -1.0, 4.0, 4.0, 2.0])


def place_of_greatest(a: Any) -> Any:
    best = (-1, -1)
    for i in range(a.shape[0]):
        for j in range(a.shape[1]):
            if best[0] < 0 or a[i, j] > a[best]:
                best = (i, j)
    return best


def bracket(a: Any) -> Any:
    ends = (0, 100)
    while ends[1] - ends[0] > 1:
        middle = (ends[0] + ends[1]) // 2
        ends = (ends[0], middle) if middle * middle > a[0, 0] * 77 else (middle, ends[1])
    return ends


def nested(a: Any) -> Any:
    state = (0, (1.0, 2.0), "kept")
    for i in range(len(a)):
        n, (x, y), kept = state
        state = (n + 1, (y, x + a[i, 0]), kept)
    return state[0], state[1], len(state[2])


def rows(a: Any) -> Any:
    total = (a[0], 1.0)
    for i in range(a.shape[0]):
        total = (a[i] + total[0], total[1] * 2)
    return total


def exchanged(a: Any) -> Any:
    pair = (a[0], a[1])
    for i in range(a.shape[1]):
        pair[0][i] += pair[1][i] * 10
        pair = (pair[1], pair[0])


def counted(a: Any) -> Any:
    counts = [0, 0]
    for x in a[0]:
        if x > 1:
            counts = [counts[0] + 1, counts[1]]
        elif x < 1:
            counts = [counts[0], counts[1] + 1]
    return counts[0], counts[1]


def first_made_within(a: Any) -> Any:
    for i in range(len(a)):
        last = (i, a[i, 0])
    return last


def left_early(a: Any) -> Any:
    pair = (0.0, 1.0)
    for i in range(len(a)):
        for j in range(i):
            pair = (pair[1], pair[0] + a[i, j])
        if pair[1] > 8:
            break
    return pair[0] - pair[1]


def bound_to_the_same(a: Any) -> Any:
    shape = a.shape
    for i in range(len(a)):
        shape = a.shape
        a[i] += shape[0]
    return np.zeros(shape)


def none_until_some_round(a: Any) -> Any:
    x = None
    for i in range(len(a)):
        x = a[i, 0]
    return x


@pytest.mark.parametrize(
    "function",
    [
        place_of_greatest, bracket, nested, rows, exchanged, counted, first_made_within,
        left_early, bound_to_the_same, none_until_some_round,
    ],
)  # fmt: skip
def test_tuples_that_a_loop_changes(function: Callable[..., Any]) -> None:
    agrees(function, np.array([[1.0, 5, 2], [8, 1, 3], [0, 1, 9], [7, 7, 7], [2, 4, 6]]))


def mode(a: Any) -> Any:
    kind = "first"
    total = 0.0
    for x in a:
        if kind == "first":
            total += x
        kind = "later"
    return total


def function_of_round(a: Any) -> Any:
    f = math.sin
    for i in range(len(a)):
        a[i] = f(a[i])
        f = math.cos


def longer_and_longer(a: Any) -> Any:
    found = (0, 0)
    for _ in range(len(a)):
        found += (1,)
    return found


@pytest.mark.parametrize(
    ("function", "found"),
    [
        (mode, "kind is one of two: a str here"),
        (function_of_round, "f is one of two: a builtin_function"),
        (longer_and_longer, "found is a tuple of 2 or a tuple of 3 here"),
    ],
)
def test_what_differs_between_rounds_and_nothing_holds(
    function: Callable[..., Any], found: str
) -> None:
    with pytest.raises(WeftError, match=found) as caught:
        wf.kernel(function)(NUMBERS.copy())
    assert f"{__file__}:" in str(caught.value)


def write_many(a: Any, b: Any, c: Any, d: Any, e: Any, f: Any, g: Any) -> None:
    a[0] += 1
    b[0] += a[0]
    c[0] += b[0]
    d[0] += c[0]
    e[0] += d[0]
    f[0] += e[0]
    g[0] += f[0]


def test_arrays_that_a_helper_writes_are_carried_however_many() -> None:
    def rounds(n: int, a: Any, b: Any, c: Any, d: Any, e: Any, f: Any, g: Any) -> None:
        for _ in range(n):
            write_many(a, b, c, d, e, f, g)

    agrees(rounds, 9, *(np.ones(2) for _ in range(7)))
