"""IMP kernels to CUDA C++, as NVRTC compiles it: without any header."""

from __future__ import annotations

from collections.abc import Sequence

from weft.imp import nodes as imp
from weft.printers.c_like import Dialect
from weft.printers.gpu import KernelPrinter, print_with

CUDA = Dialect(
    name="cuda",
    restrict="__restrict__",
    simd="",
    unroll="",
    infinity="__int_as_float(0x7f800000)",
    nan="__int_as_float(0x7fc00000)",
)


class CudaPrinter(KernelPrinter):
    dialect = CUDA
    memory = ""
    entry = 'extern "C" __global__ void'
    item = "(long long)blockIdx.x * blockDim.x + threadIdx.x"
    long = "long long"
    group_memory = "__shared__ "
    barrier_text = "__syncthreads();"
    claim = "atomicCAS((int *)failed, 0, {code})"


def print_kernels(kernels: Sequence[imp.Kernel]) -> str:
    """The CUDA C++ text of kernels."""
    return print_with(CudaPrinter(), kernels, "")
