"""Library calls whose rows several threads do."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

import weft as wf
from weft.errors import LinearAlgebraError
from weft.launch import shared_calls
from weft.launch.host import call_library
from weft.launch.shared_calls import Share, shares
from weft.ops.routines import routine

RNG = np.random.default_rng(31)
MATRICES = RNG.random((131, 3, 3)) + 3 * np.eye(3)

CALLS: list[tuple[str, Sequence[np.ndarray], dict[str, Any], int]] = [
    # and into how many shares three threads cut it
    ("sort", [RNG.random((7, 50))], {"axis": -1, "descending": True}, 3),
    ("sort", [RNG.random((50, 7))], {"axis": 0}, 3),
    ("sort", [RNG.random((2, 40))], {"axis": 1}, 2),
    ("sort", [RNG.random(40)], {}, 1),
    ("argsort", [RNG.integers(0, 3, (5, 4, 9))], {"axis": 1, "descending": True}, 3),
    ("partition", [RNG.random((8, 30)), np.array([3, 17])], {}, 3),
    ("searchsorted", [np.sort(RNG.random(20)), RNG.random((11, 2))], {"side": "right"}, 3),
    ("fft", [RNG.random((7, 16)) + 0j], {"norm": "ortho"}, 3),
    ("rfft", [RNG.random((7, 3, 15))], {}, 3),
    ("det", [MATRICES], {}, 3),
    ("slogdet", [MATRICES], {}, 3),
    ("eigh", [MATRICES + MATRICES.swapaxes(-1, -2)], {}, 3),
    ("solve", [MATRICES, RNG.random((131, 3, 2))], {}, 3),
    ("solve", [MATRICES, RNG.random((3, 2))], {}, 1),
    ("inv", [MATRICES[:5]], {}, 1),  # few
    ("matmul", [MATRICES, MATRICES], {}, 1),
]


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shared_calls, "_LEAST", 1)


def extents(name: str, array: np.ndarray) -> tuple[int, ...]:
    return {"fft": (array.shape[-1],), "rfft": (array.shape[-1] // 2 + 1,)}.get(name, ())


@pytest.mark.parametrize(("name", "arguments", "options", "count"), CALLS)
def test_shares_give_what_one_call_gives(
    name: str, arguments: Sequence[np.ndarray], options: dict[str, Any], count: int
) -> None:
    called = routine(name)
    expected = called.run(*arguments, extents=extents(name, arguments[0]), **options)
    out = tuple(np.empty_like(array) for array in expected)
    options = {**called.defaults, **options}
    assert len(shares(called, arguments, out, options, 3)) == count
    call_library(called, arguments, out, options, None, 3)
    for one, other in zip(out, expected, strict=True):
        assert one.tobytes() == other.tobytes()


@pytest.mark.parametrize("name", ["merge_runs", "merge_order"])
@pytest.mark.parametrize("descending", [False, True])
def test_what_is_merged_is_shared_by_ranks(name: str, descending: bool) -> None:
    x = RNG.integers(0, 9, 40).astype("f8")
    way = {"run": 16}
    (runs,) = routine("sort_runs").run(x, **way)
    (order,) = routine("argsort_runs").run(x, **way, descending=descending)
    arguments = [runs] if name == "merge_runs" else [runs, order]
    arguments.append(np.asarray(5))
    options = {**way, "descending": descending}
    (expected,) = routine(name).run(*arguments, extents=(30,), **options)
    out = (np.empty_like(expected),)
    assert len(shares(routine(name), arguments, out, options, 4)) == 4
    call_library(routine(name), arguments, out, options, None, 4)
    np.testing.assert_array_equal(out[0], expected)


def test_the_error_of_a_share_is_that_of_the_call() -> None:
    singular = MATRICES.copy()
    singular[-1] = 0
    with wf.config(threads=3), pytest.raises(LinearAlgebraError, match="singular"):
        wf.linalg.inv(wf.asarray(singular)).numpy()


def test_small_calls_are_made_by_one_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    x = RNG.random((10, 10))
    whole = shares(routine("sort"), [x], (x,), {"axis": -1}, 8)
    assert [share.arguments for share in whole] == [[x]]


def test_all_shares_end_before_the_first_failure_is_raised() -> None:
    ended, last = [], threading.Event()

    def call(share: Share) -> None:
        number = int(share.arguments[0])
        if number == 2:
            last.set()
        else:
            assert last.wait(20)
        ended.append(number)
        if number < 2:
            raise ValueError(number)

    with pytest.raises(ValueError, match="0"):
        shared_calls.run([Share([np.asarray(k)], ()) for k in range(3)], call)
    assert sorted(ended) == [0, 1, 2]
