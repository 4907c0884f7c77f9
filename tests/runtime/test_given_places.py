"""Results go straight to the arrays that are given for them, in whatever shape they are made."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import weft as wf
from weft.runtime.memory import Pool

X = np.random.default_rng(5).random((70, 300))


@pytest.fixture
def taken(monkeypatch: Any) -> list[tuple[int, ...]]:
    """The shapes of the arrays that calls took from memory."""
    shapes: list[tuple[int, ...]] = []
    empty = Pool.empty

    def emptied(own: Pool, shape: tuple[int, ...], dtype: Any) -> Any:
        shapes.append(shape)
        return empty(own, shape, dtype)

    monkeypatch.setattr(Pool, "empty", emptied)
    return shapes


def doubled(x, y):
    y[...] = 2 * x


def raised(x, y):
    y += x


def halves(x, y, z):
    y[...] = x / 2
    z[...] = x + 1


def agree(kernel: Any, arrays: list[Any], calls: int) -> None:
    """What a kernel leaves in its arguments is what plain Python does, in each call."""
    expected = [array.copy() for array in arrays]
    compiled = wf.kernel(kernel)
    for _ in range(calls):
        compiled(*arrays)
        kernel(*expected)
        for value, wanted in zip(arrays, expected, strict=True):
            np.testing.assert_array_equal(value, wanted)


@pytest.mark.parametrize("shape", [(70, 300), (7, 10, 300), (1, 70, 300), (21000,)])
@pytest.mark.parametrize("kernel", [doubled, raised, halves])
def test_kernels(kernel: Any, shape: tuple[int, ...], taken: list[Any]) -> None:
    arrays = [X.reshape(shape) * k for k in range(1, kernel.__code__.co_argcount + 1)]
    agree(kernel, arrays, 4)
    assert not taken


def mirrored(x, y):
    y[...] = y[::-1] + x


def folded(x, y):
    y[...] = np.reshape(y, (-1,))[::-1].reshape(y.shape) + x
    y += 1


def added_up(x, y):
    y[...] = y.cumsum().reshape(y.shape) + x


def greatest(x, y):
    most = 0.0
    for i in wf.prange(y.shape[0]):
        most = max(most, y[i])
        y[i] += x[i]
    return most


def test_what_is_read_first() -> None:
    """A sum of what was there, and what replaces it: under a limit that no copy would fit."""
    n = 4 << 20
    x, y = np.ones(n), np.arange(float(n))
    with wf.config(memory_limit="40 MiB"):
        for k in range(2):
            assert wf.kernel(greatest)(x, y) == n - 1 + k
    np.testing.assert_array_equal(y, np.arange(n) + 2.0)


@pytest.mark.parametrize("kernel", [mirrored, folded, added_up])
def test_what_is_read_at_other_places(kernel: Any) -> None:
    agree(kernel, [np.floor(100 * X), np.floor(X * 7)], 3)


@pytest.mark.parametrize("shape", [(70, 300), (7, 10, 300), (21000,)])
def test_out(shape: tuple[int, ...], taken: list[Any]) -> None:
    double = wf.jit(lambda x: 2 * x)
    x, out = X.reshape(shape), np.zeros(shape)
    for _ in range(3):
        out[...] = 0
        assert double(x, out=out) is out
        np.testing.assert_array_equal(out, 2 * x)
    assert not taken


def test_other_views_are_copied() -> None:
    turned = wf.jit(lambda x: (2 * x).T)
    out = np.zeros((300, 70))
    turned(X, out=out)
    np.testing.assert_array_equal(out, 2 * X.T)
    folded = wf.jit(lambda x: wf.reshape((2 * x).T, (-1,)))
    out = np.zeros(21000)
    folded(X, out=out)
    np.testing.assert_array_equal(out, 2 * X.T.ravel())


def test_two_shapes_of_one_result() -> None:
    def both(x: Any) -> Any:
        y = 2 * x
        return y, wf.reshape(y, (-1,))

    compiled = wf.jit(both)
    first, second = np.zeros((70, 300)), np.zeros(21000)
    for given in ((first, second), (None, second), (first, None)):
        first[...] = second[...] = 0
        one, other = compiled(X, out=given)
        np.testing.assert_array_equal(one, 2 * X)
        np.testing.assert_array_equal(other, 2 * X.ravel())
        assert not np.shares_memory(one, other)


def test_places_that_do_not_lie_row_by_row() -> None:
    double = wf.jit(lambda x: 2 * x)
    for out in (np.zeros((300, 70)).T, np.zeros((70, 600))[:, ::2], np.zeros((140, 300))[::2]):
        assert double(X, out=out) is out
        np.testing.assert_array_equal(out, 2 * X)


def test_places_that_are_read() -> None:
    """A result that goes where other elements are still to be read."""
    shifted = wf.jit(lambda x: x[::-1] + 1)
    x = X.copy()
    shifted(x, out=x)
    np.testing.assert_array_equal(x, X[::-1] + 1)
