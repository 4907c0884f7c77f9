"""sqrt(x*x + y*y).mean(axis=0)."""

import math

import numpy as np

from programs import chunked, close, jitted, native_call, parallel, uniform

TITLE = "sqrt(x*x+y*y).mean(axis=0)"
MEMORY_BOUND = True
agrees = close


def inputs(scale):
    rows = int(scale * 65536)
    return uniform(1, rows, 512), uniform(2, rows, 512)


def traffic(x, y):
    return x.nbytes + y.nbytes


def weft(x, y):
    import weft as wf

    magnitude = wf.jit(lambda x, y: wf.mean(wf.sqrt(x * x + y * y), axis=0))
    return lambda: magnitude(x, y)


def numpy_(x, y):
    d, square = np.empty_like(x), np.empty_like(x)

    def run():
        np.multiply(x, x, out=d)
        np.multiply(y, y, out=square)
        np.add(d, square, out=d)
        np.sqrt(d, out=d)
        return d.mean(axis=0)

    return run


def numba_(x, y):
    import numba

    @parallel()
    def sums(x, y, partial):
        chunks = partial.shape[0]
        size = -(-x.shape[0] // chunks)
        for chunk in numba.prange(chunks):
            total = np.zeros(x.shape[1], np.float32)
            for i in range(chunk * size, min((chunk + 1) * size, x.shape[0])):
                for j in range(x.shape[1]):
                    total[j] += math.sqrt(x[i, j] * x[i, j] + y[i, j] * y[i, j])
            partial[chunk] = total

    partial = np.empty((256, x.shape[1]), np.float32)

    def run():
        sums(x, y, partial)
        return partial.sum(axis=0) / np.float32(x.shape[0])

    return run


def jax_(x, y):
    import jax.numpy as jnp

    return jitted(lambda x, y: jnp.sqrt(x * x + y * y).mean(axis=0), x, y)


def numexpr_(x, y):
    import numexpr

    names, text = {"x": x, "y": y}, "sum(sqrt(x*x + y*y), axis=0)"

    def run():
        return numexpr.evaluate(text, local_dict=names) / np.float32(x.shape[0])

    return run


def dask_(x, y):
    x, y = chunked(x, y)
    return lambda: np.sqrt(x * x + y * y).mean(axis=0).compute()


def c(x, y):
    out = np.empty(x.shape[1], x.dtype)
    return native_call(out, "magnitude", x, y, out, *x.shape)
