"""Kernels on a device: the bytes that go there and come back, as the device counts them."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from devices.harness import device

import weft as wf
from weft import prange

FAILURES = 24  # bytes of the record of failures, which goes there once for a slot


def every_third(a, out):
    for i in prange(a.shape[0]):
        for j in prange(out.shape[1]):
            out[i, j] = a[i, 3 * j] * 2.0


def pairs(z, out):
    for i in prange(out.shape[0]):
        out[i] = z[2 * i] * z[2 * i] + z[2 * i + 1] * z[2 * i + 1]


def real_parts(z, out):
    for i in prange(out.shape[0]):
        out[i] = 0.5 * z[2 * i]


def diagonal(a, out):
    for i in prange(out.shape[0]):
        out[i] = a[i, i]


def antidiagonal(a, out):
    for i in prange(out.shape[0]):
        out[i] = a[i, out.shape[0] - 1 - i]


def three_diagonals(a, out):
    for i in prange(1, out.shape[0] - 1):
        out[i] = a[i, i - 1] + a[i, i] + a[i, i + 1]


def column_to_column(a, b):
    for i in prange(a.shape[0]):
        b[i, 4] = a[i, 2]


def odd_from_even(a, b):
    for i in prange(a.shape[0] // 2):
        b[2 * i + 1] = a[2 * i]


def window(a, out):
    """A five-point stencil on a part of a wide array."""
    for i in prange(out.shape[0]):
        for j in prange(out.shape[1]):
            out[i, j] = (
                a[i + 20, j + 30] + a[i + 19, j + 30] + a[i + 21, j + 30] + a[i + 20, j + 29]
                + a[i + 20, j + 31]
            )


def backwards(a, out):
    for i in prange(out.shape[0]):
        out[i] = a[a.shape[0] - 1 - 4 * i]


def two_views(a, b, out):
    for i in prange(out.shape[0]):
        out[i] = a[2 * i] + b[2 * i]


def row_sums(a, out):
    for i in prange(out.shape[0]):
        total = 0.0
        for j in range(a.shape[1] // 4):
            total += a[i, 4 * j]
        out[i] = total


R = np.random.default_rng(5)
WIDE = R.normal(size=(64, 80))
LINE = R.normal(size=240)
SQUARE = R.normal(size=(48, 48))
BASE = R.normal(size=301)

# function, arguments, bytes there, bytes back
EXACT: list[tuple[Callable[..., None], tuple[Any, ...], int, int]] = [
    (every_third, (WIDE, np.zeros((64, 20))), 64 * 20 * 8, 64 * 20 * 8),
    (pairs, (LINE, np.zeros(50)), 100 * 8, 50 * 8),
    (real_parts, (LINE, np.zeros(120)), 120 * 8, 120 * 8),
    (diagonal, (SQUARE, np.zeros(48)), 48 * 8, 48 * 8),
    (antidiagonal, (SQUARE, np.zeros(48)), 48 * 8, 48 * 8),
    (three_diagonals, (SQUARE, np.zeros(48)), 46 * 3 * 8, 46 * 8),
    (column_to_column, (SQUARE, SQUARE.copy()), 48 * 8, 48 * 8),
    (odd_from_even, (LINE, LINE.copy()), 120 * 8, 120 * 8),
    (window, (WIDE, np.zeros((8, 9))), 10 * 11 * 8, 8 * 9 * 8),
    (backwards, (LINE, np.zeros(60)), 60 * 8, 60 * 8),
    (row_sums, (WIDE, np.zeros(64)), 64 * 20 * 8, 64 * 8),
    # Views of one buffer that overlap: together every element of it once.
    (two_views, (BASE[:300], BASE[1:], np.zeros(150)), 300 * 8, 150 * 8),
    # Strided views: their own elements alone.
    (real_parts, (np.repeat(LINE, 3)[::3], np.zeros(120)), 120 * 8, 120 * 8),
    (diagonal, (np.asfortranarray(SQUARE), np.zeros(48)), 48 * 8, 48 * 8),
    (diagonal, (SQUARE[::-1, ::2], np.zeros(24)), 24 * 8, 24 * 8),
    (every_third, (WIDE.astype(np.float32), np.zeros((64, 20), np.float32)), 64 * 80, 64 * 80),
]


@pytest.mark.parametrize(
    ("function", "arguments", "there", "back"), EXACT,
    ids=[f"{number}-{case[0].__name__}" for number, case in enumerate(EXACT)],
)  # fmt: skip
def test_exactly_the_bytes_needed(
    function: Callable[..., None], arguments: tuple[Any, ...], there: int, back: int
) -> None:
    on = device()
    expected = copy.copy(arguments[-1])
    function(*arguments[:-1], expected)
    kernel = wf.kernel(function)
    with wf.config(devices=on.name):
        for _ in range(2):  # the second finds the transfer, and a slot without failures
            target = np.array(arguments[-1])
            before = copy.copy(on.statistics)
            kernel(*arguments[:-1], target)
            after = copy.copy(on.statistics)
            np.testing.assert_allclose(target, expected, rtol=1e-6)
    assert after.bytes_in - before.bytes_in in (there, there + FAILURES)
    assert after.bytes_out - before.bytes_out in (back, back + FAILURES)


def test_explained() -> None:
    on = device()
    target = SQUARE.copy()
    with wf.config(devices=on.name):
        text = str(wf.explain(wf.kernel(column_to_column), SQUARE, target))
        third = str(wf.explain(wf.kernel(every_third), WIDE, np.zeros((64, 20))))
    np.testing.assert_array_equal(target, SQUARE)  # nothing has run
    assert "1 accesses, one-dimensional, 48 float64, 384 B" in text
    assert "copies back [0:48:1, 4] alone of an argument" in text
    assert "multi-dimensional, 64 x 20 float64, 10.0 KiB" in third
    assert "instead of 40.0 KiB of whole arguments" in third


def test_an_index_out_of_bounds_is_still_refused() -> None:
    """What leaves its axis, if not the array's memory, is refused as it is on the CPU."""
    on = device()
    with wf.config(devices=on.name), pytest.raises(wf.WeftError, match="leave axis 1 of"):
        wf.kernel(every_third)(WIDE, np.zeros((64, 28)))


def test_arrays_of_the_lazy_front_end() -> None:
    on = device()
    with wf.config(devices=on.name, interpret_below=0):
        before = on.statistics.bytes_in
        found = wf.jit(lambda x: x[:, ::5] * 2.0)(WIDE)
        moved = on.statistics.bytes_in - before
    np.testing.assert_array_equal(found, WIDE[:, ::5] * 2.0)
    assert moved <= 64 * 16 * 8 + FAILURES


def at_index(y, p):
    y[p[0]] = 3.0


def row_at_index(y, p):
    y[p[0], 1:] = 3.0


def at_scalar(y, k):
    y[k] = 3.0


def at_maximum(a, b):
    b[np.argmax(a)] = 9.0


def from_index(y, p):
    y[p[0] : p[0] + 2] = y[0] + 1.0


def histogram(h, x):
    for i in range(x.shape[0]):
        h[x[i]] += 1.0


CHOSEN: list[tuple[Callable[..., None], tuple[Any, ...]]] = [
    (at_index, (np.zeros(4), np.array([1]))),
    (row_at_index, (np.zeros((4, 4)), np.array([2]))),
    (at_scalar, (np.zeros(4), np.array(1))),
    (at_maximum, (LINE.copy(), LINE.copy())),
    (from_index, (LINE.copy(), np.array([5]))),
    (histogram, (np.zeros(4), np.array([2]))),
]


@pytest.mark.parametrize(
    ("function", "arguments"), CHOSEN, ids=[case[0].__name__ for case in CHOSEN]
)
def test_a_part_that_data_choose(function: Callable[..., None], arguments: tuple[Any, ...]) -> None:
    expected, found = copy.deepcopy(arguments), copy.deepcopy(arguments)
    function(*expected)
    with wf.config(devices=device().name):
        wf.kernel(function)(*found)
    for wanted, array in zip(expected, found, strict=True):
        np.testing.assert_array_equal(array, wanted)
