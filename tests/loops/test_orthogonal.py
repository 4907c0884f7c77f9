"""Factors of reflections and rotations within loops, where no library routine is called."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from loops.agree import agrees

import weft as wf

RANDOM = np.random.default_rng(38)
DTYPES = ["float32", "complex128"]


def matrix(rows: int, columns: int, dtype: str) -> Any:
    parts = RANDOM.standard_normal((2, rows, columns))
    return (parts[0] + 1j * parts[1] if dtype[0] == "c" else parts[0]).astype(dtype)


def factors(a: Any) -> Any:
    for k in range(3):
        q, r = np.linalg.qr(a)
        a = a + (k + 1) * q @ r
    return q, r


def square_factors(a: Any) -> Any:
    for k in range(2):
        q, r = np.linalg.qr(a, mode="complete")
        a = a + (k + 1) * q @ r
    return q, r


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("function", [factors, square_factors])
def test_factors_have_the_signs_of_the_library(function: Any, dtype: str) -> None:
    tolerance = 1e-4 if dtype in ("float32", "complex64") else 1e-9
    for rows, columns in [(1, 1), (7, 3), (3, 7)]:
        agrees(function, matrix(rows, columns, dtype), rtol=tolerance)


def test_factors_of_what_is_triangular_or_zero() -> None:
    for a in (np.zeros((4, 4)), np.eye(4), np.triu(matrix(4, 4, "float64")), np.ones((4, 4))):
        agrees(factors, a)


def test_subspaces() -> None:
    def iterated(a: Any, v: Any) -> Any:
        for _ in range(25):
            v, r = np.linalg.qr(a @ v)
        return v, r

    def shifted(a: Any) -> Any:
        size = a.shape[0]
        for _ in range(20):
            shift = a[size - 1, size - 1]
            q, r = np.linalg.qr(a - shift * np.eye(size))
            a = r @ q + shift * np.eye(size)
        return np.sort(np.diag(a))

    a = matrix(9, 9, "float64")
    agrees(iterated, a @ a.T, matrix(9, 3, "float64"), rtol=1e-7)
    agrees(shifted, a @ a.T, rtol=1e-7)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("size", [1, 12])
def test_eigenvalues_and_projections(size: int, dtype: str) -> None:
    """Of vectors, which have signs and phases of their own, what does not depend on these."""

    def turned(h: Any) -> Any:
        total = np.zeros_like(h)
        for k in range(3):
            values, vectors = np.linalg.eigh(h)
            h = (vectors * (values + k)) @ vectors.conj().T
            total += h
            total += vectors[:, :1] @ vectors[:, :1].conj().T
        return total, values, np.linalg.eigvalsh(h + total)

    a = matrix(size, size, dtype)
    tolerance = 2e-3 if dtype in ("float32", "complex64") else 1e-9
    agrees(turned, a @ a.conj().T / size, rtol=tolerance)


def test_the_lower_triangle_alone_is_read() -> None:
    def spectra(h: Any) -> Any:
        total = 0.0
        for k in range(3):
            values = np.linalg.eigvalsh(k * h)
            total += values[0] + 2 * values[-1]
        return total

    agrees(spectra, matrix(5, 5, "float64"))
    agrees(spectra, matrix(5, 5, "complex128"))


def test_equal_eigenvalues() -> None:
    def shifted(h: Any) -> Any:
        total = np.zeros_like(h)
        for k in range(1, 3):
            values, vectors = np.linalg.eigh(k * h)
            total += (vectors * values) @ vectors.T
        return total

    for h in (np.eye(4), np.zeros((4, 4)), np.ones((4, 4)), np.diag([2.0, -1, 2, -1])):
        agrees(shifted, h)


@pytest.mark.parametrize("length", [0, 6])
def test_each_of_many(length: int) -> None:
    given = np.stack([matrix(4, 4, "float64") for _ in range(length)] or [np.zeros((4, 4))])
    symmetric = (given + given.mT)[:length]

    def spectrum(h: Any) -> Any:
        values, vectors = wf.linalg.eigh(h)
        return values, (vectors * values) @ vectors.mT

    found = wf.jit(lambda hs: wf.map(spectrum, hs))(symmetric)
    np.testing.assert_allclose(found[0], np.linalg.eigvalsh(symmetric), atol=1e-12)
    np.testing.assert_allclose(found[1], symmetric, atol=1e-12)
