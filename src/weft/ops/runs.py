"""Sorting what does not fit: runs that do are sorted, and any part of the result merged from them.

    let r = call sort_runs(x, run = R)         each R elements of a row in order
    let s = call merge_runs(r, at, run = R)    the elements from rank `at` on, as many as asked for

Where a part of the result lies in each run is found by halving what is left of all runs: the
weighted median of their middles is before or behind the rank, and with it a quarter of what is
left, at least. So each part is made by itself, from one piece of each run that is read in order.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from weft.ops.dtypes import DType

NDArray = npt.NDArray[Any]

RUNS = ("sort_runs", "argsort_runs")
MERGES = ("merge_runs", "merge_order")


def order_shows(array: NDArray) -> bool:
    """Whether equal elements can be told apart: zeros of two signs, complex numbers."""
    if array.dtype.kind == "f":
        return bool(np.any(np.signbit(array) & (array == 0)))
    return array.dtype.kind == "c"


def _starts(length: int, run: int) -> list[int]:
    return [*range(0, length, run), length]


def _sort_runs(array: NDArray, *, run: int, out: tuple[NDArray, ...]) -> None:
    out[0][...] = array
    for start, stop in pairwise(_starts(array.shape[-1], run)):
        part = out[0][..., start:stop]
        part.sort(axis=-1, kind="stable" if order_shows(part) else None)


def _argsort_runs(
    array: NDArray, *, run: int, descending: bool, out: tuple[NDArray, ...]
) -> None:
    """The order of each run, counted from its first element; descending: the last of equals first.

    (They are read from the end then.)
    """
    for start, stop in pairwise(_starts(array.shape[-1], run)):
        part, to = array[..., start:stop], out[0][..., start:stop]
        if descending:
            np.subtract(stop - start - 1, np.argsort(part[..., ::-1], kind="stable"), out=to)
        else:
            to[...] = np.argsort(part, kind="stable")


def split(runs: Sequence[NDArray], rank: int) -> list[int]:
    """How many of the least `rank` elements each sorted run has; of equals, those of earlier runs.

    NaN counts as the largest.
    """
    low, high = [0] * len(runs), [len(run) for run in runs]
    while sum(low) < rank < sum(high):
        left = [number for number in range(len(runs)) if low[number] < high[number]]
        middles = [(low[number] + high[number]) // 2 for number in left]
        values = np.array([runs[n][middle] for n, middle in zip(left, middles, strict=True)])
        order = np.argsort(values, kind="stable")
        weights = np.cumsum([high[left[k]] - low[left[k]] for k in order])
        chosen = order[np.searchsorted(weights, (weights[-1] + 1) // 2)]
        at, value = left[chosen], values[chosen]
        before = list(low)
        for number in left:
            rest = runs[number][low[number] : high[number]]
            before[number] += int(np.searchsorted(rest, value, "right" if number < at else "left"))
        before[at] = middles[chosen]
        if sum(before) >= rank:
            high = before
        else:
            low = before
            low[at] += 1
    return low if sum(low) == rank else high


Pieces = list[tuple[int, int, int]]
"""Of each run that has some: where it begins in its row, and which of its elements they are."""


def _pieces(row: NDArray, run: int, ranks: tuple[int, int], backwards: bool) -> Pieces:
    bounds = list(pairwise(_starts(len(row), run)))
    if backwards:
        bounds.reverse()
    runs = [row[start:stop] for start, stop in bounds]
    first, last = (split(runs, rank) for rank in ranks)
    return [
        (start, start + low, start + high)
        for (start, _), low, high in zip(bounds, first, last, strict=True)
        if low < high
    ]


def _each_row(
    values: NDArray, at: NDArray, descending: bool, out: NDArray,
    fill: Callable[[tuple[int, ...], NDArray, tuple[int, int]], None],
) -> None:  # fmt: skip
    """Call `fill` with each row's index, the row as it goes up, and the ranks of its elements."""
    length, count, first = values.shape[-1], out.shape[-1], int(at)
    if descending:
        first = length - first - count
    for index in np.ndindex(values.shape[:-1]):
        fill(index, out[index][::-1] if descending else out[index], (first, first + count))


def _merge_runs(
    values: NDArray, at: NDArray, *, run: int, descending: bool, out: tuple[NDArray, ...]
) -> None:
    def fill(index: tuple[int, ...], to: NDArray, ranks: tuple[int, int]) -> None:
        row, filled = values[index], 0
        for _, start, stop in _pieces(row, run, ranks, False):
            to[filled : filled + stop - start] = row[start:stop]
            filled += stop - start
        to.sort(kind="stable" if order_shows(to) else None)

    _each_row(values, at, descending, out[0], fill)


def _merge_order(
    values: NDArray, order: NDArray, at: NDArray, *, run: int, descending: bool,
    out: tuple[NDArray, ...],
) -> None:  # fmt: skip
    def fill(index: tuple[int, ...], to: NDArray, ranks: tuple[int, int]) -> None:
        row, places = values[index], np.empty(len(to), np.int64)
        keys, filled = np.empty(len(to), values.dtype), 0
        for begin, start, stop in _pieces(row, run, ranks, descending):
            part = slice(filled, filled + stop - start)
            keys[part] = row[start:stop]
            np.add(order[index][start:stop], begin, out=places[part])
            filled = part.stop
        to[...] = places[np.argsort(keys, kind="stable")]

    _each_row(values, at, descending, out[0], fill)


def _as_given(arguments: Any, options: Any) -> Any:
    return arguments


def _places(arguments: Any, options: Any) -> Any:
    return ((DType.I64, arguments[0][1]),)


def _part(arguments: Any, options: Any) -> Any:
    """A result of the type of the array before `at`, as long as the call says."""
    dtype, shape = arguments[-2]
    return ((dtype, (*shape[:-1], *options["extents"])),)


_WAY = {"run": 1, "descending": False}

SORTING_IN_RUNS: dict[str, tuple[Any, Any, Any, tuple[int, int]]] = {
    "sort_runs": (_as_given, _sort_runs, {"run": 1}, (0, 1)),
    "argsort_runs": (_places, _argsort_runs, _WAY, (0, 2)),
    "merge_runs": (_part, _merge_runs, _WAY, (0, 2)),  # a copy of what is turned around, and work
    "merge_order": (_part, _merge_order, _WAY, (0, 5)),  # keys, places, their order, and work
}
"""The rule for types, what does it, options, and what it makes besides, as a routine has them."""
