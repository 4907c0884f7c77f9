"""Extremes over parallel rounds, of floats that compare with nothing and of zeros, too."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from typing import Any

import numpy as np
import pytest
from slow import every_second

import weft as wf
from weft.errors import RaceWarning
from weft.fun import nodes as fun
from weft.fun import walk


def least(x: Any, start: float) -> Any:
    found = start
    for i in wf.prange(x.shape[0]):
        found = min(found, x[i])
    return found


def greatest(x: Any, start: float) -> Any:
    found = start
    for i in wf.prange(x.shape[0]):
        found = max(found, x[i])
    return found


def least_of_pairs(x: Any, start: float) -> Any:
    found = start
    for i in wf.prange(3):
        for j in range(x.shape[0]):
            found = min(found, i - x[j])
    return found


NAN = np.nan
DATA = {
    "one is nothing": [1, NAN, 0.5], "the first": [NAN, 2, 1], "the last": [2, 1, NAN],
    "all": [NAN, NAN], "none": [3, -1, 2], "many": [3, 1] * 50 + [NAN] * 9 + [-7.5, 99],
}  # fmt: skip


@pytest.mark.parametrize("function", [least, greatest, least_of_pairs])
@pytest.mark.parametrize("data", DATA)
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_numbers_that_compare_with_nothing(
    function: Callable[..., Any], data: str, dtype: Any
) -> None:
    x = np.array(DATA[data], dtype)
    with wf.config(interpret_below=0):
        for start in (np.inf, -np.inf, 0.25, NAN):
            np.testing.assert_equal(wf.kernel(function)(x, start), function(x, start))


# ---------------------------------------------------------------- kept by a branch


def kept_greatest(x: Any, start: Any) -> Any:
    found = start
    for i in wf.prange(x.shape[0]):
        if x[i] > found:
            found = x[i]
    return found


def kept_least(x: Any, start: Any) -> Any:
    found = start
    for i in wf.prange(x.shape[0]):
        value = x[x.shape[0] - 1 - i]
        if value < found:
            found = value
    return found


def chosen_greatest(x: Any, start: Any) -> Any:
    found = start
    for i in wf.prange(x.shape[0]):
        found = x[i] if found < x[i] else found
    return found


def both_and_a_sum(x: Any, start: Any) -> Any:
    low, high, total = start, start, 0.0
    for i in wf.prange(x.shape[0]):
        if low > x[i]:
            low = x[i]
        if x[i] > high:
            high = x[i]
        total += i
    return low, high, total


def with_its_place(x: Any, start: Any) -> Any:
    found, place, double = start, -1, 0
    for i in wf.prange(x.shape[0]):
        if x[i] > found:
            found = x[i]
            place = i
            double = 2 * i
    return found, place, double


def of_rows(x: Any, start: Any) -> Any:
    found, row, column = start, -1, -1
    for i in wf.prange(3):
        for j in wf.prange(x.shape[0]):
            value = x[j] * (i - 1)
            if value < found:
                found = value
                row = i
                column = j
    return found, row, column


KEPT = [kept_greatest, kept_least, chosen_greatest, both_and_a_sum, with_its_place, of_rows]
ZEROS = {
    "negative first": [-0.0, 0.0, -0.0], "positive first": [-1, 0.0, -0.0, 0.0],
    "after nothing": [NAN, -0.0, 0.0, NAN], "infinities": [-np.inf, np.inf, -np.inf, NAN],
    "the least of all": [-np.inf, -np.inf], "no elements": [],
    "far apart": [*[-0.0] * 3, *[NAN] * 70_000, *[0.0] * 70_000],
}  # fmt: skip


def compared(function: Callable[..., Any], x: Any, start: Any) -> int:
    """The loops that are left; what the function gives has the bits of what Python gives."""
    kernel = wf.kernel(function)
    with wf.config(interpret_below=0):
        found = kernel(x, start)
    for one, other in zip(np.atleast_1d(found), np.atleast_1d(function(x, start)), strict=True):
        np.testing.assert_equal(one, other)
        assert np.signbit(one) == np.signbit(other)
    statements = walk.statements(kernel.trace(x, start).body)
    return sum(isinstance(let.expr, fun.Loop) for let in statements)


@pytest.mark.parametrize(
    ("dtype", "function", "data"),
    every_second(product([np.float64, np.float32], KEPT, [*DATA, *ZEROS]), several=True),
)
def test_what_a_branch_keeps(function: Callable[..., Any], data: str, dtype: Any) -> None:
    x = np.array((DATA | ZEROS)[data], dtype)
    for start in (np.inf, -np.inf, 0.25, NAN, 0.0, -0.0, x.max(initial=-1)):
        assert compared(function, x, dtype(start)) == 0


@pytest.mark.parametrize("function", KEPT)
@pytest.mark.parametrize("dtype", [np.int64, np.int32, np.uint8])
def test_what_a_branch_keeps_of_integers(function: Callable[..., Any], dtype: Any) -> None:
    limits = np.iinfo(dtype)
    for data in ([3, 1, 7, 7, 1], [limits.min, limits.max], [limits.min] * 2, []):
        for start in (5, limits.min, limits.max):
            x = np.array(data, dtype)
            if function is of_rows:
                x = x.astype(np.int64) // 2
            assert compared(function, x, x.dtype.type(start)) == 0


def last_greatest(x: Any, start: Any) -> Any:
    found = start
    for i in wf.prange(x.shape[0]):
        if x[i] >= found:
            found = x[i]
    return found


def test_the_last_of_equal_ones() -> None:
    """Integers that are equal are one; of zeros the last keeps its sign, in order."""
    assert compared(last_greatest, np.array([3, 9, 9, 2]), np.int64(9)) == 0
    with pytest.warns(RaceWarning, match="runs in order"):
        assert compared(last_greatest, np.array([0.0, -0.0, -1.0]), -1.0) == 1


def not_at_most(x: Any, start: Any) -> Any:
    found = start
    for i in wf.prange(x.shape[0]):
        if not x[i] <= found:
            found = x[i]
    return found


def another_value(x: Any, start: Any) -> Any:
    found = start
    for i in wf.prange(x.shape[0]):
        if x[i] > found:
            found = x[0]
    return found


def read_where_it_is_better(x: Any, start: Any) -> Any:
    found, before = start, start
    for i in wf.prange(x.shape[0]):
        if x[i] > found:
            found = x[i]
            before = x[i - 1]
    return found, before


def counted_as_well(x: Any, start: Any) -> Any:
    found, times = start, 0
    for i in wf.prange(x.shape[0]):
        if x[i] > found:
            found = x[i]
            times = times + 1
    return found, times


def seen_by_others(x: Any, start: Any) -> Any:
    found, total = start, 0.0
    for i in wf.prange(x.shape[0]):
        if x[i] > found:
            found = x[i]
        total += found
    return found, total


@pytest.mark.parametrize(
    "function",
    [not_at_most, another_value, read_where_it_is_better, counted_as_well, seen_by_others],
)
def test_what_runs_in_order(function: Callable[..., Any]) -> None:
    with pytest.warns(RaceWarning, match="runs in order"):
        assert compared(function, np.array([0.5, NAN, 2, -0.0, 3]), 0.25) == 1
