"""Types of a kernel's parameters: `f64`, `f32[:, :]`, or text such as "f64[:, :], i64 -> None"."""

from __future__ import annotations

import re
from typing import Any

import numpy as np

from weft.errors import ArgumentError, user_place
from weft.ops.dtypes import DType
from weft.records import dataclass


@dataclass(frozen=True, slots=True)
class ScalarType:
    """One number. Indexed by as many `:` as an array has dimensions, the array's type."""

    dtype: DType

    def __getitem__(self, dims: Any) -> ArrayType:
        given = dims if isinstance(dims, tuple) else (dims,)
        if not all(isinstance(dim, slice) and dim == slice(None) for dim in given):
            raise ArgumentError(
                f"a type indexed by {dims!r}", "a colon for each dimension: f64[:, :]",
                place=user_place(),
            )  # fmt: skip
        return ArrayType(self.dtype, len(given))

    def __repr__(self) -> str:
        return str(self.dtype.value)


@dataclass(frozen=True, slots=True)
class ArrayType:
    """An array of a dtype and a number of dimensions, of any strides."""

    dtype: DType
    rank: int

    def __repr__(self) -> str:
        return f"{self.dtype.value}[{', '.join(':' * self.rank)}]"


ParameterType = ScalarType | ArrayType

f32, f64 = ScalarType(DType.F32), ScalarType(DType.F64)
c64, c128 = ScalarType(DType.C64), ScalarType(DType.C128)
i8, i16, i32, i64 = (ScalarType(d) for d in (DType.I8, DType.I16, DType.I32, DType.I64))
u8, u16, u32, u64 = (ScalarType(d) for d in (DType.U8, DType.U16, DType.U32, DType.U64))
boolean = ScalarType(DType.BOOL)

_NAMED = {repr(scalar): scalar for scalar in
          (f32, f64, c64, c128, i8, i16, i32, i64, u8, u16, u32, u64, boolean)}  # fmt: skip
_TYPE = re.compile(r"\s*(\w+)\s*(?:\[([\s:,]*)\])?\s*(?:,|$)")


UNCHECKED = object()
"""The result type of a function that says none of Weft's."""


def parse_signature(text: str) -> tuple[list[ParameterType], Any]:
    """The types of the parameters of "f64[:, :], i64 -> None", and that of the result."""
    parameters, arrow, result = text.partition("->")
    types = _types_in(parameters.strip().removeprefix("(").removesuffix(")"), text)
    result = result.strip()
    if not arrow or result == "None":
        return types, None if arrow else UNCHECKED
    given = result.removeprefix("(").removesuffix(")")
    found = _types_in(given, text)
    if not found:
        raise _no_signature(text, result)
    return types, tuple(found) if len(found) > 1 or given.rstrip().endswith(",") else found[0]


def _types_in(given: str, text: str) -> list[ParameterType]:
    """The types in a part of a signature."""
    types: list[ParameterType] = []
    position = 0
    while position < len(given):
        found = _TYPE.match(given, position)
        scalar = None if found is None else _NAMED.get(found[1])
        if found is None or scalar is None:
            raise _no_signature(text, given[position:])
        types.append(scalar if found[2] is None else scalar[(slice(None),) * found[2].count(":")])
        position = found.end()
    return types


def _no_signature(text: str, at: str) -> ArgumentError:
    return ArgumentError(
        f"the signature {text!r}, at {at!r}",
        "types such as f64[:, :], separated by commas, then -> and the result's, or None",
        place=user_place(),
    )


def result_annotated(hint: Any) -> Any:
    """The result type that an annotation says; `UNCHECKED` for those that are not Weft's."""
    if hint is None or hint is type(None):
        return None
    parts = getattr(hint, "__args__", ())
    if getattr(hint, "__origin__", None) is tuple and Ellipsis not in parts:
        found = tuple(result_annotated(part) for part in parts)
        return UNCHECKED if UNCHECKED in found else found
    type_ = parameter_type(hint)
    return UNCHECKED if type_ is None else type_


def parameter_type(annotation: Any) -> ParameterType | None:
    """The type that an annotation names; None for annotations that are not Weft's."""
    if isinstance(annotation, ScalarType | ArrayType):
        return annotation
    for extra in getattr(annotation, "__metadata__", ()):
        if isinstance(extra, ScalarType | ArrayType):
            return extra
    return None


def describe(value: Any) -> str:
    """What an argument is, as annotations say it."""
    from weft.ops.dtypes import from_numpy

    if isinstance(value, np.ndarray | np.generic):
        scalar = ScalarType(from_numpy(value.dtype))
        return repr(scalar[(slice(None),) * value.ndim]) if value.ndim else repr(scalar)
    return f"a {type(value).__name__}"
