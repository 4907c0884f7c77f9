"""Sources over plain bytes in a file: mapped, so that nothing is copied or allocated."""

from __future__ import annotations

import mmap
import os
from typing import Any

import numpy as np

from weft.errors import SourceError
from weft.io.files import (
    Array,
    Extent,
    ShortReadError,
    map_strided,
    read_box,
    read_strided,
    row_major_strides,
)
from weft.io.parts import Part
from weft.plan.protocols import Box


class MappedSource:
    """An array whose elements lie at fixed strides in a file.

    Parameters
    ----------
    path : str
        The file.
    shape, dtype
        Of the array; the dtype is that of the bytes, which may be of either byte order.
    first : int
        The byte of element [0, ..., 0].
    strides : tuple of int, optional
        In bytes; row-major if not given.
    label : str, optional
        What `describe` says; the path as given if missing.
    """

    chunks: tuple[int, ...] | None = None

    def __init__(
        self,
        path: str,
        shape: tuple[int, ...],
        dtype: np.dtype[Any],
        first: int,
        strides: tuple[int, ...] | None = None,
        label: str = "",
    ) -> None:
        self.path = os.path.abspath(path)
        self.shape = shape
        self.stored = dtype
        self.dtype = dtype.newbyteorder("=")
        self.first = first
        row_major = row_major_strides(shape, dtype.itemsize)
        self.strides = row_major if strides is None else strides
        self._row_major = self.strides == row_major
        self._label = label or os.fspath(path)
        steps = [(n - 1) * s for n, s in zip(shape, self.strides, strict=True) if n > 0]
        low = first + sum(step for step in steps if step < 0)
        high = first + sum(step for step in steps if step > 0) + dtype.itemsize
        self._low, self._high = (low, high) if 0 not in shape else (first, first)
        self._mapped: Array | None = None
        self._identity = self._status()

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_mapped": None, "_identity": None}

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._label!r}, {self.shape}, {self.dtype})"

    def describe(self) -> str:
        return self._label

    @property
    def held(self) -> tuple[Part, ...]:
        return (Part(self.path, self._low, self._high),)

    def direct(self) -> Array | None:
        if self.stored != self.dtype or self.first % self.dtype.alignment:
            return None
        if any(stride % self.dtype.itemsize for stride in self.strides):
            return None
        return self._map()

    def check(self) -> None:
        identity = self._status()
        if identity == self._identity:
            return
        self._mapped = None  # of another file now, or with pages that this one had lost
        self._validate()
        self._identity = identity

    def read(self, box: Box, out: Array) -> None:
        try:
            descriptor = os.open(self.path, os.O_RDONLY | os.O_CLOEXEC)
            try:
                if self._row_major:
                    read_box(descriptor, Extent(self.first, self.shape, self.stored), box, out)
                else:
                    read_strided(descriptor, self.first, self.strides, self.stored, box, out)
            finally:
                os.close(descriptor)
        except ShortReadError:
            raise self._shrunk(os.stat(self.path).st_size) from None
        except OSError as error:
            raise unreadable(self.path, error) from error

    def _map(self) -> Array:
        if self._mapped is None:
            self.check()
            try:
                descriptor = os.open(self.path, os.O_RDONLY | os.O_CLOEXEC)
            except OSError as error:
                raise unreadable(self.path, error) from error
            try:
                span = Extent(self._low, (self._high - self._low,), np.dtype(np.uint8))
                view = map_strided(descriptor, span, (1,), self._low, writable=False)
            finally:
                os.close(descriptor)
            self._mapped = np.ndarray(
                self.shape, self.stored, view, self.first - self._low, self.strides
            )
            self._mapped.flags.writeable = False
        return self._mapped

    def _status(self) -> tuple[int, int, int, int]:
        """Device, inode, time of last change, size; `SourceError` where it is too short."""
        try:
            status = os.stat(self.path)
        except OSError as error:
            raise unreadable(self.path, error) from error
        if status.st_size < self._high:
            self._mapped = None  # it may hold pages of zeros (`runtime.watch`)
            raise self._shrunk(status.st_size)
        return status.st_dev, status.st_ino, status.st_mtime_ns, status.st_size

    def _shrunk(self, size: int) -> SourceError:
        return SourceError(
            f"{self._label} is truncated: {size} bytes",
            f"{self._high} bytes for {self.shape} {self.stored}",
            "write the file again, whole",
        )

    def _validate(self) -> None:
        """Raise `SourceError` where the file no longer describes the same array."""


def unreadable(path: str, error: Exception) -> SourceError:
    """The `SourceError` for a file that cannot be opened or read."""
    reason = getattr(error, "strerror", None) or error
    return SourceError(f"cannot read {path}: {reason}", "a readable file")


def memmap_source(array: np.memmap[Any, Any]) -> MappedSource | None:
    """A `np.memmap` (or a view of one) by its path; None where the file has no name.

    A copy-on-write map is not the file's content, and stays what it is: memory.
    """
    mapped = getattr(array, "_mmap", None)
    if array.filename is None or array.mode == "c" or mapped is None or array.dtype.hasobject:
        return None
    start = np.frombuffer(mapped, np.uint8).__array_interface__["data"][0]
    here = array.__array_interface__["data"][0]
    if not start <= here <= start + len(mapped):
        return None
    offset = array.offset - array.offset % mmap.ALLOCATIONGRANULARITY
    path = os.fspath(array.filename)
    return MappedSource(path, array.shape, array.dtype, offset + here - start, array.strides)


def mapping(array: Array) -> mmap.mmap | None:
    """The map that an array lies in; None where it is memory."""
    base = array.base
    while isinstance(base, np.ndarray | memoryview):
        base = base.base if isinstance(base, np.ndarray) else base.obj
    return base if isinstance(base, mmap.mmap) else None


def mapped_part(array: Array, *, written: bool = False) -> Part | None:
    """The bytes of a file that an array maps; None where it is memory.

    The system knows them: a view has forgotten its file, and a file may have another name by now.
    What is `written` to a copy-on-write map is in no file.
    """
    if mapping(array) is None or array.size == 0:
        return None
    begin, end = np.lib.array_utils.byte_bounds(array)
    try:
        with open("/proc/self/maps", "rb") as maps:
            lines = maps.read().splitlines()
    except OSError:
        return None
    for line in lines:
        span, rights, offset, device, inode, *names = line.split(maxsplit=5)
        low, high = (int(bound, 16) for bound in span.split(b"-"))
        if low <= begin < high:
            if inode == b"0" or (written and rights.endswith(b"p")):
                return None
            first = int(offset, 16) + begin - low
            name = os.fsdecode(names[0]) if names else ""
            if not os.path.exists(name):  # it was deleted
                name = os.fsdecode(device + b" " + inode)
            return Part(name, first, first + end - begin)
    return None
