"""Indices that data give: what is said of those that are outside, counted from the end or not."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

import weft as wf
from weft.errors import OutOfBoundsError
from weft.fun.interpret import interpret
from weft.passes.pipeline import optimise


def read(x: Any, k: Any) -> Any:
    return x[k[0]]


def written(x: Any, k: Any) -> Any:
    for i in range(len(k)):
        x[k[i]] = i
    return x


def gathered(x: Any, k: Any) -> Any:
    out = np.zeros(len(k))
    for i in wf.prange(len(k)):
        out[i] = x[k[i]]
    return out


def added(x: Any, k: Any) -> Any:
    np.add.at(x, k, 1)
    return x


@pytest.mark.parametrize("dtype", [np.int64, np.int8])
@pytest.mark.parametrize("function", [read, written, gathered, added])
def test_the_index_that_was_given_is_named(function: Any, dtype: Any) -> None:
    kernel = wf.kernel(function)
    k = np.array([1], dtype)
    program = optimise(kernel.trace(np.ones(3), k))
    for index in (-4, 3, -9):
        text = re.escape(f"index {index} is outside axis 0 of x, which has 3 elements\n"
                         "  expected: -3 <= index < 3")  # fmt: skip
        k[0] = index
        with pytest.raises(OutOfBoundsError, match=text):
            kernel(np.ones(3), k)
        with pytest.raises(OutOfBoundsError, match=text):  # as where there is no compiler
            interpret(program, [np.ones(3), k])
    k = np.array([-3, 2], dtype)
    np.testing.assert_array_equal(kernel(np.ones(3), k), function(np.ones(3), k))
