"""The best alignment of two sequences: Needleman-Wunsch, blocks on anti-diagonals in parallel.

NW of the Rodinia benchmarks, written as in section 6.1 of *Static and Dynamic Analyses for
Efficient GPU Execution* (P. Munksgaard, 2023). The score of a cell needs those to its left, above
it, and between these two. Blocks on an anti-diagonal depend on earlier ones alone; on the flat
matrix they are an LMAD, and what they read, the column left of each and the row above, are two
more. The blocks are written over the matrix in place.
"""

from functools import partial

import numpy as np

import weft as wf


def block_scores(penalty, left, above, similar):
    """Scores of a block, from the column left of it (with the corner) and the row above it.

    To leave out a letter costs the same in every place: with these costs given back (`ramp`), the
    best way along a row is a running maximum.
    """
    ramp = penalty * wf.arange(similar.shape[0] + 1, dtype=similar.dtype)[1:]

    def row(above, beside):
        start, similar = beside
        best = wf.maximum(above[:-1] + (similar + penalty), above[1:] - penalty)
        scores = wf.associative_scan("max", best, init=start)
        return wf.concat([start[None], scores]), scores - ramp

    _, rows = wf.scan(row, wf.concat([left[:1], above + ramp]), (left[1:], similar))
    return rows


@partial(wf.jit, static_argnames="size")
def align(similarity, penalty, size=16):
    """The scores of all pairs of prefixes.

    `similarity[i, j]` compares letter i of one sequence to letter j of the other; its first row
    and column are not read. Their lengths are a multiple of `size`.
    """
    n = similarity.shape[0]
    count = (n - 1) // size
    wf.assume(n == count * size + 1)
    similar = similarity.reshape(-1)
    border = -penalty * wf.arange(n, dtype=similarity.dtype)
    scores = wf.empty((n, n), dtype=similarity.dtype).at[0].set(border).at[1:, 0].set(border[1:])

    def diagonal(scores, corner, blocks):
        """The blocks of an anti-diagonal; `corner` is left of and above the uppermost one."""
        apart, inside = (blocks, n * size - size), corner + n + 1
        left = wf.lmad(scores, corner, [apart, (size + 1, n)])
        above = wf.lmad(scores, corner + 1, [apart, (size, 1)])
        those = wf.lmad(similar, inside, [apart, (size, n), (size, 1)])
        new = wf.map(partial(block_scores, penalty), left, above, those)
        return scores.at_lmad(inside, [apart, (size, n), (size, 1)]).set(new)

    scores = scores.reshape(-1)
    scores = wf.fori_loop(0, count, lambda i, s: diagonal(s, i * size, i + 1), scores)
    last = (count - 1) * size
    scores = wf.fori_loop(
        1, count, lambda i, s: diagonal(s, last + i * size * n, count - i), scores
    )
    return scores.reshape(n, n)


def traced_back(scores, similarity, penalty):
    """An alignment of the best score: pairs of positions, -1 for a letter left out."""
    i, j = (extent - 1 for extent in scores.shape)
    pairs = []
    while i or j:
        if i and j and scores[i, j] == scores[i - 1, j - 1] + similarity[i, j]:
            i, j = i - 1, j - 1
            pairs.append((i, j))
        elif i and scores[i, j] == scores[i - 1, j] - penalty:
            i -= 1
            pairs.append((i, -1))
        else:
            j -= 1
            pairs.append((-1, j))
    return pairs[::-1]


def main(length: int = 512, penalty: int = 6) -> tuple[str, str, int]:
    """A random sequence and one made of it by mutations, aligned; and the score."""
    random = np.random.default_rng(11)
    first = random.integers(0, 4, length)
    kept = first[random.random(length) > 0.06]  # some letters are lost, some replaced, some new
    second = np.where(random.random(kept.size) > 0.1, kept, random.integers(0, 4, kept.size))
    second = np.concatenate([second, random.integers(0, 4, length - second.size)])
    similarity = np.zeros((length + 1, length + 1), dtype=np.int32)
    similarity[1:, 1:] = np.where(first[:, None] == second, 5, -4)
    scores = align(similarity, penalty)
    pairs = traced_back(scores, similarity, penalty)
    letters = "ACGT-"
    upper = "".join(letters[-1 if i < 0 else first[i]] for i, _ in pairs)
    lower = "".join(letters[-1 if j < 0 else second[j]] for _, j in pairs)
    return upper, lower, int(scores[-1, -1])


if __name__ == "__main__":
    upper, lower, score = main()
    for start in range(0, 228, 76):
        a, b = upper[start : start + 76], lower[start : start + 76]
        same = "".join("|" if x == y else " " for x, y in zip(a, b, strict=True))
        print(a, same, b, "", sep="\n")
    print(f"score {score}")
