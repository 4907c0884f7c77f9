"""Parts of arrays whose place only data tell: inside, or refused before anything is written."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import weft as wf
from weft.errors import OutOfBoundsError

A = np.arange(20.0).reshape(5, 4)
FLAT = np.arange(20.0)
V = np.arange(4.0)

Program = Callable[[Any, Any, Any], Any]

PARTS: dict[str, tuple[Program, Any]] = {
    "an element": (lambda a, v, k: a.at[k, 1].set(v[3]), A),
    "a row of zeros": (lambda a, v, k: a.at[k].set(0.0), A),
    "a row made in its place": (lambda a, v, k: (a + 1.0).at[k].set(v * 2.0), A),
    "a row that is joined": (lambda a, v, k: wf.concat([a[k], v]), A),
    "rounds": (
        lambda a, v, k: wf.fori_loop(0, 2, lambda t, x: x.at[k + t].set(v + x[0]), a[:4] * 1.0),
        A,
    ),
    "a branch": (lambda a, v, k: wf.cond(v[3] > 0, lambda: a.at[k].set(v), lambda: a + 1.0), A),
    "a view at an LMAD": (lambda a, v, k: wf.concat([wf.lmad(a, k, [(3, 5)]), v]), FLAT[:15]),
    "an update at an LMAD": (lambda a, v, k: a.at_lmad(k, [(4, 3)]).set(v * 2.0), FLAT[:14]),
}


@pytest.mark.parametrize("left_out", ["", "no-short-circuit"])
@pytest.mark.parametrize("name", PARTS)
def test_what_lies_outside_is_refused(name: str, left_out: str) -> None:
    function, a = PARTS[name]
    with wf.config(optimise=left_out):
        compiled = wf.jit(lambda a, v, k: function(a, v, k[0]))
        for k in (0, 2):
            wanted = wf.jit(lambda a, v, k=k: function(a, v, k))(a, V)
            np.testing.assert_array_equal(compiled(a, V, np.array([k])), wanted)
        for k in (5, 10**9, -30):
            with pytest.raises(OutOfBoundsError, match="outside axis 0"):
                compiled(a, V, np.array([k]))


def test_rounds_that_leave_the_array_are_refused_at_the_launch() -> None:
    counted = wf.jit(lambda x: wf.fori_loop(0, 12, lambda t, y: y.at[t].set(t * 1.0), x))
    np.testing.assert_array_equal(counted(np.zeros(12)), np.arange(12.0))
    with pytest.raises(OutOfBoundsError, match="0 to 11 leave axis 0"):
        counted(np.zeros(7))


def test_a_part_of_no_elements_may_begin_anywhere() -> None:
    def emptied(a: Any, k: Any) -> Any:
        return wf.fori_loop(0, 3, lambda t, x: x.at[k[0] + t : k[0] + t].set(7.0), a)

    np.testing.assert_array_equal(wf.jit(emptied)(V, np.array([90])), V)
