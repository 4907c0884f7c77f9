"""Collections of garbage, while a program is compiled: nearly all that is made is kept."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager

_OBJECTS = 50_000
"""So many new objects have Python look for garbage: it looks at all that a compiler has made."""


@contextmanager
def few_collections() -> Iterator[None]:
    """Inside, and in other threads meanwhile, Python looks for garbage less often."""
    before = gc.get_threshold()
    during = (_OBJECTS, *before[1:])
    if not 0 < before[0] < _OBJECTS:  # it looks less often anyway, or never
        yield
        return
    gc.set_threshold(*during)
    try:
        yield
    finally:
        if gc.get_threshold() == during:
            gc.set_threshold(*before)
