"""Addresses for compiled code, at the least cost for each call."""

from __future__ import annotations

import ctypes
import functools
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


def is_one(array: np.ndarray[Any, Any], other: Any) -> bool:
    """Whether two objects are one array."""
    return array is other or (
        isinstance(other, np.ndarray)
        and address_of(other) == address_of(array)
        and other.shape == array.shape and other.strides == array.strides
        and other.dtype == array.dtype
    )  # fmt: skip


class _Fields(ctypes.Structure):
    """An array as `given.c` has it: NumPy's C interface fixes the fields."""

    _fields_ = (
        ("references", ctypes.c_int64), ("type", ctypes.c_void_p), ("data", ctypes.c_void_p),
        ("rank", ctypes.c_int32), ("extents", ctypes.c_void_p), ("strides", ctypes.c_void_p),
        ("base", ctypes.c_void_p), ("dtype", ctypes.c_void_p), ("flags", ctypes.c_int32),
    )  # fmt: skip


@functools.cache
def fields_are_known() -> bool:
    """Whether `given.c` may look at objects, tried on a few."""
    if address_of is not _by_layout or object.__basicsize__ != _Fields.data.offset:
        return False
    whole = np.arange(12.0).reshape(3, 4)
    for array in (whole, whole[1:, 2], np.empty((2, 0), np.int8), whole.T):
        found = _Fields.from_address(id(array))
        expected = (id(np.ndarray), array.ndim, id(array.dtype), id(array.base))
        if (found.type, found.rank, found.dtype, found.base or id(None)) != expected:
            return False
        extents = (ctypes.c_ssize_t * array.ndim).from_address(found.extents)
        if tuple(extents) != array.shape or found.flags & 0x501 != array.flags.num & 0x501:
            return False
    kinds: dict[Any, Any] = {float: ctypes.c_double, np.float64: ctypes.c_double}
    for kind, held in (kinds | {np.float32: ctypes.c_float}).items():
        number = kind(2.5)
        if held.from_address(id(number) + _HEAD).value != number:
            return False
    objects = (2.5, whole)
    pair = (ctypes.c_void_p * 2).from_address(items_of(objects))
    return tuple(pair) == tuple(map(id, objects)) and ctypes.sizeof(ctypes.c_void_p) == 8


def items_of(values: tuple[Any, ...]) -> int:
    """Where the addresses of a tuple's objects lie."""
    return id(values) + tuple.__basicsize__


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
