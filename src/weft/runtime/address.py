"""Addresses for compiled code, at the least cost for each call."""

from __future__ import annotations

import ctypes
import sys
from types import TracebackType
from typing import Any

import numpy as np

SMALL = 64 << 10  # bytes of workspace that are kept from call to call
_ALIGNMENT = 64

_HEAD = object.__basicsize__
_pointer_at = ctypes.c_void_p.from_address


def _by_interface(array: Any) -> int:
    return int(array.__array_interface__["data"][0])


def _by_layout(array: Any) -> int:
    """NumPy's C interface fixes that the data pointer is the first field of an array."""
    if not isinstance(array, np.ndarray):
        return _by_interface(array)
    return _pointer_at(id(array) + _HEAD).value or 0


def _layout_is_known() -> bool:
    """Whether arrays are laid out so, tried on a few."""
    if sys.implementation.name != "cpython":
        return False
    whole = np.arange(12.0).reshape(3, 4)
    return all(_by_layout(a) == _by_interface(a) for a in (whole, whole[1:, 2], np.array(1)))


address_of = _by_layout if _layout_is_known() else _by_interface
"""The address of an array's first element."""


_spare: list[tuple[Any, int]] = []  # of all threads: popping and appending are atomic


class SmallWorkspace:
    """A context that gives the address of `SMALL` bytes, 64-byte aligned, of one call's own."""

    __slots__ = ("_block",)

    def __enter__(self) -> int:
        try:
            self._block = _spare.pop()
        except IndexError:
            memory = ctypes.create_string_buffer(SMALL + _ALIGNMENT)
            start = ctypes.addressof(memory)
            self._block = memory, start + -start % _ALIGNMENT
        return self._block[1]

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        _spare.append(self._block)
