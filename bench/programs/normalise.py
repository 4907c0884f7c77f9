"""(x - x.mean(axis=0)) / x.std(axis=0)."""

import numpy as np

from programs import chunked, close, jitted, native_call, parallel, uniform

TITLE = "normalise columns"
MEMORY_BOUND = True
agrees = close


def inputs(scale):
    return (uniform(1, int(scale * 65536), 512),)


def traffic(x):
    return 3 * x.nbytes  # read for the statistics, read again, written


def weft(x):
    import weft as wf

    normalise = wf.jit(lambda x: (x - wf.mean(x, axis=0)) / wf.std(x, axis=0))
    return lambda: normalise(x)


def numpy_(x):
    out = np.empty_like(x)

    def run():
        np.subtract(x, x.mean(axis=0), out=out)
        np.divide(out, x.std(axis=0), out=out)
        return out

    return run


def numba_(x):
    import numba

    @parallel()
    def moments(x, shift, sums, squares):
        chunks = sums.shape[0]
        size = -(-x.shape[0] // chunks)
        for chunk in numba.prange(chunks):
            total = np.zeros(x.shape[1], np.float64)
            square = np.zeros(x.shape[1], np.float64)
            for i in range(chunk * size, min((chunk + 1) * size, x.shape[0])):
                for j in range(x.shape[1]):
                    d = np.float64(x[i, j] - shift[j])
                    total[j] += d
                    square[j] += d * d
            sums[chunk], squares[chunk] = total, square

    @parallel()
    def apply(x, mean, scale, out):
        for i in numba.prange(x.shape[0]):
            for j in range(x.shape[1]):
                out[i, j] = (x[i, j] - mean[j]) * scale[j]

    out = np.empty_like(x)
    sums, squares = np.empty((2, 64, x.shape[1]))

    def run():
        # Shifted by the first row, so that the squares lose nothing to a large mean.
        moments(x, x[0], sums, squares)
        mean = sums.sum(axis=0) / x.shape[0]
        variance = squares.sum(axis=0) / x.shape[0] - mean * mean
        apply(x, (mean + x[0]).astype(x.dtype), (1 / np.sqrt(variance)).astype(x.dtype), out)
        return out

    return run


def jax_(x):
    return jitted(lambda x: (x - x.mean(axis=0)) / x.std(axis=0), x)


def dask_(x):
    (x,) = chunked(x)
    return lambda: ((x - x.mean(axis=0)) / x.std(axis=0)).compute()


def c(x):
    out = np.empty_like(x)
    return native_call(out, "normalise", x, out, *x.shape)
