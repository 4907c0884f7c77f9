"""IMP kernels to OpenCL C 1.2."""

from __future__ import annotations

import re
from collections.abc import Sequence

from weft.imp import nodes as imp
from weft.ops.dtypes import DType
from weft.printers.c_like import Dialect
from weft.printers.gpu import KernelPrinter, print_with

OPENCL = Dialect(
    name="opencl",
    restrict="restrict",
    simd="#pragma clang loop vectorize(assume_safety){unroll}",  # others pass it by
    unroll="",
    unroll_simd=" unroll_count({count})",
    infinity="INFINITY",
    nan="NAN",
    long="L",
)

_HEADER = "#pragma OPENCL FP_CONTRACT OFF"
_DOUBLE = "#pragma OPENCL EXTENSION cl_khr_fp64 : enable"
_SEEN = {
    "sqrt": 1, "fabs": 1, "floor": 1, "ceil": 1, "trunc": 1, "rint": 1, "copysign": 2, "fma": 3,
}  # fmt: skip
"""Functions that processors have instructions for, and how many arguments they take."""


LONG_ATOMICS = "WEFT_LONG_ATOMICS"
"""Defined for devices that have both extensions of atomic operations on 64 bits."""

_HALVES = "volatile space uint *const half_ = (volatile space uint *)(at)"
_LONG_ATOMICS = [f"#ifdef {LONG_ATOMICS}", """\
#pragma OPENCL EXTENSION cl_khr_int64_base_atomics : enable
#pragma OPENCL EXTENSION cl_khr_int64_extended_atomics : enable
#define weft_atom_add(space, at, value) atom_add(at, value)
#define weft_atom_and(space, at, value) atom_and(at, value)
#define weft_atom_or(space, at, value) atom_or(at, value)
#define weft_atom_xor(space, at, value) atom_xor(at, value)
#define weft_atom_min(space, at, value) atom_min(at, value)
#define weft_atom_max(space, at, value) atom_max(at, value)
#else""", *(
    f"#define weft_atom_{name}(space, at, value) do {{ {_HALVES}; const ulong v_ = (value); "
    f"atomic_{name}(half_, (uint)v_); atomic_{name}(half_ + 1, (uint)(v_ >> 32)); }} while (0)"
    for name in ("and", "or", "xor")
), f"""\
#define weft_atom_add(space, at, value) do {{ {_HALVES}; const ulong v_ = (value); \\
    const uint low_ = (uint)v_, sum_ = atomic_add(half_, low_) + low_; \\
    atomic_add(half_ + 1, (uint)(v_ >> 32) + (sum_ < low_)); }} while (0)
#define weft_atom_min(space, at, value) (void)(value)  // never launched
#define weft_atom_max(space, at, value) (void)(value)
#endif"""]
"""Sums and bits of 64 bits by halves, the carry as a sum of its own, where nothing else is there.

Nobody reads a sum before all that is added to it has been. Extremes have no such form.
"""
_OPERATIONS = {
    "add": "add", "minimum": "min", "maximum": "max",
    "bitwise_and": "and", "bitwise_or": "or", "bitwise_xor": "xor",
}  # fmt: skip


class OpenClPrinter(KernelPrinter):
    dialect = OPENCL
    memory = "global "
    entry = "kernel void"
    item = "get_global_id(0)"
    long = "long"
    group_memory = "local "
    barrier_text = "barrier(CLK_LOCAL_MEM_FENCE);"
    claim = "atomic_cmpxchg((volatile global int *)failed, 0, {code})"
    fence = "mem_fence(CLK_GLOBAL_MEM_FENCE)"
    next = "atomic_inc((volatile global int *){pointer})"

    def atomic(self, operation: str, pointer: imp.Pointer, address: str, value: str) -> None:
        space = "local" if pointer.name in self.groups else "global"
        at = f"(volatile {space} {self.type(pointer.dtype)} *)({address})"
        name = _OPERATIONS[operation]
        if pointer.dtype.itemsize == 8:
            self.line(f"weft_atom_{name}({space}, {at}, {value});")
        else:
            self.line(f"atomic_{name}({at}, {value});")

    def load_vector(self, near: str, address: str, dtype: DType, lanes: int) -> None:
        self.line(f"vstore{lanes}(vload{lanes}(0, {address}), 0, {near});")

    def store_vector(self, address: str, near: str, dtype: DType, lanes: int) -> None:
        self.line(f"vstore{lanes}(vload{lanes}(0, {near}), 0, {address});")


def print_kernels(kernels: Sequence[imp.Kernel]) -> str:
    """The OpenCL C text of kernels."""
    text = print_with(OpenClPrinter(), kernels, "")
    has_double = "double" in text
    long_atomics = _LONG_ATOMICS if "weft_atom_" in text else []
    lines = [_DOUBLE] * has_double + long_atomics + [_HEADER, *_instructions(text, has_double)]
    return "\n".join([*lines, text.removeprefix("\n")])


def _instructions(text: str, has_double: bool) -> list[str]:
    """Definitions by which a processor's compiler takes instructions for functions.

    PoCL's library is linked to a kernel as calls, with which no loop is vectorised.
    """
    called = [name for name in _SEEN if re.search(rf"\b{name}\(", text)]
    if not called:
        return []
    lines = ["#if defined(__clang__) && (defined(__x86_64__) || defined(__aarch64__))"]
    for name in called:
        for type_, suffix in (("float", "f"), ("double", ""))[: 1 + has_double]:
            names = "abc"[: _SEEN[name]]
            lines.append(
                f"static inline {type_} __attribute__((overloadable)) seen_{name}("
                f"{', '.join(f'{type_} {n}' for n in names)}) "
                f"{{ return __builtin_{name}{suffix}({', '.join(names)}); }}"
            )
        lines.append(f"#define {name} seen_{name}")
    return [*lines, "#endif"]
