"""Conversions between dtypes: the C spelling and the NumPy one.

A float outside the range of an integer dtype, or NaN, gives what NumPy gives on x86-64,
where the conversion is that of the processor to int32 or int64 (out of range: the smallest
integer) and narrower types keep the low bits:

    to int8, int16, uint8, uint16, int32    through int32
    to uint32, int64                        through int64
    to uint64                               through int64, from 2**63 on less 2**63

In C those are tests around the conversion, which vectorise, and never undefined behaviour.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from weft.ops.dialects import Dialect, type_name
from weft.ops.dtypes import DType

_THROUGH_I32 = frozenset({DType.I8, DType.I16, DType.U8, DType.U16, DType.I32})


def cast_spell(dialect: Dialect, source: DType, target: DType) -> str:
    """The template (with `{0}`) that converts a `source` to a `target`."""
    if source is target:
        return "{0}"
    name = type_name(dialect, target)
    value = "{0}"
    if source.is_complex:
        type_name(dialect, source)
        if target is DType.BOOL:
            return "({0} != 0)"
        if target.is_complex:
            return f"({name}){{0}}"
        value = "(__real__ {0})"
        source = source.real
        if source is target:
            return value
    if target is DType.BOOL:
        return f"({value} != 0)"
    if target.is_complex:
        return f"__builtin_complex(({type_name(dialect, target.real)}){value}, " + (
            f"({type_name(dialect, target.real)})0)"
        )
    if source.is_float and target.is_integer:
        through = _through(target)
        call = f"weft_to_{through}_{source}({value})"
        return call if through is target else f"({name}){call}"
    return f"({name}){value}"


def _through(target: DType) -> DType:
    if target in _THROUGH_I32:
        return DType.I32
    return DType.U64 if target is DType.U64 else DType.I64


def cast_numpy(target: DType, value: Any) -> Any:
    """`value.astype(target)`, with the rules above on every processor.

    Parameters
    ----------
    value : ndarray or NumPy scalar
        Gives a result of the same shape (a scalar for a scalar).
    """
    array = np.asarray(value)
    if array.dtype.kind == "c" and target.kind not in "cb":
        array = array.real
    if array.dtype.kind == "f" and target.is_integer:
        return _float_to_integer(array, target)[()]
    with np.errstate(all="ignore"):
        return array.astype(target.numpy)[()]


def _float_to_integer(array: np.ndarray[Any, Any], target: DType) -> np.ndarray[Any, Any]:
    through = _through(target)
    if through is DType.U64:
        upper = array >= 2.0**63
        lower = np.where(upper, array - array.dtype.type(2.0**63), array)
        signed = _guarded(lower, DType.I64).astype(np.uint64)
        return np.where(upper, signed + np.uint64(2**63), signed)
    return _guarded(array, through).astype(target.numpy)


def _guarded(array: np.ndarray[Any, Any], target: DType) -> np.ndarray[Any, Any]:
    limit = 2.0 ** (8 * target.itemsize - 1)
    inside = (array >= -limit) & (array < limit)
    smallest = np.iinfo(target.numpy).min
    return np.where(inside, np.where(inside, array, 0).astype(target.numpy), smallest)
