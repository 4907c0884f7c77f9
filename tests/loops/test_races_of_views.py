"""Rounds that write through views: free of races where no two write one element of the array."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import weft as wf
from weft.errors import RaceError, RaceWarning


def inner(a: Any) -> None:
    b = a[1:-1, 1:-1]
    for i in wf.prange(b.shape[0]):
        for j in wf.prange(b.shape[1]):
            b[i, j] = i + 2 * j


def transposed(a: Any) -> None:
    b = a.T
    for i in wf.prange(b.shape[0]):
        for j in range(b.shape[1]):
            b[i, j] += j


def backwards(a: Any) -> None:
    b = a[::-1]
    for i in wf.prange(b.shape[0]):
        b[i] = i


def in_one_row(a: Any) -> None:
    b = a.ravel()
    for i in wf.prange(a.shape[0]):
        for j in range(a.shape[1]):
            b[i * a.shape[1] + j] = i - j


def of_a_transpose(a: Any) -> None:
    b = a.T[1:, ::2]
    for i in wf.prange(b.shape[0]):
        b[i, 0] *= 3
        b[i, 1:] = b[i, 0]


def even_from_odd(a: Any) -> None:
    even, odd = a[::2], a[1::2]
    for i in wf.prange(odd.shape[0]):
        even[i] = odd[i]


def local(a: Any) -> None:
    t = np.zeros(a.shape)
    u = t[1:, 1:]
    for i in wf.prange(u.shape[0]):
        u[i] = i
    a[:] = t


FREE = [inner, transposed, backwards, in_one_row, of_a_transpose, even_from_odd, local]


@pytest.mark.parametrize("function", FREE)
@pytest.mark.parametrize("shape", [(4, 4), (7, 5), (4, 9)])
def test_free_of_races(function: Callable[[Any], None], shape: tuple[int, int]) -> None:
    found = np.random.default_rng(2).random(shape)
    expected = copy.deepcopy(found)
    function(expected)
    with warnings.catch_warnings(), wf.config(interpret_below=0):
        warnings.simplefilter("error")
        wf.kernel(function)(found)
    np.testing.assert_array_equal(found, expected)


def rows_of_a_cube(a: Any, n: int, m: int, k: int) -> None:
    for i in wf.prange(n):
        for j in wf.prange(m):
            for l in wf.prange(k):  # noqa: E741
                a[(i * m + j) * k + l] = i - j + l


def columns(a: Any, n: int, m: int, k: int) -> None:
    for i in wf.prange(n):
        for j in range(m * k):
            a[i + j * n] = i


def blocks(a: Any, n: int, m: int, k: int) -> None:
    b = a.reshape(n * m, -1)
    for i in wf.prange(n):
        b[i * m:(i + 1) * m] *= i  # fmt: skip


@pytest.mark.parametrize("function", [rows_of_a_cube, columns, blocks])
def test_what_is_not_proved_is_no_certain_race(function: Callable[..., None]) -> None:
    sizes = 5, 3, 4
    found = np.random.default_rng(2).random(60)
    expected = copy.deepcopy(found)
    function(expected, *sizes)
    with warnings.catch_warnings(), wf.config(interpret_below=0):
        warnings.simplefilter("ignore", RaceWarning)
        wf.kernel(function)(found, *sizes)
    np.testing.assert_array_equal(found, expected)


def after_itself(a: Any) -> None:
    b = a[1:]
    for i in wf.prange(b.shape[0]):
        b[i] = a[i] + 1


def into_one_row(a: Any) -> None:
    b = a.T
    for i in wf.prange(a.shape[0]):
        b[:, 0] = i


@pytest.mark.parametrize("function", [after_itself, into_one_row])
def test_certain_races(function: Callable[[Any], None]) -> None:
    with pytest.raises(RaceError, match="rounds i = 0 and i = 1"):
        wf.kernel(function)(np.zeros((4, 5)))
