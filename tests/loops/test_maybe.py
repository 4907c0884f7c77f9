"""Numbers that may not be there: variables that are None, or have no value, until some round."""

# ruff: noqa: B007, F821, F841 - what has no value yet is the subject

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import weft as wf
from tests.loops.agree import agrees
from weft.fun.show import show

NUMBERS = np.array([3.0, 1.0, 4.0, -1.0, 5.0])


def products_of_neighbours(a: Any, n: int) -> float:
    total = 0.0
    for i in range(n):
        if i > 0:
            total += before * a[i]
        before = a[i]
    return total


def of_two_loops(a: Any, n: int) -> float:
    total = 0.0
    for i in range(n):
        for j in range(3):
            if i + j > 0:
                total += before * (j + 1)
            before = a[i] + j
    return total


def before_the_loop(a: Any, n: int) -> float:
    if a[0] > 0:
        x = 1.0
    total = 0.0
    for i in range(n):
        if i > 0 or a[0] > 0:
            total += x
        x = a[i]
    return total


def first_round_apart(a: Any, n: int) -> float:
    first = True
    for k in range(len(a)):
        if first:
            most = a[k]
            first = False
        else:
            most = max(most, a[k])
    return most


def under_one_condition(a: Any, n: int) -> None:
    for i in range(n):
        if a[i] > 1:
            twice = a[i] * 2
        if a[i] > 1:
            a[i] = twice + 1


def greatest(a: Any, n: int) -> Any:
    best = None
    for x in a[:n]:
        if best is None or x > best:
            best = x
    return best


def greatest_and_its_place(a: Any, n: int) -> Any:
    best = place = None
    for i in range(n):
        if best is None or a[i] > best:
            best, place = a[i], i
    if best is not None:
        return best * 2 + place
    return -1.0


def last_positive(a: Any, n: int) -> Any:
    last = None
    i = 0
    while i < n and a[i] > 0:
        last = a[i]
        i += 1
    return -1.0 if last is None else last


def some_positive(a: Any, n: int) -> bool:
    place = None
    for i in range(n):
        if a[i] > 0:
            place = i
    return place is None


def until_it_converges(a: Any, n: int) -> Any:
    before, x, rounds = None, abs(a[0]), 0
    while before is None or abs(x - before) > 1e-3:
        before = x
        x = 0.5 * (x + 2 / x)
        rounds += 1
    return x, before, rounds


def found(a: Any, least: float) -> Any:
    for i in range(a.shape[0]):
        if a[i] > least:
            return i
    return None


def of_a_helper(a: Any, n: int) -> Any:
    first = found(a, n)
    return -1 if first is None else first + 1


def falls_off(a: Any, n: int) -> Any:
    if a[0] > n:
        return a[0] * 2


def chosen(a: Any, n: int) -> Any:
    x = None if a[0] > 3 else a[1]
    y = 0
    if x:
        y = 1
    return (x or 7.0), x, x == 1.0, x != 1.0, x is not None, y


def part_of_a_tuple(a: Any, n: int) -> Any:
    pair: Any = (1.0, 2.0)
    if a[0] > 0:
        pair = (1.0, None)
    return pair[1]


def target_over_no_round(a: Any, n: int) -> Any:
    i = None
    for i in range(int(a[0])):
        a[0] += 1
    return i is None


def in_an_inner_loop(a: Any, n: int) -> float:
    total = 0.0
    for i in range(n):
        for j in range(i):
            total += before * j
        before = a[i]
    return total


def none_by_number_of_round(a: Any, n: int) -> float:
    before = None
    total = 0.0
    for i in range(n):
        if i > 0:
            total += before * a[i]  # type: ignore[operator]
        before = a[i]
    return total


def unset(a: Any, n: int) -> Any:
    last = a[0]
    total = 0.0
    for i in range(n):
        if last is not None:
            total += last
        last = None if a[i] < 2 else a[i]
    return total, last


def places_of_the_greatest_step(a: Any, n: int) -> Any:
    most = None
    for i in range(n):
        for j in range(n):
            if i != j and (most is None or a[i] - a[j] > most):
                most = a[i] - a[j]
                places = (i, j)
    if most is None:
        return None
    return most * 100 + places[0] * 10 + places[1]


def runs(a: Any, n: int) -> Any:
    start = None
    count = 0
    for i in range(n):
        if a[i] > 0:
            if start is None:
                start = i
        else:
            if start is not None:
                count += i - start
            start = None
    return count if start is None else count + n - start


def nearest_others(a: Any, n: int) -> None:
    found = np.zeros(n)
    for i in wf.prange(n):
        least = None
        for j in range(n):
            if j != i and (least is None or abs(a[i] - a[j]) < least):
                least = abs(a[i] - a[j])
        if least is not None:
            found[i] = least
    a[:n] = found


FUNCTIONS = [
    products_of_neighbours, of_two_loops, before_the_loop, first_round_apart, under_one_condition,
    greatest, greatest_and_its_place, last_positive, some_positive, until_it_converges, of_a_helper,
    in_an_inner_loop, none_by_number_of_round, unset, runs, nearest_others, falls_off, chosen,
    places_of_the_greatest_step, part_of_a_tuple, target_over_no_round,
]  # fmt: skip


@pytest.mark.parametrize("function", FUNCTIONS)
@pytest.mark.parametrize("interpret_below", [0, 1 << 20])
def test_numbers_that_may_not_be_there(function: Callable[..., Any], interpret_below: int) -> None:
    with wf.config(interpret_below=interpret_below):
        kernel = agrees(function, NUMBERS, 4)
        for numbers, n in ((-NUMBERS, 4), (NUMBERS, 1), (-NUMBERS, 0), (NUMBERS + 9, 5)):
            mine, theirs = numbers.copy(), numbers.copy()
            for _ in range(2):  # the second way is shorter
                given, expected = kernel(mine, n), function(theirs, n)
                assert given == expected or given == pytest.approx(expected)
                np.testing.assert_array_equal(mine, theirs)


def bound_by_some(a: Any) -> Any:
    for i in range(len(a)):
        if a[i] > 1:
            x = a[i]
    return x


def read_too_early(a: Any) -> Any:
    total = 0.0
    for i in range(len(a)):
        if a[i] < 4:
            total += before
        before = a[i]
    return total


def tuple_bound_by_some(a: Any) -> Any:
    for i in range(len(a)):
        if a[i] > 1:
            pair = (i, a[i])
    return pair


def target_of_no_round(a: Any) -> Any:
    for i in range(int(a[0])):
        a[1] += 1
    return i


def none_in_a_sum(a: Any) -> Any:
    best = None
    for x in a:
        if x > 3:
            best = x
    return best + 1


@pytest.mark.parametrize(
    ("function", "good", "bad", "error", "line"),
    [
        (bound_by_some, NUMBERS, -abs(NUMBERS), UnboundLocalError, "return x"),
        (read_too_early, NUMBERS + 9, NUMBERS, UnboundLocalError, "total += before"),
        (tuple_bound_by_some, NUMBERS, -abs(NUMBERS), UnboundLocalError, "return pair"),
        (target_of_no_round, NUMBERS, -NUMBERS, UnboundLocalError, "return i"),
        (none_in_a_sum, NUMBERS, NUMBERS - 9, TypeError, "return best + 1"),
    ],
)
def test_numbers_that_are_not_there(
    function: Callable[..., Any], good: np.ndarray, bad: np.ndarray, error: type[Exception],
    line: str,
) -> None:  # fmt: skip
    kernel = agrees(function, good)
    with pytest.raises(error):
        function(bad.copy())
    with pytest.raises(error) as caught:
        kernel(copy.deepcopy(bad))
    assert line in caught.value.__notes__[0]


def test_none_found_by_branches_is_known_in_them() -> None:
    """Nothing is left to check where a condition says that there is a number."""
    assert str(2**63 - 1) not in show(wf.kernel(greatest).trace(NUMBERS, 4))
    assert str(2**63 - 1) in show(wf.kernel(none_in_a_sum).trace(NUMBERS))
