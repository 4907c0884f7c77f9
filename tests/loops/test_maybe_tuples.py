"""Tuples that are None until some round or branch binds them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from loops.agree import agrees

import weft as wf

X = np.random.default_rng(5).random(20)


def largest(x: Any) -> Any:
    best = None
    for i in range(len(x)):
        if best is None or x[i] > best[1]:
            best = (i, x[i])
    if best is None:
        return -1, 0.0
    place, value = best
    return place, value


def nearest(x: Any) -> Any:
    best = None
    for i in range(len(x)):
        for j in range(i):
            distance = abs(x[i] - x[j])
            if best is None or distance < best[0]:
                best = distance, (i, j)
    distance, (i, j) = best  # type: ignore[misc]
    return distance, i, j


def of_each(x: Any) -> Any:
    out = np.zeros(len(x))
    for k in range(len(x)):
        best = None
        for i in range(k):
            if x[i] > 0.2 and (best is None or x[i] > best[1]):
                best = (i, x[i])
        out[k] = best[0] + best[1] if best is not None else -1
    return out


def with_an_array(x: Any) -> Any:
    best = None
    for i in range(len(x) // 4):
        row = x[4 * i : 4 * i + 4] * 2
        if best is None or row.sum() > best[0]:
            best = (row.sum(), row)
    return best[1] + 1  # type: ignore[index]


def in_a_while(x: Any) -> Any:
    found, i = None, 0
    while i < len(x):
        if x[i] > 0.9:
            found = (i, x[i])
            break
        i += 1
    if not found:
        return 0.0
    return found[1]


def none_again(x: Any) -> Any:
    first, second = (0, 1.0), None
    for i in range(len(x)):
        if x[i] < 0.1:
            first, second = None, (i, x[i])  # type: ignore[assignment]
        elif first is None or x[i] > first[1]:
            first, second = (i, x[i]), None
    return (-1 if first is None else first[0]), (0.0 if second is None else second[1])


@pytest.mark.parametrize("function", [
    largest, nearest, of_each, with_an_array, in_a_while, none_again,
])  # fmt: skip
@pytest.mark.parametrize("x", [X, X * 0.1])
def test_tuples(function: Callable[..., Any], x: Any) -> None:
    agrees(function, x)


def given(x: Any) -> Any:
    best = None
    for i in range(len(x)):
        if x[i] > 0.5:
            best = (i, x[i])
    return best


def test_one_that_is_given_back_may_be_none() -> None:
    place, value = given(X)
    found = wf.kernel(given)(X)
    assert found == (place, value)
    assert wf.kernel(given)(X * 0.1) is None
    assert wf.kernel(given)(X[:0]) is None


@pytest.mark.parametrize("function", [nearest, with_an_array])
def test_none_has_no_parts(function: Callable[..., Any]) -> None:
    for x in (X[:1], X[:0]):
        with pytest.raises(TypeError, match="None"):
            wf.kernel(function)(x)
