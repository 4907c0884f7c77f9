"""Loop nests whose indices and bounds are data, scans and sorts."""

from __future__ import annotations

import numpy as np

from weft import prange

RANDOM = np.random.default_rng(24)


def sum_2d(a):
    """The first example of Numba's documentation."""
    result = 0.0
    for i in range(a.shape[0]):
        for j in range(a.shape[1]):
            result += a[i, j]
    return result


def bubble_sort(x):
    """An example of Numba's documentation."""
    n = x.shape[0]
    for end in range(n, 1, -1):
        for i in range(end - 1):
            current = x[i]
            if current > x[i + 1]:
                x[i] = x[i + 1]
                x[i + 1] = current


def prefix_sums(x, sums):
    total = 0
    for i in range(x.shape[0]):
        total += x[i]
        sums[i] = total


def extremes(x):
    """Reductions over a prange by four operators."""
    least, largest, product, above = np.inf, -np.inf, 1.0, 0
    for i in prange(x.shape[0]):
        least = min(least, x[i])
        largest = max(largest, x[i])
        product *= x[i]
        above += x[i] > 1.0
    return least, largest, product, above


def count_bytes(text, counts):
    """A histogram."""
    for i in range(text.shape[0]):
        counts[text[i]] += 1


def scatter(x, place, y):
    """A permutation; which index is written is data."""
    for i in range(x.shape[0]):
        y[place[i]] = 2 * x[i]


def gather(x, place, y):
    for i in prange(y.shape[0]):
        y[i] = x[place[i]] + x[-1 - place[i]]


def sparse_rows(start, column, value, x, y):
    """A sparse matrix's product, with a while loop over each row."""
    for row in prange(y.shape[0]):
        total = 0.0
        k = start[row]
        while k < start[row + 1]:
            total += value[k] * x[column[k]]
            k += 1
        y[row] = total


def first_above(x, limits, found):
    """A search that stops; -1 where nothing is found."""
    for i in prange(limits.shape[0]):
        found[i] = -1
        for k in range(x.shape[0]):
            if x[k] > limits[i]:
                found[i] = k
                break


def compacted(x, kept):
    """What passes a test, one after another; how many those are."""
    count = 0
    for i in range(x.shape[0]):
        if x[i] > 0.5:
            kept[count] = x[i]
            count += 1
    return count


def breadth_first(start, edges, distance):
    """Rodinia's BFS: rounds over all vertices until none is new."""
    level = 0
    changed = True
    while changed:
        changed = False
        for vertex in range(distance.shape[0]):
            if distance[vertex] == level:
                for k in range(start[vertex], start[vertex + 1]):
                    if distance[edges[k]] < 0:
                        distance[edges[k]] = level + 1
                        changed = True
        level += 1
    return level


def k_means(points, centres, member, rounds):
    """Rodinia's k-means: the nearest centre, then the means, with local arrays."""
    k, features = centres.shape
    for _ in range(rounds):
        for i in prange(points.shape[0]):
            best, nearest = np.inf, 0
            for c in range(k):
                distance = 0.0
                for f in range(features):
                    distance += (points[i, f] - centres[c, f]) ** 2
                if distance < best:
                    best, nearest = distance, c
            member[i] = nearest
        sums, counts = np.zeros((k, features)), np.zeros(k, np.int64)
        for i in range(points.shape[0]):
            counts[member[i]] += 1
            for f in range(features):
                sums[member[i], f] += points[i, f]
        for c in range(k):
            if counts[c] > 0:
                centres[c] = sums[c] / counts[c]


def compressed(n, most):
    start = np.concatenate([[0], np.cumsum(RANDOM.integers(0, most, n))])
    return start, RANDOM.integers(0, n, start[-1])


def sparse_system(n):
    start, column = compressed(n, 6)
    return start, column, RANDOM.random(column.size), RANDOM.random(n), np.zeros(n)


def graph(n):
    distance = np.full(n, -1)
    distance[0] = 0
    return *compressed(n, 4), distance


INPUTS = {
    sum_2d: lambda n: (RANDOM.random((n, n + 1)).astype(np.float32),),
    bubble_sort: lambda n: (RANDOM.integers(0, 99, n),),
    prefix_sums: lambda n: (RANDOM.integers(-9, 9, n).astype(np.int32), np.zeros(n, np.int32)),
    extremes: lambda n: (0.5 + RANDOM.random(n),),
    count_bytes: lambda n: (RANDOM.integers(0, 256, n).astype(np.uint8), np.zeros(256, np.int64)),
    scatter: lambda n: (RANDOM.random(n), RANDOM.permutation(n), np.zeros(n)),
    gather: lambda n: (RANDOM.random(n), RANDOM.integers(0, n, n + 3), np.zeros(n + 3)),
    sparse_rows: sparse_system,
    first_above: lambda n: (RANDOM.random(n), np.linspace(0, 1, 7), np.zeros(7, np.int64)),
    compacted: lambda n: (RANDOM.random(n), np.zeros(n)),
    breadth_first: graph,
    k_means: lambda n: (RANDOM.random((n, 3)), RANDOM.random((4, 3)), np.zeros(n, np.int32), 3),
}  # fmt: skip
"""The arguments of each kernel for a size."""
