"""Rank-k and rank-2k updates of a triangle, as loops that also run in plain Python.

Both become products of NumPy's BLAS; with `wf.config(optimise="no-blas")` they are Weft's own code.
"""

import numpy as np

import weft as wf


@wf.kernel
def rank_k(a, c, alpha, beta):
    """The lower triangle of C = alpha A A^T + beta C."""
    for i in wf.prange(c.shape[0]):
        for j in wf.prange(i + 1):
            total = 0.0
            for k in range(a.shape[1]):
                total += a[i, k] * a[j, k]
            c[i, j] = alpha * total + beta * c[i, j]


@wf.kernel
def rank_2k(a, b, c, alpha, beta):
    """The lower triangle of C = alpha (A B^T + B A^T) + beta C."""
    for i in wf.prange(c.shape[0]):
        for j in wf.prange(i + 1):
            total = 0.0
            for k in range(a.shape[1]):
                total += a[i, k] * b[j, k] + b[i, k] * a[j, k]
            c[i, j] = alpha * total + beta * c[i, j]


def main(size: int = 300, rank: int = 200, dtype: str = "float64") -> tuple[float, float]:
    """The largest differences to NumPy's products, relative to the largest element."""
    random = np.random.default_rng(1)
    a, b = random.random((size, rank)).astype(dtype), random.random((size, rank)).astype(dtype)
    alpha, beta = a.dtype.type(1.5), a.dtype.type(0.5)
    c = random.random((size, size)).astype(dtype)
    differences = []
    for update, product, operands in (
        (rank_k, a @ a.T, (a,)),
        (rank_2k, a @ b.T + b @ a.T, (a, b)),
    ):
        expected = np.tril(alpha * product + beta * c) + np.triu(c, 1)
        found = c.copy()
        update(*operands, found, alpha, beta)
        differences.append(float(np.abs(found - expected).max() / np.abs(expected).max()))
    return differences[0], differences[1]


if __name__ == "__main__":
    for dtype in ("float32", "float64"):
        print(f"{dtype}: largest differences {main(dtype=dtype)}")
