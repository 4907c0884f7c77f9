"""The dtypes of Weft, as FUN, FUNMEM and IMP name them."""

from __future__ import annotations

import enum
from typing import Any

import numpy as np

from weft.errors import DTypeError, user_place


class DType(enum.Enum):
    """An element type. The value is its short name in printed IR."""

    BOOL = "bool"
    I8 = "i8"
    I16 = "i16"
    I32 = "i32"
    I64 = "i64"
    U8 = "u8"
    U16 = "u16"
    U32 = "u32"
    U64 = "u64"
    F32 = "f32"
    F64 = "f64"
    C64 = "c64"
    C128 = "c128"

    # Filled below; plain attributes, since they are read in every pass.
    numpy: np.dtype[Any]
    itemsize: int
    kind: str  # NumPy's: one of b i u f c

    def __str__(self) -> str:
        return str(self.value)

    def __repr__(self) -> str:
        return f"DType.{self.name}"

    @property
    def is_integer(self) -> bool:
        return self.kind in "iu"

    @property
    def is_signed(self) -> bool:
        return self.kind == "i"

    @property
    def is_float(self) -> bool:
        return self.kind == "f"

    @property
    def is_complex(self) -> bool:
        return self.kind == "c"

    @property
    def real(self) -> DType:
        """The dtype of the real part: f32 for c64, f64 for c128, itself otherwise."""
        return {DType.C64: DType.F32, DType.C128: DType.F64}.get(self, self)

    @property
    def complex(self) -> DType:
        """The complex dtype over a float one."""
        return {DType.F32: DType.C64, DType.F64: DType.C128}.get(self, self)


_NUMPY_NAMES = {
    "bool": "bool", "i8": "int8", "i16": "int16", "i32": "int32", "i64": "int64",
    "u8": "uint8", "u16": "uint16", "u32": "uint32", "u64": "uint64",
    "f32": "float32", "f64": "float64", "c64": "complex64", "c128": "complex128",
}  # fmt: skip

for _dtype in DType:
    _dtype.numpy = np.dtype(_NUMPY_NAMES[_dtype.value])
    _dtype.itemsize = _dtype.numpy.itemsize
    _dtype.kind = _dtype.numpy.kind
    type.__setattr__(DType, _dtype.name, _dtype)  # as Python 3.12 has it; before, it looks them up

_FROM_NUMPY: dict[object, DType] = {dtype.numpy: dtype for dtype in DType}


def from_numpy(dtype: object) -> DType:
    """The `DType` of a NumPy dtype (or anything `numpy.dtype` accepts).

    Raises
    ------
    DTypeError
        When Weft has no such dtype (strings, objects, float16, datetimes, ...).
    """
    found = _FROM_NUMPY.get(dtype) if isinstance(dtype, np.dtype) else None
    if found is not None:
        return found
    try:
        numpy_dtype = np.dtype(dtype)  # type: ignore[call-overload]
    except TypeError:
        raise DTypeError(f"{dtype!r} is not a dtype", _supported(), place=user_place()) from None
    found = _FROM_NUMPY.get(numpy_dtype.newbyteorder("="))
    if found is None:
        raise DTypeError(f"dtype {numpy_dtype} is not supported", _supported(), place=user_place())
    return found


def _supported() -> str:
    return "one of " + ", ".join(_NUMPY_NAMES.values())
