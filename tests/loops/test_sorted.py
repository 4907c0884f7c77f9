"""`sorted` of arrays gives lists: with their operators, in the order of keys."""
# ruff: noqa: RUF005 - the operators are what is tested

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from loops.agree import agrees

import weft as wf
from weft.errors import UnsupportedError

X = np.random.default_rng(0).random(9)


def operators(x: Any) -> Any:
    y = sorted(x)
    part = y[1:4]
    part[0] = 9
    return y + [3.0], [1.0] + y + [], y * 2, part, y[1], y[-1], [*y, 1.0]


def compared(x: Any) -> Any:
    y = sorted(x)
    return y == sorted(x * 1.0), y != y[1:], y == [1.0], y == [], y.copy() == y


def with_arrays(x: Any) -> Any:
    return x + sorted(x), np.diff(sorted(x)), 2 * np.array(sorted(x)), np.median(sorted(x))


def by_keys(x: Any) -> Any:
    y = np.round(x * 3)
    signs = sorted(x - 0.5, key=abs)
    return signs, sorted(y, key=lambda v: -v, reverse=True), sorted(x, reverse=True)


def orders(x: Any) -> Any:
    y, total = np.round(x * 3), 0.0
    up = sorted(range(len(x)), key=lambda i: y[i])
    down = sorted(range(len(x)), key=lambda i: y[i], reverse=True)
    for k in down:
        total = 0.5 * total + x[k]
    return up, down, total, sorted(i % 3 for i in range(len(x)))


def in_loops_and_branches(x: Any) -> Any:
    medians, y = np.zeros(len(x) - 2), sorted(x)
    for i in range(1, len(x) - 1):
        window = sorted(x[i - 1 : i + 2])
        medians[i - 1] = window[1]
    for _ in range(len(x)):
        y = sorted([0.5 * value for value in y])
    z = sorted(x) if x[0] > 0.5 else sorted(-x)
    return medians, y + [1.0], z + [1.0], sorted(x[x > 0.3]) + [2.0]


@pytest.mark.parametrize(
    "function", [operators, compared, with_arrays, by_keys, orders, in_loops_and_branches]
)
def test_it_is_a_list(function: Callable[..., Any]) -> None:
    expected, found = function(X), agrees(function, X)(X)
    assert [isinstance(v, list) for v in found] == [isinstance(v, list) for v in expected]


def appended(x: Any) -> Any:
    y = sorted(x)
    y.append(1.0)
    return y


def extended(x: Any) -> Any:
    y = sorted(x)
    y += [1.0]
    return y


def plus_a_number(x: Any) -> Any:
    return sorted(x) + 1.0


def by_pairs(x: Any) -> Any:
    return sorted(x, key=lambda v: (v > 0.5, v))


@pytest.mark.parametrize(
    ("function", "message"),
    [(appended, "try: y = sorted"), (extended, "try: y = sorted"),
     (plus_a_number, "an operator on a list"), (by_pairs, "a key of several numbers")],
)  # fmt: skip
def test_what_changes_lengths_is_refused(function: Callable[..., Any], message: str) -> None:
    with pytest.raises(UnsupportedError, match=message):
        wf.kernel(function)(X)
