"""exp(x - max) / sum of it, for each row."""

import numpy as np

from programs import chunked, close, jitted, native_call, parallel, uniform

TITLE = "softmax of rows"
MEMORY_BOUND = False
agrees = close


def inputs(scale):
    return (uniform(1, int(scale * 8192), 4096, low=-5, high=5),)


def traffic(x):
    return 2 * x.nbytes


def weft(x):
    import weft as wf

    @wf.jit
    def softmax(x):
        e = wf.exp(x - wf.max(x, axis=1, keepdims=True))
        return e / wf.sum(e, axis=1, keepdims=True)

    return lambda: softmax(x)


def numpy_(x):
    out = np.empty_like(x)

    def run():
        np.subtract(x, x.max(axis=1, keepdims=True), out=out)
        np.exp(out, out=out)
        np.divide(out, out.sum(axis=1, keepdims=True), out=out)
        return out

    return run


def numba_(x):
    import numba

    @parallel()
    def softmax(x, out):
        for i in numba.prange(x.shape[0]):
            row, target = x[i], out[i]
            largest = row[0]
            for j in range(row.size):
                largest = max(largest, row[j])
            total = np.float32(0)
            for j in range(row.size):
                target[j] = np.exp(row[j] - largest)
                total += target[j]
            scale = np.float32(1) / total
            for j in range(row.size):
                target[j] *= scale

    out = np.empty_like(x)

    def run():
        softmax(x, out)
        return out

    return run


def jax_(x):
    import jax

    return jitted(lambda x: jax.nn.softmax(x, axis=1), x)


def dask_(x):
    (x,) = chunked(x)

    def run():
        e = np.exp(x - x.max(axis=1, keepdims=True))
        return (e / e.sum(axis=1, keepdims=True)).compute()

    return run


def c(x):
    out = np.empty_like(x)
    return native_call(out, "softmax", x, out, *x.shape)
