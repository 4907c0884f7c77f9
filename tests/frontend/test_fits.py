"""Polynomials, least squares, and quantiles that leave out NaN, beside NumPy's."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import weft as wf
from weft.errors import ArgumentError, ShapeError

RNG = np.random.default_rng(5)
V, W, WHOLE = RNG.standard_normal(9), RNG.random(9), np.arange(5)
X, Y = RNG.standard_normal((9, 4)), RNG.standard_normal((9, 3))
SQUARE = X[:4] @ X[:4].T + np.eye(4)

PROGRAMS: list[tuple[Callable[..., Any], tuple[Any, ...]]] = [
    (lambda v, w: np.polyfit(v, w, 0), (V, W)),
    (lambda v, y: np.polyfit(v, y, 3), (V, Y)),
    (lambda v, w, y: np.polyfit(v, w, 2, w=y), (V, W, np.abs(Y[:, 0]))),
    (lambda x, w: np.polyfit(x, w[:5], 1), (WHOLE, W)),
    (lambda v: (np.polyder(v), np.polyder(v, 2), np.polyint(v), np.polyint(v, 2, 3)), (V,)),
    (lambda x: (np.polyder(x), np.polyint(x), np.polyint(x, 0)), (WHOLE,)),
    (lambda v: (np.polyint(v, 2, [3.0]), np.polyint(v, 2, [3, 4])), (V,)),
    (lambda v, w: (np.polyadd(v, w[:4]), np.polysub(v[2:], w), np.polymul(v, w[:3])), (V, W)),
    (lambda v: (np.vander(v[:4]), np.vander(v, 3, increasing=True)), (V,)),
    (lambda x: np.vander(x, 3), (WHOLE.astype(np.int32),)),
    (lambda p, x: np.polyval(p, x), (V, X)),
    (lambda x, w: np.linalg.lstsq(x, w), (X, W)),
    (lambda x, y: np.linalg.lstsq(x, y), (X, Y)),
    (lambda x, y: np.linalg.lstsq(x.T, y[:4]), (X, Y)),
    (lambda x: np.linalg.svd(x, compute_uv=False), (X,)),
    (lambda x: np.linalg.cond(x), (X,)),
    *((lambda s, p=p: np.linalg.cond(s, p), (SQUARE,)) for p in (-2, 1, np.inf, "fro")),
]


def agree(found: Any, wanted: Any, tolerance: float = 1e-9) -> None:
    if isinstance(wanted, tuple):
        for one, other in zip(found, wanted, strict=True):
            agree(one, other)
        return
    assert (found.dtype, found.shape) == (np.asarray(wanted).dtype, np.shape(wanted))
    values = found.numpy() if isinstance(found, wf.Array) else found
    np.testing.assert_allclose(values, wanted, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("number", range(len(PROGRAMS)))
def test_programs(number: int) -> None:
    program, arguments = PROGRAMS[number]
    wanted = program(*arguments)
    agree(wf.jit(program)(*arguments), wanted)
    with wf.config(implicit_compute="raise"):
        found = program(*map(wf.asarray, arguments))
    agree(found, wanted)


@pytest.mark.parametrize("shape", [(7,), (4, 5), (3, 4, 5), (1, 3), (8, 1)])
@pytest.mark.parametrize("dtype", ["float32", "float64", "int64"])
@pytest.mark.filterwarnings("ignore:All-NaN slice")
def test_quantiles_without_nan(shape: tuple[int, ...], dtype: str) -> None:
    x = (5 * RNG.standard_normal(shape)).astype(dtype)
    if dtype != "int64":
        x[RNG.random(shape) < 0.3] = np.nan
        x[-1] = np.nan
    tolerance = 1e-5 if dtype == "float32" else 1e-9
    with wf.config(implicit_compute="raise"):
        for axis in (None, 0, tuple(range(len(shape)))):
            for q in (0.3, [0, 0.2, 0.99, 1]):
                found = np.nanquantile(wf.asarray(x), q, axis=axis, keepdims=True)
                wanted = np.nanquantile(x, q, axis=axis, keepdims=True)
                assert found.shape == wanted.shape
                np.testing.assert_allclose(found.numpy(), wanted, rtol=tolerance, atol=tolerance)
            agree(np.nanmedian(wf.asarray(x), axis=axis), np.nanmedian(x, axis=axis), tolerance)


def test_quantiles_without_nan_are_traced() -> None:
    x = np.where(X > 1, np.nan, X)
    traced = wf.jit(lambda x: (np.nanmedian(x, axis=0), np.nanpercentile(x, 20.0, axis=1)))
    agree(traced(x), (np.nanmedian(x, axis=0), np.nanpercentile(x, 20.0, axis=1)))
    empty = wf.asarray(np.zeros((3, 0)))
    assert np.isnan(np.nanmedian(empty, axis=1).numpy()).all()
    with pytest.raises(ArgumentError, match=r"a quantile at 1\.5"):
        wf.nanquantile(x, 1.5)


def test_errors() -> None:
    with pytest.raises(ShapeError, match="lstsq"):
        wf.linalg.lstsq(X, W[:3])
    with pytest.raises(ShapeError, match=r"polyfit of values of shape \(3,\) at 9 places"):
        wf.polyfit(V, W[:3], 1)
    with pytest.raises(ShapeError, match="polyfit at places"):
        wf.polyfit(X, W, 1)
    with pytest.raises(ArgumentError, match="polyfit of degree -1"):
        wf.polyfit(V, W, -1)
    with pytest.raises(ShapeError, match="vander of 2 dimensions"):
        wf.vander(X)
    for derived in (wf.polyder, wf.polyint):
        with pytest.raises(ArgumentError, match="order -1"):
            derived(V, -1)
    with pytest.raises(ArgumentError, match="2 constants"):
        wf.polyint(V, 3, [1, 2])


@pytest.mark.parametrize("of", ["quantile", "nanquantile"])
def test_quantiles_of_floats_round_where_numpy_does(of: str) -> None:
    x = (np.random.default_rng(3).normal(size=23) * 100).astype(np.float32)
    for part in (0.3, 0.1, 0.99):
        expected = getattr(np, of)(x, part)
        for found in (getattr(np, of)(wf.asarray(x), part), getattr(wf, of)(x, part)):
            assert found.dtype == np.float32
            assert found.numpy() == expected
