"""Naive products of matrices become the library's; what only looks like one does not."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import weft as wf
from weft.fun import nodes as fun

RANDOM = np.random.default_rng(4)


def plain(a: Any, b: Any, c: Any) -> None:
    for i in wf.prange(c.shape[0]):
        for j in wf.prange(c.shape[1]):
            total = 0.0
            for k in range(a.shape[1]):
                total += a[i, k] * b[k, j]
            c[i, j] = total


def transposed(a: Any, b: Any, c: Any) -> None:
    for i in range(c.shape[0]):
        for j in range(c.shape[1]):
            total = 0.0
            for k in range(a.shape[0]):
                total += b[j, k] * a[k, i]
            c[i, j] = total


def diagonal(a: Any, b: Any, c: Any) -> None:
    for i in wf.prange(c.shape[0]):
        for j in wf.prange(c.shape[1]):
            total = 0.0
            for k in range(a.shape[1]):
                total += a[i, k] * b[k, i]
            c[i, j] = total


def run(function: Any, a: Any, b: Any, optimise: str = "") -> tuple[Any, list[Any]]:
    c = np.full((6, 5), 9.0)
    with wf.config(optimise=optimise):
        kernel = wf.kernel(function)
        kernel(a, b, c)
        program = kernel.trace(a, b, c)
    return c, [let.expr for let in program.body.statements if isinstance(let.expr, fun.Call)]


@pytest.mark.parametrize("optimise", ["", "no-blas"])
def test_products(optimise: str) -> None:
    a, b = RANDOM.random((6, 7)), RANDOM.random((7, 5))
    for function, left, right in ((plain, a, b), (transposed, a.T.copy(), b.T.copy())):
        c, calls = run(function, left, right, optimise)
        np.testing.assert_allclose(c, a @ b)
        assert len(calls) == (not optimise)


def test_part_of_a_matrix() -> None:
    a, b = RANDOM.random((9, 7)), RANDOM.random((8, 6))
    c, calls = run(plain, a, b)
    np.testing.assert_allclose(c, a[:6] @ b[:7, :5])
    assert calls


def test_what_is_no_product() -> None:
    a, b = RANDOM.random((6, 7)), RANDOM.random((7, 6))
    c, calls = run(diagonal, a, b)
    np.testing.assert_allclose(c, np.repeat(np.diag(a @ b)[:, None], 5, axis=1))
    assert not calls
