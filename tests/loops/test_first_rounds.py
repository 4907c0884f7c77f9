"""Numbers that have another type after the first round of a loop."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from loops.agree import agrees

import weft as wf
from weft.errors import DTypeError

RNG = np.random.default_rng(0)
PAIRS = [
    (RNG.integers(0, 100, 9, dtype=np.int32), RNG.integers(0, 2**40, 9)),
    (RNG.random(9, dtype=np.float32), RNG.random(9)),
    (RNG.integers(0, 100, 9, dtype=np.int32), RNG.random(9)),
]


def total(x: Any, y: Any) -> Any:
    sums, m, n, halved = np.zeros(len(y)), x[0], x[1], x[2]
    for i in range(len(y)):
        sums[i] = m
        m = m + y[i]
    for value in y:
        n = n - value
    for i in range(len(y) - 1, -1, -2):
        halved = halved / 2 + y[i]
    return sums, m, n, halved, i


def greatest(x: Any, y: Any) -> Any:
    best = x[0]
    for i in range(len(y)):
        best = max(best, y[i]) + y[0]
    return best


def in_whiles(x: Any, y: Any) -> Any:
    m, n, i, k = x[0], x[1], 0, 0
    while i < len(y):
        m += y[i]
        i += 1
    while True:
        n = n + y[k]
        k += 1
        if n > 2 or k >= len(y):
            break
    return m, n, k


def in_nests(x: Any, y: Any) -> Any:
    found, m = np.zeros(3), x[0]
    for j in range(3):
        n = x[j]
        for i in range(len(y)):
            n += y[i]
        found[j] = n
    for i in range(len(y)):
        for j in range(i, len(y)):
            m = m + y[j]
    return found, m


def left(x: Any, y: Any) -> Any:
    m, n = x[0], x[1]
    for i in range(len(y)):
        m = m + y[i]
        if m > 3:
            break
    else:
        m = m * 2
    for value in y:
        n = n - value
        if n < -1:
            return m, n
    return m, n * 2


@pytest.mark.parametrize("function", [total, greatest, in_whiles, in_nests, left])
@pytest.mark.parametrize("pair", PAIRS, ids=lambda pair: f"{pair[0].dtype}-{pair[1].dtype}")
def test_types_are_those_of_each_round(function: Callable[..., Any], pair: Any) -> None:
    agrees(function, *(array.copy() for array in pair))


def test_no_round_leaves_the_type() -> None:
    x, y = PAIRS[0]
    agrees(total_alone, x, y[:0])
    agrees(total_alone, x, y[:1])


def total_alone(x: Any, y: Any) -> Any:
    m = x[0]
    for i in range(len(y)):
        m = m + y[i]
    return m


def of_computed_rounds(x: Any, y: Any) -> Any:
    m = x[0]
    for i in range(int(y[0])):
        m = m + y[i]
    return m


def of_every_round(x: Any, y: Any) -> Any:
    a, b = x[0], y[0]
    for _ in range(len(y)):
        a, b = b, a
    return a


@pytest.mark.parametrize("function", [of_computed_rounds, of_every_round])
def test_types_that_the_run_decides_are_refused(function: Callable[..., Any]) -> None:
    with pytest.raises(DTypeError, match="changes its type in a loop"):
        wf.kernel(function)(*PAIRS[0])
