"""NumPy's functions along axes, of segments, of several keys, chained products and counts."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import weft as wf
from weft.errors import (
    ArgumentError,
    DTypeError,
    MemoryLimitError,
    OutOfBoundsError,
    ShapeError,
    TracingError,
)

RNG = np.random.default_rng(2)
X = RNG.standard_normal((3, 4, 5))
I = RNG.integers(0, 3, (4, 9))  # noqa: E741 - integers
N = RNG.integers(0, 50, 300)
M = X[0]

PROGRAMS: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
    "along an axis": (
        lambda x: (
            np.apply_along_axis(lambda r: r.sum(), 0, x),
            np.apply_along_axis(lambda r: r[::-1] * 2, 1, x),
            np.apply_along_axis(lambda r: np.outer(r, r), -1, x),
            np.apply_along_axis(lambda r, k, z=1: np.sort(r)[0] * k + z, 1, x, 3, z=2),
        ),
        (X,),
    ),
    "over axes": (
        lambda x: (np.apply_over_axes(np.sum, x, [0, 2]), np.apply_over_axes(np.cumsum, x, -1)),
        (X,),
    ),
    "several keys": (lambda i: np.lexsort((i, -i[::-1], 2 * i), axis=0), (I,)),
    "rows of keys": (lambda i: np.lexsort(i), (I,)),
    "compress": (lambda x: (np.compress([0, 1], x, axis=2), np.compress([True], x)), (X,)),
    "extract": (lambda x: np.extract(x > 0, x).sum(), (X,)),
    "segments": (
        lambda x: (
            np.add.reduceat(x, [0, 2, 1]), np.maximum.reduceat(x, [3, 0], axis=1),
            np.multiply.reduceat(x > 0, [1, 4], axis=-1), np.logical_or.reduceat(x, [2], axis=2),
        ),
        (X,),
    ),
    "segments that are computed": (lambda i: np.add.reduceat(i.ravel(), np.cumsum(i[0])), (I,)),
    "products": (
        lambda x, m: (
            np.matvec(x, m[0]), np.vecmat(m[:, 0] * 1j, x), np.vecdot(x, m),
            np.linalg.multi_dot([m, m.T, m, m[0]]), np.linalg.multi_dot((m[0], m.T, m[:, 0])),
        ),
        (X, M),
    ),
    "tensors": (
        lambda x: (
            np.linalg.tensorinv(np.eye(12).reshape(3, 4, 2, 6) * 2 + x[0, 0, 0], ind=2),
            np.linalg.tensorsolve(np.eye(12).reshape(3, 4, 2, 6) + 0 * x[0, 0, 0], x[..., 0]),
            np.linalg.tensorsolve(np.eye(12).reshape(2, 12, 6), x[0, :3, :4].ravel(), (0, 2)),
        ),
        (X,),
    ),
    "polynomial of zeros": (lambda m: (np.poly(m[0]), np.poly(m.astype(np.float32)[:, 0])), (M,)),
}  # fmt: skip


def agree(found: Any, wanted: Any) -> None:
    if isinstance(wanted, tuple):
        for one, other in zip(found, wanted, strict=True):
            agree(one, other)
        return
    values = np.asarray(found)
    assert (values.dtype, values.shape) == (wanted.dtype, wanted.shape)
    np.testing.assert_allclose(values, wanted, rtol=1e-5 if values.dtype == np.float32 else 1e-9)


@pytest.mark.parametrize("name", PROGRAMS)
def test_programs(name: str) -> None:
    program, arguments = PROGRAMS[name]
    wanted = program(*arguments)
    lazy = program(*map(wf.asarray, arguments))
    assert all(isinstance(one, wf.Array) for one in (lazy if type(lazy) is tuple else (lazy,)))
    agree(lazy, wanted)
    agree(wf.jit(program)(*arguments), wanted)


def test_in_kernels() -> None:
    def found(x: Any, m: Any, i: Any) -> Any:
        sums = np.add.reduceat(x, [0, 2, 1])
        return sums, np.matvec(x, m[0]), np.lexsort((i, 2 * i), axis=0), np.compress([0, 1], m)

    agree(wf.kernel(found)(X, M, I), found(X, M, I))


def test_a_function_that_reads_values_is_called_by_numpy() -> None:
    found = np.apply_along_axis(lambda row: float(row[0]), 0, wf.asarray(X))
    np.testing.assert_array_equal(found, X[0])


@pytest.mark.parametrize("dtype", ["uint8", "int32", "int64", "bool"])
def test_counts(dtype: str) -> None:
    x, weights = N.astype(dtype), RNG.random(len(N))
    for options in ({}, {"minlength": 80}, {"weights": weights}, {"weights": weights > 0.5}):
        lazy = np.bincount(wf.asarray(x), **options)
        assert isinstance(lazy, wf.Array)
        agree(lazy, np.bincount(x, **options))
    agree(np.bincount(wf.asarray(x[:0]), minlength=2), np.bincount(x[:0], minlength=2))


def test_counts_of_a_known_length_are_traced() -> None:
    def counts(x: Any, weights: Any) -> Any:
        return wf.bincount(x, length=30), wf.bincount(x, weights, length=60)

    weights = RNG.random(len(N))
    wanted = np.bincount(N)[:30], np.bincount(N, weights, 60)
    agree(wf.jit(counts)(N, weights), wanted)
    agree(wf.kernel(counts)(N, weights), wanted)
    agree(wf.bincount([-3, 0, 7], length=3), np.array([2, 0, 0]))


def test_counts_and_distinct_values_keep_the_memory_limit(tmp_path: Path) -> None:
    numbers = RNG.integers(0, 100, 200_000)
    np.save(tmp_path / "numbers.npy", numbers)
    with wf.config(memory_limit="1 MiB"):
        x = wf.open(tmp_path / "numbers.npy")
        agree(np.bincount(x), np.bincount(numbers))
        with pytest.raises(MemoryLimitError):
            np.unique(x)


def test_distinct_values_by_numpys_function() -> None:
    rows = N.reshape(10, 30) % 4
    every = {"return_index": True, "return_inverse": True, "return_counts": True}
    agree(np.unique(wf.asarray(rows), **every), np.unique(rows, **every))
    agree(np.unique(wf.asarray(rows[:, :2]), axis=0), np.unique(rows[:, :2], axis=0))


def test_zeros_of_polynomials() -> None:
    coefficients = np.array([0, 2.0, -3, 1, 0])
    found = np.roots(wf.asarray(coefficients))
    assert isinstance(found, wf.Array)
    np.testing.assert_allclose(found, np.roots(coefficients))
    agree(np.poly(wf.asarray(np.array([1j, -1j]))), np.poly([1j, -1j]))


@pytest.mark.parametrize(
    ("call", "error"),
    [
        (lambda x: np.add.reduceat(x, [0, 3]), OutOfBoundsError),
        (lambda x: np.add.reduceat(x, wf.asarray([0, 7])).numpy(), OutOfBoundsError),
        (lambda x: np.add.reduceat(x, [[0]]), ShapeError),
        (lambda x: np.bincount(x[0, 0]), DTypeError),
        (lambda x: np.bincount(wf.asarray([3, -1])), ArgumentError),
        (lambda x: wf.bincount([1], length=-1), ArgumentError),
        (lambda x: np.bincount(wf.asarray([1, 2]), x[0, 0]), ShapeError),
        (lambda x: wf.jit(lambda n: np.bincount(n))(N), TracingError),
        (lambda x: wf.jit(lambda m: np.roots(m))(M[0]), TracingError),
        (lambda x: np.linalg.multi_dot([x[0]]), ArgumentError),
        (lambda x: np.linalg.multi_dot([x[0], x]), ShapeError),
        (lambda x: np.linalg.tensorinv(x, ind=1), ShapeError),
        (lambda x: np.compress([[True]], x), ShapeError),
        (lambda x: wf.lexsort(()), ArgumentError),
    ],
)  # fmt: skip
def test_errors(call: Callable[[Any], Any], error: type[Exception]) -> None:
    with pytest.raises(error):
        call(wf.asarray(X))


def test_complex_numbers_are_ordered_by_numpy() -> None:
    z = M[0] + 1j * M[1]
    np.testing.assert_array_equal(np.sort(wf.asarray(z)), np.sort(z))
    np.testing.assert_array_equal(np.argsort(wf.asarray(z)), np.argsort(z))
    with pytest.raises(TracingError, match=r"numpy\.sort"):
        wf.jit(lambda z: np.sort(z))(z)
