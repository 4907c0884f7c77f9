"""Loop nests on matrices: products, updates of triangles, substitutions."""

from __future__ import annotations

import numpy as np

from weft import prange

RANDOM = np.random.default_rng(21)


def matrix_product(a, b, c):
    for i in prange(c.shape[0]):
        for j in prange(c.shape[1]):
            acc = 0.0
            for k in range(a.shape[1]):
                acc += a[i, k] * b[k, j]
            c[i, j] = acc


def rank_k(a, c, alpha, beta):
    """The lower triangle of C = alpha A A^T + beta C."""
    for i in prange(c.shape[0]):
        for j in prange(i + 1):
            acc = 0.0
            for k in range(a.shape[1]):
                acc += a[i, k] * a[j, k]
            c[i, j] = alpha * acc + beta * c[i, j]


def rank_2k(a, b, c, alpha, beta):
    """The upper triangle of C = alpha (A B^T + B A^T) + beta C."""
    for i in prange(c.shape[0]):
        for j in prange(i, c.shape[1]):
            c[i, j] *= beta
            for k in range(a.shape[1]):
                c[i, j] += alpha * (a[i, k] * b[j, k] + b[i, k] * a[j, k])


def forward_substitution(lower, b):
    """L X = B for several right-hand sides, in place."""
    for column in prange(b.shape[1]):
        for i in range(b.shape[0]):
            for j in range(i):
                b[i, column] -= lower[i, j] * b[j, column]
            b[i, column] /= lower[i, i]


def triangular_product(upper, x, y):
    for i in prange(y.shape[0]):
        total = 0.0
        for j in range(i, x.shape[0]):
            total += upper[i, j] * x[j]
        y[i] = total


def normal_equations(a, x):
    """A^T (A x), with a temporary array between the two nests."""
    product = np.zeros(a.shape[0], a.dtype)
    result = np.zeros(a.shape[1], a.dtype)
    for i in prange(a.shape[0]):
        for j in range(a.shape[1]):
            product[i] += a[i, j] * x[j]
    for j in prange(a.shape[1]):
        for i in range(a.shape[0]):
            result[j] += a[i, j] * product[i]
    return result


def tridiagonal(lower, diagonal, upper, right, x):
    """Thomas's algorithm for every row, with local arrays."""
    n = x.shape[1]
    for row in prange(x.shape[0]):
        ratio, value = np.empty(n), np.empty(n)
        ratio[0] = upper[0] / diagonal[0]
        value[0] = right[row, 0] / diagonal[0]
        for i in range(1, n):
            pivot = diagonal[i] - lower[i] * ratio[i - 1]
            ratio[i] = upper[i] / pivot
            value[i] = (right[row, i] - lower[i] * value[i - 1]) / pivot
        x[row, n - 1] = value[n - 1]
        for i in range(n - 2, -1, -1):
            x[row, i] = value[i] - ratio[i] * x[row, i + 1]


def lu_in_place(a):
    """Rodinia's LUD: Doolittle's factors in place, without pivoting."""
    n = a.shape[0]
    for i in range(n):
        for j in range(i, n):
            for k in range(i):
                a[i, j] -= a[i, k] * a[k, j]
        for j in range(i + 1, n):
            for k in range(i):
                a[j, i] -= a[j, k] * a[k, i]
            a[j, i] /= a[i, i]


def diagonally_dominant(n):
    return RANDOM.random((n, n)) + n * np.eye(n)


INPUTS = {
    matrix_product: lambda n, dtype=np.float64: (
        RANDOM.random((n, n + 2)).astype(dtype), RANDOM.random((n + 2, n - 1)).astype(dtype),
        np.zeros((n, n - 1), dtype),
    ),
    rank_k: lambda n, dtype=np.float64: (
        RANDOM.random((n, n + 4)).astype(dtype), RANDOM.random((n, n)).astype(dtype),
        dtype(1.5), dtype(0.5),
    ),
    rank_2k: lambda n, dtype=np.float64: (
        RANDOM.random((n, n - 3)).astype(dtype), RANDOM.random((n, n - 3)).astype(dtype),
        RANDOM.random((n, n)).astype(dtype), dtype(1.5), dtype(0.5),
    ),
    forward_substitution: lambda n: (diagonally_dominant(n), RANDOM.random((n, 5))),
    triangular_product: lambda n: (RANDOM.random((n, n)), RANDOM.random(n), np.zeros(n)),
    normal_equations: lambda n: (
        RANDOM.random((n, n + 3)).astype(np.float32), RANDOM.random(n + 3).astype(np.float32),
    ),
    tridiagonal: lambda n: (
        RANDOM.random(n), 2 + RANDOM.random(n), RANDOM.random(n), RANDOM.random((7, n)),
        np.zeros((7, n)),
    ),
    lu_in_place: lambda n: (diagonally_dominant(n),),
}  # fmt: skip
"""The arguments of each kernel for a size."""
