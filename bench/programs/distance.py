"""sum((x - y)**2)."""

import native
import numpy as np

from programs import chunked, close, jitted, parallel, uniform

TITLE = "sum((x-y)**2)"
MEMORY_BOUND = True
agrees = close


def inputs(scale):
    n = int(scale * (32 << 20))
    return uniform(1, n), uniform(2, n)


def traffic(x, y):
    return x.nbytes + y.nbytes


def weft(x, y):
    import weft as wf

    distance = wf.jit(lambda x, y: wf.sum((x - y) ** 2))
    return lambda: distance(x, y)


def numpy_(x, y):
    def run():
        d = x - y
        return np.sum(d * d)

    return run


def numba_(x, y):
    import numba

    @parallel()
    def distance(x, y):
        total = np.float32(0)
        for i in numba.prange(x.size):
            total += (x[i] - y[i]) ** 2
        return total

    return lambda: distance(x, y)


def jax_(x, y):
    return jitted(lambda x, y: ((x - y) ** 2).sum(), x, y)


def numexpr_(x, y):
    import numexpr

    names = {"x": x, "y": y}
    return lambda: numexpr.evaluate("sum((x - y)**2)", local_dict=names)


def dask_(x, y):
    x, y = chunked(x, y)
    return lambda: ((x - y) ** 2).sum().compute()


def c(x, y):
    return lambda: native.call("distance", x, y, x.size, result=native.ctypes.c_double)
