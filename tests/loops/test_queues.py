"""Lists from whose front is taken, and whose elements a number chooses that only the run knows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from loops.agree import agrees

import weft as wf
from weft.errors import UnsupportedError

X = np.random.default_rng(3).random(30)
STEPS = ((0, 1), (1, 0), (0, -1), (-1, 0))
WEIGHTS = (1.5, 2.5, -1.0)


def breadth_first(x: Any, n: int) -> Any:
    distance = np.full(len(x), -1)
    distance[0] = 0
    queue = [0]
    while queue:
        u = queue.pop(0)
        for v in range(len(x)):
            if distance[v] < 0 and (x[u] * 7 + x[v] * 5) % 1.0 < 0.1:
                distance[v] = distance[u] + 1
                queue.append(v)
    return distance


def taken_anywhere(x: Any, n: int) -> Any:
    held = [x[0]]
    for k in range(1, n):
        held.append(x[k])
    held.pop(0)
    held.pop(0)
    held.pop(3)
    held.pop(-2)
    held.insert(0, 9.0)
    held.insert(-1, 8.0)
    held.insert(4, 7.0)
    held.insert(1000, 6.0)
    total = 0.0
    for k, v in enumerate(held):
        total += k * v
    copied = np.array(held).sum()
    held.reverse()
    return held, total, copied, held[0], held[-1], len(held)


def insertion_sort(x: Any, n: int) -> Any:
    out = []
    for v in x:
        k = 0
        while k < len(out) and out[k] < v:
            k += 1
        out.insert(k, v)
    return out


def weighted(x: Any, n: int) -> Any:
    total, hits = 0.0, 0
    for i in range(len(x)):
        total += WEIGHTS[i % 3] * x[i] + [1, 2][int(x[i] > 0.5)]
        hits += (n, 2 * n, 3)[-1 - i % 3]
    return total, hits


def walk(x: Any, n: int) -> Any:
    i = j = 0
    for v in x:
        di, dj = STEPS[int(v * 4)]
        i, j = i + di, j + dj
    return i, j


def counted(x: Any, n: int) -> Any:
    counts = [0] * n
    sums = [0.0, 0.0, 0.0]
    for i in range(len(x)):
        counts[int(x[i] * n)] += 1
        sums[i % 3] += x[i]
    for _ in range(3):
        row = [1.0] * (n // 2)
        row[n % 3] += sums[0]
        sums[1] += row[n % 3] + len(row)
    return counts, sums, max(counts), sum(sums)


@pytest.mark.parametrize("function", [
    breadth_first, taken_anywhere, insertion_sort, weighted, walk, counted,
])  # fmt: skip
def test_lists(function: Callable[..., Any]) -> None:
    agrees(function, X, 7)


def test_numbers_out_of_range_are_pythons_errors() -> None:
    @wf.kernel
    def read(x: Any, k: int) -> float:
        total = 0.0
        for i in range(len(x)):
            total += WEIGHTS[k + i % 2] * x[i]
        return total

    @wf.kernel
    def write(x: Any, k: int) -> list[float]:
        sums = [0.0, 0.0]
        for i in range(len(x)):
            sums[k + i % 2] = x[i]
        return sums

    assert read(X, 1) == pytest.approx(read.function(X, 1))
    assert write(X, -1) == [X[29], X[28]]
    with pytest.raises(IndexError, match="tuple index out of range"):
        read(X, 2)
    with pytest.raises(IndexError, match="list assignment index out of range"):
        write(X, 1)


def test_a_list_times_an_array_is_refused() -> None:
    @wf.kernel
    def doubled(x: Any) -> Any:
        held = [1.0]
        for v in x:
            held.append(v)
        return held + held

    with pytest.raises(UnsupportedError, match="list"):
        doubled(X)


def nearest_smaller(x: Any, n: int) -> Any:
    found, stack = np.full(len(x), -1), [0]
    for i in range(1, len(x)):
        while stack and x[stack[-1]] >= x[i]:
            stack.pop()
        if stack:
            found[i] = stack[-1]
        stack.append(i)
    return found


def left_where_it_would_fail(x: Any, n: int) -> Any:
    held, k, total = [x[0]], 0, 0.0
    for v in x[1:n]:
        held.append(v)
    while held[k] < 2:
        total += held[k]
        k += 1
        if k == len(held):
            break
    return total, k


@pytest.mark.parametrize("function", [nearest_smaller, left_where_it_would_fail])
def test_conditions_of_loops_that_may_fail(function: Callable[..., Any]) -> None:
    agrees(function, X, 7)


def test_a_condition_of_a_loop_that_fails() -> None:
    @wf.kernel
    def beyond(x: Any) -> int:
        held, k = [x[0]], 0
        for v in x[1:]:
            held.append(v)
        while held[k] < 2:
            k += 1
        return k

    with pytest.raises(IndexError, match="list index out of range"):
        beyond(X)


def test_the_greatest_of_an_empty_list_is_pythons_error() -> None:
    @wf.kernel
    def greatest(x: Any) -> Any:
        held = []
        for v in x:
            if v > 0.5:
                held.append(v)
        return max(held)

    assert greatest(X) == greatest.function(X)
    with pytest.raises(ValueError, match=r"max\(\) iterable argument is empty"):
        greatest(X - 1)
