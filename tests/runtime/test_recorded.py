"""Steps that are recorded as one call give what they give one by one."""

from __future__ import annotations

import sys
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from unittest import mock

import numpy as np
import pytest

import weft as wf
from weft.errors import OutOfBoundsError
from weft.launch import gram
from weft.launch.recorded import Recorded, record
from weft.launch.repeated import Repeated
from weft.runtime import blas

RANDOM = np.random.default_rng(11)
DIRECT = sys.modules["weft.launch.direct"]


class Spy:
    """What became of calls: recorded ones, and how they ended."""

    def __init__(self, monkeypatch: Any) -> None:
        self.made: list[Recorded | None] = []
        self.done: list[bool] = []
        call, repeat = Recorded.call, Repeated.call

        def recording(*arguments: Any) -> Recorded | None:
            self.made.append(record(*arguments))
            return self.made[-1]

        def calling(own: Recorded, *arguments: Any) -> Any:
            found = call(own, *arguments)
            self.done.append(found is not None)
            return found

        def repeating(own: Repeated, *arguments: Any) -> Any:
            found = repeat(own, *arguments)
            if found is not None:
                self.done.append(True)
            return found

        monkeypatch.setattr(Repeated, "call", repeating)
        monkeypatch.setattr(DIRECT, "record", recording)
        monkeypatch.setattr(Recorded, "call", calling)


@pytest.fixture
def spy(monkeypatch: Any) -> Spy:
    return Spy(monkeypatch)


def layer(x, w, b):
    return np.tanh(x @ w + b)


def two_layers(x, w, v):
    return np.maximum(np.maximum(x @ w, 0) @ v, 0) - 1


def centred_square(x):
    centred = x - x.mean(axis=0)
    return centred.T @ centred


def rank_update(a, c, alpha, beta):
    c[...] = alpha * (a @ a.T) + beta * c
    c += 1


def triangle(a, c, alpha):
    for i in wf.prange(c.shape[0]):
        for j in range(i + 1):
            for k in range(a.shape[1]):
                c[i, j] += alpha * a[i, k] * a[j, k]


def in_place(x, w):
    x *= 2
    x += (x.T @ w)[0, 0]
    return x[1:] @ w


def matrix(*shape: int, dtype: Any = np.float64) -> Any:
    return RANDOM.random(shape).astype(dtype)


PROGRAMS = {
    layer: lambda t: (matrix(40, 30, dtype=t), matrix(30, 50, dtype=t), matrix(50, dtype=t)),
    two_layers: lambda t: tuple(matrix(*s, dtype=t) for s in ((20, 30), (30, 40), (40, 10))),
    centred_square: lambda t: (matrix(33, 21, dtype=t),),
    rank_update: lambda t: (matrix(20, 7, dtype=t), matrix(20, 20, dtype=t), 1.5, 0.5),
    triangle: lambda t: (matrix(20, 7, dtype=t), matrix(20, 20, dtype=t), 1.5),
    in_place: lambda t: (matrix(20, 20, dtype=t), matrix(20, 20, dtype=t)),
}


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("few", [0, 2**60])
def test_programs(spy: Spy, monkeypatch: Any, program: Any, dtype: Any, few: int) -> None:
    monkeypatch.setattr(gram, "_FEW", few)
    kernel = wf.kernel(program)
    kept = []
    threads = blas.threads()
    for _ in range(4):
        given = PROGRAMS[program](dtype)
        other = tuple(a.copy() if isinstance(a, np.ndarray) else a for a in given)
        found, expected = kernel(*given), program(*other)
        for a, b in zip((found, *given), (expected, *other), strict=True):
            if b is not None:
                np.testing.assert_allclose(a, b, rtol=2e-4 if dtype == np.float32 else 1e-12)
        kept.append((found, expected))
    for found, expected in kept:  # no call has written what another one gave
        if expected is not None:
            np.testing.assert_allclose(found, expected, rtol=2e-4)
    if program is triangle and dtype == np.float32:
        assert spy.made == [None]  # its factor is a number that a step computes
    elif program in (centred_square, rank_update) and few:
        assert spy.made == [None]  # small ones are NumPy's
    else:
        assert spy.made[0] is not None
        assert spy.done == [True] * 3
    assert blas.threads() == threads


def test_arrays_of_functions(spy: Spy) -> None:
    function = wf.jit(lambda x, w: wf.exp(x @ w).reshape(-1))
    x, w = matrix(30, 20), matrix(20, 40)
    results = [function(x * k, w) for k in range(4)]
    for k, result in enumerate(results):
        np.testing.assert_allclose(result, np.exp((x * k) @ w).reshape(-1), rtol=1e-12)
    assert spy.done == [True, True, True]


def test_memory_is_used_again() -> None:
    """A value that nothing needs any more gives its memory to a later one of its size."""

    def chain(x, w):
        for _ in range(4):
            x = np.maximum(x @ w, 0.5)
        return x

    with mock.patch.object(DIRECT, "record", wraps=record) as made:
        kernel = wf.kernel(chain)
        x, w = matrix(24, 24), matrix(24, 24)
        found = [kernel(x, w) for _ in range(3)]
    np.testing.assert_allclose(found[-1], chain(x, w))
    recorded = record(*made.call_args.args)
    assert recorded is not None
    assert len(recorded._blocks) <= 2
    *others, limit = made.call_args.args
    assert limit > 24 * 24 * 8 * 2
    assert record(*others, 24 * 24 * 8) is None  # more than it may take


def test_factors_that_are_zero(spy: Spy) -> None:
    """The library takes 0 for what makes zeros even of NaN: NumPy does it then."""
    kernel = wf.kernel(triangle)
    a = np.full((20, 7), np.nan)
    for alpha in (1.0, 1.0, 0.0, 1.0):
        c = np.zeros((20, 20))
        kernel(a, c, alpha)
        assert np.isnan(np.tril(c)).sum() == 210
    assert spy.done == [True, False, True]


def test_errors_name_what_failed(spy: Spy) -> None:
    def picked(x, w, at):
        product = x @ w
        for i in wf.prange(product.shape[0]):
            product[i, 0] = w[at[i], 0]
        return product * 2

    kernel = wf.kernel(picked)
    x, w, at = matrix(20, 20), matrix(20, 20), np.arange(20)
    for _ in range(3):
        expected = x @ w
        expected[:, 0] = w[at, 0]
        np.testing.assert_allclose(kernel(x, w, at), expected * 2)
    at[7] = 20
    with pytest.raises(OutOfBoundsError, match=r"index 20 .*") as raised:
        kernel(x, w, at)
    assert "test_recorded" in str(raised.value)
    at[7] = 7
    np.testing.assert_allclose(kernel(x, w, at), expected * 2)
    assert spy.made[0] is not None
    assert len(spy.done) > 2


def test_a_profile_shows_each_step() -> None:
    kernel = wf.kernel(layer)
    given = PROGRAMS[layer](np.float64)
    for _ in range(2):
        kernel(*given)
    with wf.profile() as seen:
        kernel(*given)
    assert any("matmul" in str(event) for event in seen.events)


def test_calls_from_several_threads(spy: Spy) -> None:
    kernel = wf.kernel(two_layers)
    given = PROGRAMS[two_layers](np.float64)
    expected = [two_layers(given[0] * k, *given[1:]) for k in range(4)]
    for _ in range(2):
        kernel(*given)
    wrong: list[int] = []

    def call(k: int) -> None:
        for _ in range(50):
            if not np.allclose(kernel(given[0] * k, *given[1:]), expected[k]):
                wrong.append(k)

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(call, range(4)))
    assert not wrong
    assert len(spy.done) == 201


def test_other_library_routines_are_not_recorded(spy: Spy) -> None:
    function = wf.jit(lambda x: wf.sort(x @ x) * 2)
    x = matrix(20, 20)
    for _ in range(3):
        np.testing.assert_allclose(function(x), np.sort(x @ x) * 2)
    assert spy.made == [None]


def test_mapped_files_are_left_to_steps(spy: Spy, tmp_path: Any) -> None:
    """The library is not to be left by a jump where a file shrinks."""
    kernel = wf.kernel(layer)
    x, w, b = PROGRAMS[layer](np.float64)
    np.save(tmp_path / "x.npy", x)
    for _ in range(2):
        kernel(x, w, b)
    mapped = np.load(tmp_path / "x.npy", mmap_mode="r+")
    np.testing.assert_allclose(kernel(mapped, w, b), layer(x, w, b))
    assert spy.made[0] is not None
    assert not spy.done[1:] or spy.done[1:] == [False]
