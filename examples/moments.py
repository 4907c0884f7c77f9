"""Mean and variance in one pass: a reduction over triples, with an operator of our own.

The operator merges the moments of two parts (Chan, Golub and LeVeque). It is associative, so
Weft may cut the data wherever it likes; and nothing is lost when the mean is large.
"""

import numpy as np

import weft as wf


def merge(a, b):
    """Count, mean and squared deviations of two parts together."""
    (count_a, mean_a, squares_a), (count_b, mean_b, squares_b) = a, b
    count = count_a + count_b
    apart = mean_b - mean_a
    share = wf.where(count > 0, count_b / wf.maximum(count, 1.0), 0.0)
    return count, mean_a + apart * share, squares_a + squares_b + apart * apart * count_a * share


@wf.jit
def mean_and_variance(x):
    ones, nothing = wf.ones_like(x), wf.zeros_like(x)
    count, mean, squares = wf.reduce(merge, (0.0, 0.0, 0.0), ones, x, nothing, axis=None)
    return mean, squares / count


def main(count: int = 1_000_000) -> tuple[float, float]:
    """The moments of numbers far from zero, where summing squares would lose all digits."""
    x = np.random.default_rng(2).normal(1e9, 1.0, count)
    mean, variance = mean_and_variance(x)
    return float(mean), float(variance)


if __name__ == "__main__":
    print("mean {:.6f}, variance {:.6f}".format(*main()))
