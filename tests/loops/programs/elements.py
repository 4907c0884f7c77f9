"""Loop nests whose rounds are each a computation of its own: particles, options, points."""

from __future__ import annotations

import math

import numpy as np

from weft import prange

RANDOM = np.random.default_rng(23)


def coulombic_potential(atoms, spacing, grid):
    """Of charges at (x, y, z, q), on a plane of points."""
    for i in prange(grid.shape[0]):
        for j in prange(grid.shape[1]):
            energy = 0.0
            for n in range(atoms.shape[0]):
                dx = spacing * j - atoms[n, 0]
                dy = spacing * i - atoms[n, 1]
                dz = atoms[n, 2]
                energy += atoms[n, 3] / math.sqrt(dx * dx + dy * dy + dz * dz)
            grid[i, j] += energy


def n_body_step(x, v, mass, dt, moved):
    for i in prange(x.shape[0]):
        ax = ay = az = 0.0
        for j in range(x.shape[0]):
            dx, dy, dz = x[j, 0] - x[i, 0], x[j, 1] - x[i, 1], x[j, 2] - x[i, 2]
            squared = dx * dx + dy * dy + dz * dz + 0.01
            pull = mass[j] / (squared * math.sqrt(squared))
            ax += dx * pull
            ay += dy * pull
            az += dz * pull
        v[i, 0] += ax * dt
        v[i, 1] += ay * dt
        v[i, 2] += az * dt
        for k in range(3):
            moved[i, k] = x[i, k] + v[i, k] * dt


def distances(x, y, z, total):
    """The sum of each point's distances to all points, as the paper's synthetic kernel has it."""
    for i in prange(x.shape[0]):
        apart = 0.0
        for j in range(x.shape[0]):
            dx, dy, dz = x[j] - x[i], y[j] - y[i], z[j] - z[i]
            apart += math.sqrt(dx * dx + dy * dy + dz * dz)
        total[i] = apart


def pair_energy(x):
    """A reduction over a triangle of pairs; several results."""
    energy, closest, pairs = 0.0, math.inf, 0
    for i in prange(x.shape[0]):
        for j in range(i):
            apart = abs(x[i] - x[j]) + 1e-3
            energy += 1.0 / apart
            closest = min(closest, apart)
            pairs += 1
    return energy, closest, pairs


def distribution(d):
    """The normal distribution's, by a polynomial."""
    k = 1.0 / (1.0 + 0.2316419 * abs(d))
    tail = 1.781477937 + k * (-1.821255978 + k * 1.330274429)
    tail = k * (0.31938153 + k * (-0.356563782 + k * tail))
    tail *= 0.39894228040143267794 * math.exp(-0.5 * d * d)
    return 1.0 - tail if d > 0 else tail


def black_scholes(price, strike, years, call, put, rate, volatility):
    """The example of Numba's benchmarks: two results an element, a function called."""
    for i in prange(price.shape[0]):
        root = math.sqrt(years[i])
        d1 = (
            math.log(price[i] / strike[i]) + (rate + 0.5 * volatility * volatility) * years[i]
        ) / (volatility * root)
        d2 = d1 - volatility * root
        discounted = strike[i] * math.exp(-rate * years[i])
        call[i] = price[i] * distribution(d1) - discounted * distribution(d2)
        put[i] = discounted * (1.0 - distribution(d2)) - price[i] * (1.0 - distribution(d1))


def monte_carlo_pi(seeds, rounds):
    """The example of Numba's documentation, with a generator whose integers wrap."""
    inside = 0
    for i in prange(seeds.shape[0]):
        state = seeds[i]
        for _ in range(rounds):
            state = state * np.uint32(1664525) + np.uint32(1013904223)
            x = (state >> np.uint32(8)) / 16777216.0
            state = state * np.uint32(1664525) + np.uint32(1013904223)
            y = (state >> np.uint32(8)) / 16777216.0
            if x * x + y * y < 1.0:
                inside += 1
    return 4.0 * inside / (seeds.shape[0] * rounds)


def logistic_regression(labels, points, weights, steps):
    """The example of Numba's documentation on its parallel loops."""
    for _ in range(steps):
        weights -= np.dot(
            (1.0 / (1.0 + np.exp(-labels * np.dot(points, weights))) - 1.0) * labels, points
        )
    return weights


def escape(c, most):
    z = 0j
    for i in range(most):
        z = z * z + c
        if z.real * z.real + z.imag * z.imag >= 4:
            return i
    return most


def mandelbrot(left, right, bottom, top, image, most):
    """The example of Numba's documentation: a function that returns from inside of its loop."""
    height, width = image.shape
    for x in prange(width):
        for y in range(height):
            c = complex(left + x * (right - left) / width, bottom + y * (top - bottom) / height)
            image[y, x] = escape(c, most)


def roots(x, y, rounds):
    """Newton's square roots: a while loop an element."""
    for i in prange(x.shape[0]):
        guess = 1.0
        count = 0
        while abs(guess * guess - x[i]) > 1e-12 * x[i] and count < 60:
            guess = 0.5 * (guess + x[i] / guess)
            count += 1
        y[i] = guess
        rounds[i] = count


def classes(x, counts, kept):
    """Chained comparisons, continue, and an else for the rest."""
    for i in range(x.shape[0]):
        if not 0.1 <= x[i] < 0.9:
            continue
        kept[i] = True
        if 0.1 <= x[i] < 0.3:
            counts[0] += 1
        elif 0.3 <= x[i] <= 0.5 or x[i] == 0.7:
            counts[1] += 1
        else:
            counts[-1] += 1


def clipped(x, low, high, below, y):
    """Writes under a condition; what is not written keeps its value."""
    for i in prange(x.shape[0]):
        if x[i] < low:
            below[i] = i
        if x[i] > high:
            y[i] = high
        elif x[i] >= low:
            y[i] = x[i]


INPUTS = {
    coulombic_potential: lambda n, dtype=np.float64: (
        RANDOM.random((n, 4)).astype(dtype) + dtype(0.1), dtype(0.1),
        RANDOM.random((n // 2, n + 1)).astype(dtype),
    ),
    n_body_step: lambda n, dtype=np.float64: (
        RANDOM.random((n, 3)).astype(dtype), RANDOM.random((n, 3)).astype(dtype),
        RANDOM.random(n).astype(dtype), dtype(0.1), np.zeros((n, 3), dtype),
    ),
    distances: lambda n, dtype=np.float64: (
        *(RANDOM.random(n).astype(dtype) for _ in range(3)), np.zeros(n, dtype),
    ),
    pair_energy: lambda n: (RANDOM.random(n),),
    black_scholes: lambda n: (
        RANDOM.random(n) + 5, RANDOM.random(n) + 5, RANDOM.random(n) + 0.2, np.zeros(n),
        np.zeros(n), 0.02, 0.3,
    ),
    monte_carlo_pi: lambda n: (RANDOM.integers(0, 2**32, n, np.uint32), 20),
    logistic_regression: lambda n: (
        np.sign(RANDOM.random(n) - 0.5), RANDOM.random((n, 4)), RANDOM.random(4), 3,
    ),
    mandelbrot: lambda n: (-2.0, 1.0, -1.0, 1.0, np.zeros((n, n + 2), np.uint8), 20),
    roots: lambda n: (100 * RANDOM.random(n), np.zeros(n), np.zeros(n, np.int32)),
    classes: lambda n: (RANDOM.random(n).round(1), np.zeros(4, np.int64), np.zeros(n, bool)),
    clipped: lambda n: (
        RANDOM.random(n), 0.25, 0.75, np.full(n, -1), RANDOM.random(n),
    ),
}  # fmt: skip
"""The arguments of each kernel for a size."""
