"""Lists that loops bind anew and that branches choose, and those that comprehensions make."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from loops.agree import agrees

import weft as wf
from weft.errors import UnsupportedError

X = np.random.default_rng(5).random(40)


def frontiers(x: Any, n: int) -> Any:
    distance = np.full(len(x), -1)
    distance[0] = depth = 0
    frontier = [0]
    while frontier:
        depth += 1
        following = []
        for u in frontier:
            for v in range(len(x)):
                if distance[v] < 0 and (x[u] * 7 + x[v] * 5) % 1.0 < 0.1:
                    distance[v] = depth
                    following.append(v)
        frontier = following
    return distance, depth


def longest_run(x: Any, n: int) -> Any:
    best, current = [], []
    for i in range(len(x)):
        if x[i] > 0.3:
            current.append(x[i])
        else:
            if len(current) > len(best):
                best = current
            current = []
    return best, len(current)


def copied(x: Any, n: int) -> Any:
    best, current = [], []
    for i in range(len(x)):
        if x[i] > 0.3:
            current.append(i)
        else:
            if len(current) > len(best):
                best = current.copy()
            current.clear()
    return np.array(best), list(current)


def rows_of_pascal(x: Any, n: int) -> Any:
    row = [1]
    for _ in range(n):
        new = [1]
        for j in range(len(row) - 1):
            new.append((row[j] + row[j + 1]) % 1009)
        new.append(1)
        row = new
    return row


def exchanged(x: Any, n: int) -> Any:
    a, b = [0.0], [1, 2]
    for i in range(n):
        a, b = b, a
        a.append(x[i])
    return a, b


def chosen(x: Any, n: int) -> Any:
    found = [] if x[0] > 0.5 else [(1, 2.0), (3, 4.0)]
    if x[1] > 0.5:
        found = [(7, 8.0)]
    for i in range(n):
        if x[i] > 0.5:
            found.append((i, x[i]))
    return found


def sieved(x: Any, n: int) -> Any:
    values, primes = list(range(2, 60)), []
    while len(values) > 0:
        p = values[0]
        primes.append(p)
        values = [v for v in values if v % p != 0]
    return primes


def comprehensions(x: Any, n: int) -> Any:
    v = 7.0
    squares = [v * v for v in x]
    high = [v for v in squares if v > 0.2]
    pairs = [(i, x[i] * j) for i in range(n) if x[i] > 0.5 for j in range(i)]
    few = [i for i in range(5) if x[i] > 0.5]
    few.append(n)
    total = 0.0
    for i, w in pairs:
        total += i * w
    return squares, high, total, few, v, len(squares), squares[-1], max(high)


def ints_become_floats(x: Any, n: int) -> Any:
    sums = [0] * n
    for i in range(len(x)):
        sums[i % n] += x[i]
    return sums


@pytest.mark.parametrize("function", [
    frontiers, longest_run, copied, rows_of_pascal, exchanged, chosen, sieved, comprehensions,
    ints_become_floats,
])  # fmt: skip
def test_lists(function: Callable[..., Any]) -> None:
    agrees(function, X, 9)
    agrees(function, X[::-1].copy(), 9)


def test_more_than_there_is_room_for() -> None:
    @wf.kernel
    def doubled(n: int) -> tuple[int, int]:
        held = [1]
        for _ in range(n):
            new = []
            for v in held:
                new.append(v)
                new.append(v + 1)
            held = new
        return len(held), sum(held)

    assert doubled(13) == doubled.function(13)


def test_a_list_by_two_names_is_refused() -> None:
    @wf.kernel
    def shown(x: Any) -> Any:
        best, current = [], []
        for v in x:
            current.append(v)
            if v > 0.9:
                best = current
        return best

    with pytest.raises(UnsupportedError, match=r"(?s)another name shows that list.*copy"):
        shown(X)
