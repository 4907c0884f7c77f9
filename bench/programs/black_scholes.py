"""Prices of European calls."""

import math

import numpy as np

from programs import chunked, close, jitted, native_call, parallel, uniform

TITLE = "Black-Scholes"
MEMORY_BOUND = False
agrees = close
RATE, VOLATILITY = 0.02, 0.3


def inputs(scale):
    n = int(scale * (16 << 20))
    return (
        uniform(1, n, low=10, high=100), uniform(2, n, low=10, high=100),
        uniform(3, n, low=0.1, high=3),
    )  # fmt: skip


def traffic(spot, strike, time):
    return 4 * spot.nbytes


def price(np_, erf, spot, strike, time):
    spread = VOLATILITY * np_.sqrt(time)
    d1 = (np_.log(spot / strike) + (RATE + 0.5 * VOLATILITY**2) * time) / spread
    d2 = d1 - spread
    n1 = 0.5 + 0.5 * erf(d1 * math.sqrt(0.5))
    n2 = 0.5 + 0.5 * erf(d2 * math.sqrt(0.5))
    return spot * n1 - strike * np_.exp(-RATE * time) * n2


def weft(spot, strike, time):
    import weft as wf

    compiled = wf.jit(lambda spot, strike, time: price(wf, wf.erf, spot, strike, time))
    return lambda: compiled(spot, strike, time)


def numpy_(spot, strike, time):
    from scipy.special import erf

    return lambda: price(np, erf, spot, strike, time)


def numba_(spot, strike, time):
    import numba

    one = np.float32
    rate, volatility, root, half = one(RATE), one(VOLATILITY), one(math.sqrt(0.5)), one(0.5)

    @parallel()
    def prices(spot, strike, time, out):
        for i in numba.prange(spot.size):
            s, k, t = spot[i], strike[i], time[i]
            spread = volatility * math.sqrt(t)
            d1 = (math.log(s / k) + (rate + half * volatility * volatility) * t) / spread
            d2 = d1 - spread
            n1 = half + half * math.erf(d1 * root)
            n2 = half + half * math.erf(d2 * root)
            out[i] = s * n1 - k * math.exp(-rate * t) * n2

    out = np.empty_like(spot)

    def run():
        prices(spot, strike, time, out)
        return out

    return run


def jax_(spot, strike, time):
    import jax
    import jax.numpy as jnp

    return jitted(lambda *given: price(jnp, jax.scipy.special.erf, *given), spot, strike, time)


def dask_(spot, strike, time):
    from scipy.special import erf

    arrays = chunked(spot, strike, time)
    return lambda: price(np, lambda d: d.map_blocks(erf, dtype=d.dtype), *arrays).compute()


def c(spot, strike, time):
    out = np.empty_like(spot)
    return native_call(out, "black_scholes", spot, strike, time, out, spot.size)
