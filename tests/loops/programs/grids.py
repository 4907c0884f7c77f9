"""Loop nests on grids: stencils, borders, dynamic programming."""

from __future__ import annotations

import numpy as np

from weft import prange

RANDOM = np.random.default_rng(22)


def five_point(a, b):
    for i in prange(1, a.shape[0] - 1):
        for j in prange(1, a.shape[1] - 1):
            b[i, j] = 0.2 * (a[i, j] + a[i - 1, j] + a[i + 1, j] + a[i, j - 1] + a[i, j + 1])


def hotspot(temperature, power, steps):
    """Rodinia's Hotspot: the borders' neighbours are the borders themselves."""
    rows, columns = temperature.shape
    new = np.empty_like(temperature)
    for _ in range(steps):
        for i in prange(rows):
            for j in prange(columns):
                up, down = max(i - 1, 0), min(i + 1, rows - 1)
                left, right = max(j - 1, 0), min(j + 1, columns - 1)
                here = temperature[i, j]
                new[i, j] = here + 0.1 * (
                    power[i, j]
                    + (temperature[up, j] + temperature[down, j] - 2.0 * here)
                    + (temperature[i, left] + temperature[i, right] - 2.0 * here)
                    + 0.05 * (80.0 - here)
                )
        temperature[:, :] = new


def gauss_seidel(a, steps):
    """Each point uses those that were renewed before it: nothing runs in parallel."""
    for _ in range(steps):
        for i in range(1, a.shape[0] - 1):
            for j in range(1, a.shape[1] - 1):
                a[i, j] = 0.25 * (a[i - 1, j] + a[i + 1, j] + a[i, j - 1] + a[i, j + 1])


def life(world, steps):
    """Conway's game on a torus, whose borders negative indices reach."""
    rows, columns = world.shape
    for _ in range(steps):
        new = np.zeros((rows, columns), np.uint8)
        for i in prange(rows):
            for j in prange(columns):
                near = 0
                for di in range(-1, 2):
                    for dj in range(-1, 2):
                        if di != 0 or dj != 0:
                            near += world[(i + di) % rows, (j + dj) % columns]
                if near == 3 or (near == 2 and world[i, j] == 1):
                    new[i, j] = 1
        world[...] = new


def red_black(u, f, steps):
    """Points of one colour, then those of the other: a range with a step."""
    n, m = u.shape
    for _ in range(steps):
        for colour in range(2):
            for i in prange(1, n - 1):
                for j in range(1 + (i + colour) % 2, m - 1, 2):
                    u[i, j] = 0.25 * (
                        u[i - 1, j] + u[i + 1, j] + u[i, j - 1] + u[i, j + 1] - f[i, j]
                    )


def pathfinder(wall):
    """Rodinia's Pathfinder: the cheapest way down, each step at most one to a side."""
    rows, columns = wall.shape
    cost = wall[0].copy()
    for row in range(1, rows):
        before = cost.copy()
        for j in prange(columns):
            best = before[j]
            if j > 0:
                best = min(best, before[j - 1])
            if j < columns - 1:
                best = min(best, before[j + 1])
            cost[j] = wall[row, j] + best
    return cost


def alignment(first, second, score, penalty):
    """Rodinia's Needleman-Wunsch: the best of three neighbours."""
    for i in range(score.shape[0]):
        score[i, 0] = -i * penalty
    for j in range(score.shape[1]):
        score[0, j] = -j * penalty
    for i in range(1, score.shape[0]):
        for j in range(1, score.shape[1]):
            match = 3 if first[i - 1] == second[j - 1] else -1
            score[i, j] = max(
                score[i - 1, j - 1] + match,
                score[i - 1, j] - penalty,
                score[i, j - 1] - penalty,
            )


def moving_average(x, width, y):
    """Strides and negative indices: the last of y belongs to the first of x."""
    for i in prange(y.shape[0]):
        total = 0.0
        for k in range(width):
            total += x[2 * i + k]
        y[-1 - i] = total / width


INPUTS = {
    five_point: lambda n, dtype=np.float64: (
        RANDOM.random((n, n + 4)).astype(dtype), np.zeros((n, n + 4), dtype),
    ),
    hotspot: lambda n, steps=3: (
        80 + RANDOM.random((n, n + 1), np.float32), RANDOM.random((n, n + 1), np.float32), steps,
    ),
    gauss_seidel: lambda n, steps=2: (RANDOM.random((n, n)), steps),
    life: lambda n, steps=4: (RANDOM.integers(0, 2, (n, n + 3)).astype(np.uint8), steps),
    red_black: lambda n, steps=2: (RANDOM.random((n, n + 1)), RANDOM.random((n, n + 1)), steps),
    pathfinder: lambda n: (RANDOM.integers(0, 10, (n, n + 6)).astype(np.int32),),
    alignment: lambda n: (
        RANDOM.integers(0, 4, n).astype(np.int8), RANDOM.integers(0, 4, n + 2).astype(np.int8),
        np.zeros((n + 1, n + 3), np.int32), 2,
    ),
    moving_average: lambda n: (RANDOM.random(2 * n + 3), 5, np.zeros(n)),
}  # fmt: skip
"""The arguments of each kernel for a size, and a number of steps."""
