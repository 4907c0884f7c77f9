"""Kernels on a device: the bytes that go there and come back, as the device counts them."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from devices.harness import device
from numpy.lib.stride_tricks import as_strided

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


def lower_triangle(a, c):
    for i in prange(c.shape[0]):
        for j in range(i + 1):
            c[i, j] = a[i, j] * 2.0


def upper_triangle(a, c):
    for i in prange(c.shape[0]):
        for j in range(i, c.shape[0]):
            c[i, j] = a[i, j] * 2.0


def strict_triangle(a, c):
    for i in prange(c.shape[0]):
        for j in range(i):
            c[i, j] += a[i, j]


def turned_triangle(a, c):
    """Of an array that is read by columns."""
    for i in prange(c.shape[0]):
        for j in range(i + 1):
            c[i, j] = a[j, i] + a[i, j]


def triangle_by_columns(a, c):
    for j in prange(c.shape[0]):
        for i in range(j, c.shape[0]):
            c[i, j] = a[i, j] * 2.0


def beside_the_antidiagonal(a, c):
    for i in prange(c.shape[0]):
        for j in range(c.shape[0] - i):
            c[i, j] = a[i, j] * 2.0


def parallelogram(a, c):
    for i in prange(c.shape[0]):
        for j in range(i, i + 3):
            c[i, j] = a[i, j] * 2.0


def steep(a, c):
    """Rows of 1, 2 and 3 to each from `i` on, in every second row."""
    for i in prange(c.shape[0] // 2):
        for j in range(i, 2 * i + 1):
            c[2 * i, j] = a[i, j] * 2.0


def scaled_triangle(a, x, c):
    for i in prange(c.shape[0]):
        for j in range(i + 1):
            c[i, j] = a[i, j] * x[0] + x[1]


def triangles(a, c):
    for b in prange(c.shape[0]):
        for i in prange(c.shape[1]):
            for j in range(i + 1):
                c[b, i, j] = a[b, i, j] * 2.0


def triangle_of_planes(a, c):
    """The other dimension is the last one."""
    for i in prange(c.shape[0]):
        for j in range(i + 1):
            for k in prange(c.shape[2]):
                c[i, j, k] = a[i, j, k] * 2.0


def two_triangles(a, c, d):
    for i in prange(c.shape[0]):
        for j in range(i + 1):
            c[i, j] = a[i, j] * 2.0
            d[i, j] = a[i, j] + 1.0


def inner_triangle(a, c):
    for i in prange(1, c.shape[0] - 1):
        for j in range(i):
            c[i, j] = a[i - 1, j + 1] * 2.0


def below_a_condition(a, c):
    for i in prange(c.shape[0]):
        for j in prange(c.shape[1]):
            if j < i:
                c[i, j] = a[i, j] * 2.0


def strided_writes(a, c):
    for i in prange(c.shape[0] // 2):
        for j in prange(c.shape[1] // 3):
            c[2 * i, 3 * j] = a[i, j] * 2.0


def block_of_columns(a, c):
    for i in prange(c.shape[0]):
        for j in prange(5, 15):
            c[i, j] = a[i, j] * 2.0


def band(a, c):
    for i in prange(c.shape[0]):
        for j in range(max(0, i - 1), min(c.shape[1], i + 2)):
            c[i, j] = a[i, j] * 2.0


def sums_of_a_triangle(a, out):
    for i in prange(out.shape[0]):
        total = 0.0
        for j in range(i + 1):
            total += a[i, j]
        out[i] = total


def the_papers_overlap(a, out):
    for i in prange(8):
        for j in prange(4):
            out[i, j] = a[16 * i + 5 * j] + a[16 * i + 5 * j + 1]


def checkerboard(a, c):
    for i in prange(1, c.shape[0] - 1):
        for j in range(1 + i % 2, c.shape[1] - 1, 2):
            c[i, j] = a[i, j - 1] + a[i, j + 1]


def below_what_data_say(a, c):
    for i in prange(c.shape[0]):
        for j in prange(c.shape[1]):
            if a[i, j] > 0.0:
                c[i, j] = a[i, j] * 2.0


R = np.random.default_rng(5)
WIDE = R.normal(size=(64, 80))
LINE = R.normal(size=240)
SQUARE = R.normal(size=(48, 48))
BASE = R.normal(size=301)

CUBE = R.normal(size=(3, 11, 12))

# Of each: exactly the elements that it reads before it writes them go there, and exactly those
# that it writes come back.
EXACT: list[tuple[Callable[..., None], tuple[Any, ...]]] = [
    (every_third, (WIDE, np.zeros((64, 20)))),
    (pairs, (LINE, np.zeros(50))),
    (real_parts, (LINE, np.zeros(120))),
    (diagonal, (SQUARE, np.zeros(48))),
    (antidiagonal, (SQUARE, np.zeros(48))),
    (three_diagonals, (SQUARE, np.zeros(48))),
    (column_to_column, (SQUARE, SQUARE.copy())),
    (odd_from_even, (LINE, LINE.copy())),
    (backwards, (LINE, np.zeros(60))),
    (row_sums, (np.round(8 * WIDE), np.zeros(64))),  # which add up to the same in any order
    # Views of one buffer that overlap: together every element of it once.
    (two_views, (BASE[:300], BASE[1:], np.zeros(150))),
    # Strided views: their own elements alone.
    (real_parts, (np.repeat(LINE, 3)[::3], np.zeros(120))),
    (diagonal, (np.asfortranarray(SQUARE), np.zeros(48))),
    (diagonal, (SQUARE[::-1, ::2], np.zeros(24))),
    (every_third, (WIDE.astype(np.float32), np.zeros((64, 20), np.float32))),
    (strided_writes, (SQUARE, SQUARE.copy())),
    (block_of_columns, (SQUARE, SQUARE.copy())),
    (lower_triangle, (SQUARE, SQUARE.copy())),
    (lower_triangle, (SQUARE[:40, :40], SQUARE[:40, :40].copy())),
    (lower_triangle, (SQUARE[:9, :9], SQUARE[:9, :9].copy())),
    (lower_triangle, (SQUARE[::-2, ::2], np.asfortranarray(SQUARE)[4:28, 3:27])),
    (lower_triangle, (SQUARE.astype(np.float32), np.ones((48, 48), np.float32))),
    (upper_triangle, (SQUARE, SQUARE.copy())),
    (strict_triangle, (SQUARE, SQUARE.copy())),
    (triangle_by_columns, (SQUARE, SQUARE.copy())),
    (beside_the_antidiagonal, (SQUARE, SQUARE.copy())),
    (parallelogram, (SQUARE[:46], SQUARE[:46].copy())),
    (steep, (SQUARE, SQUARE.copy())),
    (scaled_triangle, (SQUARE, LINE[:2].copy(), SQUARE.copy())),
    (triangles, (CUBE[:, :, :11], CUBE[:, :, :11].copy())),
    (triangle_of_planes, (R.normal(size=(9, 9, 5)), np.zeros((9, 9, 5)))),
    (two_triangles, (SQUARE, SQUARE.copy(), np.zeros((48, 48)))),
    (inner_triangle, (SQUARE, SQUARE.copy())),
    (below_a_condition, (SQUARE, SQUARE.copy())),
]


def copies(arguments: tuple[Any, ...]) -> tuple[Any, ...]:
    """Arrays that lie in copies of their memory as these do in theirs."""
    memory: dict[int, Any] = {}
    found = []
    for array in arguments:
        owner = array if array.base is None else array.base
        new = memory.setdefault(id(owner), owner.ravel(order="K").copy())
        offset = array.__array_interface__["data"][0] - owner.__array_interface__["data"][0]
        found.append(as_strided(new[offset // array.itemsize :], array.shape, array.strides))
    return tuple(found)


# And where a box or interval is taken instead: how many elements more, there and back.
MORE: list[tuple[Callable[..., None], tuple[Any, ...], int, int]] = [
    (window, (WIDE, np.zeros((8, 9))), 4, 0),  # the corners around a five-point stencil
    # Two packed arrays, since condition 14 does not hold of both together.
    (the_papers_overlap, (LINE, np.zeros((8, 4))), 7, 0),
    # Of what is read inside of loops in kernels, the box.
    (sums_of_a_triangle, (np.round(8 * SQUARE), np.zeros(48)), 48 * 47 // 2, 0),
    # A band is no trapezoid: all of what is written comes back, and what it keeps went there.
    (band, (SQUARE, SQUARE.copy()), 2 * 48 * 48 - 142, 48 * 48 - 142),
    # Of every second element of a row, which rows begin with in turn, all rows.
    (checkerboard, (SQUARE, SQUARE.copy()), 2 * 48 * 48 - 1104, 46 * 48 - 1058),
    (below_what_data_say, (SQUARE, SQUARE.copy()), 48 * 48, int((SQUARE <= 0).sum())),
]


class Recorded:
    """An array whose elements are noted that are read before they are written, and written."""

    def __init__(self, array: Any) -> None:
        self.array = array
        self.shape = array.shape
        self.read: set[int] = set()
        self.written: set[int] = set()

    def _address(self, index: Any) -> int:
        index = index if isinstance(index, tuple) else (index,)
        start: int = self.array.__array_interface__["data"][0]
        assert all(0 <= i < extent for i, extent in zip(index, self.shape, strict=True))
        return start + sum(i * s for i, s in zip(index, self.array.strides, strict=True))

    def __getitem__(self, index: Any) -> Any:
        address = self._address(index)
        if address not in self.written:
            self.read.add(address)
        return self.array[index]

    def __setitem__(self, index: Any, value: Any) -> None:
        self.written.add(self._address(index))
        self.array[index] = value


def fewest(function: Callable[..., None], arguments: tuple[Any, ...]) -> tuple[int, int]:
    """The bytes that there are to transfer, there and back, by running the function."""
    recorded = [Recorded(argument) for argument in arguments]
    function(*recorded)
    size = arguments[0].itemsize
    there: set[int] = set().union(*(argument.read for argument in recorded))
    back: set[int] = set().union(*(argument.written for argument in recorded))
    return len(there) * size, len(back) * size


def moved(function: Callable[..., None], arguments: tuple[Any, ...]) -> tuple[int, int]:
    """The bytes that a device counts, there and back; the results are compared with the CPU's."""
    on = device()
    expected, kernel = copies(arguments), wf.kernel(function)
    with wf.config(devices="cpu"):
        kernel(*expected)
    with wf.config(devices=on.name):
        for _ in range(2):  # the second finds the transfer, and a slot without failures
            found = copies(arguments)
            before = copy.copy(on.statistics)
            kernel(*found)
            after = copy.copy(on.statistics)
            for wanted, array in zip(expected, found, strict=True):
                np.testing.assert_array_equal(array, wanted)
    return after.bytes_in - before.bytes_in, after.bytes_out - before.bytes_out


@pytest.mark.parametrize(
    ("function", "arguments"), EXACT,
    ids=[f"{number}-{case[0].__name__}" for number, case in enumerate(EXACT)],
)  # fmt: skip
def test_exactly_the_bytes_needed(
    function: Callable[..., None], arguments: tuple[Any, ...]
) -> None:
    there, back = moved(function, arguments)
    least_there, least_back = fewest(function, copies(arguments))
    assert there in (least_there, least_there + FAILURES)
    assert back in (least_back, least_back + FAILURES)


@pytest.mark.parametrize(
    ("function", "arguments", "there_too", "back_too"), MORE,
    ids=[case[0].__name__ for case in MORE],
)  # fmt: skip
def test_how_much_more_than_is_needed(
    function: Callable[..., None], arguments: tuple[Any, ...], there_too: int, back_too: int
) -> None:
    there, back = moved(function, arguments)
    least_there, least_back = fewest(function, copies(arguments))
    assert there - least_there in (8 * there_too, 8 * there_too + FAILURES)
    assert back - least_back in (8 * back_too, 8 * back_too + FAILURES)


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


def test_a_triangle_is_explained() -> None:
    with wf.config(devices=device().name):
        text = str(wf.explain(wf.kernel(lower_triangle), SQUARE, SQUARE.copy()))
    assert "1 accesses, trapezoid, 1176 float64, 9.2 KiB" in text
    assert "copies back 1176 elements of [0:48:1, 0:48:1] alone of an argument" in text


def test_an_index_outside_in_a_triangle_is_refused() -> None:
    with wf.config(devices=device().name), pytest.raises(wf.WeftError, match="axis 1"):
        wf.kernel(lower_triangle)(SQUARE[:, :40], SQUARE.copy())


def test_an_index_out_of_bounds_is_still_refused() -> None:
    """What leaves its axis, if not the array's memory, is refused as it is on the CPU."""
    on = device()
    with wf.config(devices=on.name), pytest.raises(wf.WeftError, match="leave axis 1 of"):
        wf.kernel(every_third)(WIDE, np.zeros((64, 28)))


@pytest.mark.parametrize(
    ("function", "elements"),
    [
        (lambda x: x[:, ::5] * 2.0, 64 * 16),
        (lambda x: wf.diagonal(x) * 2.0, 64),  # by indices that are computed, and are sizes
        (lambda x: wf.diagonal(x, offset=-3) * 2.0, 61),
    ],
)
def test_arrays_of_the_lazy_front_end(function: Callable[[Any], Any], elements: int) -> None:
    on = device()
    with wf.config(devices=on.name, interpret_below=0):
        before = on.statistics.bytes_in
        found = wf.jit(function)(WIDE)
        moved = on.statistics.bytes_in - before
    expected = np.asarray(function(wf.asarray(WIDE)))
    assert expected.size == elements
    np.testing.assert_array_equal(found, expected)
    assert moved <= elements * 8 + FAILURES


def test_what_data_look_up_goes_there_whole() -> None:
    on = device()
    where = np.arange(20) % 7
    with wf.config(devices=on.name, interpret_below=0):
        before = on.statistics.bytes_in
        found = wf.jit(lambda x, k: x[k, k] * 2.0)(WIDE, where)
        moved = on.statistics.bytes_in - before
    np.testing.assert_array_equal(found, WIDE[where, where] * 2.0)
    assert WIDE.nbytes <= moved <= WIDE.nbytes + where.nbytes + FAILURES


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
