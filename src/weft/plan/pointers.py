"""Pointers: integers in memory that bound loops, such as where the rows of a sparse matrix begin.

What boxes read between two of them is known before anything runs, since they are.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

Numbers: TypeAlias = Any  # int, or an int64 ndarray with one element for each box

_BLOCK = 64  # elements of which the least and the greatest are kept


class Pointers:
    """The elements of an array of integers, and which of them are between two places."""

    def __init__(self, array: npt.NDArray[Any]) -> None:
        self.array = array

    @cached_property
    def is_increasing(self) -> bool:
        """Whether no element is less than the one before."""
        return bool((self.array[1:] >= self.array[:-1]).all())

    @cached_property
    def _blocks(self) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
        starts = np.arange(0, self.array.size, _BLOCK)
        return np.minimum.reduceat(self.array, starts), np.maximum.reduceat(self.array, starts)

    def between(self, first: Numbers, last: Numbers) -> tuple[Numbers, Numbers] | None:
        """The least and the greatest from one place to another, or somewhat beyond either.

        Places outside the array are as its ends: what reads there fails.
        """
        if not self.array.size:
            return None
        end = self.array.size - 1
        low, high = np.clip(first, 0, end), np.clip(last, 0, end)
        if self.is_increasing:
            return self.array[low].astype(np.int64), self.array[high].astype(np.int64)
        low, high = np.broadcast_arrays(low // _BLOCK, np.maximum(high, low) // _BLOCK)
        ends = np.stack([low.ravel(), high.ravel() + 1], axis=-1).ravel()
        found = []
        for extreme, values in zip((np.minimum, np.maximum), self._blocks, strict=True):
            padded = np.append(values, values[-1])  # the last interval may end with the array
            found.append(extreme.reduceat(padded, ends)[::2].reshape(low.shape).astype(np.int64))
        return found[0], found[1]


def digest(arrays: Mapping[str, Any]) -> bytes:
    """What tells the elements of pointers apart from others: plans depend on them."""
    found = hashlib.blake2b(digest_size=16)
    for array in arrays.values():
        found.update(np.ascontiguousarray(array).data)
    return found.digest()
