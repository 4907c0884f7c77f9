"""A kernel does what the plain function does: results, dtypes, and what is written in place."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import numpy as np

import weft as wf


def agrees(function: Callable[..., Any], *arguments: Any, rtol: float = 1e-9) -> Any:
    """Run a function plainly and as a kernel on copies of the same arguments; gives the kernel.

    Arrays in the arguments must be equal afterwards, and so must the results.
    """
    plain, compiled = copy.deepcopy(arguments), copy.deepcopy(arguments)
    expected = function(*plain)
    kernel = wf.kernel(function)
    result = kernel(*compiled)
    for before, found, wanted in zip(arguments, compiled, plain, strict=True):
        if isinstance(before, np.ndarray):
            same(found, wanted, rtol)
    if isinstance(expected, tuple):
        for found, wanted in zip(result, expected, strict=True):
            same(found, wanted, rtol)
    elif expected is not None:
        same(result, expected, rtol)
    else:
        assert result is None
    return kernel


def same(found: Any, wanted: Any, rtol: float) -> None:
    if isinstance(wanted, np.ndarray | np.generic):
        assert np.asarray(found).dtype == wanted.dtype
    if np.asarray(wanted).dtype.kind in "fc":
        narrow = np.asarray(wanted).dtype in (np.float32, np.complex64)
        tolerance = max(rtol, 1e-5) if narrow else rtol
        np.testing.assert_allclose(found, wanted, rtol=tolerance, atol=tolerance)
    else:
        np.testing.assert_array_equal(found, wanted)
