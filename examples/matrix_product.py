"""A matrix product, as three loops that also run in plain Python."""

import numpy as np

import weft as wf


@wf.kernel
def product(a: wf.f64[:, :], b: wf.f64[:, :], c: wf.f64[:, :]):
    """c = a b, written into c."""
    for i in wf.prange(c.shape[0]):
        for j in wf.prange(c.shape[1]):
            acc = 0.0
            for k in range(a.shape[1]):
                acc += a[i, k] * b[k, j]
            c[i, j] = acc


def main(size: int = 300) -> float:
    """The largest difference to NumPy's product, of random matrices."""
    random = np.random.default_rng(1)
    a, b = random.random((size, size)), random.random((size, size))
    c = np.empty((size, size))
    product(a, b, c)
    return float(np.abs(c - a @ b).max())


if __name__ == "__main__":
    print(f"largest difference to NumPy: {main():.1e}")
