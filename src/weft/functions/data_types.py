"""Data types: dtypes, promotion, and what the namespace has."""

from __future__ import annotations

import builtins
from typing import Any

import numpy as np

from weft.array import Array, strong
from weft.errors import ArgumentError, DTypeError, user_place
from weft.frontend.elementwise import as_dtype, common_dtype
from weft.frontend.graph import make
from weft.functions.arguments import array_node, check_device
from weft.ops.dtypes import DType, from_numpy
from weft.records import dataclass

__all__ = [
    "__array_namespace_info__", "astype", "bool", "can_cast", "complex64", "complex128", "e",
    "finfo", "float32", "float64", "iinfo", "inf", "int8", "int16", "int32", "int64", "isdtype",
    "nan", "newaxis", "pi", "result_type", "uint8", "uint16", "uint32", "uint64",
]  # fmt: skip

bool = np.dtype("bool")
int8, int16, int32, int64 = (np.dtype(f"int{bits}") for bits in (8, 16, 32, 64))
uint8, uint16, uint32, uint64 = (np.dtype(f"uint{bits}") for bits in (8, 16, 32, 64))
float32, float64 = np.dtype("float32"), np.dtype("float64")
complex64, complex128 = np.dtype("complex64"), np.dtype("complex128")

e: float = np.e
inf: float = np.inf
nan: float = np.nan
pi: float = np.pi
newaxis = None

_KINDS = {
    "bool": "b", "signed integer": "i", "unsigned integer": "u", "integral": "iu",
    "real floating": "f", "complex floating": "c", "numeric": "iufc",
}  # fmt: skip


def astype(x: Any, dtype: Any, /, *, copy: builtins.bool = True, device: Any = None) -> Array:
    """x converted to a dtype."""
    check_device(device)
    node = array_node(x)
    wanted = from_numpy(dtype)
    if node.dtype.is_complex and not (wanted.is_complex or wanted is DType.BOOL):
        raise DTypeError(
            f"a conversion of {node.dtype.numpy} to {wanted.numpy}", "a complex dtype",
            "wf.real(x) first", place=user_place(),
        )  # fmt: skip
    if node.weak and node.dtype is wanted:
        return Array(strong(node, wanted))
    return Array(as_dtype(node, wanted))


def can_cast(from_: Any, to: Any, /) -> builtins.bool:
    """Whether every value of a dtype (or array's dtype) is one of another."""
    source = from_.dtype if isinstance(from_, Array) else from_numpy(from_).numpy
    return np.can_cast(source, from_numpy(to).numpy)


@dataclass(frozen=True, slots=True)
class FloatInfo:
    """The limits of a float dtype (of a complex one: those of its parts)."""

    bits: int
    eps: float
    max: float
    min: float
    smallest_normal: float
    tiny: float
    resolution: float
    dtype: np.dtype[Any]


def finfo(type: Any, /) -> FloatInfo:
    """The limits of a float dtype, or that of an array."""
    info = np.finfo(_of_kind(type, "fc", "finfo"))
    return FloatInfo(
        info.bits, float(info.eps), float(info.max), float(info.min), float(info.smallest_normal),
        float(info.tiny), float(info.resolution), info.dtype,
    )  # fmt: skip


def iinfo(type: Any, /) -> Any:
    """The limits of an integer dtype, or that of an array."""
    return np.iinfo(_of_kind(type, "iu", "iinfo"))


def _of_kind(type: Any, kinds: str, what: str) -> np.dtype[Any]:
    """A dtype, or that of an array, of one of some kinds."""
    dtype: np.dtype[Any] = type.dtype if isinstance(type, Array) else from_numpy(type).numpy
    if dtype.kind not in kinds:
        expected = "integers" if "i" in kinds else "floats or complex numbers"
        raise DTypeError(f"{what} of {dtype}", expected, place=user_place())
    return dtype


def isdtype(dtype: Any, kind: Any) -> builtins.bool:
    """Whether a dtype is of a kind: a name, a dtype, or a tuple of them."""
    if isinstance(kind, tuple):
        return any(isdtype(dtype, one) for one in kind)
    own = from_numpy(dtype)
    if isinstance(kind, str):
        if kind not in _KINDS:
            raise ArgumentError(f"kind {kind!r}", f"one of {', '.join(_KINDS)}", place=user_place())
        return own.kind in _KINDS[kind]
    return own is from_numpy(kind)


def result_type(*arrays_and_dtypes: Any) -> np.dtype[Any]:
    """The dtype to which arrays, dtypes and Python scalars are promoted together."""
    nodes = []
    for value in arrays_and_dtypes:
        try:
            is_dtype = isinstance(value, np.dtype | type | str)
            dtype = from_numpy(value) if is_dtype else None
        except DTypeError as error:
            raise DTypeError(error.found, error.expected, place=user_place()) from None
        if dtype is None:
            nodes.append(array_node(value))
        else:
            nodes.append(make(array_node(0).operation, (), (), dtype))
    if not nodes:
        raise ArgumentError("result_type of nothing", "arrays or dtypes", place=user_place())
    return common_dtype(tuple(nodes)).numpy


class NamespaceInfo:
    """What `__array_namespace_info__()` gives."""

    def capabilities(self) -> dict[str, Any]:
        return {
            "boolean indexing": True,
            "data-dependent shapes": True,
            "max dimensions": None,
        }

    def default_device(self) -> str:
        return "cpu"

    def default_dtypes(self, *, device: Any = None) -> dict[str, np.dtype[Any]]:
        check_device(device)
        return {
            "real floating": float64,
            "complex floating": complex128,
            "integral": int64,
            "indexing": int64,
        }

    def dtypes(self, *, device: Any = None, kind: Any = None) -> dict[str, np.dtype[Any]]:
        check_device(device)
        every = {str(dtype.numpy): dtype.numpy for dtype in DType}
        if kind is None:
            return every
        return {name: dtype for name, dtype in every.items() if isdtype(dtype, kind)}

    def devices(self) -> tuple[str, ...]:
        return ("cpu",)


def __array_namespace_info__() -> NamespaceInfo:  # noqa: N807 - the standard's name
    """Capabilities, devices and dtypes of the namespace."""
    return NamespaceInfo()
