"""Comparing results as the design promises: integers exactly, floats within rounding."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

TOLERANCE = {"f4": (2e-5, 1e-6), "f8": (1e-11, 1e-13), "c8": (2e-5, 1e-6), "c16": (1e-11, 1e-13)}
"""Relative and absolute tolerance of each inexact dtype."""


def assert_agree(
    results: Sequence[Any], expected: Sequence[Any], scale: float = 1.0, exact: bool = False
) -> None:
    """Assert that results are as expected: dtypes, shapes and values.

    Parameters
    ----------
    results, expected : sequence of ndarray or NumPy scalar
    scale : float, optional
        Multiplies the tolerances.
    exact : bool, optional
        Whether floats must be equal too (NaN with NaN, 0.0 with -0.0).
    """
    assert len(results) == len(expected), f"{len(results)} results, expected {len(expected)}"
    for position, (found, wanted) in enumerate(zip(results, expected, strict=True)):
        label = f"result {position}"
        found, wanted = np.asarray(found), np.asarray(wanted)
        assert found.dtype == wanted.dtype, f"{label}: {found.dtype}, expected {wanted.dtype}"
        assert found.shape == wanted.shape, f"{label}: {found.shape}, expected {wanted.shape}"
        if exact or wanted.dtype.kind in "biu":
            np.testing.assert_array_equal(found, wanted, err_msg=label)
        else:
            relative, absolute = TOLERANCE[wanted.dtype.str[1:]]
            np.testing.assert_allclose(
                found, wanted, relative * scale, absolute * scale, equal_nan=True, err_msg=label
            )
