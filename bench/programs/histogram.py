"""Counts of values of [0, 1) in 1000 equal bins, by scatter."""

import numpy as np

from programs import jitted, native_call, parallel, uniform

TITLE = "1000-bin histogram"
MEMORY_BOUND = False
BINS = 1000


def agrees(found, reference):
    return bool((np.asarray(found) == reference).all())


def inputs(scale):
    return (uniform(1, int(scale * (32 << 20))),)


def traffic(x):
    return x.nbytes


def weft(x):
    import weft as wf

    @wf.jit
    def histogram(x):
        bins = wf.astype(x * float(BINS), wf.int32)
        return wf.zeros(BINS, dtype=wf.int64).at[bins].add(1)

    return lambda: histogram(x)


def numpy_(x):
    return lambda: np.bincount((x * np.float32(BINS)).astype(np.intp), minlength=BINS)


def numba_(x):
    import numba

    @parallel()
    def histogram(x, partial):
        chunks = partial.shape[0]
        size = -(-x.size // chunks)
        for chunk in numba.prange(chunks):
            count = np.zeros(BINS, np.int64)
            for i in range(chunk * size, min((chunk + 1) * size, x.size)):
                count[np.int32(x[i] * np.float32(BINS))] += 1
            partial[chunk] = count

    partial = np.empty((numba.get_num_threads(), BINS), np.int64)

    def run():
        histogram(x, partial)
        return partial.sum(axis=0)

    return run


def jax_(x):
    import jax.numpy as jnp

    def histogram(x):
        bins = (x * BINS).astype(jnp.int32)
        return jnp.zeros(BINS, jnp.int32).at[bins].add(1)

    return jitted(histogram, x)


def c(x):
    out = np.empty(BINS, np.int64)
    return native_call(out, "histogram", x, out, x.size)
