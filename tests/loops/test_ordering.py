"""Sorting, searching and quantiles within loops, where no library routine is called."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from devices.harness import device
from loops.agree import agrees
from slow import some_slow

import weft as wf
from weft.functions import exchanges

RANDOM = np.random.default_rng(9)
DTYPES = [np.float64, np.float32, np.int64, np.uint8, np.bool_]


@pytest.fixture(params=["interpreted", "compiled", "boxes", "device"])
def way(request: pytest.FixtureRequest) -> Iterator[None]:
    """The meaning, in core, streamed, and on a device."""
    settings: dict[str, Any] = {
        "interpreted": {"interpret_below": 1 << 30},
        "compiled": {"interpret_below": 0},
        "boxes": {"memory_limit": "16 MiB", "interpret_below": 0},
        "device": {"devices": [device().name]},
    }[request.param]
    with wf.config(**settings):
        yield


def numbers(dtype: Any, shape: tuple[int, ...]) -> Any:
    """Many equal ones, zeros of two signs, infinite ones and NaN."""
    found = RANDOM.integers(0, 9, shape).astype(dtype)
    if found.dtype.kind == "f":
        for value in (np.nan, np.inf, -np.inf, -0.0, 0.0):
            found[RANDOM.random(shape) < 0.08] = value
    return found


def sort_rows(x: Any) -> None:
    for i in range(x.shape[0]):
        x[i].sort()


def sort_columns(x: Any) -> None:
    for j in wf.prange(x.shape[1]):
        x[::-1, j] = np.sort(x[:, j])


def sort_windows(x: Any) -> Any:
    found = np.zeros((x.shape[0], 7), x.dtype)
    for i in range(x.shape[0]):
        found[i] = np.sort(x[i, 1:8])
    return found


def places_of_rows(x: Any) -> Any:
    found = np.zeros(x.shape, np.int64)
    for i in range(x.shape[0]):
        found[i] = np.argsort(x[i], kind="stable")
        found[i, :5] += np.argsort(x[i, :5], stable=True)
    return found


def smallest(x: Any, k: int) -> Any:
    found = np.zeros((x.shape[0], k), x.dtype)
    for i in range(x.shape[0]):
        found[i] = np.sort(np.partition(x[i], k)[:k])
    return found


ORDERED = [
    *(("compiled", dtype) for dtype in DTYPES), ("interpreted", np.float64),
    ("interpreted", np.uint8), ("boxes", np.float32), ("device", np.float32), ("device", np.int64),
]  # fmt: skip


@pytest.mark.usefixtures("way")
@pytest.mark.parametrize(
    ("way", "dtype"),
    some_slow(
        ORDERED, [("compiled", np.float32), ("compiled", np.int64), ("interpreted", np.uint8),
                  ("device", np.int64)], several=True,
    ),
    indirect=["way"],
)  # fmt: skip
def test_rows_and_windows_in_order(dtype: Any) -> None:
    x = numbers(dtype, (6, 21))
    for function in (sort_rows, sort_columns, sort_windows, places_of_rows):
        agrees(function, x)
    agrees(smallest, x, 4)


@pytest.mark.parametrize("length", some_slow([1, 2, 3, 5, 8, 16, 17, 100], [3, 8, 16]))
def test_equal_elements_keep_their_order(length: int) -> None:
    x = np.where(RANDOM.random((3, length)) < 0.5, 0.0, -0.0)
    x[:, ::3] = 1.0
    expected = np.sort(x, axis=1, kind="stable")
    inside = wf.map(wf.sort, x).numpy()
    np.testing.assert_array_equal(np.signbit(inside), np.signbit(expected))
    sort_rows_of = wf.kernel(sort_rows)
    sort_rows_of(x)
    np.testing.assert_array_equal(np.signbit(x), np.signbit(expected))


def test_descending_order_within_a_map() -> None:
    x = numbers(np.float64, (4, 30))
    for function in (wf.sort, wf.argsort):
        for part in (x, x[:, :5]):
            expected = function(part, axis=1, descending=True).numpy()
            inside = wf.map(lambda row: function(row, descending=True), part).numpy()  # noqa: B023
            np.testing.assert_array_equal(inside, expected)


@pytest.mark.parametrize("descending", [False, True])
def test_what_comes_last_anyway_is_kept_where_runs_are_filled_up(descending: bool) -> None:
    many = RANDOM.random((3, 83)) < 0.4
    last = RANDOM.random((3, 83)) < 0.4
    for dtype, low, high in ((float, -np.inf, np.nan), ("u1", 0, 255), (bool, False, True)):
        x = np.where(many, low, np.where(last, high, 1)).astype(dtype)
        for length in (17, 24, 64, 83):
            expected = wf.argsort(x[:, :length], axis=1, descending=descending).numpy()
            found = wf.map(lambda row: wf.argsort(row, descending=descending), x[:, :length])
            np.testing.assert_array_equal(found.numpy(), expected)


@pytest.mark.parametrize("length", [2, 3, 5, 8, 9, 11, 25, 49])
def test_networks_sort_zeros_and_ones(length: int) -> None:
    """And so all that is ordered (Knuth, volume 3, theorem 5.3.4 Z)."""
    every = np.arange(1 << length)[:, None] >> np.arange(length) if length < 12 else (
        RANDOM.random((3000, length)) < RANDOM.random((3000, 1))
    )  # fmt: skip
    for network in (exchanges.merges, exchanges.neighbours):
        x = every & 1
        for i, j in network(length):
            x[:, i], x[:, j] = np.minimum(x[:, i], x[:, j]), np.maximum(x[:, i], x[:, j])
        assert (x[:, 1:] >= x[:, :-1]).all()


def median_of_9(image: Any) -> Any:
    found = np.zeros_like(image)
    for i in wf.prange(1, image.shape[0] - 1):
        for j in range(1, image.shape[1] - 1):
            found[i, j] = np.median(image[i - 1 : i + 2, j - 1 : j + 2])
    return found


def median_of_windows(image: Any, reach: int) -> Any:
    found = np.zeros(image.shape)
    for i in wf.prange(reach, image.shape[0] - reach):
        for j in range(reach, image.shape[1] - reach):
            window = image[i - reach : i + reach + 1, j - reach : j + reach + 1]
            found[i, j] = np.median(window)
    return found


def rolling(x: Any, length: int) -> Any:
    found = np.zeros((x.shape[0] - length + 1, 5), x.dtype)
    for i in range(found.shape[0]):
        found[i, 0] = np.quantile(x[i : i + length], 0.3)
        found[i, 1:3] = np.percentile(x[i : i + length], np.array([0.0, 90.0]))
        found[i, 3] = np.median(x[i : i + length])
        found[i, 4] = np.quantile(x[i : i + 4], 0.75)
    return found


def along_axes(x: Any) -> Any:
    found = np.zeros((x.shape[0], x.shape[2]))
    for i in range(x.shape[0]):
        found[i] = np.median(x[i], axis=0)
    return found


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.usefixtures("way")
def test_medians_of_windows() -> None:
    for dtype in (np.float32, np.int32):
        agrees(median_of_9, numbers(dtype, (6, 5)))
    for reach in (1, 3):
        agrees(median_of_windows, numbers(np.float64, (8, 7)), reach)
    for length in (8, 31):
        agrees(along_axes, numbers(np.float64, (2, length, 4)))


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.usefixtures("way")
def test_quantiles_of_windows() -> None:
    for length in (4, 26):
        x = RANDOM.standard_normal(28) * 10.0 ** RANDOM.integers(-300, 300, 28)
        agrees(rolling, x, length)
    x = numbers(np.float64, (28,))
    x = np.where(np.isinf(x), 2.0, x)  # between which NumPy finds NaN
    agrees(rolling, x, 6)
    agrees(rolling, x, 26)


def test_one_kernel_for_windows_of_every_size() -> None:
    """Short ones are parts of programs of their own, whichever is called first."""
    image = numbers(np.float64, (20, 18))
    kernel = wf.kernel(median_of_windows)
    for reach in (3, 1, 0, 2, 1, 4):
        with np.errstate(all="ignore"):
            np.testing.assert_array_equal(kernel(image, reach), median_of_windows(image, reach))


def parts(values: Any, first: Any) -> Any:
    found = np.zeros(first.shape[0] - 1)
    for i in range(first.shape[0] - 1):
        found[i] = np.median(values[first[i] : first[i + 1]])
        values[first[i] : first[i + 1]].sort()
    return found


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_parts_of_lengths_that_data_decide() -> None:
    agrees(parts, RANDOM.random(50), np.array([0, 3, 3, 10, 11, 30, 50]))


def test_order_in_branches_and_conditional_loops() -> None:
    def branch(x: Any) -> Any:
        return np.sort(x) if x[0] > 0.5 else np.sort(x)[::-1]

    def settle(x: Any) -> Any:
        while x[0] < 0.9:
            x = np.sort(x)
            x[:2] += 0.3
        return x

    for x in (RANDOM.random(30), RANDOM.random(30), np.ones(20), np.zeros(20)):
        agrees(branch, x)
        agrees(settle, x)


def search(ordered: Any, values: Any) -> Any:
    found = np.zeros((values.shape[0], 4), np.int64)
    for i in range(values.shape[0]):
        found[i, 0] = np.searchsorted(ordered, values[i])
        found[i, 1] = np.searchsorted(ordered, values[i], side="right")
        found[i, 2:] = np.searchsorted(ordered[1:-1], values[i] + np.arange(2))
    return found


def search_rows(ordered: Any, values: Any) -> Any:
    found = np.zeros(values.shape)
    for i in range(values.shape[0]):
        places = np.searchsorted(ordered[i], values[i], side="right")
        found[i] = ordered[i, np.minimum(places, ordered.shape[1] - 1)]
        found[i] += np.interp(values[i], np.arange(ordered.shape[1]), ordered[i])
    return found


@pytest.mark.usefixtures("way")
def test_places_in_what_is_ordered() -> None:
    for dtype in (np.float64, np.int32):
        agrees(search, np.sort(numbers(dtype, (40,))), numbers(dtype, (30,)))
    agrees(search, np.arange(8), np.array([2.5, -1.0, 7.0, 9.0]))
    agrees(search_rows, np.sort(RANDOM.random((4, 12)), axis=1), RANDOM.random((4, 3)))


def test_what_is_not_ordered_within_loops() -> None:
    def of_complex(x: Any) -> None:
        for i in range(x.shape[0]):
            x[i].sort()

    with pytest.raises(wf.errors.DTypeError, match="complex"):
        wf.kernel(of_complex)(np.ones((3, 4), complex))


def test_medians_of_what_a_mask_selects() -> None:
    def medians(x: Any) -> Any:
        found = np.zeros((x.shape[0], 2))
        for i in range(x.shape[0]):
            row = x[i]
            found[i, 0] = np.median(row[~np.isnan(row)])
            found[i, 1] = np.median(row[row > 2])
        return found

    def whole(x: Any) -> Any:
        return np.median(x[x > 3])

    for dtype, shape in ((np.float64, (4, 30)), (np.float32, (2, 1)), (np.int32, (4, 9))):
        x = numbers(dtype, shape)
        with np.errstate(all="ignore"), warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)  # NumPy's, of nothing
            agrees(medians, x)
            agrees(whole, x)


def test_what_is_distinct_is_counted_and_reduced() -> None:
    def counted(x: Any) -> Any:
        found = np.zeros((x.shape[0], 3))
        for i in range(x.shape[0]):
            once = np.unique(x[i])
            found[i, 0] = once.size
            found[i, 1] = len(once) + np.median(once)
            found[i, 2] = once.sum() + np.mean(once * 0.5)
        return found, np.unique(x).size

    for dtype, shape in ((np.float64, (3, 20)), (np.int16, (4, 9))):
        x = numbers(dtype, shape)
        x[x == -np.inf] = 0
        with np.errstate(all="ignore"):
            agrees(counted, x)
