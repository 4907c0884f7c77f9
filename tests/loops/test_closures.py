"""Functions that kernels define within themselves."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import weft as wf
from tests.loops.agree import agrees
from weft.errors import ArgumentError, UnsupportedError, WeftError

# ruff: noqa: B023, E731 - variables of the function around are read as they are at the call

NUMBERS = np.array([3.0, 1.0, 4.0, -1.0, 5.0])


def lambdas(a: Any, n: int) -> Any:
    scaled = lambda x, by=a[1] + 1: x * by + k
    k = 3
    first = scaled(a[0])
    k = 4
    return first, scaled(a[0], by=2.0), (lambda *rest: sum(rest))(1, 2, n)


def with_loops_and_returns(a: Any, n: int) -> Any:
    def sum_to(i: int, weight: float = 2.0) -> Any:
        total = 0.0
        for j in range(n):
            if j == i:
                continue
            if a[j] < 0:
                return total
            total += a[j] * weight
        return total

    total = 0.0
    for i in range(n):
        total += sum_to(i)
    return total, sum_to(0, weight=1.0)


def that_write(a: Any, n: int) -> Any:
    def bump(i: int) -> None:
        if a[i] > 0:
            a[i] += step

    step = 1.0
    for i in range(n):
        bump(i)
        step += a[i]
    return step


def applied(f: Callable[..., Any], a: Any) -> Any:
    total = 0.0
    for x in a:
        total += f(x)
    return total


def given_to_a_helper(a: Any, n: int) -> Any:
    scale = a[0]

    def power(x: Any) -> Any:
        return x**n * scale

    return applied(power, a) + applied(lambda x: power(x) + 1, a)


def of_itself(a: Any, n: int) -> Any:
    def powers(k: int) -> Any:
        if k == 0:
            return 1.0
        return powers(k - 1) * a[0]

    return powers(3)


def defined_in_a_loop(a: Any, n: int) -> Any:
    before = None
    for i in range(n):
        def change(x: Any) -> Any:
            return 0.0 if before is None else x - before

        a[i] += change(a[i])
        before = a[i]
    return before


@pytest.mark.parametrize(
    "function",
    [
        lambdas, with_loops_and_returns, that_write, given_to_a_helper, of_itself,
        defined_in_a_loop,
    ],
)  # fmt: skip
def test_functions_within_kernels(function: Callable[..., Any]) -> None:
    agrees(function, NUMBERS, 3)
    agrees(function, NUMBERS, 5)


def kept(a: Any) -> Any:
    return lambda x: x + a[0]


def counted(a: Any) -> Any:
    count = 0

    def count_one() -> None:
        nonlocal count
        count += 1

    count_one()
    return count


def without_an_argument(a: Any) -> Any:
    def twice(x: Any) -> Any:
        return 2 * x

    return twice()


def one_of_two(a: Any) -> Any:
    f = lambda x: x
    if a[0] > 0:
        f = lambda x: x + 1
    return f(a[0])


@pytest.mark.parametrize(
    ("function", "error", "found"),
    [
        (kept, UnsupportedError, "a kernel that returns a function"),
        (counted, UnsupportedError, "nonlocal in a kernel"),
        (without_an_argument, ArgumentError, "a call of twice: missing a required argument: 'x'"),
        (one_of_two, WeftError, "f is one of two: a function here"),
    ],
)
def test_what_functions_within_kernels_do_not(
    function: Callable[..., Any], error: type[Exception], found: str
) -> None:
    with pytest.raises(error, match=found) as caught:
        wf.kernel(function)(NUMBERS.copy())
    assert f"{__file__}:" in str(caught.value)
