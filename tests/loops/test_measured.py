"""Arrays of lengths that only the run knows, and that nothing bounds."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from loops.agree import agrees, same

import weft as wf
from weft import prange
from weft.errors import ArgumentError, UnsupportedError

RANDOM = np.random.default_rng(3)


def trajectory(duration: float, step: float) -> Any:
    rounds = int(duration / step)
    y = np.empty(rounds + 1)
    t = np.arange(0.5, duration, step)
    y[0] = 1.0
    for i in range(rounds):
        y[i + 1] = y[i] - step * y[i]
    return t, y, y[: rounds // 2]


def resized(image: Any, scale: float) -> Any:
    height, width = int(image.shape[0] * scale), round(image.shape[1] * scale)
    out = np.empty((height, width), image.dtype)
    for i in prange(height):
        for j in prange(width):
            out[i, j] = image[int(i / scale), min(math.floor(j / scale), image.shape[1] - 1)]
    return out


def filled_after_counting(x: Any) -> Any:
    count = 0
    for value in x:
        if value > 4:
            count += 1
    found = np.empty(count, np.int32)
    k = 0
    for i in range(len(x)):
        if x[i] > 4:
            found[k] = i
            k += 1
    return found


def counted(x: Any) -> Any:
    rows = np.zeros((3, x.max() + 1), np.int16)
    for i in range(len(x)):
        rows[i % 3, x[i]] += 1
    return rows, np.bincount(x), np.bincount(x + 1, weights=x)


def written_between(x: Any, f: float) -> Any:
    before = np.zeros(int(f))
    x += 1
    for k in range(len(before)):
        part = np.full(int(f) - 1, x[k])
        before[k] = part.sum()
    x[0] = before.sum()
    after = np.ones(int(x[0]) % 7)
    x[1:] = 0
    return before, after


def within_a_loop(x: Any, f: float) -> None:
    n = int(f)
    for k in range(len(x)):
        part = np.ones(n)
        for i in range(n):
            part[i] += i * k
        x[k] = part.sum()


def of_a_branch(x: Any, f: float) -> Any:
    n = int(f)
    if n > 0:
        x[0] = np.ones(n).sum()
    else:
        x[0] = -1


X = RANDOM.integers(0, 9, 40)


@pytest.mark.parametrize(
    ("function", "arguments", "others"),
    [
        (trajectory, (10.0, 0.37), (3.0, 0.011)),
        (resized, (RANDOM.random((5, 7)), 1.9), (RANDOM.random((6, 3)), 2.5)),
        (filled_after_counting, (X,), (X[::-2],)),
        (counted, (X,), (X[:7] * 5,)),
        (written_between, (np.arange(7.0), 3.5), (np.arange(7.0), 5.5)),
        (within_a_loop, (np.zeros(40), 3.5), (np.zeros(40), 13.5)),
        (of_a_branch, (np.zeros(3), 3.5), (np.zeros(3), -3.5)),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_lengths_that_only_the_run_knows(
    function: Callable[..., Any], arguments: tuple[Any, ...], others: tuple[Any, ...]
) -> None:
    kernel = agrees(function, *arguments)
    found, plain = ([np.copy(a) if isinstance(a, np.ndarray) else a for a in others]
                    for _ in range(2))  # fmt: skip
    result, wanted = kernel(*found), function(*plain)
    same(found[0], plain[0], 1e-12)
    if not isinstance(wanted, tuple):
        result, wanted = (result,), (wanted,)
    for one, other in zip(result, wanted, strict=True):
        same(one, other, 1e-12)


def test_results_that_sizes_bound() -> None:
    def ends(x: Any, c: float) -> Any:
        k = 0
        while k < len(x) and x[k] < c:
            k += 1
        part = x[:k, None] * x[:k]
        return 2 * x[:k], x[k:][::-1] + 1, part, part[part > 4], np.where(part > 4)[1]

    kernel = agrees(ends, np.arange(9.0), 5.0)
    assert kernel(np.arange(9.0), -1.0)[0].shape == (0,)


def test_a_negative_length() -> None:
    def negative(x: Any, f: float) -> None:
        x[0] = np.zeros(int(f)).sum()

    with pytest.raises(ArgumentError, match="a length is -3"):
        wf.kernel(negative)(np.zeros(2), -3.5)


def test_an_assertion_before_a_length() -> None:
    def asserted(f: float) -> Any:
        assert f > 1, "too small"
        return np.zeros(int(f))

    kernel = agrees(asserted, 2.5)
    with pytest.raises(AssertionError, match="too small"):
        kernel(0.5)


def test_such_a_kernel_is_not_compiled_ahead_of_time() -> None:
    kernel = wf.kernel(trajectory)
    leaves, structure = kernel._arguments((10.0, 0.37), {})
    with pytest.raises(UnsupportedError, match="only the run knows, and nothing bounds"):
        kernel.variant(leaves, structure)


def test_plans_are_of_the_last_program() -> None:
    assert wf.explain(wf.kernel(filled_after_counting), X)


def counted(x: Any, weights: Any) -> Any:
    return np.bincount(x, weights, 4), np.bincount(x, None, 4)


def test_counts_of_nothing_are_integers() -> None:
    agrees(counted, np.zeros(0, np.int64), np.zeros(0))
    agrees(counted, np.array([1, 3]), np.array([0.5, 0.25]))
