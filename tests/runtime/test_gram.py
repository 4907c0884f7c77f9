"""Gram matrices by the pool's threads are what NumPy's product is, and symmetric."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import weft as wf
from weft.launch import gram as module
from weft.launch.gram import gram
from weft.runtime import blas

RANDOM = np.random.default_rng(8)
NEEDS_LIBRARY = pytest.mark.skipif(blas.threads() is None, reason="NumPy's BLAS is another")


def factor(rows: int, inner: int, dtype: Any, lies: str) -> np.ndarray[Any, Any]:
    whole = RANDOM.random((rows + 3, 2 * inner)).astype(dtype)
    return {
        "rows": lambda: np.ascontiguousarray(whole[:rows, :inner]),
        "columns": lambda: np.ascontiguousarray(whole[:rows, :inner].T).T,
        "part of rows": lambda: whole[2 : rows + 2, 1 : inner + 1],
        "part of columns": lambda: np.ascontiguousarray(whole.T).T[2 : rows + 2, 1 : inner + 1],
    }[lies]()


@NEEDS_LIBRARY
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("lies", ["rows", "columns", "part of rows", "part of columns"])
@pytest.mark.parametrize("count", [1, 2, 3, 8])
def test_gram(monkeypatch: Any, dtype: Any, lies: str, count: int) -> None:
    monkeypatch.setattr(module, "_FEW", 0)
    monkeypatch.setattr(module, "_PART", 40)
    before = blas.threads()
    for rows, inner in ((1, 5), (2, 2), (17, 3), (97, 31), (160, 160)):
        left = factor(rows, inner, dtype, lies)
        target = np.full((rows + 1, rows + 2), np.nan, dtype)
        inside = target[1:, 1:-1]
        assert gram(left, left.T, inside, count)
        expected = np.matmul(left, left.T.copy())
        np.testing.assert_allclose(inside, expected, rtol=100 * np.finfo(dtype).eps)
        np.testing.assert_array_equal(inside, inside.T)
        assert np.isnan(target[0]).all()
        assert np.isnan(target[:, [0, -1]]).all()
    assert blas.threads() == before


@NEEDS_LIBRARY
def test_gram_refuses_other_products(monkeypatch: Any) -> None:
    monkeypatch.setattr(module, "_FEW", 0)
    left = RANDOM.random((20, 30))
    target = np.zeros((20, 20))
    assert gram(left, left.T, target, 2)
    assert not gram(left, left.T.copy(), target, 2)  # equal, but not the same
    assert not gram(left[:, :20], left[:, :20], target, 2)
    assert not gram(left[::-1], left[::-1].T, target, 2)  # it lies backwards
    assert not gram(left, left.T, np.zeros((20, 20), order="F"), 2)
    whole = (left * 9).astype(np.int64)
    assert not gram(whole, whole.T, np.zeros((20, 20), np.int64), 2)
    batch = np.stack([left, left])
    assert not gram(batch, batch.transpose(2, 1, 0), np.zeros((2, 20, 20)), 2)
    monkeypatch.undo()
    assert not gram(left, left.T, target, 2)  # too small to gain


@NEEDS_LIBRARY
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_bits_are_the_same_whatever_the_threads(monkeypatch: Any, dtype: Any) -> None:
    monkeypatch.setattr(module, "_FEW", 0)
    monkeypatch.setattr(module, "_PART", 40)
    left = factor(401, 700, dtype, "columns")
    found = [np.zeros((401, 401), dtype) for _ in range(4)]
    for count, target in zip((1, 2, 3, 7), found, strict=True):
        assert gram(left, left.T, target, count)
        np.testing.assert_array_equal(target, found[0])


@pytest.mark.parametrize(("rows", "parts"), [(1, 2), (384, 2), (385, 4), (1537, 8), (10_000, 32)])
def test_parts(rows: int, parts: int) -> None:
    assert module._parts(rows) == parts


@NEEDS_LIBRARY
def test_programs_with_gram_matrices(monkeypatch: Any) -> None:
    """In core, and in the short way."""
    monkeypatch.setattr(module, "_FEW", 0)

    @wf.kernel
    def covariance(data):
        data -= data.mean(axis=0)
        return data.T @ data / (data.shape[0] - 1)

    for _ in range(3):
        data = RANDOM.random((60, 45))
        expected = np.cov(data, rowvar=False)
        np.testing.assert_allclose(covariance(data), expected, rtol=1e-12, atol=1e-15)

    product = wf.jit(lambda x: (x @ x.T) * 2)
    data = RANDOM.random((301, 64))
    for threads in (1, 2):
        with wf.config(threads=threads):
            np.testing.assert_allclose(product(data), data @ data.T * 2, rtol=1e-12)
