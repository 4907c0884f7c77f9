"""Linear algebra and statistics, as their authors write them in NumPy."""

from __future__ import annotations

import numpy as np

RANDOM = np.random.default_rng(12)


def cholesky(a):
    """The lower triangle L of A = L L^T, column after column, in place."""
    n = a.shape[0]
    for j in range(n):
        a[j, j] = np.sqrt(a[j, j] - np.dot(a[j, :j], a[j, :j]))
        a[j + 1 :, j] -= a[j + 1 :, :j] @ a[j, :j]
        a[j + 1 :, j] /= a[j, j]
        a[j, j + 1 :] = 0.0


def gram_schmidt(a):
    """Modified Gram-Schmidt: A = Q R."""
    q = np.zeros_like(a)
    r = np.zeros((a.shape[1], a.shape[1]), dtype=a.dtype)
    for k in range(a.shape[1]):
        r[k, k] = np.sqrt(np.sum(a[:, k] ** 2))
        q[:, k] = a[:, k] / r[k, k]
        r[k, k + 1 :] = q[:, k] @ a[:, k + 1 :]
        a[:, k + 1 :] -= np.outer(q[:, k], r[k, k + 1 :])
    return q, r


def lu(a):
    """Gauss's elimination with partial pivoting, in place; gives the order of the rows."""
    n = a.shape[0]
    order = np.arange(n)
    for k in range(n - 1):
        pivot = k + np.argmax(np.abs(a[k:, k]))
        row = a[k].copy()
        a[k] = a[pivot]
        a[pivot] = row
        order[k], order[pivot] = order[pivot], order[k]
        a[k + 1 :, k] /= a[k, k]
        a[k + 1 :, k + 1 :] -= np.outer(a[k + 1 :, k], a[k, k + 1 :])
    return order


def durbin(r):
    """Yule and Walker's equations, a Toeplitz system, by Durbin's recursion."""
    y = np.empty_like(r)
    alpha, beta = -r[0], 1.0
    y[0] = alpha
    for k in range(1, r.shape[0]):
        beta *= 1.0 - alpha * alpha
        alpha = -(r[k] + np.dot(np.flip(r[:k]), y[:k])) / beta
        y[:k] += alpha * np.flip(y[:k])
        y[k] = alpha
    return y


def covariance(data):
    """Of the columns; the data is centred in place."""
    data -= data.mean(axis=0)
    return data.T @ data / (data.shape[0] - 1)


def correlation(data):
    """Of the columns, where one that hardly varies counts as varying by one."""
    deviation = data.std(axis=0)
    deviation[deviation <= 0.1] = 1.0
    centred = (data - np.mean(data, axis=0)) / (np.sqrt(data.shape[0]) * deviation)
    result = np.eye(data.shape[1], dtype=data.dtype)
    for i in range(data.shape[1] - 1):
        result[i, i + 1 :] = result[i + 1 :, i] = centred[:, i] @ centred[:, i + 1 :]
    return result


def positive_definite(n):
    x = RANDOM.random((n, n))
    return x @ x.T + n * np.eye(n)


INPUTS = {
    cholesky: lambda n: (positive_definite(n),),
    gram_schmidt: lambda n: (RANDOM.random((n + 2, n)),),
    lu: lambda n: (RANDOM.random((n, n)),),
    durbin: lambda n: (RANDOM.random(n) / n,),
    covariance: lambda n: (RANDOM.random((n + 5, n)).astype(np.float32),),
    correlation: lambda n: (RANDOM.random((n + 5, n)) * np.linspace(0.1, 1, n),),
}
"""The arguments of each program for a size."""
