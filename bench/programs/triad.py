"""out = a + 2.5 * b."""

import numpy as np

from programs import chunked, close, jitted, native_call, parallel, uniform

TITLE = "triad"
MEMORY_BOUND = True
agrees = close


def inputs(scale):
    n = int(scale * (32 << 20))
    return uniform(1, n), uniform(2, n)


def traffic(a, b):
    return 3 * a.nbytes


def weft(a, b):
    import weft as wf

    triad = wf.jit(lambda a, b: a + 2.5 * b)
    return lambda: triad(a, b)


def numpy_(a, b):
    out = np.empty_like(a)

    def run():
        np.multiply(b, np.float32(2.5), out=out)
        np.add(a, out, out=out)
        return out

    return run


def numba_(a, b):
    import numba

    @parallel()
    def triad(a, b, out):
        for i in numba.prange(a.size):
            out[i] = a[i] + np.float32(2.5) * b[i]

    out = np.empty_like(a)

    def run():
        triad(a, b, out)
        return out

    return run


def jax_(a, b):
    return jitted(lambda a, b: a + 2.5 * b, a, b)


def numexpr_(a, b):
    import numexpr

    out, names = np.empty_like(a), {"a": a, "b": b, "factor": np.float32(2.5)}
    return lambda: numexpr.evaluate("a + factor * b", local_dict=names, out=out)


def dask_(a, b):
    a, b = chunked(a, b)
    return lambda: (a + np.float32(2.5) * b).compute()


def c(a, b):
    out = np.empty_like(a)
    return native_call(out, "triad", a, b, out, a.size)
