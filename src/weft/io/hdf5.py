"""HDF5 datasets: contiguous ones as plain bytes of the file, others through h5py."""

from __future__ import annotations

import os
import secrets
import threading
from typing import Any

import numpy as np

from weft.errors import ArgumentError, SinkError, SourceError, UnsupportedError
from weft.io.files import Array, Extent, extend, write_box
from weft.io.held import held
from weft.io.mapped import MappedSource, unreadable
from weft.io.memory import ObjectSink, ObjectSource, require_match, show_box
from weft.io.parts import Part
from weft.io.publish import Draft, final_place, require_space, unwritable
from weft.plan.protocols import Box, Sink, Source

_LOCK = threading.RLock()  # HDF5 does one thing at a time
_DEFAULT_NAME = "data"


def _h5py() -> Any:
    try:
        import h5py
    except ImportError:
        raise UnsupportedError(
            "HDF5 files need h5py", "h5py 3", "pip install 'weft[hdf5]'"
        ) from None
    return h5py


class Hdf5Source:
    """A chunked dataset. The file is open only while it is read, so that others may write."""

    serial = True  # under one lock

    def __init__(self, path: str, component: str) -> None:
        self._path, self._component = os.path.abspath(path), component
        self._label = f"{path}::{component}"
        with _LOCK, _open_file(path, "r") as file:
            dataset = file[component]
            self.held = _held(dataset)
            self.shape = tuple(map(int, dataset.shape))
            self.dtype = dataset.dtype.newbyteorder("=")
            self.chunks: tuple[int, ...] | None = dataset.chunks
            filtered = dataset.id.get_create_plist().get_nfilters() > 0
            chunk = Extent(0, self.chunks or (), self.dtype).nbytes
            self.decoding = 2 * chunk if self.chunks and filtered else 0

    def direct(self) -> Array | None:
        return None

    def check(self) -> None:
        now = open_hdf5(self._path, self._component)
        if (now.shape, now.dtype) != (self.shape, self.dtype):
            raise SourceError(
                f"{self._label} has changed since it was opened: {now.shape} {now.dtype}",
                f"{self.shape} {self.dtype}", "open it again",
            )  # fmt: skip

    def read(self, box: Box, out: Array) -> None:
        with _LOCK, _open_file(self._path, "r") as file:
            try:
                dataset = file[self._component]
                if out.flags.c_contiguous and out.size and out.ndim:
                    dataset.read_direct(out, box)
                else:
                    np.copyto(out, dataset[box])
            except (OSError, KeyError, ValueError, TypeError) as error:
                raise SourceError(
                    f"{self._label} failed to read {show_box(box)}: {error}"
                ) from error

    def describe(self) -> str:
        return self._label

    def __repr__(self) -> str:
        return f"Hdf5Source({self._label!r}, {self.shape}, {self.dtype})"


def open_hdf5(path: str, component: str | None = None) -> Source:
    """The source of a dataset; the only one of the file where none is named."""
    with _LOCK, _open_file(path, "r") as file:
        component = _find_component(path, component, file)
        dataset = file[component]
        label = f"{path}::{component}"
        if dataset.shape is None:
            raise SourceError(f"{label} is empty: it has no shape", "a dataset with elements")
        offset = _plain_offset(dataset)
        if offset is not None:
            home = dataset.file.filename  # another file, where a link leads there
            return MappedSource(home, dataset.shape, dataset.dtype, offset, label=label)
    return Hdf5Source(path, component)


def _open_file(path: str, mode: str, **options: Any) -> Any:
    h5py = _h5py()
    try:
        return h5py.File(path, mode, **options)
    except OSError as error:
        if mode == "r":
            raise unreadable(path, error) from error
        raise unwritable(path, error) from error


def _find_component(path: str, component: str | None, file: Any) -> str:
    h5py = _h5py()
    found: list[str] = []

    def visit(name: str, node: Any) -> None:
        if isinstance(node, h5py.Dataset):
            found.append(name)

    if component is not None:
        node = file.get(component)
        if isinstance(node, h5py.Dataset):
            return component
    file.visititems(visit)
    if component is None and len(found) == 1:
        return found[0]
    names = ", ".join(f"{name} {file[name].shape} {file[name].dtype}" for name in found)
    missing = f"no dataset {component!r}" if component else f"{len(found)} datasets"
    raise SourceError(
        f"{path} holds {missing}",
        f"one of: {names or 'there are none'}", "name it with component=",
    )  # fmt: skip


def _plain_offset(dataset: Any) -> int | None:
    """The byte where a contiguous dataset begins; None where its bytes are not plain."""
    if dataset.chunks is not None or dataset.external or dataset.is_virtual:
        return None
    offset = dataset.id.get_offset()
    return None if offset is None else int(offset)


def source_of_dataset(dataset: Any) -> Source:
    """The source of an `h5py.Dataset`."""
    path = dataset.file.filename
    if isinstance(path, str) and os.path.isfile(path) and dataset.file.mode == "r":
        offset = _plain_offset(dataset)
        if offset is not None:
            return MappedSource(
                path, dataset.shape, dataset.dtype, offset, label=f"{path}::{dataset.name[1:]}"
            )
    source = ObjectSource(dataset, _LOCK)
    source.held = _held(dataset)
    return source


def _held(dataset: Any) -> tuple[Part, ...]:
    path, component = os.path.abspath(dataset.file.filename), dataset.name[1:]
    offset = _plain_offset(dataset)
    if offset is not None:  # by its bytes, as the `MappedSource` of the same dataset
        return (Part(path, offset, offset + dataset.nbytes),)
    return (Part(f"{path}::{component}"),)


class Hdf5Sink:
    """A new dataset under a temporary name or in a temporary file, moved when it is whole.

    A contiguous dataset has all its space from the start and is written as plain bytes, with
    HDF5 out of the way; a chunked one is written by h5py, which opens the file for each box.
    """

    def __init__(
        self,
        path: str,
        component: str,
        shape: tuple[int, ...],
        dtype: np.dtype[Any],
        chunks: tuple[int, ...] | None,
        *,
        replace: bool,
        draft: Draft | None,
    ) -> None:
        self._name = f"{path}::{component}"
        self._component, self._replace, self._draft = component, replace, draft
        self._path = os.path.abspath(path) if draft is None else draft.path
        # A new file is made for one dataset.
        self.appears = final_place(path) + (f"::{component}" if draft is None else "")
        self.shape, self.dtype, self.chunks = shape, dtype, chunks
        parent, _, last = component.rpartition("/")
        self._dataset = f"{parent}/.{last}.{secrets.token_hex(4)}.weft-draft".lstrip("/")
        if draft is not None:
            self._dataset = component
        self._descriptor = -1
        self._extent = Extent(0, shape, dtype)
        try:
            with _LOCK, self._open("r+" if draft is None else "w") as file:
                offset = self._create(file)
            if offset is not None:
                self._extent = Extent(offset, shape, dtype)
                self._descriptor = os.open(self._path, os.O_RDWR | os.O_CLOEXEC)
                extend(self._descriptor, max(self._extent.end, os.fstat(self._descriptor).st_size))
        except (OSError, RuntimeError) as error:
            self._close()
            if isinstance(error, SinkError):
                raise
            raise unwritable(self._name, error) from error

    def _open(self, mode: str) -> Any:
        # A draft carries our own lock, which HDF5 would take for another writer's.
        options = {} if self._draft is None else {"locking": False}
        return _open_file(self._path, mode, **options)

    def _create(self, file: Any) -> int | None:
        """Make the dataset; the byte where it begins if it is contiguous."""
        h5py = _h5py()
        if self.chunks is not None:
            file.create_dataset(self._dataset, self.shape, self.dtype, chunks=self.chunks)
            return None
        properties = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
        properties.set_layout(h5py.h5d.CONTIGUOUS)
        properties.set_alloc_time(h5py.h5d.ALLOC_TIME_EARLY)
        properties.set_fill_time(h5py.h5d.FILL_TIME_NEVER)
        links = h5py.h5p.create(h5py.h5p.LINK_CREATE)
        links.set_create_intermediate_group(True)
        space = (
            h5py.h5s.create_simple(self.shape) if self.shape else h5py.h5s.create(h5py.h5s.SCALAR)
        )
        kind = h5py.h5t.py_create(self.dtype, logical=True)
        name = self._dataset.encode()
        dataset = h5py.h5d.create(file.id, name, kind, space, dcpl=properties, lcpl=links)
        offset = dataset.get_offset()
        return None if offset is None else int(offset)

    def direct(self) -> Array | None:
        return None

    def file(self) -> tuple[int, int] | None:
        return (self._descriptor, self._extent.offset) if self._descriptor >= 0 else None

    def refusal(self, error: OSError) -> Exception:
        return unwritable(self._name, error)

    def write(self, box: Box, data: Array) -> None:
        try:
            if self._descriptor >= 0:
                write_box(self._descriptor, self._extent, box, data)
            elif data.size:
                with _LOCK, self._open("r+") as file:
                    file[self._dataset][box] = data
        except (OSError, RuntimeError) as error:  # RuntimeError: when the file is closed
            if isinstance(error, SinkError):
                raise
            raise unwritable(self._name, error) from error

    def done(self, box: Box) -> bool:
        return False

    def finish(self) -> None:
        self._close()
        if self._draft is not None:
            self._draft.publish()
            return
        with _LOCK, self._open("r+") as file:
            if self._component in file:
                if not self._replace:
                    del file[self._dataset]
                    raise _exists(self._name)
                del file[self._component]
            file.move(self._dataset, self._component)

    def abort(self) -> None:
        self._close()
        if self._draft is not None:
            self._draft.discard()
            return
        with _LOCK, self._open("r+") as file:
            if self._dataset in file:
                del file[self._dataset]

    def _close(self) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    def describe(self) -> str:
        return self._name


class Hdf5UpdateSink:
    """An existing contiguous dataset, written in place."""

    chunks: tuple[int, ...] | None = None

    def __init__(self, source: MappedSource) -> None:
        self._source = source
        self.held = source.held
        self.shape, self.dtype = source.shape, source.dtype
        try:
            self._descriptor = os.open(source.path, os.O_RDWR | os.O_CLOEXEC)
        except OSError as error:
            raise unwritable(source.path, error) from error

    def direct(self) -> Array | None:
        return None

    def file(self) -> tuple[int, int] | None:
        plain = self._source.stored == self.dtype
        return (self._descriptor, self._source.first) if plain else None

    def refusal(self, error: OSError) -> Exception:
        return unwritable(self.describe(), error)

    def write(self, box: Box, data: Array) -> None:
        extent = Extent(self._source.first, self.shape, self._source.stored)
        try:
            write_box(self._descriptor, extent, box, data)
        except OSError as error:
            raise unwritable(self.describe(), error) from error

    def done(self, box: Box) -> bool:
        return False

    def finish(self) -> None:
        self.abort()

    def abort(self) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    def describe(self) -> str:
        return self._source.describe()


class _ReopenedDataset:
    """A dataset that is opened for each box, as an object with `__setitem__`."""

    def __init__(self, path: str, component: str, source: Source) -> None:
        self._path, self._component = path, component
        self.held = held(source)
        self.shape, self.dtype, self.chunks = source.shape, source.dtype, source.chunks

    def __setitem__(self, box: Box, data: Array) -> None:
        with _open_file(self._path, "r+") as file:
            file[self._component][box] = data


def open_hdf5_sink(
    path: str,
    component: str | None,
    shape: tuple[int, ...],
    dtype: np.dtype[Any],
    chunks: tuple[int, ...] | None,
    mode: str,
) -> Sink:
    """The sink of a dataset in a new or existing file (see `weft.io.sinks.open_sink`)."""
    if mode == "r+":
        return _update_sink(path, component, shape, dtype)
    if chunks is not None and (len(chunks) != len(shape) or min(chunks, default=1) < 1):
        raise ArgumentError(f"chunks {chunks}", f"{len(shape)} extents of at least 1")
    if not shape or 0 in shape:
        chunks = None  # HDF5 has no chunks of scalars and of nothing
    elif chunks is not None:
        chunks = tuple(min(c, n) for c, n in zip(chunks, shape, strict=True))
    replace = mode == "w"
    name = _DEFAULT_NAME if component is None else component.strip("/")
    if component is None or not os.path.exists(path):
        # Room is asked for now: HDF5 crashes at the exit of a process in which a file did not grow.
        draft = Draft(path, Extent(0, shape, dtype).nbytes, replace=replace)
        try:
            return Hdf5Sink(path, name, shape, dtype, chunks, replace=replace, draft=draft)
        except BaseException:
            draft.discard()
            raise
    with _LOCK, _open_file(path, "r+") as file:
        _check_groups(path, file, name)
        if not replace and name in file:
            raise _exists(f"{path}::{name}")
        _remove_remains(file, name)
    require_space(path, Extent(0, shape, dtype).nbytes)
    return Hdf5Sink(path, name, shape, dtype, chunks, replace=replace, draft=None)


def _exists(name: str) -> SinkError:
    return SinkError(f"{name} already exists", "a new name", 'mode="w" replaces it')


def _check_groups(path: str, file: Any, component: str) -> None:
    """Raise `SinkError` where what leads to a component is no group, or is in another file."""
    parents = component.split("/")[:-1]
    for count in range(1, len(parents) + 1):
        name = "/".join(parents[:count])
        group = file.get(name)
        if group is not None and not isinstance(group, _h5py().Group):
            raise SinkError(f"{path}::{name} is a dataset", "a group, or a name that is free")
        if group is not None and group.file.filename != file.filename:
            raise SinkError(
                f"{path}::{component} would be in another file, {group.file.filename}",
                "groups of the file itself", "name that file",
            )  # fmt: skip


def _remove_remains(file: Any, component: str) -> None:
    """Remove what killed runs left under temporary names for this component."""
    parent, _, last = component.rpartition("/")
    group = file.get(parent) if parent else file
    for name in list(group or ()):
        if name.startswith(f".{last}.") and name.endswith(".weft-draft"):
            del group[name]


def _update_sink(
    path: str, component: str | None, shape: tuple[int, ...], dtype: np.dtype[Any]
) -> Sink:
    source = open_hdf5(path, component)
    require_match(source.describe(), (source.shape, source.dtype), shape, dtype)
    if isinstance(source, MappedSource):
        return Hdf5UpdateSink(source)
    assert isinstance(source, Hdf5Source)
    return ObjectSink(_ReopenedDataset(path, source._component, source), _LOCK)


def sink_of_dataset(dataset: Any) -> Sink:
    """The sink of an `h5py.Dataset` that the caller opened for writing."""
    if dataset.file.mode == "r":
        raise SinkError(
            f"the file of dataset {dataset.name} is open for reading only", 'one opened with "r+"'
        )
    sink = ObjectSink(dataset, _LOCK)
    sink.held = _held(dataset)
    sink.chunks = None  # h5py keeps partial chunks in its cache
    return sink
