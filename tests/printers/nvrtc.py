"""NVRTC, which compiles CUDA C++ to code for a GPU where there is none."""

from __future__ import annotations

import ctypes
import functools
import importlib.util
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest
import slow

ARCHITECTURE = "sm_80"
OPTIONS = (f"--gpu-architecture={ARCHITECTURE}", "--fmad=false", "--std=c++17")
QUICKLY = "--Ofast-compile=max"  # in a third of the time: what is refused is so by all levels


@functools.cache
def _library() -> ctypes.CDLL | None:
    """The library of the package nvidia-cuda-nvrtc, if it is installed."""
    spec = importlib.util.find_spec("nvidia")
    for folder in spec.submodule_search_locations or () if spec else ():
        for path in sorted(Path(folder).glob("*/lib/libnvrtc.so.*")):
            if "builtins" not in path.name and "alt" not in path.name:
                return ctypes.CDLL(str(path))
    return None


def compile_text(text: str) -> bytes:
    """The cubin of CUDA C++, optimised in `make test-all` alone.

    The test is skipped where there is no NVRTC to be had, and fails where there should be.
    """
    return _made(text, "CUBIN", OPTIONS if slow.everything else (*OPTIONS, QUICKLY))


@functools.cache
def accept(text: str) -> None:
    """NVRTC makes a cubin of what a test runs on a pretended GPU, once; where there is NVRTC."""
    if _library() is not None:
        compile_text(text)


def ptx_of(text: str) -> str:
    """The assembly of CUDA C++; the test is skipped where there is no NVRTC."""
    virtual = OPTIONS[0].replace("sm_", "compute_")
    return _made(text, "PTX", (virtual, *OPTIONS[1:])).rstrip(b"\0").decode()


def _made(text: str, kind: str, flags: Sequence[str]) -> bytes:
    library = _library()
    if library is None:
        missing = pytest.fail if sys.platform == "linux" else pytest.skip
        missing("no NVRTC: pip install nvidia-cuda-nvrtc")
    program = ctypes.c_void_p()
    made = library.nvrtcCreateProgram(
        ctypes.byref(program), text.encode(), b"kernels.cu", 0, None, None
    )
    assert made == 0
    try:
        options = (ctypes.c_char_p * len(flags))(*(flag.encode() for flag in flags))
        if library.nvrtcCompileProgram(program, len(flags), options) != 0:
            size = ctypes.c_size_t()
            library.nvrtcGetProgramLogSize(program, ctypes.byref(size))
            log = ctypes.create_string_buffer(size.value)
            library.nvrtcGetProgramLog(program, log)
            raise AssertionError(f"NVRTC refuses: {log.value.decode()}\n{text}")
        size = ctypes.c_size_t()
        assert getattr(library, f"nvrtcGet{kind}Size")(program, ctypes.byref(size)) == 0
        result = ctypes.create_string_buffer(size.value)
        assert getattr(library, f"nvrtcGet{kind}")(program, result) == 0
        return result.raw
    finally:
        library.nvrtcDestroyProgram(ctypes.byref(program))
