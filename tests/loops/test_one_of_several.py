"""Arrays of a list or tuple of which a number that only the run knows chooses one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from loops.agree import agrees

import weft as wf
from weft import prange
from weft.errors import UnsupportedError

X = np.random.default_rng(5).random(12)
Y, Z = np.zeros(12), np.ones(12)


def ping_pong(a: Any, b: Any, n: int) -> Any:
    buffers = [a, b]
    for k in range(n):
        buffers[(k + 1) % 2][1:-1] = 0.5 * (buffers[k % 2][:-2] + buffers[k % 2][2:])
    return buffers[n % 2].sum()


def three_levels(a: Any, b: Any, n: int) -> Any:
    u = (a, np.ones(len(a)), b)
    for t in range(n):
        for i in range(1, len(a) - 1):
            u[(t + 1) % 3][i] = u[t % 3][i - 1] + u[(t - 1) % 3][i] * 0.5
    return u[1]


def by_names(a: Any, b: Any, n: int) -> Any:
    buffers, now, then = [a, b], 0, 1
    for _ in range(n):
        u, v = buffers[now], buffers[then]
        v[1:-1] = 0.5 * (u[:-2] + u[2:])
        v[0], v[-1] = u[0], v[-1] + u[-1]
        now, then = then, now
    return buffers[now].mean()


def left_and_upwards(a: Any, b: Any, n: int) -> Any:
    buffers = [a, b]
    for k in range(n, -1, -2):
        source, target = buffers[k // 2 % 2], buffers[(k // 2 + 1) % 2]
        for i in range(1, len(a) - 1):
            if source[i] > 0.5:
                target[i] = source[i - 1]
            else:
                target[i] = -source[i + 1]
        if target[3] > 0.9:
            break
    return source.sum(), target[2], k


def while_loop(a: Any, b: Any, n: int) -> Any:
    buffers, k, rounds = [a, b], 0, 0
    while np.abs(a - b).max() > 0.3 and rounds < n:
        buffers[1 - k][1:-1] = 0.5 * (buffers[k][:-2] + buffers[k][2:])
        k = 1 - k
        rounds += 1
    return buffers[k].sum(), k


def functions_and_operators(a: Any, b: Any, n: int) -> Any:
    parts = [np.zeros((2, len(a)))[0], b[::-1]]
    parts[0][:] = a
    for k in range(n):
        part = parts[k % 2]
        parts[1 - k % 2][::2] = part[::-1][::2] + part.mean()
        np.add(part, 1, out=parts[(k + 1) % 2])
        parts[k & 1] *= 0.5
        parts[k & 1][[1, 2, 3]] = parts[(k ^ 1) % 2][[3, 2, 1]]
    return parts[n % 2].copy(), parts[0].reshape(3, 4).sum(axis=1)


def lists_of_lists(a: Any, b: Any, n: int) -> Any:
    tables, weighted, total = [[a, b], [b, a]], [(a, 1.0), (b, 2.0)], 0.0
    for k in range(n):
        for j in range(n % 3):
            tables[k % 2][j % 2][k] += k + j * 10
        values, weight = weighted[k % 2]
        values[k] += weight
        total += values[k - 1] * weight
    return total


@pytest.mark.parametrize("n", [0, 1, 2, 5])
@pytest.mark.parametrize("function", [
    ping_pong, three_levels, by_names, left_and_upwards, while_loop, functions_and_operators,
    lists_of_lists,
])  # fmt: skip
def test_buffers(function: Callable[..., Any], n: int) -> None:
    agrees(function, X, Y, n)


def by_data(a: Any, b: Any, which: Any) -> Any:
    arrays = (a, b)
    for i in prange(len(which)):
        arrays[which[i]][i] += i
    return arrays[which[0]].sum()


@pytest.mark.parametrize("which", [np.arange(12) % 2, -(np.arange(12) % 3 // 2)])
def test_numbers_of_an_array(which: Any) -> None:
    agrees(by_data, X, Y, which)


def test_a_place_outside_is_pythons_error() -> None:
    with pytest.raises(IndexError, match="tuple index out of range"):
        wf.kernel(by_data)(X.copy(), Y.copy(), np.arange(12) % 3)


@pytest.mark.parametrize("other", [np.zeros(11), np.zeros(12, np.float32)])
def test_arrays_of_two_kinds_are_refused(other: Any) -> None:
    with pytest.raises(UnsupportedError, match="two kinds"):
        wf.kernel(ping_pong)(X.copy(), other, 2)


def test_a_residue_is_inside_and_nothing_asks_a_run() -> None:
    program = str(wf.kernel(ping_pong).lower(X.copy(), Y.copy(), 4).fun)
    assert "failed" not in program
