"""What `wf.explain` says of a kernel is what a call does: at once, in place; or in boxes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import weft as wf
from weft.plan.at_once import AtOnce

X = np.random.default_rng(1).random((1000, 1000))  # 7.6 MiB


def heat(plate: Any, steps: int) -> None:
    for _ in range(steps):
        plate[1:-1, 1:-1] += 0.2 * (plate[:-2, 1:-1] + plate[2:, 1:-1] - 2 * plate[1:-1, 1:-1])


def scaled(x: Any, factor: float) -> None:
    x *= factor


def product(y: Any, a: Any, b: Any) -> None:
    y[...] = a @ b


def sums(y: Any, a: Any) -> None:
    y[:, :] = np.sort(a, axis=0)[::-1] - a.mean(axis=0)


def swapped(a: Any, b: Any) -> None:
    for i in range(a.shape[0]):
        a[i] = b[i] + 1
        b[i] = 2.0


@pytest.mark.parametrize(
    ("function", "arguments", "places", "most"),
    [
        (scaled, (X, 2.0), ["in place of x_0"], 0.1),
        (heat, (X, 3), ["in place of plate_0"], 7.7),
        (product, (X, X + 1, X + 2), ["to the array given for it, computed there"], 0.1),
        (swapped, (X[0], X[1]), ["to a_0, computed there", "to b_0, copied there"], 0.1),
    ],
)
def test_a_call_at_once_says_where_its_results_lie(
    function: Any, arguments: tuple[Any, ...], places: list[str], most: float
) -> None:
    kernel = wf.kernel(function)
    given = [a.copy() if isinstance(a, np.ndarray) else a for a in arguments]
    limit = int(max(most, 0.5) * 2**20)
    with wf.config(memory_limit=limit):  # where boxes would have no room
        told = wf.explain(kernel, *given)
        assert isinstance(told.plan, AtOnce)
        assert told.peak_bytes <= limit
        for place in places:
            assert place in str(told)
        assert told.kernels
        assert all(given[k] is a or np.array_equal(given[k], a) for k, a in enumerate(arguments))
        kernel(*given)
    expected = [a.copy() if isinstance(a, np.ndarray) else a for a in arguments]
    function(*expected)
    for ours, theirs in zip(given, expected, strict=True):
        np.testing.assert_allclose(ours, theirs)


def test_boxes_compute_results_in_the_arrays_that_are_given_for_them() -> None:
    a, y = np.tile(X, (4, 1)), np.zeros((4000, 1000))  # 30.5 MiB; 24 MiB are for the program
    kernel = wf.kernel(sums)
    with wf.config(memory_limit="30 MiB"):
        told = str(wf.explain(kernel, y, a))
        assert "boxes of" in told
        assert "to memory, computed in place" in told
        kernel(y, a)
        np.testing.assert_allclose(y, np.sort(a, axis=0)[::-1] - a.mean(axis=0))
        told = str(wf.explain(kernel, a, a))  # what is read to the end is not written before
        assert "to a scratch file, and then to its place" in told
        kernel(a, a)
        np.testing.assert_array_equal(a, y)


def test_a_result_may_be_for_an_array_in_another_order() -> None:
    y = np.zeros((1000, 4000)).T
    with wf.config(memory_limit="30 MiB"):
        wf.kernel(sums)(y, np.tile(X, (4, 1)))
    np.testing.assert_allclose(y, np.sort(np.tile(X, (4, 1)), axis=0)[::-1] - X.mean(axis=0))
