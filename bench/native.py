"""The hand-written C of `bench/c`, compiled once and loaded."""

from __future__ import annotations

import ctypes
import functools
import hashlib
import os
import shlex
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import Any

import numpy as np

SOURCES = Path(__file__).parent / "c"
BUILD = Path(__file__).parents[1] / "build" / "bench"
FLAGS = (
    "-O3", "-march=native", "-std=gnu11", "-fno-math-errno", "-fno-trapping-math", "-fPIC",
    "-shared", "-pthread",
)  # fmt: skip
_own_flags: ContextVar[tuple[str, ...]] = ContextVar("own_flags", default=())


@contextmanager
def uncontracted() -> Iterator[None]:
    """C that rounds every product, as Weft does; else gcc contracts those that are added to fma."""
    token = _own_flags.set(("-ffp-contract=off",))
    try:
        yield
    finally:
        _own_flags.reset(token)


def thread_count() -> int:
    """The number of threads that every contender is given."""
    return len(os.sched_getaffinity(0))


def library(name: str, openmp: bool = False) -> ctypes.CDLL:
    """`bench/c/<name>.c` as a library: its threads OpenMP's, or those of `parallel.h`."""
    return _library(name, openmp, _own_flags.get())


@functools.cache
def _library(name: str, openmp: bool, own: tuple[str, ...]) -> ctypes.CDLL:
    source = SOURCES / f"{name}.c"
    flags = (*FLAGS, *own, "-fopenmp" if openmp else "-fopenmp-simd")
    text = source.read_bytes() + (SOURCES / "parallel.h").read_bytes() + repr(flags).encode()
    path = BUILD / f"{name}-{hashlib.sha256(text).hexdigest()[:16]}.so"
    if not path.exists():
        BUILD.mkdir(parents=True, exist_ok=True)
        temporary = path.with_suffix(f".{os.getpid()}")
        compiler = shlex.split(os.environ.get("CC", "gcc"))
        subprocess.run(
            [*compiler, *flags, str(source), "-o", str(temporary), "-lmvec", "-lm"], check=True
        )
        temporary.replace(path)
    loaded = ctypes.CDLL(str(path))
    if not openmp:
        loaded.start_threads(thread_count())
    return loaded


def call(function: str, *arguments: Any, result: type | None = None) -> float:
    """Call a function of `in_core.c`: arrays as pointers, ints as int64, floats as double."""
    return _call(library("in_core")[function], arguments, result)


def openmp(
    function: str, *arguments: Any, source: str | None = None, result: type | None = None
) -> float:
    """Call a function of `bench/c/<source>.c` (by default of its own name), as `call` does."""
    return _call(library(source or function, openmp=True)[function], arguments, result)


def _call(function: Any, arguments: tuple[Any, ...], result: type | None) -> float:
    function.restype = ctypes.c_double if result is float else result
    return function(*map(_argument, arguments))


def _argument(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        return ctypes.c_void_p(value.ctypes.data)
    return ctypes.c_double(value) if isinstance(value, float) else ctypes.c_int64(value)
