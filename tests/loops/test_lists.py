"""Lists that grow in loops and branches: appended to, popped, read, gone over, given back."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from loops.agree import agrees

import weft as wf
from weft.errors import UnsupportedError

X = np.random.default_rng(3).random(50)


def kept(x: np.ndarray) -> Any:
    big = []
    for v in x:
        if v > 0.5:
            big.append(v)
    return np.array(big), len(big), sum(big), max(big), np.mean(np.array(big)), big[0], big[-1]


def begun_with(x: np.ndarray) -> Any:
    starts = [0]
    for i in range(1, len(x)):
        if x[i] > x[i - 1]:
            starts.append(i)
    return np.array(starts), starts


def of_tuples(x: np.ndarray) -> Any:
    peaks = []
    for i in range(1, len(x) - 1):
        if x[i - 1] < x[i] > x[i + 1]:
            peaks.append((i, x[i]))
    total = 0.0
    for i, v in peaks:
        total += i * v
    for number, (i, _) in enumerate(peaks):
        total += number * i
    return total, len(peaks), [peaks[1][0]], peaks


def written_in_a_loop(x: np.ndarray) -> Any:
    first = [1.0, 2.0]
    counts = [0] * 3
    for i in range(len(x)):
        if x[i] > 0.5:
            first[0] = x[i]
            counts[1] += 2
    return first, counts


def stack(x: np.ndarray) -> None:
    waiting = [(0, len(x) - 1)]
    while waiting:
        low, high = waiting.pop()
        if low >= high:
            continue
        pivot = x[(low + high) // 2]
        i, j = low, high
        while i <= j:
            while x[i] < pivot:
                i += 1
            while x[j] > pivot:
                j -= 1
            if i <= j:
                x[i], x[j] = x[j], x[i]
                i += 1
                j -= 1
        waiting.append((low, j))
        waiting.append((i, high))


def hull(x: np.ndarray) -> Any:
    lower = []
    for i in range(len(x)):
        while len(lower) >= 2:
            a, b = lower[-2], lower[-1]
            if (b - a) * (x[i] - x[a]) - (x[b] - x[a]) * (i - a) > 0:
                break
            lower.pop()
        lower.append(i)
    return np.array(lower)


def in_rounds(x: np.ndarray) -> Any:
    medians = np.empty(len(x))
    for i in range(len(x)):
        near = []
        for j in range(max(0, i - 2), min(len(x), i + 3)):
            near.append(x[j])
        medians[i] = np.median(np.array(near))
        near.clear()
        medians[i] += len(near)
    return medians


def within_functions(x: np.ndarray) -> Any:
    found = []

    def add(value: float) -> None:
        found.append(value)

    for v in x:
        add(v)
        for k in (1, 2):
            if v > 0.7:
                add(v * k)
    found.reverse()
    found[0] = 5.0
    found += (1.0, 2.0)
    return np.array(found), np.array(found, dtype=np.float32)


def of_two_kinds(x: np.ndarray) -> Any:
    mixed = []
    for i in range(len(x)):
        mixed.append(i)
        if x[i] > 0.5:
            mixed.append(x[i])
    return np.array(mixed)


def known(x: np.ndarray) -> Any:
    parts = []
    parts.append(x[0])
    parts.append(2 * x[1])
    parts.insert(0, x[2])
    last = parts.pop()
    return np.array(parts), last, len(parts)


def of_a_branch(x: np.ndarray) -> Any:
    found = [1.5]
    if x[0] > 0.5:
        found.append(2.5)
    if x[0] <= 0.5:
        found.append(3.5)
    return found


def nothing(x: np.ndarray) -> Any:
    found = []
    for v in x:
        if v > 2:
            found.append(v)
    return np.array(found), found, len(found)


FUNCTIONS = [
    kept, begun_with, written_in_a_loop, of_tuples, stack, hull, in_rounds, within_functions,
    of_two_kinds, known, of_a_branch, nothing,
]  # fmt: skip


@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda function: function.__name__)
def test_list(function: Callable[..., Any]) -> None:
    with wf.config(interpret_below=0):
        agrees(function, X)
        agrees(function, X[:17].copy())


def test_errors_of_few_elements() -> None:
    for function in (kept, of_tuples):
        for found in (function, wf.kernel(function)):
            with pytest.raises((ValueError, IndexError), match=r"empty|zero-size|out of range"):
                found(np.zeros(3))


def counted(n: int, into: np.ndarray) -> int:
    found = []
    k = 0
    while k < n:
        found.append(k)
        into[k % 3] += 1
        k += 1
    return sum(found)


def test_room_that_nothing_bounds_is_made_as_it_is_needed() -> None:
    kernel = wf.kernel(counted)
    for n in (10, 5000, 70000, 10):
        into = np.zeros(3, dtype=np.int64)
        assert kernel(n, into) == n * (n - 1) // 2
        assert into.sum() == n


def pairs(x: np.ndarray, near: float, met: np.ndarray) -> Any:
    found = []
    for i in range(x.shape[0]):
        found.append((i, i))
        for j in range(i):
            if abs(x[i] - x[j]) < near:
                found.append((j, i))
                met[i] += 1
    return np.array(found)


def test_room_for_pairs_is_not_that_of_all() -> None:
    x = np.random.default_rng(5).random(2500)  # of all pairs, 48 MiB
    kernel = wf.kernel(pairs)
    for near in (0.0, 1e-4, 1e-3):  # of which the last has more than there is room for at first
        met, again = np.zeros(len(x), np.int64), np.zeros(len(x), np.int64)
        with wf.config(memory_limit="32 MiB"):
            found = kernel(x, near, met)
        np.testing.assert_array_equal(found, pairs_by_matrix(x, near, again))
        np.testing.assert_array_equal(met, again)


def pairs_by_matrix(x: np.ndarray, near: float, met: np.ndarray) -> np.ndarray:
    close = np.tril(abs(x[:, None] - x) < near, -1)
    met += close.sum(axis=1)
    close |= np.eye(len(x), dtype=bool)
    i, j = np.nonzero(close)
    order = np.lexsort((j, i != j, i))
    return np.stack([j, i], axis=1)[order]


def test_elements_that_are_not_there() -> None:
    def beyond(x: np.ndarray, k: int) -> float:
        found = []
        for v in x:
            found.append(v)
        return found[k]

    def too_many(x: np.ndarray) -> float:
        found = [0.0]
        total = 0.0
        for v in x:
            total += found.pop() + v
        return total

    agrees(beyond, X, -50)
    with pytest.raises(IndexError, match="list index out of range"):
        wf.kernel(beyond)(X, 50)
    with pytest.raises(IndexError, match="pop from empty list"):
        wf.kernel(too_many)(X)


def emptied_again(x: np.ndarray, chosen: float) -> float:
    total, found = 0.0, []
    while found:
        total += found.pop()
    if found:
        total += found[-1]
    if chosen > 1:
        total += found[0]
    for i in range(3):
        while found:
            total += found.pop()
        found.append(x[i])
    for _ in x:
        held = []
        while len(held) > 0:
            total -= held[-1]
            held.pop()
    for _ in range(int(chosen)):
        total += [].pop()
    return total


def test_lists_that_hold_nothing_are_not_read_where_no_round_is() -> None:
    agrees(emptied_again, X, 0)
    with pytest.raises(IndexError, match="list index out of range"):
        wf.kernel(emptied_again)(X, 2)
    with pytest.raises(IndexError, match="pop from empty list"):
        wf.kernel(emptied_again)(X, 1)


def test_what_lists_do_not_hold() -> None:
    def rows(x: np.ndarray) -> int:
        found = []
        for i in range(len(x)):
            found.append(x[i:])
        return len(found)

    def while_gone_over(x: np.ndarray) -> int:
        found = [0]
        for i in range(len(x)):
            found.append(i)
        for v in found:
            if v > 3:
                found.append(v)
        return len(found)

    with pytest.raises(UnsupportedError, match="arrays whose shape is not known"):
        wf.kernel(rows)(X)
    with pytest.raises(UnsupportedError, match="while a loop goes over it"):
        wf.kernel(while_gone_over)(X)


def selected(x: np.ndarray) -> Any:
    return x[x > 0.5], np.unique(np.round(x, 1)), x[x < 0.5] + 1, np.array([v for v in x if v > 2])


def test_what_a_mask_selects_is_given() -> None:
    agrees(selected, X)
    agrees(selected, X[:0])


def sliced(x: Any) -> Any:
    found, pairs, recent = [], [], 0.0
    for i in range(len(x)):
        if x[i] > 0.3:
            found.append(x[i])
            pairs.append((i, x[i]))
            recent += sum(found[-3:]) / len(found[-3:])
    rest = found[2:]
    rest.append(1.0)
    rest[0] = 7.0
    last = [int(10 * value) for value in x if value > 0.3]
    for _ in range(len(x)):
        if len(last) > 4:
            last = last[1:]
    return (
        found[::-1], found[1:-1:2], found[::-2], found[10:2], found[5:1:-1], found[-99:99],
        found[len(x) // 4 :], pairs[::-1], rest, last, recent,
    )  # fmt: skip


def by_a_computed_step(x: Any) -> Any:
    return [value for value in x if value > 0.5][:: int(4 * x[0])]


def test_slices_of_lists_are_lists() -> None:
    x = np.random.default_rng(0).random(20)
    agrees(sliced, x)
    with pytest.raises(UnsupportedError, match="a part of a list that grows"):
        wf.kernel(by_a_computed_step)(x)
