"""IMP kernels to OpenCL C 1.2."""

from __future__ import annotations

from collections.abc import Sequence

from weft.imp import nodes as imp
from weft.printers.c_like import Dialect
from weft.printers.gpu import KernelPrinter, print_with

OPENCL = Dialect(
    name="opencl",
    restrict="restrict",
    simd="",
    unroll="",
    infinity="INFINITY",
    nan="NAN",
    long="L",
)

_HEADER = "#pragma OPENCL FP_CONTRACT OFF"
_DOUBLE = "#pragma OPENCL EXTENSION cl_khr_fp64 : enable"


class OpenClPrinter(KernelPrinter):
    dialect = OPENCL
    memory = "global "
    entry = "kernel void"
    item = "get_global_id(0)"
    long = "long"
    group_memory = "local "
    barrier_text = "barrier(CLK_LOCAL_MEM_FENCE);"
    claim = "atomic_cmpxchg((volatile global int *)failed, 0, {code})"


def print_kernels(kernels: Sequence[imp.Kernel]) -> str:
    """The OpenCL C text of kernels."""
    text = print_with(OpenClPrinter(), kernels, _HEADER)
    return f"{_DOUBLE}\n{text}" if "double" in text else text
