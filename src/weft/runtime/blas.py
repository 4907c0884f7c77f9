"""How many threads NumPy's BLAS takes: as many as it likes, or less while devices share it."""

from __future__ import annotations

import ctypes
import functools
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

import numpy as np

_NAMES = ("scipy_openblas_{}_num_threads64_", "scipy_openblas_{}_num_threads",
          "openblas_{}_num_threads64_", "openblas_{}_num_threads")  # fmt: skip

_NOTHING = nullcontext()
_lock = threading.Lock()
_limits: list[int] = []
_before = 0


@functools.cache
def _library() -> tuple[Any, Any] | None:
    """OpenBLAS's functions that get and set the number, where NumPy has it."""
    try:
        core: Any = np._core  # type: ignore[attr-defined]
        library = ctypes.CDLL(core._multiarray_umath.__file__)
    except (AttributeError, OSError):
        return None
    for name in _NAMES:
        if hasattr(library, name.format("set")):  # in NumPy's module, or in what it is linked to
            return library[name.format("get")], library[name.format("set")]
    return None


def at_most(threads: int) -> AbstractContextManager[None]:
    """Within the block, products take at most so many threads each, in the whole process.

    OpenBLAS alone is asked; another library keeps its own number.
    """
    library = _library()
    if library is None or (not _limits and library[0]() <= threads):
        return _NOTHING
    return _limited(*library, threads)


@contextmanager
def _limited(get: Callable[[], int], set_: Callable[[int], object], threads: int) -> Iterator[None]:
    global _before
    with _lock:
        if not _limits:
            _before = get()
        _limits.append(threads)
        set_(min([_before, *_limits]))
    try:
        yield
    finally:
        with _lock:
            _limits.remove(threads)
            set_(min([_before, *_limits]))


def threads_address() -> int | None:
    """Where the function lies that says how many threads a product takes; None for none."""
    library = _library()
    return None if library is None else ctypes.cast(library[0], ctypes.c_void_p).value


def threads() -> int | None:
    """How many threads a product takes now; None where that is not known."""
    library = _library()
    return None if library is None else int(library[0]())
