"""Slices whose step an argument or a loop decides."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from loops.agree import agrees

import weft as wf
from weft.errors import UnsupportedError


def primes(n: int) -> Any:
    are = np.ones(n + 1, dtype=np.bool_)
    are[:2] = False
    for i in range(2, int(n**0.5) + 1):
        if are[i]:
            are[i * i :: i] = False
    return are


def read_and_changed(x: np.ndarray, k: int) -> Any:
    total = 0.0
    for i in range(1, k + 1):
        total += x[::i].sum() + x[i:40:i].sum() + x[-30::i][0]
        x[i::i] *= 1.5
    y = x[1::k]
    x[1] = 7.0
    return total, y, x[45:3:k]


def rows(x: np.ndarray, k: int) -> Any:
    x[::k, 1:] = 2.0
    return x[:, ::k], x[1::k].sum(axis=0)


def test_computed_steps() -> None:
    agrees(primes, 300)
    with wf.config(interpret_below=0):
        agrees(primes, 301)
    agrees(read_and_changed, np.random.default_rng(1).random(50), 3)
    agrees(rows, np.random.default_rng(1).random((9, 7)), 2)


def test_what_is_not_seen_through() -> None:
    def by_another_name(x: np.ndarray, k: int) -> None:
        for i in range(1, k):
            y = x[::i]
            y[0] = 1.0

    def backwards(x: np.ndarray, k: int) -> None:
        for i in range(-2, k):
            x[::i] = 1.0

    with pytest.raises(UnsupportedError, match="whose step is computed, by a name of its own"):
        wf.kernel(by_another_name)(np.zeros(9), 3)
    with pytest.raises(UnsupportedError, match="whose step is computed"):
        wf.kernel(backwards)(np.zeros(50), 2)
