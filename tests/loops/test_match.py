"""`match` in kernels, by what a call knows and by what only the run does."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from loops.agree import agrees

import weft as wf

RANDOM = np.random.default_rng(3)


def by_name(x: Any, mode: str) -> Any:
    match mode:
        case "least" | "min":
            return x.min()
        case "sum":
            return x.sum()
        case other:
            return x[len(other)]


def by_rank(x: Any) -> Any:
    match x.ndim, x.shape[0]:
        case 1, _:
            return x.sum()
        case 2, n:
            return x[n - 1].sum()
    return x.max()


def fizz(n: int) -> Any:
    found = np.zeros(n, np.int64)
    for i in range(n):
        match i % 3, i % 5:
            case 0, 0:
                found[i] = 15
            case (0, _):
                found[i] = 3
            case [_, 0 | 4]:
                found[i] = 5
            case _:
                continue
    return found


def steps(codes: Any, x: Any) -> Any:
    total = 0.0
    for i in range(codes.shape[0]):
        match codes[i]:
            case 0:
                total += x[i]
            case 1 | 2:
                total -= x[i]
            case k if k > 5:
                total *= 0.5
            case 5 as five:
                total += five
            case _ if total > 1:
                break
    return total


def optional(x: Any, scale: Any = None) -> Any:
    match scale:
        case None:
            return x
        case True:
            return -x
        case _:
            return x * scale


def test_values_and_names() -> None:
    x = RANDOM.random(6)
    for mode in ("min", "least", "sum", "four"):
        agrees(by_name, x, mode)
    agrees(by_rank, x)
    agrees(by_rank, RANDOM.random((3, 4)))
    agrees(by_rank, RANDOM.random((3, 4, 2)))
    for scale in (None, True, 2.5):
        agrees(optional, x, scale)


def test_what_the_run_decides() -> None:
    agrees(fizz, 31)
    for _ in range(4):
        agrees(steps, RANDOM.integers(0, 8, 30), RANDOM.random(30))


def test_other_patterns_are_refused() -> None:
    def mapping(x: Any) -> Any:
        match x.shape:
            case (n, *_):
                return n
        return 0

    with pytest.raises(wf.errors.UnsupportedError, match="match in a kernel"):
        wf.kernel(mapping)(np.ones(3))
