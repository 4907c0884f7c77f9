"""LUD, of one block and of several, also of blocks of one element."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
from applications.case import Case, example

import weft as wf


def reference(matrix: Any) -> Any:
    """The definition, element by element of the diagonal, in float64."""
    a = matrix.astype(np.float64)
    for k in range(len(a)):
        a[k + 1 :, k] /= a[k, k]
        a[k + 1 :, k + 1 :] -= np.outer(a[k + 1 :, k], a[k, k + 1 :])
    return a.astype(matrix.dtype)


def decomposed(count: int, size: int, dtype: Any) -> Case:
    n = count * size
    random = np.random.default_rng(n)
    matrix = random.uniform(-1, 1, (n, n)) + n * np.eye(n)  # no pivots are needed
    decompose = partial(example("lud").decompose, size=size)
    tolerance = 1e-4 if dtype is np.float32 else 1e-11
    return Case(decompose, (matrix.astype(dtype),), reference, tolerance, tolerance, streams=False)


def of_any_size(count: int, size: int) -> Case:
    """The size of blocks as an argument of the compiled program, not a part of it."""
    case = decomposed(count, size, np.float64)
    decompose = wf.jit(example("lud").decompose.function)
    return Case(
        decompose, (*case.arguments, size), lambda matrix, _: reference(matrix), 1e-11, 1e-11,
        streams=False,
    )  # fmt: skip


def cases() -> dict[str, Case]:
    return {
        "several": decomposed(5, 3, np.float64),
        "one_block": decomposed(1, 7, np.float32),
        "blocks_of_one": decomposed(6, 1, np.float64),
        "larger": decomposed(5, 16, np.float32),
        "of_any_size": of_any_size(4, 5),
    }
