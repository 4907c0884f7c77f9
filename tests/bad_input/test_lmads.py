"""Updates at LMADs that leave the array, or meet an element twice."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import weft as wf
from weft.errors import ArgumentError, OutOfBoundsError

ELEMENTS = 200


@pytest.fixture(params=["interpreted", "compiled"], autouse=True)
def both_ways(request: pytest.FixtureRequest) -> Iterator[None]:
    with wf.config(interpret_below=0 if request.param == "compiled" else 10**9):
        yield


def known(x: Any, places: Any) -> Any:
    """Sizes that are known where the update is written."""
    return x.at_lmad(int(places[0]), [(20, int(places[1])), (3, int(places[2]))]).set(-1.0) + 0


def of_data(x: Any, places: Any) -> Any:
    """Sizes that are elements of an array."""
    return x.at_lmad(places[0], [(20, places[1]), (3, places[2])]).set(-1.0) + 0


def of_a_loop(x: Any, places: Any) -> Any:
    """Strides that only the last iteration makes what they are."""

    def step(k: Any, a: Any) -> Any:
        return a.at_lmad(places[0], [(20, places[1] + 2 - k), (3, places[2])]).set(-1.0)

    return wf.fori_loop(0, 3, step, x) + 0


FORMS: list[Callable[[Any, Any], Any]] = [known, of_data, of_a_loop]


def run(form: Callable[[Any, Any], Any], *places: int) -> Any:
    x, at = np.arange(float(ELEMENTS)), np.array(places)
    if form is known:
        return np.asarray(wf.jit(lambda x: known(x, places))(x))
    return np.asarray(wf.jit(form)(x, at))


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("places", [(0, 3, 1), (5, 7, 2), (199, -3, -1), (100, -2, 41), (0, 1, 20)])
def test_an_lmad_that_meets_no_element_twice_is_updated(
    form: Callable[[Any, Any], Any], places: tuple[int, int, int]
) -> None:
    offset, wide, narrow = places
    expected = np.arange(float(ELEMENTS))
    for last in (2, 1, 0) if form is of_a_loop else (0,):
        index = offset + (wide + last) * np.arange(20)[:, None] + narrow * np.arange(3)
        if len(np.unique(index)) < index.size:
            pytest.skip("an iteration before the last one is refused")
        expected[index] = -1
    np.testing.assert_array_equal(run(form, *places), expected)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(
    "places", [(0, 2, 1), (0, 0, 1), (40, 2, -2), (10, 1, 19), (150, -7, 14), (0, 3, 0)]
)
def test_an_lmad_that_meets_an_element_twice_is_refused(
    form: Callable[[Any, Any], Any], places: tuple[int, int, int]
) -> None:
    with pytest.raises(ArgumentError, match="twice, at the indices") as error:
        run(form, *places)
    assert "test_lmads.py" in str(error.value)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("places", [(0, 11, 1), (150, 3, 1), (-1, 3, 1), (40, -5, -1)])
def test_an_lmad_that_leaves_the_array_is_refused(
    form: Callable[[Any, Any], Any], places: tuple[int, int, int]
) -> None:
    with pytest.raises(OutOfBoundsError) as error:
        run(form, *places)
    assert "test_lmads.py" in str(error.value)


def test_the_refusal_names_the_element_and_both_indices() -> None:
    x = wf.asarray(np.arange(20.0))
    with pytest.raises(ArgumentError) as error:
        x.at_lmad(4, [(3, 2), (3, 1)]).set(0.0)
    assert "meets element 6 twice, at the indices [1, 0] and [0, 2]" in str(error.value)


def test_an_lmad_that_overlaps_itself_may_be_read() -> None:
    windows = wf.lmad(wf.asarray(np.arange(10.0)), 1, [(7, 1), (3, 1)])
    expected = np.lib.stride_tricks.sliding_window_view(np.arange(1.0, 10.0), 3)
    np.testing.assert_array_equal(windows.numpy(), expected)


def test_an_empty_lmad_updates_nothing() -> None:
    update = wf.jit(lambda x, n: x.at_lmad(50, [(n, 0), (3, 1000)]).set(0.0) + 0)
    x = np.arange(20.0)
    np.testing.assert_array_equal(np.asarray(update(x, 0)), x)
