"""Distinct values of what NumPy cannot sort in the memory there is: sorted first, in a file."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from weft.array import Array
from weft.config import settings
from weft.errors import MemoryLimitError, user_place
from weft.functions.running import store
from weft.runtime.memory import format_bytes
from weft.runtime.scratch import scratch_array

NDArray = npt.NDArray[Any]

_PIECE = 1 << 17  # elements that are looked at together


def in_scratch_file(x: Array) -> NDArray | None:
    """What an array is, in a file of its own; None where no boxes of it fit the memory limit."""
    array = scratch_array(tuple(map(int, x.shape)), x.dtype)
    try:
        store(x, array)
    except MemoryLimitError:
        return None
    return array


def distinct(array: NDArray, what: str, *, counts: bool, equal_nan: bool) -> list[NDArray]:
    """The distinct values of an ordered vector, and how often each is there, where that is asked.

    Raises
    ------
    MemoryLimitError
        Where they pass the memory limit.
    """
    limit, taken = settings().limit, 0
    values: list[NDArray] = []
    places: list[NDArray] = []
    for start in range(0, len(array), _PIECE):
        part = array[start : start + _PIECE]
        before = array[max(start - 1, 0) : start + len(part) - 1]
        differs = part[len(part) - len(before) :] != before
        if equal_nan and part.dtype.kind == "f":
            differs &= ~(np.isnan(part[len(part) - len(before) :]) & np.isnan(before))
        if not start:
            differs = np.concatenate([[True], differs])
        values.append(part[differs])
        places.append(np.flatnonzero(differs) + start if counts else np.empty(0, np.int64))
        taken += values[-1].nbytes + places[-1].nbytes
        if 2 * taken > limit:  # they are put together
            raise MemoryLimitError(
                f"{what}: more than {format_bytes(taken)} of distinct values",
                f"at most half the memory limit, {format_bytes(limit)}",
                "wf.sort the elements into a file, or a larger memory_limit",
                user_place(),
            )
    found = [np.concatenate(values) if values else array]
    if counts:
        found.append(np.diff(np.concatenate([*places, [len(array)]]).astype(np.int64)))
    return found
