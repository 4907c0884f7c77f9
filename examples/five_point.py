"""The 5-point stencil: each inner point is the mean of itself and its four neighbours."""

import numpy as np

import weft as wf


@wf.kernel
def five_point(a, b):
    """b = the means of a, whose border is copied."""
    b[0, :], b[-1, :] = a[0, :], a[-1, :]
    b[:, 0], b[:, -1] = a[:, 0], a[:, -1]
    for i in wf.prange(1, a.shape[0] - 1):
        for j in wf.prange(1, a.shape[1] - 1):
            b[i, j] = 0.2 * (a[i, j] + a[i - 1, j] + a[i + 1, j] + a[i, j - 1] + a[i, j + 1])


def main(size: int = 1000, dtype: str = "float32") -> np.ndarray:
    """A random grid, smoothed once."""
    a = np.random.default_rng(1).random((size, size)).astype(dtype)
    b = np.empty_like(a)
    five_point(a, b)
    return b


if __name__ == "__main__":
    for dtype in ("float32", "float64"):
        print(f"{dtype}: deviation {main(dtype=dtype).std():.4f}")
