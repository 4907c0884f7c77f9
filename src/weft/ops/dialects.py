"""The C dialects: type names, and the functions of the C library that spellings call.

Generated C includes no header: `TYPEDEFS` names the integer types, and the printer declares
each function of `libm_functions(text)` by `libm_prototype`. Functions that compilers expand
in place (`floor`, `sqrt`, ...) are spelled as builtins, which need no declaration.
"""

from __future__ import annotations

import re
from typing import Literal, TypeAlias

from weft.errors import UnsupportedError
from weft.ops.dtypes import DType

Dialect: TypeAlias = Literal["c", "opencl", "cuda"]

TYPEDEFS = "\n".join(
    f"typedef __{u.upper()}INT{bits}_TYPE__ {u}int{bits}_t;"
    for bits in (8, 16, 32, 64)
    for u in ("", "u")
)
"""The integer types, from macros that every C compiler predefines."""

# A boolean is a byte that is 0 or 1: gcc vectorises no loads of _Bool.
_C = {
    "bool": "uint8_t", "i8": "int8_t", "i16": "int16_t", "i32": "int32_t", "i64": "int64_t",
    "u8": "uint8_t", "u16": "uint16_t", "u32": "uint32_t", "u64": "uint64_t",
    "f32": "float", "f64": "double", "c64": "float _Complex", "c128": "double _Complex",
}  # fmt: skip
_OPENCL = {
    "bool": "bool", "i8": "char", "i16": "short", "i32": "int", "i64": "long",
    "u8": "uchar", "u16": "ushort", "u32": "uint", "u64": "ulong",
    "f32": "float", "f64": "double",
}  # fmt: skip
_CUDA = {
    "bool": "bool", "i8": "signed char", "i16": "short", "i32": "int", "i64": "long long",
    "u8": "unsigned char", "u16": "unsigned short", "u32": "unsigned int",
    "u64": "unsigned long long", "f32": "float", "f64": "double",
}  # fmt: skip
_TYPES: dict[Dialect, dict[str, str]] = {"c": _C, "opencl": _OPENCL, "cuda": _CUDA}

QUALIFIER: dict[Dialect, str] = {
    "c": "static inline",
    "opencl": "static inline",
    "cuda": "static __device__ __forceinline__",
}


def type_name(dialect: Dialect, dtype: DType) -> str:
    """The name of a dtype's type.

    Raises
    ------
    UnsupportedError
        For complex dtypes outside C.
    """
    name = _TYPES[dialect].get(dtype.value)
    if name is None:
        raise UnsupportedError(
            f"{dtype.numpy} on a GPU", advice='compute it on the CPU: wf.config(devices=["cpu"])'
        )
    return name


UNSIGNED = {DType.I8: DType.U8, DType.I16: DType.U16, DType.I32: DType.U32, DType.I64: DType.U64}

# Expanded in place by every compiler (with SSE4.1 and FMA), and exact.
_BUILTIN = frozenset({"fabs", "floor", "ceil", "trunc", "rint", "copysign", "sqrt", "fma"})

LIBMVEC: dict[str, tuple[int, int]] = {
    **dict.fromkeys(("cos", "exp", "log", "pow", "sin"), (2, 22)),
    **dict.fromkeys(
        (
            "acos", "acosh", "asin", "asinh", "atan", "atan2", "atanh", "cbrt", "cosh", "erf",
            "erfc", "exp10", "exp2", "expm1", "hypot", "log10", "log1p", "log2", "sinh", "tan",
            "tanh",
        ),
        (2, 35),
    ),
}  # fmt: skip
"""The glibc from whose version libmvec has a vector form, in float and in double."""

_COMPLEX = (
    "cexp clog csqrt csin ccos ctan csinh ccosh ctanh casin cacos catan casinh cacosh catanh cpow"
)
_SCALAR_ARITY = {
    **dict.fromkeys(LIBMVEC, 1), "atan2": 2, "hypot": 2, "pow": 2, "fmod": 2, "nextafter": 2,
}  # fmt: skip
_COMPLEX_ARITY = {name: 2 if name == "cpow" else 1 for name in _COMPLEX.split()}
_ARITY = {
    name + suffix: (arity, name in _COMPLEX_ARITY)
    for name, arity in {**_SCALAR_ARITY, **_COMPLEX_ARITY}.items()
    for suffix in ("", "f")
}
_IDENTIFIER = re.compile(r"[A-Za-z_]\w*")


def call_name(dialect: Dialect, function: str, dtype: DType) -> str:
    """The dialect's name of a function of <math.h> (its double form is `function`)."""
    if dialect == "opencl":
        return function
    suffix = "f" if dtype.real is DType.F32 else ""
    if dialect == "c" and function in _BUILTIN:
        return f"__builtin_{function}{suffix}"
    return function + suffix


def libm_functions(text: str) -> tuple[str, ...]:
    """The C library's functions that a text calls, sorted."""
    return tuple(sorted(set(_IDENTIFIER.findall(text)) & _ARITY.keys()))


def libm_prototype(name: str) -> str:
    """The C declaration of a function that `libm_functions` found."""
    arity, is_complex = _ARITY[name]
    type_ = "float" if name.endswith("f") and name != "erf" else "double"
    type_ += " _Complex" if is_complex else ""
    return f"{type_} {name}({', '.join([type_] * arity)});"


def libmvec_since(name: str) -> tuple[int, int] | None:
    """The glibc version whose libmvec has a vector form of a function, or None."""
    return LIBMVEC.get(name) or LIBMVEC.get(name.removesuffix("f"))
