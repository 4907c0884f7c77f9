"""Functional updates: `x.at[key].set(v)`."""

from __future__ import annotations

from typing import Any

from weft.array.access import put
from weft.array.lazy import Array
from weft.array.making import asarray


class At:
    """`x.at`, waiting for a key."""

    __slots__ = ("_array",)

    def __init__(self, array: Array) -> None:
        self._array = array

    def __getitem__(self, key: Any) -> AtKey:
        return AtKey(self._array, key)


class AtKey:
    """`x.at[key]`: the array with something done at the key, as a new array.

    Where a key holds an index several times, `set` keeps the last value; the others
    combine all.
    """

    __slots__ = ("_array", "_key")

    def __init__(self, array: Array, key: Any) -> None:
        self._array = array
        self._key = key

    def _put(self, value: Any, combine: str | None) -> Array:
        return Array(put(self._array._node, self._key, value, combine))

    def get(self) -> Array:
        """What is there."""
        return self._array[self._key]

    def set(self, value: Any) -> Array:
        """The array with this value there."""
        return self._put(value, None)

    def add(self, value: Any) -> Array:
        """The array with this added to what is there."""
        return self._put(value, "add")

    def subtract(self, value: Any) -> Array:
        """The array with this subtracted from what is there."""
        return self._put(-asarray(value), "add")

    def multiply(self, value: Any) -> Array:
        """The array with what is there multiplied by this."""
        return self._put(value, "multiply")

    def min(self, value: Any) -> Array:
        """The array with the lesser of this and what is there."""
        return self._put(value, "minimum")

    def max(self, value: Any) -> Array:
        """The array with the greater of this and what is there."""
        return self._put(value, "maximum")
