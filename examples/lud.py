"""A linear system's matrix as the product of a lower and an upper triangle, block by block.

LUD of the Rodinia benchmarks (section 6.8.2 of *Static and Dynamic Analyses for Efficient GPU
Execution*, P. Munksgaard, 2023): no pivoting, and the lower triangle's diagonal of ones is not
stored, so that both triangles take the place of the matrix. Each round factors a block of the
diagonal, then the blocks below and beside it, then subtracts their products from the rest: slices
that shrink, all updated in place.
"""

from functools import partial

import numpy as np

import weft as wf


def factor(block):
    """The triangles of one block."""

    def column(k, block):
        below = block[k + 1 :, k] / block[k, k]
        rest = block[k + 1 :, k + 1 :] - below[:, None] * block[k, k + 1 :]
        return block.at[k + 1 :, k].set(below).at[k + 1 :, k + 1 :].set(rest)

    return wf.fori_loop(0, block.shape[0], column, block)


def divide_left(diagonal, block):
    """x of `L x = block`, where L is the diagonal block's lower triangle."""

    def row(k, x):
        rest = x[k + 1 :] - diagonal[k + 1 :, k, None] * x[k]
        return x.at[k + 1 :].set(rest)

    return wf.fori_loop(0, block.shape[0], row, block)


def divide_right(diagonal, block):
    """x of `x U = block`, where U is the diagonal block's upper triangle."""

    def column(k, x):
        done = x[:, k] / diagonal[k, k]
        rest = x[:, k + 1 :] - done[:, None] * diagonal[k, k + 1 :]
        return x.at[:, k].set(done).at[:, k + 1 :].set(rest)

    return wf.fori_loop(0, block.shape[0], column, block)


@partial(wf.jit, static_argnames="size")
def decompose(matrix, size=32):
    """Both triangles of a matrix whose extent is a multiple of the size of blocks."""
    n = matrix.shape[0]
    count = n // size
    wf.assume(n == count * size)

    def step(k, blocks):
        diagonal = factor(blocks[k, k])
        beside = wf.map(partial(divide_left, diagonal), blocks[k, k + 1 :])
        below = wf.map(partial(divide_right, diagonal), blocks[k + 1 :, k])
        rest = wf.map(
            lambda left, row: wf.map(lambda right, block: block - left @ right, beside, row),
            below, blocks[k + 1 :, k + 1 :],
        )  # fmt: skip
        blocks = blocks.at[k, k].set(diagonal)
        blocks = blocks.at[k, k + 1 :].set(beside).at[k + 1 :, k].set(below)
        return blocks.at[k + 1 :, k + 1 :].set(rest)

    blocks = matrix.reshape(count, size, count, size).transpose(0, 2, 1, 3)
    return wf.fori_loop(0, count, step, blocks).transpose(0, 2, 1, 3).reshape(n, n)


def main(n: int = 512) -> tuple[np.ndarray, np.ndarray]:
    """Rodinia's matrix, which decays away from its diagonal, and its triangles."""
    i = np.arange(n)
    matrix = (10 * np.exp(-0.001 * np.abs(i[:, None] - i))).astype(np.float32)
    return matrix, decompose(matrix)


if __name__ == "__main__":
    matrix, both = main()
    lower, upper = np.tril(both, -1) + np.eye(len(both)), np.triu(both).astype(np.float64)
    print(f"{len(both)} x {len(both)}, pivots from {upper.diagonal().min():.4f} "
          f"to {upper.diagonal().max():.4f}")  # fmt: skip
    print(f"largest error of lower @ upper: {np.abs(lower @ upper - matrix).max():.1e}")
    right = np.ones(len(both))
    solution = np.linalg.solve(upper, np.linalg.solve(lower, matrix @ right))
    print(f"a solution found with it is off by {np.abs(solution - right).max():.1e}")
