"""Python's own errors in branches that only the run takes: raised where they are taken."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import weft as wf
from tests.loops.agree import agrees

NUMBERS = np.array([3.0, 1.0, 4.0])


def quotient(a: Any, n: int) -> int:
    if a[0] > 100:
        return 5 // n
    return 1


def eleventh(a: Any, n: int) -> float:
    if a[0] > 100:
        return a[10]
    return 1.0


def written_before(a: Any, n: int) -> float:
    total = 0.0
    for i in range(a.shape[0]):
        if a[i] > 100:
            a[i] = 7 % n
            total += 2
        total += a[i]
    return total


def conditional(a: Any, n: int) -> Any:
    small = a[0] + 1 if a[0] < 100 else a[-4]
    return small + (1 if a[0] < 100 else 5 // n)


def nested(a: Any, n: int) -> Any:
    if a[0] > 100:
        if a[1] > 0:
            return 1 // n
        return 2 // n
    return 3


def least_of_none(a: Any, n: int) -> Any:
    x = 2.0
    if a[0] > 100:
        x = max([a[k] for k in range(n)])
    return x


@pytest.mark.parametrize(
    ("function", "error", "message", "line"),
    [
        (quotient, ZeroDivisionError, "zero", "return 5 // n"),
        (eleventh, IndexError, "index 10 is out of bounds for axis 0 with size 3", "return a[10]"),
        (written_before, ZeroDivisionError, "zero", "a[i] = 7 % n"),
        (conditional, IndexError, "index -4 is out of bounds", "else a[-4]"),
        (nested, ZeroDivisionError, "zero", "return 1 // n"),
        (least_of_none, ValueError, "empty", "max([a[k]"),
    ],
)
@pytest.mark.parametrize("interpret_below", [0, 1 << 20])
def test_errors_of_branches(
    function: Callable[..., Any], error: type[Exception], message: str, line: str,
    interpret_below: int,
) -> None:  # fmt: skip
    with wf.config(interpret_below=interpret_below):
        kernel = agrees(function, NUMBERS, 0)
        with pytest.raises(error, match=message) as caught:
            kernel(copy.deepcopy(NUMBERS) + 100, 0)
    told = "\n".join([str(caught.value), *getattr(caught.value, "__notes__", [])])
    assert f"{__file__}:" in told
    assert line in told


def test_what_weft_refuses_is_refused_in_branches_too() -> None:
    def shouted(a: Any) -> Any:
        if a[0] > 100:
            print(a[0])
        return a[1]

    with pytest.raises(wf.errors.UnsupportedError):
        wf.kernel(shouted)(NUMBERS)
