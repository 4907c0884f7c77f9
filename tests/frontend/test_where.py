"""NumPy's `where=`, `initial=` and `out=` of reductions and ufuncs, and what masks select in traced
functions, beside NumPy's."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import weft as wf
from weft.errors import ShapeError, TracingError

X = np.random.default_rng(6).standard_normal((4, 6))
I = (X * 10).astype(np.int32)  # noqa: E741 - integers
N = np.where(X > 0.8, np.nan, X)


def moments(x: Any, i: Any, n: Any) -> Any:
    return (
        np.mean(x, axis=0, where=x > -1), np.std(x, axis=1, where=i < 5, ddof=1),
        np.var(i, where=x > 0, keepdims=True), np.mean(i, where=[True, False] * 3),
        x.mean(axis=-1, where=x > -1), x.std(where=x > 0), i.var(axis=0, ddof=1, where=i > -30),
        np.mean(n, where=~np.isnan(n)), np.var(n, axis=1, where=~np.isnan(n)),
        np.mean(x.astype(np.float32), axis=0, where=x > -1), np.var(x + 1j * i, where=x > 0),
    )  # fmt: skip


def methods(x: Any, i: Any, n: Any) -> Any:
    return (
        x.sum(axis=1, where=x > -1, initial=2.0), x.prod(where=x > 0, keepdims=True),
        x.max(axis=1, where=x < 0, initial=-9), x.min(initial=0.5), i.sum(axis=0, where=i > 0),
        x.any(axis=1, where=i > 9), x.all(where=x > 0),
    )  # fmt: skip


def selected(x: Any, i: Any, n: Any) -> Any:
    return (
        x[x < 0].max(), x[x > 0].min(), x[i > 3].argmax(), i[x > 0].argmin(), np.max(i[i < 7]),
        n[x > -1].max(), n[x > -1].argmin(), x[0][x[0] > 0].argmax(), np.argmax(x[x < -0.3]),
        (2 * x[x > 0] + 1).max(),
    )  # fmt: skip


@pytest.mark.parametrize("program", [moments, methods, selected])
def test_programs(program: Callable[..., Any]) -> None:
    expected = program(X, I, N)
    lazy = program(*map(wf.asarray, (X, I, N)))
    assert all(isinstance(one, wf.Array) for one in lazy)
    for found in (lazy, wf.jit(program)(X, I, N)):
        for one, other in zip(found, expected, strict=True):
            values = np.asarray(one)
            assert (values.dtype, values.shape) == (other.dtype, other.shape)
            np.testing.assert_allclose(values, other, rtol=1e-6, atol=1e-12)


def test_in_kernels() -> None:
    def found(x: Any, i: Any) -> Any:
        return (
            np.mean(x, axis=0, where=x > -1), x.std(axis=1, where=i < 5), x.sum(where=x > 0),
            x.max(axis=1, where=x < 0, initial=-9),
        )  # fmt: skip

    for one, other in zip(wf.kernel(found)(X, I), found(X, I), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-12)


def test_equal_least_elements_that_are_not_selected_are_not_found() -> None:
    x = np.array([-np.inf, 1.0, -np.inf, -np.inf])
    mask = np.array([False, False, True, True])
    assert wf.jit(lambda x, mask: x[mask].argmax())(x, mask) == 0


def test_nothing_selected_is_refused_where_values_are_known() -> None:
    x = wf.asarray(X)
    with pytest.raises(ShapeError):
        x[x > 100].max()


def test_results_in_arrays_of_numpy() -> None:
    x, held = wf.asarray(X), X > 0
    found, expected = np.zeros((4, 6)), np.zeros((4, 6))
    assert np.add(x, 1, out=found, where=wf.asarray(held)) is found
    np.add(X, 1, out=expected, where=held)
    np.testing.assert_array_equal(found, expected)
    sums = np.zeros(6)
    assert np.sum(x, axis=0, out=sums) is sums
    np.testing.assert_allclose(sums, X.sum(axis=0), rtol=1e-12)
    assert x.max(axis=0, out=sums) is sums
    np.testing.assert_array_equal(sums, X.max(axis=0))
    apart = np.negative(x, where=held)
    assert isinstance(apart, wf.Array)
    np.testing.assert_array_equal(apart.numpy()[held], -X[held])
    with pytest.raises(TypeError, match="no_such"):
        x.sum(no_such=1)
    with pytest.raises(TracingError):
        wf.jit(lambda x: np.add(x, 1, out=found))(X)


def test_strided_slices_of_one_element_are_repeated() -> None:
    """Their lengths are computed ones, found equal before they are found to be 1."""
    def chosen(x: Any, y: Any) -> Any:
        return np.where(x[1::3] > 1, x[0::2], y)

    x, y = np.array([3.0, 4.0]), np.arange(31.0)
    found = chosen(wf.asarray(x), wf.asarray(y))
    np.testing.assert_array_equal(found, chosen(x, y))
    np.testing.assert_array_equal(wf.jit(chosen)(x, y), chosen(x, y))
