"""LocVolCalib on small grids."""

from __future__ import annotations

from typing import Any

import numpy as np
from applications.case import Case, example


def differences(n: int, spacing: float) -> Any:
    """Three-point second differences as a matrix, zero in the first and last rows."""
    matrix = np.zeros((n, n))
    for i in range(1, n - 1):
        matrix[i, i - 1 : i + 2] = np.array([1, -2, 1]) / spacing**2
    return matrix


def calls(
    strikes: Any, x: Any, y: Any, t: Any, i: int, j: int, nu: float, beta: float
) -> Any:  # fmt: skip
    """The definition by dense matrices and a general solver, one strike at a time."""
    dxx, dyy = differences(len(x), x[1] - x[0]), differences(len(y), y[1] - y[0])
    results = []
    for strike in strikes:
        r = np.tile(np.maximum(x - strike, 0), (len(y), 1))
        for g in range(len(t) - 2, -1, -1):
            d = 1 / (t[g + 1] - t[g])
            vx = np.exp(2 * (beta * np.log(x) + y[:, None] - 0.5 * nu**2 * t[g]))
            v = 0.5 * nu**2 * (dyy @ r)
            u = d * r + 0.25 * vx * (r @ dxx.T) + v
            for row in range(len(y)):
                system = d * np.eye(len(x)) - 0.25 * vx[row][:, None] * dxx
                u[row] = np.linalg.solve(system, u[row])
            r = np.linalg.solve(d * np.eye(len(y)) - 0.25 * nu**2 * dyy, d * u - 0.5 * v)
        results.append(r[j, i])
    return np.array(results)


def cases() -> dict[str, Case]:
    program = example("locvolcalib")

    def case(strikes: int, prices: int, volatilities: int, times: int) -> Case:
        x, y, t, i, j = program.grids(prices, volatilities, times)
        given = (0.001 * np.arange(strikes), x, y, t, i, j, 0.6, 0.5)
        return Case(program.calls, given, calls, 1e-9, 1e-12, streams=False)

    return {"": case(5, 11, 13, 6), "one_strike": case(1, 7, 3, 3), "no_steps": case(3, 5, 5, 1)}
