"""Extremes of slices whose lengths only the run knows: at least one element, or NumPy's error."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import weft as wf
from weft.errors import ShapeError

X = np.random.default_rng(3).random(50)
STARTS = np.array([0, 3, 7, 20, 21, 50])
EMPTY = np.array([0, 3, 3, 20, 21, 50])


def of_segments(x: Any, starts: Any) -> Any:
    found = np.zeros(len(starts) - 1)
    for i in range(len(starts) - 1):
        found[i] = x[starts[i] : starts[i + 1]].max()
    return found


def of_several_kinds(x: Any, starts: Any) -> Any:
    total = 0.0
    for i in range(len(starts) - 1):
        part = x[starts[i] : starts[i + 1]]
        total += np.min(part) + part.argmax() + np.argmin(part) + np.nanmax(part)
    return total


def of_those_with_elements(x: Any, starts: Any) -> Any:
    found = -1.0
    for i in range(len(starts) - 1):
        if starts[i + 1] > starts[i]:
            found = max(found, np.max(x[starts[i] : starts[i + 1]]))
    return found


def side_by_side(x: Any, starts: Any) -> Any:
    found = np.zeros(len(starts) - 1)
    for i in wf.prange(len(starts) - 1):
        found[i] = np.max(x[starts[i] : starts[i + 1]])
    return found


@pytest.mark.parametrize(
    "function", [of_segments, of_several_kinds, of_those_with_elements, side_by_side]
)
def test_slices_with_elements(function: Any) -> None:
    kernel = wf.kernel(function)
    for _ in range(2):
        np.testing.assert_array_equal(kernel(X, STARTS), function(X, STARTS))
    np.testing.assert_array_equal(kernel(X, STARTS[:2]), function(X, STARTS[:2]))


@pytest.mark.parametrize("function", [of_segments, of_several_kinds, side_by_side])
def test_a_slice_without_elements(function: Any) -> None:
    with pytest.raises(ValueError, match="zero-size array to reduction operation") as numpys:
        function(X, EMPTY)
    with pytest.raises(ValueError, match="zero-size array to reduction operation") as found:
        wf.kernel(function)(X, EMPTY)
    assert str(found.value) == str(numpys.value)
    assert any("test_extremes.py" in note for note in found.value.__notes__)


def test_a_slice_that_is_not_asked_for() -> None:
    expected = of_those_with_elements(X, EMPTY)
    assert wf.kernel(of_those_with_elements)(X, EMPTY) == expected


def test_windows_that_a_loop_finds() -> None:
    def lowest(x: Any) -> Any:
        found = np.empty_like(x)
        for i in range(len(x)):
            first = i
            while first > 0 and x[first - 1] < x[i]:
                first -= 1
            found[i] = x[first : i + 1].min()
        return found

    np.testing.assert_array_equal(wf.kernel(lowest)(X), lowest(X))


@pytest.mark.parametrize(
    ("function", "what"),
    [(np.max, "the maximum"), (np.argmin, "argmax or argmin"), (np.nanmin, "the minimum")],
)
def test_what_is_known_to_have_no_elements_is_told_by_its_shape(function: Any, what: str) -> None:
    with pytest.raises(ShapeError, match=rf"{what} of no elements \(shape \(2, 0\)\)"):
        wf.jit(function)(np.zeros((2, 0)))
