"""Collections of garbage, while a program is compiled."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import numpy as np
import pytest

import weft as wf
from weft.runtime.garbage import few_collections


@pytest.fixture(autouse=True)
def thresholds() -> Iterator[tuple[int, int, int]]:
    before = gc.get_threshold()
    gc.set_threshold(500, 10, 10)
    yield before
    gc.set_threshold(*before)


def test_python_looks_less_often_inside() -> None:
    before = gc.get_threshold()
    with few_collections():
        during = gc.get_threshold()
        with few_collections():  # as another thread, which compiles too
            assert gc.get_threshold() == during
        assert gc.get_threshold() == during
    assert during[0] > before[0]
    assert during[1:] == before[1:]
    assert gc.get_threshold() == before


@pytest.mark.parametrize("own", [0, 1 << 20])
def test_who_never_looks_or_seldom_does_not_look_more_often(own: int) -> None:
    gc.set_threshold(own, 10, 10)
    with few_collections():
        assert gc.get_threshold() == (own, 10, 10)
    assert gc.get_threshold() == (own, 10, 10)


def test_what_others_choose_meanwhile_stays() -> None:
    with few_collections():
        gc.set_threshold(300, 5, 5)
    assert gc.get_threshold() == (300, 5, 5)


def test_failures_end_it() -> None:
    with pytest.raises(ValueError, match="no"), few_collections():
        raise ValueError("no")
    assert gc.get_threshold()[0] == 500


def test_first_calls_look_less_often_and_later_code_as_often_as_before() -> None:
    seen = []

    @wf.jit
    def program(x):
        seen.append(gc.get_threshold()[0])
        return x + 1

    program(np.arange(3.0))
    assert seen[0] > 500
    assert gc.get_threshold()[0] == 500
