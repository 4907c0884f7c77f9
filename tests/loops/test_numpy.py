"""Whole NumPy functions: slices, views, allocation, functions of NumPy, exchanged arrays."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from loops.agree import agrees

import weft as wf
from weft.errors import DTypeError

RANDOM = np.random.default_rng(6)


def jacobi(a: Any, b: Any, steps: int) -> None:
    for _ in range(steps):
        b[1:-1, 1:-1] = 0.2 * (
            a[1:-1, 1:-1] + a[1:-1, :-2] + a[1:-1, 2:] + a[2:, 1:-1] + a[:-2, 1:-1]
        )
        a[1:-1, 1:-1] = 0.2 * (
            b[1:-1, 1:-1] + b[1:-1, :-2] + b[1:-1, 2:] + b[2:, 1:-1] + b[:-2, 1:-1]
        )


def test_jacobi() -> None:
    for steps in (0, 1, 5):
        agrees(jacobi, RANDOM.random((9, 8)), RANDOM.random((9, 8)), steps)


@pytest.mark.parametrize("steps", range(5))
def test_arrays_that_are_exchanged(steps: int) -> None:
    def diffuse(u: Any, n: int) -> Any:
        v = u.copy()
        for _ in range(n):
            v[1:-1] = 0.5 * (u[:-2] + u[2:])
            u, v = v, u
        return u

    def three(a: Any, b: Any, c: Any, n: int) -> None:
        for _ in range(n):
            c[...] = 2 * b - a
            a, b, c = b, c, a

    agrees(diffuse, RANDOM.random(11), steps)
    agrees(three, RANDOM.random(3), RANDOM.random(3), np.zeros(3), steps)


def test_functions_of_numpy() -> None:
    def softmax(x: Any) -> Any:
        e = np.exp(x - np.max(x, axis=-1, keepdims=True))
        return e / np.sum(e, axis=-1, keepdims=True)

    agrees(softmax, RANDOM.random((5, 7)).astype(np.float32))


def test_gram_schmidt() -> None:
    def gram_schmidt(a: Any) -> Any:
        n = a.shape[1]
        q, r = np.zeros_like(a), np.zeros((n, n), dtype=a.dtype)
        for k in range(n):
            r[k, k] = np.sqrt(np.dot(a[:, k], a[:, k]))
            q[:, k] = a[:, k] / r[k, k]
            for j in range(k + 1, n):
                r[k, j] = np.dot(q[:, k], a[:, j])
                a[:, j] -= q[:, k] * r[k, j]
        return q, r

    agrees(gram_schmidt, RANDOM.random((8, 5)))


def test_views_write_what_they_are_views_of() -> None:
    def through_views(a: Any) -> None:
        row = a[1]
        row[:] = 5
        row[0] += 1
        part = a.T[2:]
        part[0] = 3
        same = a
        same[-1, -1] = 9
        flat = a.reshape(-1)
        flat[0] = 8

    agrees(through_views, RANDOM.random((4, 5)))


def test_a_result_that_is_an_argument_is_the_argument() -> None:
    @wf.kernel
    def doubled(a: Any) -> Any:
        a *= 2
        return a

    a = np.arange(3.0)
    assert doubled(a) is a
    assert a.tolist() == [0, 2, 4]


def test_one_array_passed_twice_is_one_array() -> None:
    @wf.kernel
    def shift(a: Any, b: Any) -> None:
        a[1:] = b[:-1]
        b[0] = a[2] + 100

    a = np.arange(4.0)
    shift(a, a)
    assert a.tolist() == [101, 0, 1, 2]


def test_other_functions_are_inlined() -> None:
    @wf.kernel
    def fill_row(row: Any, value: Any) -> None:
        row[:] = value

    def scale(x: Any, by: float = 2.0) -> Any:
        return x * by

    factor = np.array([1.0, 3.0])

    def all_rows(a: Any) -> None:
        for i in range(a.shape[0]):
            fill_row(a[i], scale(i + factor[1], by=3.0))

    agrees(all_rows, RANDOM.random((4, 2)))


def test_what_is_accumulated_at_indices() -> None:
    def accumulated(a: Any, b: Any, place: Any, x: Any) -> None:
        np.add.at(a, place, x)
        np.add.at(a[::2], -1, 0.5)
        np.maximum.at(b, (place, place), x)

    agrees(accumulated, RANDOM.random(7), RANDOM.random((7, 7)), np.array([1, 1, -2, 0, 1]),
           RANDOM.random(5))  # fmt: skip


def test_slices_that_have_names() -> None:
    def inner(a: Any, n: int) -> None:
        middle, rows = slice(1, -1), slice(n, None, 2)
        a[middle, middle] *= 2
        a[rows] = a[rows, ::-1]

    agrees(inner, RANDOM.random((6, 5)), 1)


def test_elements_that_a_mask_selects() -> None:
    def select(a: Any, b: Any, mask: Any) -> Any:
        a[mask] += 1
        a[b > 0.5] = np.sqrt(b[b > 0.5]) * 2 - 1
        b[a > 1] *= 3
        chosen = -a[mask]
        a[mask] = np.float32(1) + chosen
        return chosen.sum(), np.sum(chosen * 2), (chosen > -1).any(), np.all(chosen < 0)

    agrees(select, RANDOM.random((5, 6)), RANDOM.random((5, 6)), RANDOM.random((5, 6)) > 0.4)
    agrees(select, RANDOM.random(4), RANDOM.random(4), np.zeros(4, bool))


def test_selected_elements_are_changed_in_place() -> None:
    def shared(a: Any) -> None:
        chosen = same = a[a > 0]
        chosen += 1
        a[a > 0] = same

    def scaled(a: Any) -> None:
        chosen = a[a > 0]
        chosen *= 2.5
        a[a > 0] = chosen

    def scaled_there(a: Any) -> None:
        a[a > 0] *= 2.5

    def scaled_slice(a: Any) -> None:
        a[1:] *= 2.5

    for function in (shared, scaled, scaled_there, scaled_slice):
        agrees(function, np.array([1.0, -2.0, 3.0]))
    for function in (scaled, scaled_there, scaled_slice):
        with pytest.raises(DTypeError, match="in place that gives float64 on an array of int64"):
            wf.kernel(function)(np.array([1, -2, 3]))


def test_one_slice_of_two_arrays() -> None:
    def rows(start: Any, a: Any, b: Any, y: Any) -> None:
        for i in range(y.size):
            own = slice(start[i], start[i + 1])
            y[i] = a[own] @ b[own]
            a[own] = b[own] + a[own]

    start = np.array([0, 2, 2, 5, 9, -1])  # the last but one reaches past the end
    agrees(rows, start, RANDOM.random(8), RANDOM.random(8), np.zeros(4))
    agrees(rows, start, RANDOM.random(8), RANDOM.random(8), np.zeros(5))


def test_one_slice_of_arrays_of_two_lengths() -> None:
    def sums(start: Any, a: Any, b: Any, y: Any) -> None:
        for i in range(y.size):
            own = slice(start[i], start[i + 1])
            y[i] = a[own].sum() + b[own].sum()

    start = np.array([0, 4, 12, 3])
    agrees(sums, start, RANDOM.random(9), RANDOM.random(6), np.zeros(3))
    agrees(sums, start, RANDOM.random(9), RANDOM.random(9), np.zeros(3))


def test_rounds_that_read_one_element_and_write_all() -> None:
    def rise(a: Any, n: int) -> None:
        for _ in range(n):
            a[:] = a[0] + 1

    agrees(rise, RANDOM.random(7), 3)


def test_elements_that_change_places() -> None:
    def turn(a: Any, b: Any, n: int) -> None:
        for _ in range(n):
            a[0] += 1
            a, b = b, a

    agrees(turn, RANDOM.random(3), RANDOM.random(3), 3)


def test_an_element_that_the_condition_reads() -> None:
    def halve(a: Any) -> None:
        while a[1] > 1:
            a[0] = a[0] / 2
            a[1] = a[0]

    agrees(halve, np.array([9.0, 5.0, 3.0]))
