"""relu(a @ x + b): matrix-vector product, bias, rectifier."""

import numpy as np

from programs import chunked, close, jitted, native_call, parallel, uniform

TITLE = "relu(a@x+b)"
MEMORY_BOUND = True
agrees = close


def inputs(scale):
    rows = int(scale * 8192)
    return uniform(1, rows, 4096, low=-1), uniform(2, 4096), uniform(3, rows, low=-1)


def traffic(a, x, b):
    return a.nbytes


def weft(a, x, b):
    import weft as wf

    layer = wf.jit(lambda a, x, b: wf.maximum(a @ x + b, 0))
    return lambda: layer(a, x, b)


def numpy_(a, x, b):
    return lambda: np.maximum(a @ x + b, 0)


def numba_(a, x, b):
    import numba

    @parallel()
    def layer(a, x, b, out):
        for i in numba.prange(a.shape[0]):
            total = np.float32(0)
            for j in range(a.shape[1]):
                total += a[i, j] * x[j]
            out[i] = max(total + b[i], np.float32(0))

    out = np.empty_like(b)

    def run():
        layer(a, x, b, out)
        return out

    return run


def jax_(a, x, b):
    import jax.numpy as jnp

    return jitted(lambda a, x, b: jnp.maximum(a @ x + b, 0), a, x, b)


def dask_(a, x, b):
    a, b = chunked(a, b)
    return lambda: np.maximum(a @ x + b, 0).compute()


def c(a, x, b):
    out = np.empty_like(b)
    return native_call(out, "layer", a, x, b, out, *a.shape)
