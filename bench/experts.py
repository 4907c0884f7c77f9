"""NumPy programs that Numba refuses, as its experts write them: loops, over all threads."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numba
import numpy as np
from numba import prange


@numba.njit(parallel=True)
def softmax(x):
    rows = x.reshape(-1, x.shape[-1])
    result = np.empty_like(rows)
    for i in prange(rows.shape[0]):
        largest = rows[i].max()
        total = np.float32(0)
        for j in range(rows.shape[1]):
            result[i, j] = np.exp(rows[i, j] - largest)
            total += result[i, j]
        for j in range(rows.shape[1]):
            result[i, j] /= total
    return result.reshape(x.shape)


@numba.njit(parallel=True)
def histogram(values, weights, bins):
    least, largest = values.min(), values.max()
    threads = numba.get_num_threads()
    part = -(-values.size // threads)
    own = np.zeros((threads, bins), weights.dtype)
    for t in prange(threads):
        for i in range(t * part, min((t + 1) * part, values.size)):
            place = int((values[i] - least) / (largest - least) * bins)
            own[t, min(place, bins - 1)] += weights[i]
    counts = own.sum(axis=0)
    return counts / counts.sum()


@numba.njit(parallel=True)
def mandelbrot(left, right, bottom, top, width, height, most):
    x, y = np.linspace(left, right, width), np.linspace(bottom, top, height)
    rounds = np.zeros((height, width), np.int64)
    for i in prange(height):
        for j in range(width):
            c = complex(x[j], y[i])
            z = 0j
            for k in range(most):
                if math.hypot(z.real, z.imag) >= 2.0:
                    break
                rounds[i, j] = k
                z = z * z + c
            if rounds[i, j] == most - 1:
                rounds[i, j] = 0
    return rounds


@numba.njit(parallel=True)
def _centred(data):
    rows, columns = data.shape
    result = np.empty_like(data)
    for j in prange(columns):
        mean = data[:, j].mean()
        deviation = data[:, j].std()
        if deviation <= 0.1:
            deviation = 1.0
        for i in range(rows):
            result[i, j] = (data[i, j] - mean) / (np.sqrt(rows) * deviation)
    return result


def correlation(data):
    centred = _centred(data)
    result = centred.T @ centred
    np.fill_diagonal(result, 1.0)
    return result


@numba.njit(parallel=True)
def covariance(data):
    for j in prange(data.shape[1]):
        data[:, j] -= data[:, j].mean()
    return data.T @ data / (data.shape[0] - 1)


@numba.njit(parallel=True)
def convolution_bias(image, weights, bias):
    k = weights.shape[0]
    batch, height, width = image.shape[0], image.shape[1] - k + 1, image.shape[2] - k + 1
    output = np.empty((batch, height, width, weights.shape[3]), np.float32)
    for row in prange(batch * height):
        b, i = row // height, row % height
        for j in range(width):
            for o in range(weights.shape[3]):
                total = bias[o]
                for p in range(k):
                    for q in range(k):
                        for c in range(weights.shape[2]):
                            total += image[b, i + p, j + q, c] * weights[p, q, c, o]
                output[b, i, j, o] = total
    return output


@numba.njit(parallel=True)
def floyd_warshall(distance):
    n = distance.shape[0]
    for k in range(n):
        for i in prange(n):
            for j in range(n):
                distance[i, j] = min(distance[i, j], distance[i, k] + distance[k, j])


@numba.njit(parallel=True)
def sparse_matrix_vector(start, column, value, x):
    y = np.zeros(start.size - 1, value.dtype)
    for row in prange(y.size):
        total = 0.0
        for k in range(start[row], start[row + 1]):
            total += value[k] * x[column[k]]
        y[row] = total
    return y


EXPERTS: dict[str, Callable[..., Any]] = {
    f.__name__: f
    for f in (
        softmax, histogram, mandelbrot, correlation, covariance, convolution_bias, floyd_warshall,
        sparse_matrix_vector,
    )
}  # fmt: skip
