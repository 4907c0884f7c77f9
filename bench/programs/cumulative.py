"""The cumulative sum of one long vector of float64."""

import numpy as np

from programs import chunked, close, jitted, native_call, parallel

TITLE = "cumulative sum"
MEMORY_BOUND = True
agrees = close


def inputs(scale):
    return (np.random.default_rng(1).random(int(scale * (16 << 20))),)


def traffic(x):
    return 2 * x.nbytes


def weft(x):
    import weft as wf

    cumulative = wf.jit(lambda x: wf.cumulative_sum(x))
    return lambda: cumulative(x)


def numpy_(x):
    out = np.empty_like(x)
    return lambda: np.cumsum(x, out=out)


def numba_(x):
    import numba

    @parallel()
    def cumulative(x, out, sums):
        chunks = sums.size
        size = -(-x.size // chunks)
        for chunk in numba.prange(chunks):
            total = 0.0
            for i in range(chunk * size, min((chunk + 1) * size, x.size)):
                total += x[i]
            sums[chunk] = total
        before = 0.0
        for chunk in range(chunks):
            before, sums[chunk] = before + sums[chunk], before
        for chunk in numba.prange(chunks):
            total = sums[chunk]
            for i in range(chunk * size, min((chunk + 1) * size, x.size)):
                total += x[i]
                out[i] = total

    out = np.empty_like(x)
    sums = np.empty(numba.get_num_threads())

    def run():
        cumulative(x, out, sums)
        return out

    return run


def jax_(x):
    import jax
    import jax.numpy as jnp

    jax.config.update("jax_enable_x64", True)
    return jitted(jnp.cumsum, x)


def dask_(x):
    (x,) = chunked(x)
    return lambda: x.cumsum(axis=0).compute()


def c(x):
    out = np.empty_like(x)
    return native_call(out, "cumulative", x, out, x.size)
