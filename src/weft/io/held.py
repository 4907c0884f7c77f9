"""What sources read and existing targets are written to, and whether that overlaps.

Sources and sinks that read or write something which is there already say so by an attribute
`held`, a tuple of arrays in memory and `Part`s; what has none (a new file, which gets its
name at the end) overlaps nothing.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from weft.io.files import Array
from weft.io.mapped import memmap_source
from weft.io.parts import Held, Part


def held(value: object) -> tuple[Held, ...]:
    """What a source, a sink or an array holds."""
    if isinstance(value, np.memmap):
        mapped = memmap_source(value)
        return (value,) if mapped is None else mapped.held
    if isinstance(value, np.ndarray):
        return (value,)
    found: tuple[Held, ...] = getattr(value, "held", ())
    return found


def overlap(left: Iterable[object], right: Iterable[object]) -> bool:
    """Whether something that is held by one of `left` is held by one of `right`."""
    theirs = [part for value in right for part in held(value)]
    return any(_share(mine, other) for value in left for mine in held(value) for other in theirs)


def _share(left: Held, right: Held) -> bool:
    if isinstance(left, Part) and isinstance(right, Part):
        return left.overlaps(right)
    if isinstance(left, Part) or isinstance(right, Part):
        return False
    return share_memory(left, right)


def share_memory(left: Array, right: Array) -> bool:
    """Whether two arrays have an element in common (yes, where that is too hard to tell)."""
    if not np.may_share_memory(left, right):
        return False
    work: Any = 10_000  # NumPy's stub knows -1 and 0 alone
    try:
        return np.shares_memory(left, right, max_work=work)
    except np.exceptions.TooHardError:
        return True
