"""What a local zarr array's metadata says, versions 2 and 3, read without zarr-python.

Only arrays whose chunks are files of plain or simply compressed bytes have a `ChunkLayout`;
for all others (sharded, filtered, transposed, remote) zarr-python does the work.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from typing import Any

import numpy as np

from weft.errors import SourceError
from weft.records import dataclass

CHUNK_BYTES = 4 << 20
"""What a chunk of a new array has, where none is chosen and this is not too much."""

METADATA = ("zarr.json", ".zarray")

_DTYPES = (
    "bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64",
    "float32", "float64", "complex64", "complex128",
)  # fmt: skip
_SPECIAL: dict[Any, Any] = {"NaN": np.nan, "Infinity": np.inf, "-Infinity": -np.inf}
_SEPARATORS = (".", "/")
_COMPRESSORS = ("zstd", "gzip", "blosc", "zlib", "lz4")


@dataclass(frozen=True, slots=True)
class ChunkLayout:
    """How an array lies in chunk files.

    `separator` stands between chunk numbers in file names; `prefix` before them. `compressor`
    is a numcodecs identifier.
    """

    shape: tuple[int, ...]
    chunks: tuple[int, ...]
    dtype: np.dtype[Any]
    fill_value: Any
    column_major: bool
    prefix: str
    separator: str
    compressor: str | None

    def name(self, index: tuple[int, ...]) -> str:
        """The file of a chunk, relative to the array's directory."""
        numbers = self.separator.join(map(str, index))
        if self.prefix:
            return self.prefix + (self.separator + numbers if numbers else "")
        return numbers or "0"


def read_layout(directory: str) -> ChunkLayout | None:
    """The layout of the array in a directory; None where it is not a simple one.

    Raises
    ------
    SourceError
        Its extents are none that an array can have.
    """
    for name, parse in zip(METADATA, (_parse_version_3, _parse_version_2), strict=True):
        path = os.path.join(directory, name)
        if os.path.isfile(path):
            try:
                with open(path, encoding="utf-8") as file:
                    metadata = json.load(file)
                    _check_extents(path, *_EXTENTS[name](metadata))
                    return parse(metadata)
            except SourceError:
                raise
            except (KeyError, TypeError, ValueError, IndexError):
                return None
    return None


_EXTENTS: dict[str, Callable[[dict[str, Any]], tuple[Any, Any]]] = {
    "zarr.json": lambda metadata: (
        metadata["shape"], metadata["chunk_grid"]["configuration"]["chunk_shape"],
    ),
    ".zarray": lambda metadata: (metadata["shape"], metadata["chunks"]),
}  # fmt: skip


def _check_extents(path: str, shape: Any, chunks: Any) -> None:
    """Raise `SourceError` for extents that zarr-python does not look at either."""
    for extents, least in ((shape, 0), (chunks, 1)):
        if not isinstance(extents, list) or len(extents) != len(shape) or not all(
            isinstance(extent, int) and extent >= least for extent in extents
        ):  # fmt: skip
            raise SourceError(
                f"the metadata in {path} is damaged: shape {shape} in chunks {chunks}",
                "as many extents of at least 0 as of chunks of at least 1",
            )


def _parse_version_3(metadata: dict[str, Any]) -> ChunkLayout | None:
    if metadata["node_type"] != "array" or metadata.get("storage_transformers"):
        return None
    if metadata["zarr_format"] != 3:
        return None
    grid, encoding = metadata["chunk_grid"], metadata["chunk_key_encoding"]
    if grid["name"] != "regular" or metadata["data_type"] not in _DTYPES:
        return None
    first, *rest = metadata["codecs"]
    if first["name"] != "bytes" or len(rest) > 1:
        return None
    if rest and rest[0]["name"] not in _COMPRESSORS:
        return None
    order = first.get("configuration", {}).get("endian", "little")
    swapped = np.dtype(metadata["data_type"]).newbyteorder("<" if order == "little" else ">")
    dtype = np.dtype(swapped.str)  # the same object whether it was parsed or unpickled
    default = encoding["name"] == "default"
    separator = encoding.get("configuration", {}).get("separator", "/" if default else ".")
    if separator not in _SEPARATORS:
        return None
    return ChunkLayout(
        shape=tuple(metadata["shape"]),
        chunks=tuple(grid["configuration"]["chunk_shape"]),
        dtype=dtype,
        fill_value=_fill_value(metadata["fill_value"], dtype),
        column_major=False,
        prefix="c" if default else "",
        separator=separator,
        compressor=rest[0]["name"] if rest else None,
    )


def _parse_version_2(metadata: dict[str, Any]) -> ChunkLayout | None:
    dtype = np.dtype(metadata["dtype"])
    compressor, order = metadata["compressor"], metadata["order"]
    separator = metadata.get("dimension_separator", ".")
    if metadata["zarr_format"] != 2 or order not in ("C", "F") or separator not in _SEPARATORS:
        return None
    if metadata["dtype"] is None:  # which NumPy takes for float64
        return None
    if metadata["filters"] or dtype.newbyteorder("=").name not in _DTYPES:
        return None
    if compressor is not None and compressor["id"] not in _COMPRESSORS:
        return None
    return ChunkLayout(
        shape=tuple(metadata["shape"]),
        chunks=tuple(metadata["chunks"]),
        dtype=dtype,
        fill_value=_fill_value(metadata["fill_value"], dtype),
        column_major=order == "F",
        prefix="",
        separator=separator,
        compressor=None if compressor is None else compressor["id"],
    )


def _fill_value(value: Any, dtype: np.dtype[Any]) -> Any:
    """The scalar that missing chunks hold; ValueError for rarer spellings."""
    native = dtype.newbyteorder("=").type
    if value is None:
        return native(0)
    if isinstance(value, list):
        real, imaginary = (_fill_value(part, np.dtype(np.float64)) for part in value)
        return native(complex(real, imaginary))
    return native(_SPECIAL[value] if isinstance(value, str) else value)


def write_metadata(path: str, layout: ChunkLayout) -> None:
    """Write version 3 metadata of an uncompressed array."""
    metadata = {
        "zarr_format": 3,
        "node_type": "array",
        "shape": list(layout.shape),
        "data_type": layout.dtype.name,
        "chunk_grid": {
            "name": "regular",
            "configuration": {"chunk_shape": list(layout.chunks)},
        },
        "chunk_key_encoding": {"name": "default", "configuration": {"separator": "/"}},
        "fill_value": _json_zero(layout.dtype),
        "codecs": [{"name": "bytes", "configuration": {"endian": "little"}}],
        "attributes": {},
        "storage_transformers": [],
    }
    with open(path, "w", encoding="utf-8") as file:
        json.dump(metadata, file, indent=2)


def _json_zero(dtype: np.dtype[Any]) -> Any:
    if dtype.kind == "c":
        return [0.0, 0.0]
    return {"b": False, "f": 0.0}.get(dtype.kind, 0)


def default_chunks(shape: tuple[int, ...], itemsize: int, most: int) -> tuple[int, ...]:
    """Slabs of about 4 MiB, or of `most` bytes, that keep the inner dimensions whole."""
    chunks = [1] * len(shape)
    room = max(1, min(CHUNK_BYTES, most) // itemsize)
    for axis in range(len(shape) - 1, -1, -1):
        chunks[axis] = max(1, min(shape[axis], room))
        room //= chunks[axis]
    return tuple(chunks)
