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
from weft.io.mapped import mapped_part, mapping
from weft.io.parts import Held, Part


def held(value: object) -> tuple[Held, ...]:
    """What a source, a sink or an array holds."""
    if isinstance(value, np.ndarray):
        return (value,)
    found: tuple[Held, ...] = getattr(value, "held", ())
    return found


def overlap(left: Iterable[object], right: Iterable[object]) -> bool:
    """Whether something that one of `left`, which are written, holds is held by one of `right`."""
    theirs = [part for value in right for part in held(value)]
    return any(_share(mine, other) for value in left for mine in held(value) for other in theirs)


def same_place(left: object, right: object) -> bool:
    """Whether of two new arrays one would appear where the other one does, or within it.

    Sinks of new arrays say where by an attribute `appears`.
    """
    mine, theirs = (str(getattr(sink, "appears", "")) for sink in (left, right))
    if not mine or not theirs:
        return False
    return mine == theirs or mine.startswith(theirs + "/") or theirs.startswith(mine + "/")


def _share(written: Held, other: Held) -> bool:
    if isinstance(written, Part) or isinstance(other, Part):
        return _share_file(written, other)
    return share_memory(written, other)


def _share_file(written: Held, other: Held) -> bool:
    """Whether both have some bytes of a file, as which arrays may lie at two addresses."""
    mine = written if isinstance(written, Part) else mapped_part(written, written=True)
    if mine is None:
        return False
    theirs = other if isinstance(other, Part) else mapped_part(other)
    return theirs is not None and mine.overlaps(theirs)


def may_share_memory(written: Array, other: Array) -> bool:
    """Whether the bytes between the ends of two arrays meet, in memory or in a file."""
    return np.may_share_memory(written, other) or _both_map(written, other)


def _both_map(written: Array, other: Array) -> bool:
    """Whether arrays are the same bytes of a file, which was mapped twice."""
    if written.base is None or other.base is None:
        return False
    if mapping(written) is mapping(other):  # one map, or memory
        return False
    return _share_file(written, other)


def share_memory(written: Array, other: Array) -> bool:
    """Whether two arrays have an element in common (yes, where that is too hard to tell)."""
    if not np.may_share_memory(written, other):
        return _both_map(written, other)
    work: Any = 10_000  # NumPy's stub knows -1 and 0 alone
    try:
        return np.shares_memory(written, other, max_work=work)
    except np.exceptions.TooHardError:
        return True
