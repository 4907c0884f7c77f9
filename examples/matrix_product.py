"""A matrix product, as three loops that also run in plain Python."""

import numpy as np

import weft as wf


@wf.kernel
def product(a, b, c):
    """c = a b, written into c."""
    for i in wf.prange(c.shape[0]):
        for j in wf.prange(c.shape[1]):
            acc = 0.0
            for k in range(a.shape[1]):
                acc += a[i, k] * b[k, j]
            c[i, j] = acc


def main(size: int = 300, dtype: str = "float64") -> float:
    """The largest difference to NumPy's product of random matrices, relative to its largest."""
    random = np.random.default_rng(1)
    a, b = (random.random((size, size)).astype(dtype) for _ in range(2))
    c = np.empty_like(a)
    product(a, b, c)
    return float(np.abs(c - a @ b).max() / np.abs(c).max())


if __name__ == "__main__":
    for dtype in ("float32", "float64"):
        print(f"{dtype}: largest difference to NumPy {main(dtype=dtype):.1e}")
