"""Prices of options on several underlyings, by quasi-random paths.

OptionPricing of the FinPar benchmarks: a Sobol sequence gives points of a cube, the inverse of the
normal distribution's cumulative function makes them Gaussian, a Brownian bridge orders them in
time from coarse to fine, and underlyings follow the correlated paths as Black and Scholes have
them. An option's price is the mean of what it pays, discounted.
"""

from functools import reduce
from operator import xor
from pathlib import Path

import numpy as np

import weft as wf

DATA = Path(__file__).parent / "data"

BLOCK = 256  # paths that are computed side by side


def sobol(directions, numbers, bits):
    """Points of the sequence with these direction numbers: (dimensions, numbers), from 0 to 1.

    The exclusive or of directions that the bits of the numbers' Gray codes choose.
    """
    gray = numbers ^ (numbers >> 1)
    chosen = (wf.where(gray & (1 << bit) != 0, directions[:, bit, None], 0) for bit in range(bits))
    return reduce(xor, chosen) / 2.0**30


# Rational approximations of algorithm AS 241 (M. J. Wichura, 1988): numerators and denominators
# from the highest power down, near the middle and farther away (30 bits reach no tail beyond).
MIDDLE = (
    (2.5090809287301226727e3, 3.3430575583588128105e4, 6.7265770927008700853e4,
     4.5921953931549871457e4, 1.3731693765509461125e4, 1.9715909503065514427e3,
     1.3314166789178437745e2, 3.3871328727963666080e0),
    (5.2264952788528545610e3, 2.8729085735721942674e4, 3.9307895800092710610e4,
     2.1213794301586595867e4, 5.3941960214247511077e3, 6.8718700749205790830e2,
     4.2313330701600911252e1, 1.0),
)  # fmt: skip
FARTHER = (
    (7.74545014278341407640e-4, 2.27238449892691845833e-2, 2.41780725177450611770e-1,
     1.27045825245236838258e0, 3.64784832476320460504e0, 5.76949722146069140550e0,
     4.63033784615654529590e0, 1.42343711074968357734e0),
    (1.05075007164441684324e-9, 5.47593808499534494600e-4, 1.51986665636164571966e-2,
     1.48103976427480074590e-1, 6.89767334985100004550e-1, 1.67638483018380384940e0,
     2.05319162663775882187e0, 1.0),
)  # fmt: skip


def ratio(polynomials, x):
    """The quotient of two polynomials."""
    above, below = (reduce(lambda sum, factor: wf.fma(sum, x, factor), p) for p in polynomials)
    return above / below


def normal_quantile(p):
    """The inverse of the normal distribution's cumulative function, for 1e-11 < p < 1 - 1e-11."""
    q = p - 0.5
    r = wf.sqrt(-wf.log(0.5 - wf.abs(q)))
    inside = q * ratio(MIDDLE, 0.180625 - q * q)
    return wf.where(wf.abs(q) <= 0.425, inside, wf.copysign(ratio(FARTHER, r - 1.6), q))


def brownian_bridge(noise, bridge):
    """The motions (dates, ...) that Gaussian noise makes, one row of it for each date.

    The first row places the last date; each other one a date between two that have been placed,
    or between the start and one, at their weighted mean.
    """
    index, left, right, deviation, left_weight, right_weight = bridge

    def place(k, motion):
        """The motion, whose row 0 is the start, with one more date."""
        before = left_weight[k] * motion[left[k]] + right_weight[k] * motion[right[k]]
        return motion.at[index[k]].set(before + deviation[k] * noise[k])

    dates, *rest = noise.shape
    return wf.fori_loop(0, dates, place, wf.zeros((dates + 1, *rest)))


def black_scholes(motion, correlation, volatility, drift, start):
    """Values of the underlyings (dates, underlyings, paths), from uncorrelated motions."""
    lower = wf.tril(correlation)[:, :, None]
    drivers = range(start.shape[0])

    def advance(value, date):
        before, after, volatility, drift = date
        mixed = sum(lower[:, k] * (after[k] - before[k]) for k in drivers)
        value = value * wf.exp(volatility[:, None] * mixed + drift[:, None])
        return value, value

    value = wf.broadcast_to(start[:, None], motion.shape[1:])
    return wf.scan(advance, value, (motion[:-1], motion[1:], volatility, drift))[1]


def lowest(values, limits):
    """The smallest quotient of the underlyings, along the first axis, and their limits."""
    return reduce(wf.minimum, (values[k] / limit for k, limit in enumerate(limits)))


START = (3758.05, 11840.0, 1200.0)
BARRIER = (2630.635, 8288.0, 840.0)


def european(values, deterministic, discount):
    """A call at 4000 on the first underlying, on the first date."""
    return wf.maximum(values[0, 0] - 4000, 0) * deterministic[0] * discount[0]


def worst_off(values, deterministic, discount):
    """Pays and ends on the first date on which all underlyings are above their start."""
    dates = values.shape[0]
    worst = lowest(values[-1], START)
    pays = wf.where(worst > 0.75, 1000, 1000 * worst) * discount[-1]

    def earlier(k, pays):
        date = dates - 1 - k
        above = lowest(values[date], START) >= 1
        return wf.where(above, (1150 + 150 * date) * discount[date], pays)

    return wf.fori_loop(0, dates, earlier, pays)


def barrier(values, deterministic, discount):
    """Pays 100 early and 1000 late, less if an underlying was ever low and one ends below."""

    def look(k, reached):
        return reached | (lowest(values[k], BARRIER) <= 1)

    worst = lowest(values[-1], START)
    reached = wf.fori_loop(0, values.shape[0], look, wf.zeros(worst.shape, dtype=bool))
    late = wf.where(reached & (worst < 1), 1000 * worst, 1000)
    return 100 * discount[0] + late * discount[1]


CONTRACTS = {1: european, 2: worst_off, 3: barrier}


@wf.jit(static_argnames=("contract", "paths"))
def price(contract, paths, directions, bridge, market, rates):
    """The mean over so many paths (a multiple of `BLOCK`) of what a contract pays."""

    def pays(block):
        numbers = 1 + block * BLOCK + wf.arange(BLOCK, dtype=wf.int32)
        noise = normal_quantile(sobol(directions, numbers, paths.bit_length()))
        noise = wf.reshape(noise, (*market[1].shape, BLOCK))
        values = black_scholes(brownian_bridge(noise, bridge), *market)
        return wf.sum(CONTRACTS[contract](values, *rates))

    return wf.sum(wf.map(pays, wf.arange(paths // BLOCK, dtype=wf.int32))) / paths


def load(name: str) -> dict:
    """The arguments of `price`, and the price that FinPar gives."""
    data = np.load(DATA / f"option_pricing_{name}.npz")
    index = [data[f"bridge_{part}"] for part in ("index", "left", "right", "sd", "lw", "rw")]
    market = [data[part] for part in ("correlation", "volatility", "drift", "start")]
    rates = [data["deterministic"], data["discount"]]
    arguments = {
        "contract": int(data["contract"]), "paths": int(data["paths"]), "bridge": index,
        "directions": data["directions"], "market": market, "rates": rates,
    }  # fmt: skip
    return arguments, float(data["price"])


def main(name: str = "medium", paths: int = 1 << 16) -> float:
    """FinPar's contract on the worst of three underlyings, by fewer paths than FinPar's 2**20."""
    arguments, _ = load(name)
    return price(**arguments | {"paths": paths})


if __name__ == "__main__":
    for paths in (1 << 8, 1 << 12, 1 << 16):
        print(f"{paths:6} paths: {main(paths=paths):.4f}")
    print(f"FinPar:       {load('medium')[1]:.4f}")
