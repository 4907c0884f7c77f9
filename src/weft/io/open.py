"""Opening whatever holds an array as a `Source`, by what it is or by how its file begins."""

from __future__ import annotations

import glob
import os
from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np

from weft.errors import ArgumentError, ArgumentTypeError, SourceError
from weft.io.mapped import memmap_source, unreadable
from weft.io.memory import MemorySource, ObjectSource, as_array
from weft.io.npy import MAGIC as NPY_MAGIC
from weft.io.npy import NpySource
from weft.plan.protocols import Source

Path: TypeAlias = str | os.PathLike[str]

_HDF5 = (".h5", ".hdf5", ".hdf", ".nc")
_WITH_COMPONENTS = (".zarr", *_HDF5)
_FORMATS = ".npy, zarr, HDF5 or TIFF"


def open_source(
    path_or_paths: object,
    component: str | None = None,
    storage_options: dict[str, Any] | None = None,
) -> Source:
    """A source over a file, several files, or an object that holds an array.

    Parameters
    ----------
    path_or_paths : path, sequence of paths, array or object
        A `.npy`, zarr (directory, zip or URL), HDF5 or TIFF file; a pattern such as
        ``"day-*.npy"`` or a sequence of paths, stacked along a new first axis; a NumPy array
        or memmap; a zarr or h5py array; an array with DLPack; any object with `shape`, `dtype`
        and `__getitem__`.
    component : str, optional
        The path of the array inside a zarr group or an HDF5 file.
    storage_options : dict, optional
        For zarr's remote stores.

    Returns
    -------
    Source
        Nothing is read but headers.

    Raises
    ------
    SourceError
        The file is missing, truncated, damaged or of an unknown format, or holds no such
        component.
    ArgumentTypeError
        The object is none of these.
    """
    if isinstance(path_or_paths, (str, os.PathLike)):
        return _open_path(os.fspath(path_or_paths), component, storage_options)
    if isinstance(path_or_paths, (list, tuple)):
        return _open_stack(path_or_paths, component, storage_options)
    return _open_object(path_or_paths)


def _open_object(value: Any) -> Source:
    if isinstance(value, Source):
        return value
    if isinstance(value, np.memmap):
        mapped = memmap_source(value)
        if mapped is not None:
            return mapped
    module = type(value).__module__.partition(".")[0]
    if module == "zarr" and hasattr(value, "store"):
        from weft.io.zarr import source_of_array

        return source_of_array(value)
    if module == "h5py" and hasattr(value, "file"):
        from weft.io.hdf5 import source_of_dataset

        return source_of_dataset(value)
    array = as_array(value)
    if array is not None:
        return MemorySource(array)
    if all(hasattr(value, name) for name in ("shape", "dtype", "__getitem__")):
        return ObjectSource(value)
    raise ArgumentTypeError(
        f"a {type(value).__name__} is not an array",
        "a path, an array, or an object with shape, dtype and __getitem__",
    )


def _open_stack(
    paths: Sequence[Any], component: str | None, storage_options: dict[str, Any] | None
) -> Source:
    from weft.io.stack import StackSource

    if not paths:
        raise SourceError("an empty list of files", "at least one file")
    return StackSource([open_source(path, component, storage_options) for path in paths])


def split_component(path: str, component: str | None) -> tuple[str, str | None]:
    """A path and a component, which `"file.h5::group/name"` names too."""
    if component is None and not os.path.exists(path):
        file, colons, inside = path.partition("::")
        if colons and os.path.splitext(file.rstrip("/"))[1].lower() in _WITH_COMPONENTS:
            path, component = file, inside
    return path, component if component is None else _checked_component(component)


def _checked_component(component: str) -> str | None:
    """The names that lead to an array, from the root on; None where there are none.

    Raises
    ------
    ArgumentError, ArgumentTypeError
        What is no such path, or would lead out of a store that is a directory.
    """
    if not isinstance(component, str):
        raise ArgumentTypeError(
            f"a {type(component).__name__} as component", 'a str, such as "group/name"'
        )
    names = [name for name in component.split("/") if name]
    if {".", ".."} & set(names):
        raise ArgumentError(
            f"component {component!r}", 'names of groups and an array, none of them "." or ".."'
        )
    return "/".join(names) or None


def _open_path(path: str, component: str | None, storage_options: dict[str, Any] | None) -> Source:
    path, component = split_component(path, component)
    if "://" in path:
        from weft.io.zarr import open_zarr

        return open_zarr(path, component, storage_options)
    if not os.path.exists(path) and glob.has_magic(path):
        paths = sorted(glob.glob(path))
        if not paths:
            raise SourceError(f"no file matches {path}", "a pattern that matches files")
        return _open_stack(paths, component, storage_options)
    if os.path.isdir(path):
        from weft.io.zarr import open_zarr

        return open_zarr(path, component, storage_options)
    return _open_file(path, component)


def _open_file(path: str, component: str | None) -> Source:
    try:
        with open(path, "rb") as file:
            magic = file.read(8)
    except (OSError, ValueError) as error:  # ValueError: a NUL in the path
        raise unreadable(path, error) from error
    suffix = os.path.splitext(path)[1].lower()
    if magic.startswith(NPY_MAGIC) or suffix == ".npy":
        only_array(path, component)
        return NpySource(path)
    if magic == b"\x89HDF\r\n\x1a\n" or suffix in _HDF5:
        from weft.io.hdf5 import open_hdf5

        return open_hdf5(path, component)
    if magic[:4] in (b"II*\0", b"MM\0*", b"II+\0", b"MM\0+") or suffix in (".tif", ".tiff"):
        from weft.io.tiff import open_tiff

        only_array(path, component)
        return open_tiff(path)
    if magic.startswith(b"PK\x03\x04"):
        from weft.io.zarr import open_zarr

        return open_zarr(path, component, None)
    raise SourceError(f"{path} is of an unknown format: it starts with {magic!r}", _FORMATS)


def only_array(path: str, component: str | None) -> None:
    """Raise `ArgumentError` for a component of a file that has none."""
    if component is not None:
        raise ArgumentError(
            f"component {component!r} of {path}, which holds one array without a name",
            "no component, or a zarr store or HDF5 file",
        )
