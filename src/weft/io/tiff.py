"""TIFF images: uncompressed ones as plain bytes of the file, others decoded by a library."""

from __future__ import annotations

import os
import sys
import threading
from typing import Any

import numpy as np

from weft.errors import SourceError, UnsupportedError
from weft.io.files import Array
from weft.io.mapped import MappedSource, unreadable
from weft.plan.protocols import Box, Source


class TiffSource:
    """An image that must be decoded as a whole, which happens when it is first read."""

    chunks: tuple[int, ...] | None = None

    def __init__(self, path: str, shape: tuple[int, ...], dtype: np.dtype[Any]) -> None:
        self._path, self._label = os.path.abspath(path), path
        self.shape, self.dtype = shape, dtype
        self._decoded: Array | None = None
        self._lock = threading.Lock()

    def __reduce__(self) -> tuple[Any, ...]:
        return TiffSource, (self._path, self.shape, self.dtype)

    def direct(self) -> Array | None:
        return None

    def check(self) -> None:
        if not os.path.isfile(self._path):
            raise SourceError(f"{self._label} has gone", "the file that was opened")

    def read(self, box: Box, out: Array) -> None:
        with self._lock:
            if self._decoded is None:
                self._decoded = _decode(self._path)
        if self._decoded.shape != self.shape:
            raise SourceError(
                f"{self._label} decodes to shape {self._decoded.shape}", f"{self.shape}"
            )
        np.copyto(out, self._decoded[box])

    def describe(self) -> str:
        return self._label

    def __repr__(self) -> str:
        return f"TiffSource({self._label!r}, {self.shape}, {self.dtype})"


def open_tiff(path: str) -> Source:
    """The source of a TIFF file, by tifffile where it is installed, else by Pillow."""
    try:
        import tifffile
    except ImportError:
        return _open_with_pillow(path)
    try:
        with tifffile.TiffFile(path) as file:
            series = file.series[0]
            dtype = np.dtype(series.dtype).newbyteorder(file.byteorder)
            if series.dataoffset is not None:
                return MappedSource(path, tuple(series.shape), dtype, int(series.dataoffset))
            return TiffSource(path, tuple(series.shape), dtype.newbyteorder("="))
    except OSError as error:
        raise unreadable(path, error) from error
    except (tifffile.TiffFileError, ValueError, IndexError, struct_error()) as error:
        raise _damaged(path, error) from error


def struct_error() -> type[Exception]:
    """What unpacking a truncated header raises."""
    import struct

    return struct.error


def _damaged(path: str, error: Exception) -> SourceError:
    return SourceError(f"{path} is not a readable TIFF image: {error}", "a whole TIFF image")


def _pillow() -> Any:
    try:
        from PIL import Image
    except ImportError:
        raise UnsupportedError(
            "TIFF files need tifffile or Pillow", "either", "pip install tifffile"
        ) from None
    return Image


_OFFSETS, _COMPRESSION, _SAMPLES, _PLANAR = 273, 259, 277, 284  # TIFF tags


def _open_with_pillow(path: str) -> Source:
    Image = _pillow()  # noqa: N806
    try:
        with Image.open(path) as image:
            probe = np.asarray(image.crop((0, 0, 1, 1)))
            shape = (image.height, image.width, *probe.shape[2:])
            dtype = probe.dtype.newbyteorder("=")
            first = _plain_first(image, shape, dtype)
            if first is not None:
                little = image.tag_v2.prefix == b"II"
                stored = dtype.newbyteorder("<" if little else ">")
                return MappedSource(path, shape, stored, first)
            return TiffSource(path, shape, dtype)
    except OSError as error:
        raise _damaged(path, error) from error


def _plain_first(image: Any, shape: tuple[int, ...], dtype: np.dtype[Any]) -> int | None:
    """The byte where the pixels begin, if they follow one another uncompressed."""
    tags = getattr(image, "tag_v2", {})
    if tags.get(_COMPRESSION) != 1 or tags.get(_PLANAR, 1) != 1 or dtype.kind == "b":
        return None
    if image.mode not in ("L", "I", "F", "I;16", "I;16B", "RGB", "RGBA"):
        return None
    if tags.get(_SAMPLES, 1) != (shape[2] if len(shape) == 3 else 1) or tags.get(262) == 0:
        return None
    offsets, counts = tags.get(_OFFSETS), tags.get(279)
    if not offsets or not counts or len(offsets) != len(counts):
        return None
    bits = tags.get(258, (1,))
    if any(b != dtype.itemsize * 8 for b in bits):
        return None
    ends = [o + c for o, c in zip(offsets, counts, strict=True)]
    if tuple(ends[:-1]) != tuple(offsets[1:]):
        return None
    if sum(counts) != int(np.prod(shape)) * dtype.itemsize:
        return None
    return int(offsets[0])


def _decode(path: str) -> Array:
    try:
        if "tifffile" in sys.modules:
            return np.asarray(sys.modules["tifffile"].imread(path))
        with _pillow().open(path) as image:
            return np.asarray(image)
    except (OSError, ValueError) as error:
        raise _damaged(path, error) from error
