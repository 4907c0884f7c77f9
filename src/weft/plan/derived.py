"""Derived sizes of all boxes at once."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from weft.sizes import Derived


def for_each_box(entry: Derived, values: Mapping[str, Any], count: int) -> npt.NDArray[np.int64]:
    """What `entry.evaluate` gives for each box; values are ints, or one for each box."""
    used = entry.left.variables() | entry.right.variables()
    known: Any = {name: np.asarray(values[name], np.int64) for name in used}
    left, right = entry.left.evaluate(known), entry.right.evaluate(known)
    match entry.operation:
        case "floordiv":
            found = np.floor_divide(left, right)
        case "mod":
            found = np.mod(left, right)
        case "min":
            found = np.minimum(left, right)
        case "max":
            found = np.maximum(left, right)
        case "pow2floor":  # exponents of floats are exact up to 2**53
            exponents = np.frexp(np.maximum(left, 1).astype(np.float64))[1]
            found = np.left_shift(np.int64(1), exponents.astype(np.int64) - 1)
    return np.broadcast_to(np.asarray(found, np.int64), count)
