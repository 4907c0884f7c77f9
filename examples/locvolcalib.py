"""Prices of call options under a local volatility model, by an alternating-direction method.

LocVolCalib of the FinPar benchmarks: the value on a grid of prices and volatilities is taken back
in time. Each step is explicit in both directions, then implicit along the prices, then implicit
along the volatilities. Options of different strikes have the same equations, and lie side by side.
"""

import numpy as np

import weft as wf


def grids(prices: int, volatilities: int, times: int, alpha=0.2, nu=0.6, s0=0.03, t=5.0):
    """Evenly spaced prices, logarithms of volatilities, and times; and the point of today."""
    dx = 20 * alpha * s0 * np.sqrt(t) / prices
    dy = 10 * nu * np.sqrt(t) / volatilities
    i, j = int(s0 / dx), volatilities // 2
    x = s0 + dx * (np.arange(prices) - i)
    y = np.log(alpha) + dy * (np.arange(volatilities) - j)
    return x, y, np.linspace(0, t, times), i, j


def inner(n):
    """One inside of an axis, zero at its ends."""
    return wf.ones(n).at[0].set(0).at[-1].set(0)


def solve(side, middle, right):
    """Solutions along the first axis of rows side * (above + below) + middle * here = right."""
    last = right.shape[0] - 1

    def eliminate(k, state):
        """Take row k - 1 out of row k, and make its middle one."""
        ratio, value = state
        pivot = 1 / (middle[k] - side[k] * ratio[k - 1])
        here = (value[k] - side[k] * value[k - 1]) * pivot
        return ratio.at[k].set(side[k] * pivot), value.at[k].set(here)

    def substitute(k, value):
        """Take row last - k, whose solution is known, out of the row above."""
        return value.at[last - 1 - k].subtract(ratio[last - 1 - k] * value[last - k])

    ratio = wf.zeros_like(middle).at[0].set(side[0] / middle[0])
    value = right.at[0].set(right[0] / middle[0])
    ratio, value = wf.fori_loop(1, last + 1, eliminate, (ratio, value))
    return wf.fori_loop(0, last, substitute, value)


@wf.jit
def calls(strikes, x, y, t, i, j, nu, beta):
    """The value today, at x[i] and y[j], of a call of each strike at the last time."""
    dx, dy = x[1] - x[0], y[1] - y[0]
    local = wf.exp(2 * (beta * wf.log(x) + y[:, None]))
    across_y = 0.25 * nu**2 / dy**2 * inner(y.shape[0])

    def bend(values, axis):
        """Three-point second differences along the first or second axis."""
        before, after = np.eye(3, dtype=int)[axis] * -1, np.eye(3, dtype=int)[axis]
        return wf.stencil(
            lambda v: v[tuple(before)] - 2 * v[0, 0, 0] + v[tuple(after)], values, boundary="edge"
        )

    def step(k, value):
        g = t.shape[0] - 2 - k
        rate = 1 / (t[g + 1] - t[g])
        variance = local * wf.exp(-(nu**2) * t[g])
        across_x = 0.25 * variance / dx**2 * inner(x.shape[0])
        bend_y = bend(value, 0)
        along_y = (2 * across_y)[:, None, None] * bend_y
        right = rate * value + across_x[:, :, None] * bend(value, 1) + along_y
        value = wf.map(solve, -across_x, rate + 2 * across_x, right)
        right = rate * value - across_y[:, None, None] * bend_y
        columns = wf.map(
            lambda r: solve(-across_y, rate + 2 * across_y, r), wf.moveaxis(right, 1, 0)
        )
        return wf.moveaxis(columns, 1, 0)

    payoff = wf.maximum(x[:, None] - strikes, 0)
    start = wf.broadcast_to(payoff, (y.shape[0], *payoff.shape))
    return wf.fori_loop(0, t.shape[0] - 1, step, start)[j, i]


def main(strikes: int = 16, prices: int = 32, volatilities: int = 256, times: int = 256):
    """FinPar's small data set."""
    x, y, t, i, j = grids(prices, volatilities, times)
    return calls(0.001 * np.arange(strikes), x, y, t, i, j, 0.6, 0.5)


if __name__ == "__main__":
    for number, price in enumerate(main()):
        print(f"strike {0.001 * number:.3f}: {price:.7f}")
