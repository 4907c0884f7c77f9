"""How many steps z = z*z + c takes to leave |z| < 16, at most 100, on a grid."""

import numpy as np

from programs import native_call, parallel

TITLE = "Mandelbrot"
MEMORY_BOUND = False
STEPS, WIDTH = 100, 3.067


def agrees(found, reference):
    # A point at the edge may take another step where a product is rounded otherwise.
    found, reference = np.asarray(found), np.asarray(reference)
    return found.shape == reference.shape and (found != reference).mean() < 1e-3


def inputs(scale):
    return (int(scale * 1536), 2048)


def traffic(rows, columns):
    return 4 * rows * columns


def weft(rows, columns):
    import weft as wf

    def steps(i, j):
        cr = -0.7 + (wf.astype(j, wf.float64) / columns - 0.5) * WIDTH
        ci = (wf.astype(i, wf.float64) / rows - 0.5) * WIDTH

        def inside(state):
            zr, zi, count = state
            return (zr * zr + zi * zi < 256.0) & (count < STEPS)

        def step(state):
            zr, zi, count = state
            return zr * zr - zi * zi + cr, 2 * zr * zi + ci, count + 1

        return wf.while_loop(inside, step, (cr, ci, wf.asarray(0, dtype=wf.int32)))[2]

    mandelbrot = wf.jit(lambda: wf.generate((rows, columns), steps))
    return lambda: mandelbrot()


def plane(rows, columns):
    cr = -0.7 + (np.arange(columns) / columns - 0.5) * WIDTH
    ci = (np.arange(rows) / rows - 0.5) * WIDTH
    return np.broadcast_arrays(cr[None, :], ci[:, None])


def numpy_(rows, columns):
    def run():
        cr, ci = (part.ravel() for part in plane(rows, columns))
        zr, zi, alive = cr, ci, np.arange(rows * columns)
        count = np.zeros(rows * columns, np.int32)
        for _ in range(STEPS):
            r2, i2 = zr * zr, zi * zi
            inside = r2 + i2 < 256.0
            alive, cr, ci = alive[inside], cr[inside], ci[inside]
            count[alive] += 1
            zr, zi = r2[inside] - i2[inside] + cr, 2 * zr[inside] * zi[inside] + ci
        return count.reshape(rows, columns)

    return run


def numba_(rows, columns):
    import numba

    @parallel()
    def mandelbrot(out):
        rows, columns = out.shape
        for i in numba.prange(rows):
            ci = (i / rows - 0.5) * WIDTH
            for j in range(columns):
                cr = -0.7 + (j / columns - 0.5) * WIDTH
                zr, zi, count = cr, ci, 0
                while zr * zr + zi * zi < 256.0 and count < STEPS:
                    zr, zi = zr * zr - zi * zi + cr, 2 * zr * zi + ci
                    count += 1
                out[i, j] = count

    out = np.empty((rows, columns), np.int32)
    # Rows in the middle take longest: small shares keep the threads even.
    numba.set_parallel_chunksize(8)

    def run():
        mandelbrot(out)
        return out

    return run


def jax_(rows, columns):
    import jax
    import jax.numpy as jnp

    jax.config.update("jax_enable_x64", True)

    def point(cr, ci):
        def inside(state):
            zr, zi, count = state
            return (zr * zr + zi * zi < 256.0) & (count < STEPS)

        def step(state):
            zr, zi, count = state
            return zr * zr - zi * zi + cr, 2 * zr * zi + ci, count + 1

        return jax.lax.while_loop(inside, step, (cr, ci, jnp.int32(0)))[2]

    mandelbrot = jax.jit(jax.vmap(jax.vmap(point)))
    cr, ci = (jax.device_put(np.ascontiguousarray(part)) for part in plane(rows, columns))
    return lambda: mandelbrot(cr, ci).block_until_ready()


def c(rows, columns):
    out = np.empty((rows, columns), np.int32)
    return native_call(out, "mandelbrot", out, rows, columns)
