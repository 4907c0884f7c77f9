"""IMP kernels to CUDA C++, as NVRTC compiles it: without any header."""

from __future__ import annotations

from collections.abc import Sequence

from weft.imp import nodes as imp
from weft.ops.dtypes import DType
from weft.printers.c_like import Dialect
from weft.printers.gpu import KernelPrinter, print_with

CUDA = Dialect(
    name="cuda",
    restrict="__restrict__",
    simd="",
    unroll="#pragma unroll {count}",
    unroll_simd="",
    infinity="__int_as_float(0x7f800000)",
    nan="__int_as_float(0x7fc00000)",
)


_ATOMIC = {
    DType.I32: "int", DType.U32: "unsigned int",
    DType.I64: "long long", DType.U64: "unsigned long long",
}  # fmt: skip
_OPERATIONS = {
    "add": "Add", "minimum": "Min", "maximum": "Max",
    "bitwise_and": "And", "bitwise_or": "Or", "bitwise_xor": "Xor",
}  # fmt: skip
_VECTORS = {2: "unsigned short", 4: "unsigned int", 8: "uint2", 16: "uint4"}
"""Types that are loaded and stored at once, by their bytes."""


class CudaPrinter(KernelPrinter):
    dialect = CUDA
    memory = ""
    far = "volatile "  # which stays in memory
    entry = 'extern "C" __global__ void'
    item = "(long long)blockIdx.x * blockDim.x + threadIdx.x"
    long = "long long"
    group_memory = "alignas(16) __shared__ "  # as vectors are
    barrier_text = "__syncthreads();"
    claim = "atomicCAS((int *)failed, 0, {code})"
    fence = "__threadfence()"
    next = "atomicAdd((int *){pointer}, 1)"

    def resident(self, group: int, groups: int) -> str:
        return f" __launch_bounds__({group}, {groups})" if group else ""

    def number(self, group: int) -> str:
        return f"(long long)blockIdx.x * {group} + threadIdx.x % {group}"

    def atomic(self, operation: str, pointer: imp.Pointer, address: str, value: str) -> None:
        type_ = _ATOMIC[pointer.dtype]
        if operation == "add" and pointer.dtype is DType.I64:  # which are added as unsigned ones
            type_ = _ATOMIC[DType.U64]
        self.line(f"atomic{_OPERATIONS[operation]}(({type_} *)({address}), ({type_})({value}));")

    def load_vector(self, near: str, address: str, dtype: DType, lanes: int) -> None:
        type_ = _VECTORS[size := lanes * dtype.itemsize]
        loaded = f"const {type_} v_ = *(const {type_} *)({address});"
        self.line(f"{{ {loaded} memcpy({near}, &v_, {size}); }}")

    def store_vector(self, address: str, near: str, dtype: DType, lanes: int) -> None:
        type_ = _VECTORS[size := lanes * dtype.itemsize]
        stored = f"*({type_} *)({address}) = v_;"
        self.line(f"{{ {type_} v_; memcpy(&v_, {near}, {size}); {stored} }}")


def print_kernels(kernels: Sequence[imp.Kernel]) -> str:
    """The CUDA C++ text of kernels."""
    return print_with(CudaPrinter(), kernels, "")
