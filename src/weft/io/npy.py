"""NumPy's `.npy` files: mapped as sources, written whole or not at all as sinks."""

from __future__ import annotations

import io
import math
import os
import warnings
from typing import IO, Any

import numpy as np
from numpy.lib import format as npy_format

from weft.errors import DTypeError, ShapeError, SourceError
from weft.io.files import Array, Extent, row_major_strides, write_box
from weft.io.mapped import MappedSource, unreadable
from weft.io.past_pages import PAGE
from weft.io.publish import Draft, final_place, unwritable
from weft.plan.protocols import Box

MAGIC = b"\x93NUMPY"

_MUCH = 16 << 20  # bytes of data


class NpySource(MappedSource):
    """A `.npy` file. The header is read at once (never a pickle), the data when needed."""

    def __init__(self, path: str, label: str = "") -> None:
        shape, fortran, dtype, first = read_header(path)
        strides = row_major_strides(shape, dtype.itemsize)
        if fortran:
            strides = row_major_strides(shape[::-1], dtype.itemsize)[::-1]
        super().__init__(path, shape, dtype, first, strides, label)

    def _validate(self) -> None:
        now = NpySource(self.path, self._label)
        if (now.shape, now.stored, now.first, now.strides) != (
            self.shape, self.stored, self.first, self.strides,
        ):  # fmt: skip
            raise SourceError(
                f"{self._label} has changed since it was opened: {now.shape} {now.dtype}",
                f"{self.shape} {self.dtype}",
                "open it again",
            )


def read_header(path: str) -> tuple[tuple[int, ...], bool, np.dtype[Any], int]:
    """Shape, whether column-major, dtype, and the first byte of the data.

    Raises
    ------
    SourceError
        Not a `.npy` file, or one of Python objects.
    """
    try:
        with open(path, "rb") as file:
            return _parse_header(path, file)
    except OSError as error:
        if isinstance(error, SourceError):
            raise
        raise unreadable(path, error) from error


def _parse_header(path: str, file: IO[bytes]) -> tuple[tuple[int, ...], bool, np.dtype[Any], int]:
    magic = file.read(len(MAGIC))
    if magic != MAGIC:
        raise SourceError(
            f"{path} is not a .npy file: it starts with {magic!r}", f"{MAGIC!r}",
            "np.save writes such files; np.memmap opens raw bytes",
        )  # fmt: skip
    file.seek(0)
    try:
        version = npy_format.read_magic(file)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # headers that Python 2 wrote
            if version == (1, 0):
                shape, fortran, dtype = npy_format.read_array_header_1_0(file)
            else:  # versions 2 and 3 differ from each other in the encoding of field names
                shape, fortran, dtype = npy_format.read_array_header_2_0(file)
    except (ValueError, TypeError, SyntaxError, UnicodeDecodeError) as error:
        raise SourceError(
            f"the header of {path} is damaged: {error}", "a whole .npy file"
        ) from error
    if any(extent < 0 for extent in shape):
        raise SourceError(f"the header of {path} is damaged: shape {shape}", "a whole .npy file")
    if dtype.hasobject:
        raise SourceError(
            f"{path} holds Python objects, which only a pickle can read", "an array of numbers"
        )
    return tuple(map(int, shape)), bool(fortran), dtype, file.tell()


def header(shape: tuple[int, ...], dtype: np.dtype[Any]) -> bytes:
    """The bytes that stand before a row-major array's data; before much data, a page.

    Rows of whole pages can then be written past the system's cache.
    """
    text = io.BytesIO()
    description = npy_format.dtype_to_descr(dtype)
    npy_format.write_array_header_1_0(
        text, {"descr": description, "fortran_order": False, "shape": shape}
    )
    made = text.getvalue()
    if math.prod(shape) * dtype.itemsize < _MUCH:
        return made
    length = len(MAGIC) + 4  # and of the version, and of the length of what follows
    rest = made[length:-1].ljust(PAGE - length - 1) + made[-1:]
    return made[: length - 2] + len(rest).to_bytes(2, "little") + rest


class NpySink:
    """A new `.npy` file, written beside its place and moved there when it is whole."""

    chunks: tuple[int, ...] | None = None

    def __init__(
        self, path: str, shape: tuple[int, ...], dtype: np.dtype[Any], *, replace: bool
    ) -> None:
        self.shape, self.dtype = shape, dtype
        self.appears = final_place(path)
        head = header(shape, dtype)
        self._extent = Extent(len(head), shape, dtype)
        self._draft = Draft(path, self._extent.end, replace=replace)
        self._draft.write(head, 0)

    def direct(self) -> Array | None:
        return None  # a first touch of each mapped page costs more than a write

    def file(self) -> tuple[int, int] | None:
        return self._draft.descriptor, self._extent.offset

    def refusal(self, error: OSError) -> Exception:
        return unwritable(self._draft.name, error)

    def write(self, box: Box, data: Array) -> None:
        self._draft.write_box(self._extent, box, data)

    def done(self, box: Box) -> bool:
        return False

    def finish(self) -> None:
        self._draft.publish()

    def abort(self) -> None:
        self._draft.discard()

    def describe(self) -> str:
        return self._draft.name


class NpyUpdateSink:
    """An existing `.npy` file, written in place (mode "r+")."""

    chunks: tuple[int, ...] | None = None

    def __init__(self, path: str, shape: tuple[int, ...], dtype: np.dtype[Any]) -> None:
        source = NpySource(path)
        if source.shape != shape:
            raise ShapeError(f"{path} has shape {source.shape}", f"{shape}")
        if source.dtype != dtype:
            raise DTypeError(f"{path} holds {source.dtype}", f"{dtype}")
        self.shape, self.dtype = shape, dtype
        self._name = path
        self.held = source.held
        # A column-major file is the row-major file of the transposed array.
        self._transposed = not source._row_major
        stored = shape[::-1] if self._transposed else shape
        self._extent = Extent(source.first, stored, source.stored)
        try:
            self._descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC)
        except OSError as error:
            raise unwritable(path, error) from error

    def direct(self) -> Array | None:
        return None

    def file(self) -> tuple[int, int] | None:
        plain = not self._transposed and self._extent.dtype == self.dtype
        return (self._descriptor, self._extent.offset) if plain else None

    def refusal(self, error: OSError) -> Exception:
        return unwritable(self._name, error)

    def write(self, box: Box, data: Array) -> None:
        if self._transposed:
            box, data = box[::-1], data.T
        try:
            write_box(self._descriptor, self._extent, box, data)
        except OSError as error:
            raise self.refusal(error) from error

    def done(self, box: Box) -> bool:
        return False

    def finish(self) -> None:
        self._close()

    def abort(self) -> None:
        self._close()

    def _close(self) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    def describe(self) -> str:
        return self._name
