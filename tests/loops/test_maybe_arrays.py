"""Arrays that may not be there: variables that are None, or have no value, until some round."""

# ruff: noqa: F821, F841 - what has no value yet is the subject

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from loops.agree import agrees

import weft as wf

X = np.random.default_rng(0).random((12, 3))


def lowest(x: Any, t: float) -> Any:
    best, cost = None, 1e9
    for i in range(len(x)):
        c = x[i].sum()
        if best is None or c < cost:
            best, cost = x[i].copy(), c
    return best, cost


def lowest_view(x: Any, t: float) -> Any:
    best = None
    for i in range(len(x)):
        if best is None or x[i, 0] < best[0]:
            best = x[i]
    return (best == x[3]).sum() + best.sum()


def first_or_default(x: Any, t: float) -> Any:
    for i in range(len(x)):
        if x[i, 0] > t:
            row = x[i].copy()
            break
    else:
        row = np.full(3, -1.0)
    return row * 2


def first_or_none(x: Any, t: float) -> Any:
    found = None
    for i in range(len(x)):
        if x[i, 0] > t:
            found = x[i].astype(np.float32)
            break
    return found


def of_the_round_before(x: Any, t: float) -> Any:
    total = 0.0
    for i in range(len(x)):
        if i > 0:
            total += np.dot(before, x[i])
        before = x[i] * 2
    last = None
    for i in range(len(x)):
        last, this = x[i] if i > 2 else None, last
        if this is not None:
            total += this[0]
    return total


def written_in_place(x: Any, t: float) -> Any:
    total = None
    for i in range(len(x)):
        if total is None:
            total = np.zeros(3)
        total[i % 3] += x[i, 0]
        total *= 0.5
    return total


def none_again(x: Any, t: float) -> Any:
    row, count = x[0].copy(), 0
    for i in range(len(x)):
        if x[i, 0] > t:
            row = None
        elif row is None:
            row = x[i].copy()
        else:
            row = row + x[i]
        if row is not None:
            count += 1
            x[i] += row
    return count


def in_two_loops(x: Any, t: float) -> Any:
    out, best = np.zeros(len(x)), None
    for i in range(len(x)):
        near = None
        for j in range(len(x)):
            d = x[j] - x[i]
            if j != i and (near is None or (d * d).sum() < (near * near).sum()):
                near = d
        out[i] = near[0]
        if x[i, 1] > t:
            best = near
    for _ in range(int(t * 2)):
        best = out[:3] if best is None else best + out[:3]
    return out, best


@pytest.mark.parametrize("t", [0.5, 0.9])
@pytest.mark.parametrize("function", [
    lowest, lowest_view, first_or_default, first_or_none, of_the_round_before, written_in_place,
    none_again, in_two_loops,
])  # fmt: skip
def test_arrays_that_some_round_binds(function: Callable[..., Any], t: float) -> None:
    agrees(function, X, t)


def test_none_is_given_back() -> None:
    kernel = wf.kernel(first_or_none)
    assert kernel(X, 2.0) is None
    assert kernel(X[:0], 0.0) is None


def test_reading_none_is_an_error_of_the_run() -> None:
    @wf.kernel
    def total(x: Any, t: float) -> float:
        found = None
        for i in range(len(x)):
            if x[i, 0] > t:
                found = x[i].copy()
        return found.sum()

    @wf.kernel
    def unbound(x: Any, t: float) -> float:
        for i in range(len(x)):
            if x[i, 0] > t:
                found = x[i].copy()
        return found.sum()

    assert total(X, 0.5) == unbound(X, 0.5)
    with pytest.raises(TypeError, match="found is None, where an array is needed"):
        total(X, 2.0)
    with pytest.raises(UnboundLocalError, match="found"):
        unbound(X, 2.0)
