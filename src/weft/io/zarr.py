"""Zarr arrays, versions 2 and 3: chunk files straight, anything else through zarr-python."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from weft.errors import ArgumentError, SinkError, SourceError, UnsupportedError, WeftError
from weft.io.chunk_codecs import decode
from weft.io.chunk_files import PARTIAL_METADATA, ChunkFilesSink
from weft.io.files import Array, Extent, chunks_of, read_box, window
from weft.io.mapped import unreadable
from weft.io.memory import ObjectSink, require_match, show_box
from weft.io.parts import Part, part_of_object
from weft.io.publish import DraftDirectory, unwritable
from weft.io.zarr_layout import (
    METADATA,
    ChunkLayout,
    default_chunks,
    read_layout,
    write_metadata,
)
from weft.plan.protocols import Box, Sink, Source

_MOST_LISTED = 1000  # directories that are looked into for the names of arrays


class ChunkFilesSource:
    """A local zarr array whose chunks are files of plain or compressed bytes."""

    def __init__(self, directory: str, layout: ChunkLayout, label: str) -> None:
        self._directory = os.path.abspath(directory)
        self.held = (Part(self._directory),)
        self._layout = layout
        self._label = label
        self.shape = layout.shape
        self.dtype = layout.dtype.newbyteorder("=")
        self.chunks: tuple[int, ...] | None = layout.chunks or None
        chunk = Extent(0, layout.chunks, layout.dtype).nbytes
        self.decoding = 0 if layout.compressor is None else 2 * chunk

    def direct(self) -> Array | None:
        return None

    def check(self) -> None:
        # As text, since a fill value of NaN does not equal itself.
        if str(read_layout(self._directory)) != str(self._layout):
            raise SourceError(
                f"{self._label} has changed or gone since it was opened",
                f"{self.shape} {self.dtype}", "open it again",
            )  # fmt: skip

    def read(self, box: Box, out: Array) -> None:
        layout = self._layout
        for index, inside, here in chunks_of(box, layout.chunks):
            path = os.path.join(self._directory, layout.name(index))
            part = window(out, here)
            try:
                descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
            except FileNotFoundError:
                part[...] = layout.fill_value
                continue
            except OSError as error:
                raise unreadable(path, error) from error
            try:
                self._read_chunk(descriptor, inside, part, path)
            except SourceError:
                raise
            except OSError as error:
                raise unreadable(path, error) from error
            finally:
                os.close(descriptor)

    def _read_chunk(self, descriptor: int, inside: Box, part: Array, path: str) -> None:
        layout = self._layout
        shape = layout.chunks
        if layout.column_major:  # the row-major bytes of the transposed chunk
            shape, inside, part = shape[::-1], inside[::-1], part.T
        extent = Extent(0, shape, layout.dtype)
        size = os.fstat(descriptor).st_size
        if layout.compressor is not None:
            encoded = os.pread(descriptor, size, 0)
            decode(layout.compressor, encoded, extent, inside, part, path)
            return
        if size != extent.nbytes:
            how = "truncated" if size < extent.nbytes else "too long"
            raise SourceError(
                f"the chunk {path} is {how}: {size} bytes",
                f"{extent.nbytes} bytes for {layout.chunks} {layout.dtype.name}",
            )
        read_box(descriptor, extent, inside, part)

    def describe(self) -> str:
        return self._label

    def __repr__(self) -> str:
        return f"ChunkFilesSource({self._label!r}, {self.shape}, {self.dtype})"


class ZarrSource:
    """An array read by zarr-python, chunk by chunk so that little is held at once."""

    def __init__(self, array: Any, label: str) -> None:
        self._array = array
        self._label = label
        self.held = _held(array)
        self.shape = tuple(int(extent) for extent in array.shape)
        self.dtype = np.dtype(array.dtype).newbyteorder("=")
        self.chunks: tuple[int, ...] | None = tuple(map(int, array.chunks)) or None
        self.decoding = 2 * Extent(0, self.chunks or (), self.dtype).nbytes

    def direct(self) -> Array | None:
        return None

    def check(self) -> None:
        pass

    def read(self, box: Box, out: Array) -> None:
        chunks = tuple(map(int, self._array.chunks))
        for _, _, here in chunks_of(box, chunks):
            piece = tuple(
                slice(side.start + part.start, side.start + part.stop)
                for side, part in zip(box, here, strict=True)
            )
            try:
                np.copyto(window(out, here), self._array[piece])
            except Exception as error:
                raise SourceError(
                    f"{self._label} failed to read {show_box(piece)}: {error!r}"
                ) from error

    def describe(self) -> str:
        return self._label

    def __repr__(self) -> str:
        return f"ZarrSource({self._label!r}, {self.shape}, {self.dtype})"


def open_zarr(
    path: str, component: str | None = None, storage_options: dict[str, Any] | None = None
) -> Source:
    """The source of an array in a zarr store: a directory, a zip file or a URL."""
    label = path if component is None else f"{path}::{component}"
    if "://" not in path and os.path.isdir(path):
        directory = os.path.join(path, component) if component else path
        if not any(os.path.isfile(os.path.join(directory, name)) for name in METADATA):
            raise _no_array(path, component)
        layout = read_layout(directory)
        if layout is not None and (layout.compressor is None or _has_numcodecs()):
            return ChunkFilesSource(directory, layout, label)
    zarr = _zarr()
    try:
        zipped = "://" not in path and os.path.isfile(path)
        store = zarr.storage.ZipStore(path, mode="r") if zipped else path
        node = zarr.open(store, path=component or "", mode="r", storage_options=storage_options)
    except FileNotFoundError:
        raise _no_array(path, component) from None
    except WeftError:
        raise
    except Exception as error:  # stores raise what their file system does
        raise SourceError(f"cannot open {label}: {error}", "a zarr array") from error
    if isinstance(node, zarr.Group):
        if os.path.isdir(path):
            raise _no_array(path, component)
        names = [f"{name} {array.shape} {array.dtype}" for name, array in node.arrays()]
        raise _component_wanted(label, names)
    return ZarrSource(node, label)


def source_of_array(array: Any) -> Source:
    """The source of a `zarr.Array`."""
    directory = _local_directory(array)
    label = directory or f"zarr array {array.name or ''}".strip()
    layout = read_layout(directory) if directory else None
    if layout is not None and layout.shape == array.shape:
        return ChunkFilesSource(directory, layout, label)
    return ZarrSource(array, label)


def _local_directory(array: Any) -> str:
    root = getattr(array.store, "root", None)
    if root is None or not os.path.isdir(root):
        return ""
    return os.path.join(str(root), str(array.path)) if array.path else str(root)


def _held(array: Any) -> tuple[Part, ...]:
    """What a `zarr.Array` keeps its chunks in."""
    directory = _local_directory(array)
    return (Part(directory),) if directory else part_of_object(array.store)


def _no_array(path: str, component: str | None) -> SourceError:
    found = f"{path} holds no array" + (f" {component!r}" if component else "")
    if os.path.isdir(path):
        names = list(_local_arrays(path))
        if names:
            return _component_wanted(f"{path}::{component}" if component else path, names)
    return SourceError(found, "a zarr array: a directory with zarr.json or .zarray")


def _component_wanted(label: str, names: list[str]) -> SourceError:
    return SourceError(
        f"{label} is not an array",
        "one of the arrays there: " + (", ".join(names) or "there are none"),
        "name it with component=",
    )


def _local_arrays(path: str) -> Iterator[str]:
    """Names, shapes and dtypes of the first arrays below a directory."""
    for count, (directory, names, files) in enumerate(os.walk(path)):
        if count == _MOST_LISTED:
            return
        names.sort()
        if ".zarray" not in files and "zarr.json" not in files:
            continue
        with contextlib.suppress(OSError, ValueError, KeyError):
            name = ".zarray" if ".zarray" in files else "zarr.json"
            with open(os.path.join(directory, name), encoding="utf-8") as file:
                metadata = json.load(file)
            if metadata.get("node_type", "array") == "array":
                names.clear()
                dtype = metadata.get("data_type", metadata.get("dtype"))
                shape = tuple(metadata["shape"])
                yield f"{os.path.relpath(directory, path)} {shape} {dtype}"


def _zarr() -> Any:
    try:
        import zarr
    except ImportError:
        raise UnsupportedError(
            "this zarr array needs zarr-python", "zarr 3", "pip install 'weft[zarr]'"
        ) from None
    return zarr


def _has_numcodecs() -> bool:
    from importlib.util import find_spec

    return find_spec("numcodecs") is not None


class CompleteSink:
    """What a finished, resumable run left: there is nothing more to write."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self.shape, self.dtype, self.chunks = source.shape, source.dtype, source.chunks

    def direct(self) -> Array | None:
        return None

    def write(self, box: Box, data: Array) -> None:
        raise SinkError(f"{self.describe()} is complete already", "a box that is not done")

    def done(self, box: Box) -> bool:
        return True

    def finish(self) -> None:
        pass

    def abort(self) -> None:
        pass

    def describe(self) -> str:
        return self._source.describe()


def open_zarr_sink(
    path: str,
    component: str | None,
    shape: tuple[int, ...],
    dtype: np.dtype[Any],
    chunks: tuple[int, ...] | None,
    mode: str,
    resume: bool,
    chunk_bytes: int,
) -> Sink:
    """The sink of an array in a local zarr store (see `weft.io.sinks.open_sink`)."""
    path = path.rstrip("/")
    name = path if component is None else f"{path}::{component}"
    final = path if component is None else os.path.join(path, component)
    if mode == "r+":
        return _update_sink(path, component, shape, dtype)
    if resume and mode == "x" and os.path.lexists(final):
        source = open_zarr(path, component)
        require_match(name, (source.shape, source.dtype), shape, dtype)
        return CompleteSink(source)
    if chunks is not None and (len(chunks) != len(shape) or min(chunks, default=1) < 1):
        raise ArgumentError(f"chunks {chunks}", f"{len(shape)} extents of at least 1")
    extents = tuple(chunks or default_chunks(shape, dtype.itemsize, chunk_bytes))
    little = np.dtype(dtype.newbyteorder("<").str)
    layout = ChunkLayout(shape, extents, little, dtype.type(0), False, "c", "/", None)
    if mode == "w":
        _refuse_foreign(final)
    if component is not None:
        _make_groups(path, component)
    size = Extent(0, shape, dtype).nbytes
    draft = DraftDirectory(final, size, replace=mode == "w", partial=resume)
    try:
        if resume:
            if chunks is None:  # by default they follow the memory limit, which may be another
                layout = replace(layout, chunks=_partial_chunks(draft, layout))
            _agree_on_partial(draft, layout)
    except BaseException:
        draft.discard()
        raise
    return ChunkFilesSink(name, draft.path, layout, draft)


def _partial_chunks(draft: DraftDirectory, layout: ChunkLayout) -> tuple[int, ...]:
    """The chunks of what an interrupted run left; those of the layout where it left nothing."""
    path = os.path.join(draft.path, PARTIAL_METADATA)
    with contextlib.suppress(OSError, ValueError, KeyError), open(path, encoding="utf-8") as file:
        left = tuple(json.load(file)["chunk_grid"]["configuration"]["chunk_shape"])
        return left if len(left) == len(layout.shape) else layout.chunks
    return layout.chunks


def _agree_on_partial(draft: DraftDirectory, layout: ChunkLayout) -> None:
    """Write what is being made into a partial directory, or compare with what was."""
    marker = os.path.join(draft.path, PARTIAL_METADATA)
    wanted = marker + ".wanted"
    write_metadata(wanted, layout)
    if draft.found and os.path.exists(marker):
        with open(marker, encoding="utf-8") as old, open(wanted, encoding="utf-8") as new:
            same = old.read() == new.read()
        os.unlink(wanted)
        if not same:
            raise SinkError(
                f"{draft.path}, left by an interrupted run, has another shape, dtype or chunks",
                f"{layout.shape} {layout.dtype.name} in chunks {layout.chunks}",
                "remove that directory to start anew",
            )
    else:
        os.rename(wanted, marker)


def _refuse_foreign(path: str) -> None:
    """Raise `SinkError` for a directory of what no zarr library wrote, which "w" would remove."""
    known = (*METADATA, ".zgroup")
    if os.path.isdir(path) and (names := os.listdir(path)) and not set(names) & set(known):
        raise SinkError(
            f"{path} is a directory that holds no zarr array or group, but {min(names)}",
            "a new name, or a zarr store to replace",
        )


def _make_groups(path: str, component: str) -> None:
    """Make the store and the groups that lead to a component."""
    directory = path
    try:
        for part in ["", *component.split("/")[:-1]]:
            directory = os.path.join(directory, part) if part else directory
            if _is_array(directory):
                raise SinkError(f"{directory} is an array", "a group, or a name that is free")
            os.makedirs(directory, exist_ok=True)
            if not any(
                os.path.exists(os.path.join(directory, n)) for n in ("zarr.json", ".zgroup")
            ):
                with open(os.path.join(directory, "zarr.json"), "w", encoding="utf-8") as file:
                    group = {"zarr_format": 3, "node_type": "group", "attributes": {}}
                    json.dump(group, file, indent=2)
    except SinkError:
        raise
    except OSError as error:
        raise unwritable(path, error) from error


def _is_array(directory: str) -> bool:
    return next(_local_arrays(directory), "").startswith(". ")


def _update_sink(
    path: str, component: str | None, shape: tuple[int, ...], dtype: np.dtype[Any]
) -> Sink:
    source = open_zarr(path, component)
    require_match(source.describe(), (source.shape, source.dtype), shape, dtype)
    directory = os.path.join(path, component) if component else path
    sink = _plain_sink(directory, source.describe())
    if sink is not None:
        return sink
    return _library_sink(_zarr().open_array(path, path=component or "", mode="r+"))


def sink_of_array(array: Any) -> Sink:
    """The sink of a `zarr.Array` that the caller opened for writing."""
    if array.read_only:
        raise SinkError(f"the zarr array {array.name or ''} is read-only", 'one opened with "r+"')
    directory = _local_directory(array)
    sink = _plain_sink(directory, directory) if directory else None
    return sink if sink is not None else _library_sink(array)


def _plain_sink(directory: str, name: str) -> Sink | None:
    layout = read_layout(directory)
    if layout is None or layout.compressor is not None or layout.column_major:
        return None
    return ChunkFilesSink(name, directory, layout, None)


def _library_sink(array: Any) -> Sink:
    sink = ObjectSink(array, contextlib.nullcontext())
    sink.held = _held(array)
    units = getattr(array, "shards", None) or array.chunks  # what is written as a whole
    sink.chunks = tuple(map(int, units)) or None
    return sink
