"""Arguments that are one number, by their annotations."""

from __future__ import annotations

import numbers
from typing import Any

import numpy as np

from weft.ops.dtypes import DType


def as_scalar(value: Any, dtype: DType) -> Any:
    """A number as one of a dtype; None for what is no number, or none that the dtype has.

    Floating-point numbers are rounded; integers must be whole, and in range.
    """
    try:
        number = _number(value)
        if number is None or (isinstance(number, complex) and dtype.kind != "c"):
            return None
        if dtype.kind == "b":
            return bool(number) if number in (0, 1) else None
        if dtype.is_integer:
            limits = np.iinfo(dtype.numpy)
            whole = int(number)
            return whole if whole == number and limits.min <= whole <= limits.max else None
        with np.errstate(over="ignore"):
            converted = dtype.numpy.type(number)
    except (OverflowError, ValueError):  # too large an integer, or no integer: inf and nan
        return None
    return None if isinstance(number, int) and not np.isfinite(converted) else converted


def _number(value: Any) -> Any:
    """The Python number that a value is, or NumPy's long one; None for what is no number."""
    if isinstance(value, int | float | complex):
        return value
    if hasattr(value, "__index__") and not isinstance(value, np.ndarray):
        return value.__index__()
    if isinstance(value, numbers.Number) and not isinstance(value, np.generic):
        return float(value)  # type: ignore[arg-type]  # a fraction, a decimal
    found = np.asarray(value)
    if found.ndim or found.dtype.kind not in "biufc":
        return None
    return complex(found) if found.dtype.kind == "c" else found.item()


def show(value: Any) -> str:
    """A value in a message, whatever it is."""
    if isinstance(value, int) and value.bit_length() > 128:
        return f"an integer of {value.bit_length()} bits"
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:60]}..."
