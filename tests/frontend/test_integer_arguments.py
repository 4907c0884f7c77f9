"""Python ints of a call beside arrays of integers whose dtype may not hold them: as NumPy does."""

from __future__ import annotations

import operator
from collections.abc import Callable
from itertools import product
from typing import Any

import numpy as np
import pytest
from slow import every_second

import weft as wf

VALUES = (2, 127, 200, -2, 70000, 2**40, 2**63, 2**64, -(2**63) - 1, 2**70)


def outcome(function: Callable[..., Any], *arguments: Any) -> Any:
    try:
        return np.asarray(function(*arguments))
    except OverflowError:
        return OverflowError


@pytest.mark.parametrize(("operation", "dtype"), every_second(
    product([operator.lt, operator.eq, operator.sub], ["i1", "u4", "u8", "i8", "f8"]), several=True
))  # fmt: skip
def test_operators(operation: Callable[[Any, Any], Any], dtype: str) -> None:
    x = np.array([1, 2, 3, 100], dtype)
    ways: list[Callable[[Any, Any], Any]] = [operation, lambda a, n: operation(n, a)]
    for way in ways:
        compiled = wf.jit(lambda a, n, way=way: way(a, n))
        for value in VALUES:
            expected = outcome(way, x, value)
            for found in (outcome(compiled, x, value), outcome(way, wf.asarray(x), value)):
                if expected is OverflowError:
                    assert found is OverflowError
                else:
                    np.testing.assert_array_equal(found, expected, strict=True)


def test_functions_and_the_error() -> None:
    x = np.array([1, -2], "i1")
    np.testing.assert_array_equal(wf.jit(wf.less)(x, 200), [True, True])
    with pytest.raises(wf.WeftError, match=r"300 out of bounds for int8[^$]*astype") as caught:
        wf.jit(lambda a, n: wf.add(a, n))(x, 300)
    assert __file__ in str(caught.value)
