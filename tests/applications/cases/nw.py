"""Needleman-Wunsch, of one block and of several, which need not divide each other's number."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
from applications.case import Case, example

import weft as wf


def reference(similarity: Any, penalty: int) -> Any:
    """Cell by cell."""
    n = len(similarity)
    scores = np.zeros((n, n), dtype=np.int32)
    scores[0] = scores[:, 0] = -penalty * np.arange(n)
    for i in range(1, n):
        for j in range(1, n):
            scores[i, j] = max(
                scores[i - 1, j - 1] + similarity[i, j],
                scores[i, j - 1] - penalty,
                scores[i - 1, j] - penalty,
            )
    return scores


def aligned(count: int, size: int, penalty: int) -> Case:
    random = np.random.default_rng(count * size)
    n = count * size + 1
    similarity = random.integers(-10, 11, (n, n), dtype=np.int32)
    align = partial(example("nw").align, size=size)
    return Case(align, (similarity, penalty), reference, streams=False)


def of_any_size(count: int, size: int) -> Case:
    """The size of blocks as an argument of the compiled program, not a part of it."""
    case = aligned(count, size, 4)
    align = wf.jit(example("nw").align.function)
    arguments = (*case.arguments, size)
    return Case(align, arguments, lambda *given: reference(*given[:2]), streams=False)


def cases() -> dict[str, Case]:
    return {
        "several": aligned(5, 4, 10),
        "one_block": aligned(1, 7, 3),
        "blocks_of_one": aligned(6, 1, 2),
        "larger": aligned(9, 16, 10),
        "of_any_size": of_any_size(4, 5),
    }
