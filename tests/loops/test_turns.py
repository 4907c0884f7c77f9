"""Arrays that exchange their names in loops whose number of rounds only the run knows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from loops.agree import agrees

import weft as wf
from weft.errors import UnsupportedError

A, B = np.random.default_rng(8).random((2, 7))


def until_it_rests(u: Any, v: Any, most: int) -> Any:
    change, count = 1.0, 0
    while change > 0.2 and count < most:
        v[1:-1] = 0.5 * (u[:-2] + u[2:])
        change = np.abs(v - u).max()
        u, v = v, u
        count += 1
    u[0] = 5.0
    v += u
    return count, u, v


def of_its_own(a: Any, b: Any, n: int) -> Any:
    u, v = a.copy(), np.zeros_like(b)
    while n > 0:
        v[1:] = u[:-1] + b[1:]
        u, v = v, u
        n -= 1
    v[0] += 1.0
    return u, v


def held_by_another(a: Any, b: Any, n: int) -> Any:
    u, v = a.copy(), b.copy()
    held = u
    while n > 0:
        v[1:] = u[:-1] + 1.0
        u, v = v, u
        n -= 1
    held[0] = 9.0
    return u[0], v[0], held


def three(a: Any, b: Any, n: int) -> Any:
    c = np.ones_like(a)
    while n > 0:
        c[1:-1] = a[:-2] + b[2:]
        a, b, c = b, c, a
        n -= 1
    a[0] = 5.0
    return b, c


def again_and_again(a: Any, b: Any, n: int) -> Any:
    u, v = a.copy(), b.copy()
    for k in range(n):
        left = n
        while left > 0:
            v[1:-1] = u[:-2] + k * u[2:]
            u, v = v, u
            left -= 1
    return u, v


def one_after_another(a: Any, b: Any, n: int) -> Any:
    for step in (1, 2):
        left = n
        while left > 0:
            b[1:-1] = a[:-2] - a[2:]
            a, b = b, a
            left -= step
    b[0] = 7.0
    return a[1], b


def left_early(a: Any, b: Any, n: int) -> Any:
    for _ in range(n):
        b[1:-1] = a[:-2] + a[2:]
        a, b = b, a
        if a[3] > 3.0:
            break
    return a, b


def views(a: Any, b: Any, n: int) -> Any:
    u, v = a[::-1][1:], b[1:]
    for _ in range(int(n + a[0])):
        v[1:-1] = u[:-2] + u[2:]
        u, v = v, u
    u[0] = 3.0
    return u, v


@pytest.mark.parametrize(
    "function",
    [
        until_it_rests, of_its_own, held_by_another, three, again_and_again,
        one_after_another, left_early, views,
    ],
)  # fmt: skip
def test_arrays_take_turns_until_the_run_ends_it(function: Callable[..., Any]) -> None:
    kernel = agrees(function, A, B, 3)
    for rounds in (2, 4):
        given, plain = (A.copy(), B.copy()), (A.copy(), B.copy())
        found, wanted = kernel(*given, rounds), function(*plain, rounds)
        for one, other in zip((*given, *found), (*plain, *wanted), strict=True):
            np.testing.assert_array_equal(one, other)


def arguments_again_and_again(a: Any, b: Any, n: int) -> None:
    for k in range(n):
        left = n
        while left > 0:
            b[1:-1] = a[:-2] + k * a[2:]
            a, b = b, a
            left -= 1


def test_arguments_take_turns_in_one_loop_alone() -> None:
    with pytest.raises(UnsupportedError, match="another array in each round"):
        wf.kernel(arguments_again_and_again)(A.copy(), B.copy(), 3)


def test_no_round_takes_turns() -> None:
    agrees(until_it_rests, A, B, 0)


def test_one_array_that_takes_turns_with_itself() -> None:
    kernel = wf.kernel(until_it_rests)
    given, plain = A.copy(), A.copy()
    found, wanted = kernel(given, given, 4), until_it_rests(plain, plain, 4)
    np.testing.assert_array_equal(given, plain)
    assert found[0] == wanted[0]
    assert found[1] is given
