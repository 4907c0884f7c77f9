"""Slices between bounds that data decide: of several arrays, cut as Python cuts them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from loops.agree import agrees

import weft as wf
from weft.errors import OutOfBoundsError, UnsupportedError

RANDOM = np.random.default_rng(31)


@pytest.mark.parametrize("dtype", [np.int64, np.uint32, np.int16])
def test_bounds_that_are_read_twice_are_one(dtype: Any) -> None:
    def product(rows: Any, columns: Any, values: Any, x: Any) -> Any:
        y = np.empty(rows.size - 1, values.dtype)
        for i in range(rows.size - 1):
            cols = columns[rows[i] : rows[i + 1]]
            vals = values[rows[i] : rows[i + 1]]
            y[i] = vals @ x[cols]
        return y

    rows, columns = np.array([0, 3, 3, 4, 8], dtype), RANDOM.integers(0, 6, 8).astype(dtype)
    agrees(product, rows, columns, RANDOM.random(8), RANDOM.random(6))


@pytest.mark.parametrize("bounds", [[3, 7], [0, 2], [-2, 20], [20, 30], [5, 4]])
def test_one_bound_or_two(bounds: list[int]) -> None:
    def outside_loops(k: Any, x: Any, y: Any) -> Any:
        x[1 : k[1]] *= y[1 : k[1]]
        x[k[0] : k[1]] = 2 * y[k[0] : k[1]]
        return x[: k[0]] @ y[: k[0]] + np.sum(x[k[0] :] / y[k[0] :])

    def in_a_loop(k: Any, x: Any, y: Any) -> Any:
        total = 0.0
        for i in range(k.size):
            total += x[: k[i]] @ y[: k[i]]
            x[k[i] :] += y[k[i] :]
        return total

    agrees(outside_loops, np.array(bounds), RANDOM.random(9), RANDOM.random(9))
    agrees(in_a_loop, np.array(bounds), RANDOM.random(9), RANDOM.random(9))


def test_bounds_that_are_written_between_are_two() -> None:
    def shifted(k: Any, x: Any, y: Any) -> None:
        for _ in range(3):
            x[k[0] : k[1]] += y[k[0] : k[1]]
            k[0] += 1
            x[k[0] : k[1]] -= 2 * y[k[0] : k[1]]

    def branched(k: Any, x: Any, y: Any) -> None:
        if k[0] > 1:
            x[k[0] : k[1]] += y[k[0] : k[1]]
        else:
            x[k[0] : k[1]] -= y[k[0] : k[1]]
        x[k[0] : k[1]] *= y[k[0] : k[1]]

    for bounds in ([0, 5], [2, 6]):
        agrees(shifted, np.array(bounds), RANDOM.random(9), RANDOM.random(9))
        agrees(branched, np.array(bounds), RANDOM.random(9), RANDOM.random(9))


def test_windows_that_are_read_in_branches_have_one_length() -> None:
    def positive(a: Any) -> Any:
        found = np.zeros(a.shape)
        for i in range(a.shape[0]):
            for j in range(a.shape[1]):
                near = a[max(i - 1, 0) : i + 2, max(j - 1, 0) : min(j + 2, a.shape[1])]
                good = near > 0
                twice = near * 2
                if good.sum() > 1:
                    found[i, j] = near[good].mean() + (near + twice).sum()
        return found

    agrees(positive, RANDOM.standard_normal((5, 7)))


def test_windows_that_hold_their_centre_are_not_empty() -> None:
    def extremes(a: Any, r: int) -> Any:
        found = np.zeros((*a.shape, 3))
        for i in range(a.shape[0]):
            for j in range(a.shape[1]):
                found[i, j, 0] = a[max(i - 1, 0) : i + 2, max(j - 2, 0) : j + 1].min()
                found[i, j, 1] = np.max(a[i : min(i + r, a.shape[0]), j])
                found[i, j, 2] = np.argmin(a[i, max(0, j - 3) : min(j + 4, a.shape[1])])
        return found

    for shape in ((5, 7), (1, 1), (0, 3)):
        agrees(extremes, RANDOM.standard_normal(shape), 2)


def test_library_calls_take_parts_at_computed_places() -> None:
    def parts(a: Any, k: Any) -> Any:
        a[:, k[1]] = np.sort(a[:, k[0]])
        solved = np.linalg.solve(a[:3, :3] + 9 * np.eye(3), a[k[2], :3])
        return np.fft.fft(a[np.argmax(a[0])]), np.argsort(a.T[k[2]][::-1]), solved

    def of_computed_lengths(a: Any, k: Any) -> Any:
        product = a[: k[2], :3] @ a[:3, :4]
        return np.sort(a[k[1] :, 0])[-1], np.argsort(a[0][: k[2]])[0], product.sum()

    def transformed(a: Any, k: Any) -> Any:
        return np.fft.fft(a[k[1] :, 0])[0]

    a, k = RANDOM.random((5, 7)), np.array([2, -6, 3])
    agrees(parts, a, k)
    agrees(of_computed_lengths, a, abs(k) // 2)
    with pytest.raises(UnsupportedError, match="a part whose length only the run knows"):
        wf.kernel(transformed)(a, k)


@pytest.mark.parametrize("dtype", [np.int64, np.int32, np.uint8])
@pytest.mark.parametrize("shape", [(5, 4), (1, 3), (0, 2)])
def test_rolled_by_what_only_the_run_knows(shape: tuple[int, int], dtype: Any) -> None:
    def streamed(populations: Any, velocities: Any) -> None:
        for i in range(len(velocities)):
            populations[i] = np.roll(populations[i], velocities[i], axis=(0, 1))
            populations[i] += np.roll(np.roll(populations[i], velocities[i, 0], 0), i)

    velocities = np.array([[0, 1], [7, -1], [-6, 2], [1, 0], [2, 2]]).astype(dtype)
    agrees(streamed, RANDOM.random((5, *shape)), velocities)


def test_rolled_by_a_number_of_a_traced_function() -> None:
    rolled = wf.jit(lambda x, shift: wf.roll(x, shift))
    for shift in (0, 2, -7, 5):
        np.testing.assert_array_equal(rolled(np.arange(5), shift), np.roll(np.arange(5), shift))


@pytest.mark.parametrize("count", [9, 1, 0])
def test_slices_between_computed_bounds_are_returned(count: int) -> None:
    def kept(x: Any) -> Any:
        found, k = np.zeros((len(x), 2), np.float32), 0
        for i in range(len(x)):
            if x[i] > 0.5:
                found[k] = x[i]
                k += 1
        return found[:k], found[: k - 1].copy(), found[k:, 1], found[k:2:-1], x[: 2 * k][1:]

    agrees(kept, RANDOM.random(count))


def test_a_slice_of_an_argument_that_is_written_is_returned() -> None:
    def without_repeats(x: Any) -> Any:
        k = 0
        for i in range(len(x)):
            if k == 0 or x[i] != x[k - 1]:
                x[k] = x[i]
                k += 1
        return x[:k]

    agrees(without_repeats, np.sort(RANDOM.integers(0, 5, 12)))
    agrees(without_repeats, np.zeros(0, np.int64))


@pytest.mark.parametrize("rows", [1, 3, 40])
@pytest.mark.parametrize("width", [1, 6, 8, 20])
def test_rows_that_end_where_the_array_does(rows: int, width: int) -> None:
    """Vectors with masks are longer than such rows: what they do not store is not checked."""

    def moved(a: Any, first: Any, y: Any) -> None:
        k = first[0]
        y[:, :] = a[:, k : k + width] + a[:, :width]

    a = np.random.default_rng(7).random((rows, width + 3))
    y = np.zeros((rows, width))
    kernel = agrees(moved, a, np.array([3]), y)
    with pytest.raises(OutOfBoundsError, match="outside axis 1 of a"):
        kernel(a, np.array([4]), y)
