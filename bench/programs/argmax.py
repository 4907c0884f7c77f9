"""The index of the largest element of each row."""

import numpy as np

from programs import chunked, jitted, native_call, parallel, uniform

TITLE = "arg-max of rows"
MEMORY_BOUND = True


def agrees(found, reference):
    return bool((np.asarray(found) == reference).all())


def inputs(scale):
    return (uniform(1, int(scale * 8192), 4096),)


def traffic(x):
    return x.nbytes


def weft(x):
    import weft as wf

    argmax = wf.jit(lambda x: wf.argmax(x, axis=1))
    return lambda: argmax(x)


def numpy_(x):
    return lambda: x.argmax(axis=1)


def numba_(x):
    import numba

    @parallel()
    def argmax(x, out):
        for i in numba.prange(x.shape[0]):
            row = x[i]
            largest = row[0]
            for j in range(row.size):  # this loop alone vectorises
                largest = max(largest, row[j])
            j = 0
            while row[j] != largest:
                j += 1
            out[i] = j

    out = np.empty(x.shape[0], np.int64)

    def run():
        argmax(x, out)
        return out

    return run


def jax_(x):
    import jax.numpy as jnp

    return jitted(lambda x: jnp.argmax(x, axis=1), x)


def dask_(x):
    (x,) = chunked(x)
    return lambda: x.argmax(axis=1).compute()


def c(x):
    out = np.empty(x.shape[0], np.int64)
    return native_call(out, "argmax", x, out, *x.shape)
