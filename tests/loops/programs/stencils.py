"""Programs on grids, as their authors write them in NumPy: nothing in them knows of Weft."""

from __future__ import annotations

import numpy as np

RANDOM = np.random.default_rng(11)


def jacobi_1d(a, b, steps):
    """A rod's temperature, three points averaged, from one array to another and back."""
    for _ in range(steps):
        b[1:-1] = (a[:-2] + a[1:-1] + a[2:]) / 3
        a[1:-1] = (b[:-2] + b[1:-1] + b[2:]) / 3


def jacobi_2d(potential, tolerance, most):
    """Laplace's equation, until no point changes by more than the tolerance."""
    rounds = 0
    change = tolerance + 1
    while change > tolerance and rounds < most:
        new = potential.copy()
        new[1:-1, 1:-1] = 0.25 * (
            potential[:-2, 1:-1] + potential[2:, 1:-1] + potential[1:-1, :-2] + potential[1:-1, 2:]
        )
        change = np.max(np.abs(new - potential))
        potential[:] = new
        rounds += 1
    return rounds


def heat_3d(u, conductivity, steps):
    """Heat in a block, explicitly."""
    inner = (slice(1, -1), slice(1, -1), slice(1, -1))
    for _ in range(steps):
        laplacian = (
            u[2:, 1:-1, 1:-1] + u[:-2, 1:-1, 1:-1]
            + u[1:-1, 2:, 1:-1] + u[1:-1, :-2, 1:-1]
            + u[1:-1, 1:-1, 2:] + u[1:-1, 1:-1, :-2]
            - 6 * u[inner]
        )  # fmt: skip
        u[inner] += conductivity * laplacian
    return u


def fdtd_2d(ex, ey, hz, source):
    """Maxwell's equations on Yee's grid; a source drives one edge."""
    for t in range(source.shape[0]):
        ey[0, :] = source[t]
        ey[1:, :] -= 0.5 * (hz[1:, :] - hz[:-1, :])
        ex[:, 1:] -= 0.5 * (hz[:, 1:] - hz[:, :-1])
        hz[:-1, :-1] -= 0.7 * (ex[:-1, 1:] - ex[:-1, :-1] + ey[1:, :-1] - ey[:-1, :-1])


def advection(density, velocity, dt, dx, steps):
    """Upwind transport on a ring, where the velocity has both signs."""
    courant = velocity * dt / dx
    for _ in range(steps):
        left = density - np.roll(density, 1)
        right = np.roll(density, -1) - density
        density -= courant * np.where(courant > 0, left, right)
    return density.sum() * dx


def adi(u, steps):
    """Heat by alternating directions: a tridiagonal system along columns, then along rows."""
    n = u.shape[0]
    r = 1.0 / steps * (n - 1) ** 2 / 50
    a, b = -r, 1 + 2 * r
    v = np.zeros_like(u)
    p, q = np.zeros_like(u), np.zeros_like(u)
    for _ in range(steps):
        v[0, 1:-1] = 1.0
        p[1:-1, 0] = 0.0
        q[1:-1, 0] = v[0, 1:-1]
        for j in range(1, n - 1):
            p[1:-1, j] = -a / (a * p[1:-1, j - 1] + b)
            q[1:-1, j] = (
                r * u[j, :-2] + (1 - 2 * r) * u[j, 1:-1] + r * u[j, 2:] - a * q[1:-1, j - 1]
            ) / (a * p[1:-1, j - 1] + b)
        v[-1, 1:-1] = 1.0
        for j in range(n - 2, 0, -1):
            v[j, 1:-1] = p[1:-1, j] * v[j + 1, 1:-1] + q[1:-1, j]
        u[1:-1, 0] = 1.0
        p[1:-1, 0] = 0.0
        q[1:-1, 0] = u[1:-1, 0]
        for j in range(1, n - 1):
            p[1:-1, j] = -a / (a * p[1:-1, j - 1] + b)
            q[1:-1, j] = (
                r * v[:-2, j] + (1 - 2 * r) * v[1:-1, j] + r * v[2:, j] - a * q[1:-1, j - 1]
            ) / (a * p[1:-1, j - 1] + b)
        u[1:-1, -1] = 1.0
        for j in range(n - 2, 0, -1):
            u[1:-1, j] = p[1:-1, j] * u[1:-1, j + 1] + q[1:-1, j]


def divergence(u, v, dt, d):
    b = np.zeros_like(u)
    du = (u[1:-1, 2:] - u[1:-1, :-2]) / (2 * d)
    dv = (v[2:, 1:-1] - v[:-2, 1:-1]) / (2 * d)
    cross = (u[2:, 1:-1] - u[:-2, 1:-1]) * (v[1:-1, 2:] - v[1:-1, :-2]) / (4 * d * d)
    b[1:-1, 1:-1] = (du + dv) / dt - du**2 - 2 * cross - dv**2
    return b


def pressure(p, b, d, rounds):
    for _ in range(rounds):
        pn = p.copy()
        p[1:-1, 1:-1] = 0.25 * (
            pn[1:-1, 2:] + pn[1:-1, :-2] + pn[2:, 1:-1] + pn[:-2, 1:-1] - d * d * b[1:-1, 1:-1]
        )
        p[:, -1] = p[:, -2]
        p[0, :] = p[1, :]
        p[:, 0] = p[:, 1]
        p[-1, :] = 0


def cavity_flow(u, v, p, steps, rounds, dt, viscosity):
    """A box of liquid whose lid moves: Navier and Stokes' equations, with pressure projected."""
    d = 2.0 / (u.shape[0] - 1)
    for _ in range(steps):
        un, vn = u.copy(), v.copy()
        pressure(p, divergence(un, vn, dt, d), d, rounds)
        for w, wn, gradient in (
            (u, un, p[1:-1, 2:] - p[1:-1, :-2]),
            (v, vn, p[2:, 1:-1] - p[:-2, 1:-1]),
        ):
            w[1:-1, 1:-1] = (
                wn[1:-1, 1:-1]
                - un[1:-1, 1:-1] * dt / d * (wn[1:-1, 1:-1] - wn[1:-1, :-2])
                - vn[1:-1, 1:-1] * dt / d * (wn[1:-1, 1:-1] - wn[:-2, 1:-1])
                - dt / (2 * d) * gradient
                + viscosity * dt / d**2 * (
                    wn[1:-1, 2:] + wn[1:-1, :-2] + wn[2:, 1:-1] + wn[:-2, 1:-1]
                    - 4 * wn[1:-1, 1:-1]
                )
            )  # fmt: skip
        u[:, 0] = u[:, -1] = u[0, :] = 0
        u[-1, :] = 1
        v[:, 0] = v[:, -1] = v[0, :] = v[-1, :] = 0


INPUTS = {
    jacobi_1d: lambda n, steps=5: (RANDOM.random(n), RANDOM.random(n), steps),
    jacobi_2d: lambda n, steps=40: (RANDOM.random((n, n + 3)), 1e-2, steps),
    heat_3d: lambda n, steps=4: (RANDOM.random((n, n + 2, n - 1)), 0.125, steps),
    fdtd_2d: lambda n, steps=4: (
        RANDOM.random((n, n + 4)), RANDOM.random((n, n + 4)), RANDOM.random((n, n + 4)),
        np.sin(np.arange(steps)),
    ),
    advection: lambda n, steps=6: (RANDOM.random(n), RANDOM.random(n) - 0.5, 0.05, 0.1, steps),
    adi: lambda n, steps=3: (RANDOM.random((n, n)), steps),
    cavity_flow: lambda n, steps=3: (
        np.zeros((n, n)), np.zeros((n, n)), RANDOM.random((n, n)), steps, 4, 1e-3, 0.1,
    ),
}  # fmt: skip
"""The arguments of each program for a size, and a number of steps."""
