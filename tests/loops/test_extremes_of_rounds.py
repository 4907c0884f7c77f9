"""Python's `min` and `max` over parallel rounds, of floats that compare with nothing, too."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import weft as wf


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
