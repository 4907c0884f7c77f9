"""Opening the targets that results are written to."""

from __future__ import annotations

import os
from typing import Any, Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from weft.errors import ArgumentError, ArgumentTypeError, ShapeError, SinkError
from weft.io.memory import MemorySink, ObjectSink, RegionSink, require_match
from weft.io.npy import NpySink, NpyUpdateSink
from weft.io.open import only_array, open_source, split_component
from weft.io.zarr_layout import CHUNK_BYTES
from weft.plan.protocols import Box, Sink

Mode: TypeAlias = Literal["x", "w", "r+"]


def open_sink(
    target: object,
    shape: tuple[int, ...],
    dtype: npt.DTypeLike,
    chunks: tuple[int, ...] | None = None,
    mode: Mode = "x",
    resume: bool = False,
    region: tuple[slice, ...] | None = None,
    component: str | None = None,
    chunk_bytes: int = CHUNK_BYTES,
) -> Sink:
    """A sink that takes an array of the given shape and dtype.

    Parameters
    ----------
    target : path, array or object
        A path ending in `.npy`, `.zarr`, `.h5` or `.hdf5` (the last two may be followed by
        ``::component``); a NumPy array or memmap; a zarr or h5py array; any object with `shape`,
        `dtype` and `__setitem__`.
    shape, dtype
        Of the result.
    chunks : tuple of int, optional
        Chunk extents of a new zarr or HDF5 array.
    mode : {"x", "w", "r+"}
        Fail where the target exists; replace it; write into it. Arrays and objects are always
        written into.
    resume : bool
        Keep what an interrupted run completed (zarr paths).
    region : tuple of slice, optional
        The part of an existing target to write.
    component : str, optional
        The path of the array inside a zarr group or an HDF5 file.
    chunk_bytes : int
        What a chunk of a new zarr array has at most, where no `chunks` are given.

    Raises
    ------
    SinkError
        The target exists already, is read-only, or has no room.
    ShapeError, DTypeError
        An existing target of another shape or dtype.
    """
    dtype = np.dtype(dtype)
    if mode not in ("x", "w", "r+"):
        raise ArgumentError(f"mode {mode!r}", 'one of "x", "w", "r+"')
    if resume and not _resumable(target):
        raise SinkError(
            f"{_name(target)} cannot be resumed", "a .zarr path", "store to zarr, or resume=False"
        )
    if region is None:
        return _open_whole(
            target, shape, dtype, chunks, mode, resume, component, chunk_bytes
        )
    full = _existing_shape(target, component)
    box = region_box(region, full)
    if tuple(side.stop - side.start for side in box) != shape:
        raise ShapeError(
            f"the region {region} of a target of shape {full}", f"one of shape {shape}"
        )
    whole = _open_whole(target, full, dtype, chunks, "r+", resume, component, chunk_bytes)
    return RegionSink(whole, box)


def _open_whole(
    target: Any,
    shape: tuple[int, ...],
    dtype: np.dtype[Any],
    chunks: tuple[int, ...] | None,
    mode: Mode,
    resume: bool,
    component: str | None,
    chunk_bytes: int,
) -> Sink:
    if isinstance(target, (str, os.PathLike)):
        path, component = split_component(os.fspath(target), component)
        return _open_path(path, shape, dtype, chunks, mode, resume, component, chunk_bytes)
    sink = _open_object(target)
    require_match(sink.describe(), (sink.shape, sink.dtype), shape, dtype)
    return sink


def _open_object(target: Any) -> Sink:
    if isinstance(target, np.ndarray):
        return MemorySink(target)
    if isinstance(target, Sink):
        return target
    module = type(target).__module__.partition(".")[0]
    if module == "zarr" and hasattr(target, "store"):
        from weft.io.zarr import sink_of_array

        return sink_of_array(target)
    if module == "h5py" and hasattr(target, "file"):
        from weft.io.hdf5 import sink_of_dataset

        return sink_of_dataset(target)
    if all(hasattr(target, name) for name in ("shape", "dtype", "__setitem__")):
        return ObjectSink(target)
    raise ArgumentTypeError(
        f"a {type(target).__name__} cannot be written to",
        "a path, an array, or an object with shape, dtype and __setitem__",
    )


def _open_path(
    path: str,
    shape: tuple[int, ...],
    dtype: np.dtype[Any],
    chunks: tuple[int, ...] | None,
    mode: Mode,
    resume: bool,
    component: str | None,
    chunk_bytes: int,
) -> Sink:
    suffix = os.path.splitext(path.rstrip("/"))[1].lower()
    if suffix == ".npy":
        only_array(path, component)
        if mode == "r+":
            return NpyUpdateSink(path, shape, dtype)
        return NpySink(path, shape, dtype, replace=mode == "w")
    if suffix == ".zarr":
        from weft.io.zarr import open_zarr_sink

        return open_zarr_sink(
            path, component, shape, dtype, chunks, mode, resume, chunk_bytes
        )
    if suffix in (".h5", ".hdf5", ".hdf"):
        from weft.io.hdf5 import open_hdf5_sink

        return open_hdf5_sink(path, component, shape, dtype, chunks, mode)
    raise SinkError(f"{path} has an unknown suffix", ".npy, .zarr, .h5 or .hdf5")


def _resumable(target: object) -> bool:
    if not isinstance(target, (str, os.PathLike)):
        return False
    return split_component(os.fspath(target), None)[0].rstrip("/").endswith(".zarr")


def _name(target: object) -> str:
    if isinstance(target, (str, os.PathLike)):
        return os.fspath(target)
    return f"a {type(target).__name__}"


def _existing_shape(target: Any, component: str | None) -> tuple[int, ...]:
    if isinstance(target, (str, os.PathLike)):
        return open_source(target, component).shape
    return tuple(int(extent) for extent in target.shape)


def region_box(region: tuple[slice, ...], shape: tuple[int, ...]) -> Box:
    if not isinstance(region, tuple):
        region = (region,)
    if not all(isinstance(side, slice) for side in region):
        raise ArgumentTypeError(f"the region {region}", "a tuple of slices")
    if len(region) > len(shape):
        raise ShapeError(f"a region of {len(region)} dimensions", f"at most {len(shape)}")
    sides = []
    for side, extent in zip(region + (slice(None),) * len(shape), shape, strict=False):
        try:
            start, stop, step = side.indices(extent)
        except (TypeError, ValueError) as error:
            raise ArgumentTypeError(f"the region {region}", "slices of ints") from error
        if step != 1:
            raise ArgumentError(f"a region with step {step}", "step 1")
        sides.append(slice(start, max(start, stop)))
    return tuple(sides)
