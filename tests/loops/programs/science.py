"""Whole NumPy programs of several sciences, as their authors write them."""

from __future__ import annotations

import numpy as np

RANDOM = np.random.default_rng(13)


def acceleration(position, mass, softening):
    apart = position[np.newaxis, :, :] - position[:, np.newaxis, :]
    cubed = (np.sum(apart**2, axis=-1) + softening**2) ** -1.5
    return np.sum(apart * (mass * cubed)[:, :, np.newaxis], axis=1)


def n_body(position, velocity, mass, dt, steps, softening):
    """Stars under gravity, by leapfrog; gives the kinetic energy after each step."""
    energy = np.empty(steps)
    force = acceleration(position, mass, softening)
    for t in range(steps):
        velocity += force * (dt / 2)
        position += velocity * dt
        force = acceleration(position, mass, softening)
        velocity += force * (dt / 2)
        energy[t] = 0.5 * np.sum(mass * np.sum(velocity**2, axis=1))
    return energy


def floyd_warshall(distance):
    """All shortest paths, in place."""
    for k in range(distance.shape[0]):
        distance[:] = np.minimum(distance[:], distance[:, k, np.newaxis] + distance[k])


def convolution_bias(image, weights, bias):
    """A layer of a network: batches of images of several channels, and a bias."""
    k = weights.shape[0]
    height, width = image.shape[1] - k + 1, image.shape[2] - k + 1
    output = np.empty((image.shape[0], height, width, weights.shape[3]), dtype=np.float32)
    for i in range(height):
        for j in range(width):
            output[:, i, j, :] = np.sum(
                image[:, i : i + k, j : j + k, :, np.newaxis] * weights[np.newaxis, :, :, :],
                axis=(1, 2, 3),
            )
    return output + bias


def softmax(x):
    """Over the last axis, of batches of heads."""
    shifted = np.exp(x - np.max(x, axis=-1, keepdims=True))
    return shifted / np.sum(shifted, axis=-1, keepdims=True)


def histogram(values, weights, bins):
    """Weights summed by where their values lie between the least and the largest."""
    least, largest = values.min(), values.max()
    place = ((values - least) / (largest - least) * bins).astype(np.int64)
    place[place == bins] = bins - 1
    counts = np.zeros(bins, dtype=weights.dtype)
    np.add.at(counts, place, weights)
    return counts / counts.sum()


def mandelbrot(left, right, bottom, top, width, height, most):
    """Rounds until a point escapes, by masks."""
    x = np.linspace(left, right, width)
    y = np.linspace(bottom, top, height)
    c = x + y[:, None] * 1j
    rounds = np.zeros(c.shape, dtype=np.int64)
    z = np.zeros(c.shape, dtype=np.complex128)
    for k in range(most):
        inside = np.abs(z) < 2.0
        rounds[inside] = k
        z[inside] = z[inside] ** 2 + c[inside]
    rounds[rounds == most - 1] = 0
    return rounds


def sparse_matrix_vector(start, column, value, x):
    """y = A x of a matrix in compressed rows."""
    y = np.zeros(start.size - 1, dtype=value.dtype)
    for row in range(y.size):
        own = slice(start[row], start[row + 1])
        y[row] = value[own] @ x[column[own]]
    return y


def contour_integral(coefficients, points, weights):
    """Moments of a matrix polynomial's trace around a contour."""
    n = coefficients.shape[1]
    zeroth = np.zeros((n, n), dtype=np.complex128)
    first = np.zeros((n, n), dtype=np.complex128)
    for z, weight in zip(points, weights):  # noqa: B905
        total = np.zeros((n, n), dtype=np.complex128)
        for power in range(coefficients.shape[0]):
            total += z**power * coefficients[power]
        if np.abs(z) < 1.0:
            total = -total
        zeroth += total * weight
        first += z * total * weight
    return zeroth, first


def sparse(n):
    counts = RANDOM.integers(0, 7, n)
    counts[n // 2] = 0
    start = np.concatenate([[0], np.cumsum(counts)])
    return start, RANDOM.integers(0, n, start[-1]), RANDOM.random(start[-1])


def around(count):
    points = np.exp(2j * np.pi * np.arange(count) / count) * np.where(np.arange(count) % 2, 2, 0.5)
    return points, points / count


INPUTS = {
    n_body: lambda n, steps=3: (
        RANDOM.random((n, 3)), RANDOM.random((n, 3)), RANDOM.random(n), 0.01, steps, 0.1,
    ),
    floyd_warshall: lambda n: (RANDOM.integers(1, 100, (n, n)).astype(np.int32),),
    convolution_bias: lambda n: (
        RANDOM.random((2, n, n + 1, 3), np.float32), RANDOM.random((3, 3, 3, 4), np.float32),
        RANDOM.random(4, np.float32),
    ),
    softmax: lambda n: (RANDOM.random((3, 2, n, n), np.float32),),
    histogram: lambda n: (RANDOM.random(n), RANDOM.random(n), 9),
    mandelbrot: lambda n: (-2.0, 0.5, -1.25, 1.25, n, n + 2, 20),
    sparse_matrix_vector: lambda n: (*sparse(n), RANDOM.random(n)),
    contour_integral: lambda n: (RANDOM.random((3, n, n)), *around(6)),
}  # fmt: skip
"""The arguments of each program for a size, and a number of steps."""
