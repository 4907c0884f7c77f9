"""Mapped files that NumPy and its libraries read: one that shrinks is an error, not the end.

Compiled kernels leave the access that failed by a jump (`pool.c`). A library cannot be left so,
nor can its own threads: there, pages that the file has lost become pages of zeros, the
library goes on, and what it has made of them is thrown away.
"""

from __future__ import annotations

import mmap
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

import numpy as np

from weft.errors import CompileError, SourceError
from weft.runtime.threads import pool

_NOTHING = nullcontext()


def watched(arrays: Iterable[Any]) -> AbstractContextManager[None]:
    """Around code that reads arrays, of which some may be mapped files.

    The pages that a file has lost stay zeros: whoever has mapped it must map it again.

    Raises
    ------
    SourceError
        After the code, when a mapped file became shorter while it was read.
    """
    spans = [span for array in arrays if (span := _mapped_span(array)) is not None]
    return _watched(spans) if spans else _NOTHING


@contextmanager
def _watched(spans: list[tuple[int, int]]) -> Iterator[None]:
    try:
        library = pool().library
    except CompileError:
        yield
        return
    places = [library.weft_watch(begin, end) for begin, end in spans]
    try:
        yield
    finally:
        lost = [library.weft_unwatch(place) for place in places if place >= 0]
    if any(lost):
        raise SourceError(
            "a mapped file became shorter while it was read",
            "files that stay as they are during a computation",
            "run again once the file is whole",
        )


def is_mapped(array: Any) -> bool:
    """Whether an array lies in a mapped file."""
    return _mapped_span(array) is not None


def _mapped_span(array: Any) -> tuple[int, int] | None:
    """The addresses that an array reads of a mapped file; None where it is memory."""
    base = getattr(array, "base", None)
    while isinstance(base, np.ndarray | memoryview):
        base = base.base if isinstance(base, np.ndarray) else base.obj
    if not isinstance(base, mmap.mmap):
        return None
    begin, end = np.lib.array_utils.byte_bounds(array)
    return (begin, end) if begin < end else None
