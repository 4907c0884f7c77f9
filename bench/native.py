"""The hand-written C of `bench/c`, compiled once and loaded."""

from __future__ import annotations

import ctypes
import functools
import hashlib
import os
import shlex
import subprocess
from pathlib import Path

import numpy as np

SOURCES = Path(__file__).parent / "c"
BUILD = Path(__file__).parents[1] / "build" / "bench"
FLAGS = (
    "-O3", "-march=native", "-std=gnu11", "-fopenmp-simd", "-fno-math-errno",
    "-fno-trapping-math", "-fPIC", "-shared", "-pthread",
)  # fmt: skip


def thread_count() -> int:
    """The number of threads that every contender is given."""
    return len(os.sched_getaffinity(0))


@functools.cache
def library(name: str) -> ctypes.CDLL:
    """`bench/c/<name>.c` as a library whose threads run."""
    source = SOURCES / f"{name}.c"
    text = source.read_bytes() + (SOURCES / "parallel.h").read_bytes()
    path = BUILD / f"{name}-{hashlib.sha256(text).hexdigest()[:16]}.so"
    if not path.exists():
        BUILD.mkdir(parents=True, exist_ok=True)
        temporary = path.with_suffix(f".{os.getpid()}")
        compiler = shlex.split(os.environ.get("CC", "gcc"))
        subprocess.run(
            [*compiler, *FLAGS, str(source), "-o", str(temporary), "-lmvec", "-lm"], check=True
        )
        temporary.replace(path)
    loaded = ctypes.CDLL(str(path))
    loaded.start_threads(thread_count())
    return loaded


def call(function: str, *arguments: np.ndarray | int, result: type | None = None) -> float:
    """Call a function of `in_core.c`: arrays as pointers, ints as int64."""
    found = library("in_core")[function]
    found.restype = result
    return found(
        *(
            ctypes.c_void_p(a.ctypes.data) if isinstance(a, np.ndarray) else ctypes.c_int64(a)
            for a in arguments
        )
    )
