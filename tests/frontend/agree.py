"""Checks that every front-end test makes: the traced program is well-typed and agrees."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import weft as wf
from weft.frontend.containers import flatten
from weft.frontend.trace import graph_key, trace
from weft.fun.check import check


def checked(*arrays: Any) -> list[Any]:
    """The values of lazy arrays, whose program must pass the checker."""
    nodes = [array._node for array in arrays]
    check(trace(nodes).program)
    assert graph_key(nodes).key == graph_key(nodes).key
    return [array.numpy() for array in arrays]


def values(result: Any) -> list[Any]:
    """All arrays of nested containers, computed."""
    leaves: list[Any] = []
    flatten(result, leaves)
    return checked(*leaves)


def same(result: Any, expected: Any, *, rtol: float = 1e-12, dtype: bool = True) -> None:
    """The lazy result equals the NumPy one, dtype and shape included."""
    found = values(result)
    wanted: list[Any] = []
    flatten(expected, wanted)
    assert len(found) == len(wanted)
    for a, b in zip(found, map(np.asarray, wanted), strict=True):
        assert a.shape == b.shape
        if dtype:
            assert a.dtype == b.dtype
        if b.dtype.kind in "fc":
            scale = 1e-5 if b.dtype in (np.float32, np.complex64) else rtol
            np.testing.assert_allclose(a, b, rtol=scale, atol=scale)
        else:
            np.testing.assert_array_equal(a, b)


def jitted(function: Callable[..., Any], *arguments: Any, **options: Any) -> None:
    """A function gives the same lazily and compiled."""
    lazy: list[Any] = []
    flatten(function(*(wf.asarray(x) if isinstance(x, np.ndarray) else x for x in arguments)), lazy)
    compiled: list[Any] = []
    flatten(wf.jit(function)(*arguments), compiled)
    for a, b in zip(lazy, compiled, strict=True):
        if isinstance(a, wf.Array):
            np.testing.assert_allclose(a.numpy(), b, rtol=1e-5, **options)
        else:
            assert a == b
