"""Determinants, inverses and solutions within loops, where no library routine is called."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from devices.harness import device
from loops.agree import agrees

import weft as wf

RANDOM = np.random.default_rng(4)


def solved(a: Any, b: Any) -> Any:
    x = np.zeros_like(b)
    for i in wf.prange(a.shape[0]):
        x[i] = np.linalg.solve(a[i], b[i])
    return x


def turned(a: Any) -> Any:
    x = np.zeros_like(a)
    sizes = np.zeros(a.shape[0], a.dtype)
    for i in range(a.shape[0]):
        x[i] = np.linalg.inv(a[i])
        sizes[i] = np.linalg.det(a[i])
    return x, sizes


def matrices(dtype: Any, size: int) -> Any:
    """Some of which have a pivot that is 0 where rows are not exchanged."""
    a = RANDOM.standard_normal((5, size, size)).astype(dtype)
    if a.dtype.kind == "c":
        a += 1j * RANDOM.standard_normal(a.shape).astype(a.real.dtype)
    if size > 1:
        a[2, 0, 0] = 0
    return a


@pytest.mark.parametrize(
    ("size", "on"),
    [
        (1, "compiled"), (2, "interpreted"), (3, "compiled"), (3, "device"), (4, "compiled"),
        (5, "interpreted"), (6, "compiled"), (6, "device"), (9, "compiled"),
    ],
)  # fmt: skip
def test_small_systems(size: int, on: str) -> None:
    settings: dict[str, Any] = {
        "interpreted": {"interpret_below": 1 << 30}, "compiled": {"interpret_below": 0},
        "device": {"devices": [device().name]},
    }[on]  # fmt: skip
    with wf.config(**settings):
        for dtype in (np.float64, np.complex128)[: 1 if on == "device" or size in (4, 9) else 2]:
            a = matrices(dtype, size)
            b = a[:, 0] if dtype == np.float64 else a[:, :, :2]
            agrees(solved, a, b, rtol=1e-7)
            agrees(turned, a, rtol=1e-7)


def test_narrow_numbers() -> None:
    for size in (3, 6):
        a = matrices(np.float32, size) + 3 * np.eye(size, dtype=np.float32)
        x = wf.kernel(solved)(a, a[:, 0])
        assert x.dtype == np.float32
        np.testing.assert_allclose(x, solved(a, a[:, 0]), rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("size", [2, 6])
def test_singular_matrices(size: int) -> None:
    """Their determinants are 0; kernels refuse to solve, as NumPy does."""

    def determinants(a: Any) -> Any:
        found = np.ones(a.shape[0])
        for i in range(a.shape[0]):
            found[i] = np.linalg.det(a[i])
        return found

    a = np.stack([np.zeros((size, size)), np.eye(size), np.ones((size, size))])
    agrees(determinants, a)
    for function, arguments in ((solved, (a, a[:, 0])), (turned, (a,))):
        with pytest.raises(wf.errors.LinearAlgebraError, match="singular") as error:
            wf.kernel(function)(*arguments)
        assert "np.linalg." in "".join(error.value.__notes__) or "np.linalg." in str(error.value)
    inside = wf.map(wf.linalg.inv, a).numpy()
    np.testing.assert_array_equal(inside[1], np.eye(size))
    assert not np.isfinite(inside[0]).any()


def factored(a: Any) -> Any:
    lower, upper = np.zeros_like(a), np.zeros_like(a)
    for i in wf.prange(a.shape[0]):
        lower[i] = np.linalg.cholesky(a[i])
        upper[i] = np.linalg.cholesky(a[i], upper=True)
    return lower, upper


def signs(a: Any) -> Any:
    found, logs = np.zeros(a.shape[0], a.dtype), np.zeros(a.shape[0], a.real.dtype)
    for i in range(a.shape[0]):
        found[i], logs[i] = np.linalg.slogdet(a[i])
        logs[i] += np.linalg.slogdet(a + i).logabsdet.sum()
    return found, logs


@pytest.mark.parametrize(
    ("size", "on"), [
        (1, "compiled"), (3, "interpreted"), (4, "device"),
        pytest.param(9, "core", marks=pytest.mark.slow),
    ],
)
def test_triangles_and_logarithms_of_determinants(size: int, on: str) -> None:
    settings: dict[str, Any] = {"interpreted": {}, "device": {"devices": [device().name]}}.get(
        on, {"interpret_below": 0}
    )
    with wf.config(**settings):
        for dtype in (np.float64, np.complex128, np.float32)[: 1 if on == "device" else 3]:
            a = matrices(dtype, size)
            agrees(signs, a, rtol=1e-5 if dtype == np.float32 else 1e-9)
            a = a @ a.conj().swapaxes(1, 2) + np.eye(size, dtype=dtype)
            agrees(factored, a, rtol=1e-4 if dtype == np.float32 else 1e-9)
    agrees(signs, np.stack([1e-200 * np.eye(9), np.zeros((9, 9)), -1e200 * np.eye(9)]))
    with pytest.raises(wf.errors.LinearAlgebraError, match="not positive definite"):
        wf.kernel(factored)(np.stack([np.eye(size), -np.eye(size)]))


def test_matrices_of_nothing() -> None:
    def solved_too(a: Any) -> Any:
        total = 0.0
        for i in range(a.shape[0]):
            a[i] = np.linalg.inv(np.linalg.cholesky(a[i]))
            total += np.linalg.det(a[i]) + np.linalg.slogdet(a[i])[1]
        return total

    agrees(solved_too, np.zeros((2, 0, 0)))


def test_batches_and_branches() -> None:
    def batches(a: Any, b: Any, n: int) -> Any:
        x = np.zeros_like(a)
        for k in range(n):
            if b[k, 0, 0] > 0:
                x += np.linalg.solve(a + k, b[k])
            else:
                x += np.linalg.inv(a) @ b[k]
        return x

    for size in (3, 6):
        agrees(batches, matrices(np.float64, size), matrices(np.float64, size), 4, rtol=1e-6)
