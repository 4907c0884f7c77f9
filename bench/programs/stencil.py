"""The mean of each cell and its four neighbours; the border is copied."""

import numpy as np

from programs import chunked, close, jitted, native_call, parallel, uniform

TITLE = "5-point stencil"
MEMORY_BOUND = True
agrees = close


def inputs(scale):
    return (uniform(1, int(scale * 5793), 5791),)


def traffic(x):
    return 2 * x.nbytes


def weft(x):
    import weft as wf

    def cell(s):
        return 0.2 * (s[0, 0] + s[-1, 0] + s[1, 0] + s[0, -1] + s[0, 1])

    step = wf.jit(lambda x: wf.stencil(cell, x, boundary="keep"))
    return lambda: step(x)


def inner(x):
    return np.float32(0.2) * (
        x[1:-1, 1:-1] + x[:-2, 1:-1] + x[2:, 1:-1] + x[1:-1, :-2] + x[1:-1, 2:]
    )


def numpy_(x):
    out = x.copy()

    def run():
        target = out[1:-1, 1:-1]
        np.add(x[1:-1, 1:-1], x[:-2, 1:-1], out=target)
        for neighbour in (x[2:, 1:-1], x[1:-1, :-2], x[1:-1, 2:]):
            np.add(target, neighbour, out=target)
        np.multiply(target, np.float32(0.2), out=target)
        return out

    return run


def numba_(x):
    import numba

    @parallel()
    def step(x, out):
        rows, columns = x.shape
        for i in numba.prange(rows):
            if i == 0 or i == rows - 1:
                for j in range(columns):
                    out[i, j] = x[i, j]
            else:
                out[i, 0] = x[i, 0]
                for j in range(1, columns - 1):
                    out[i, j] = np.float32(0.2) * (
                        x[i, j] + x[i - 1, j] + x[i + 1, j] + x[i, j - 1] + x[i, j + 1]
                    )
                out[i, columns - 1] = x[i, columns - 1]

    out = np.empty_like(x)

    def run():
        step(x, out)
        return out

    return run


def jax_(x):
    return jitted(lambda x: x.at[1:-1, 1:-1].set(inner(x)), x)


def dask_(x):
    def block(x):
        out = x.copy()
        out[1:-1, 1:-1] = inner(x)
        return out

    (x,) = chunked(x)
    return lambda: x.map_overlap(block, depth=(1, 0), boundary="none").compute()


def c(x):
    out = np.empty_like(x)
    return native_call(out, "stencil", x, out, *x.shape)
