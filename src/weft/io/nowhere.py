"""Sinks that keep nothing: for plans that are only looked at."""

from __future__ import annotations

import os
from typing import Any

import numpy as np
import numpy.typing as npt

from weft.io.held import held
from weft.io.memory import RegionSink
from weft.io.open import open_source
from weft.io.parts import Held
from weft.io.sinks import Mode, open_sink, region_box
from weft.io.zarr_layout import CHUNK_BYTES, default_chunks
from weft.plan.protocols import Box, DecodingSource, Sink


class Nowhere:
    """Stands for a file that `wf.store` would write, a plain one where it has no chunks."""

    def __init__(
        self, shape: tuple[int, ...], dtype: npt.DTypeLike, chunks: tuple[int, ...] | None = None,
        label: str = "a target of wf.store", held: tuple[Held, ...] = (), takes_parts: bool = False,
    ) -> None:  # fmt: skip
        self.shape = shape
        self.dtype: np.dtype[Any] = np.dtype(dtype)
        self.chunks = chunks
        self.takes_parts = takes_parts
        self._label = label
        self.held = held  # of what is there already

    def direct(self) -> None:
        return None

    def file(self) -> tuple[int, int] | None:
        return (-1, 0) if self.chunks is None else None

    def refusal(self, error: OSError) -> Exception:
        return error

    def write(self, box: Box, data: npt.NDArray[Any]) -> None:
        """Forget the data."""

    def done(self, box: Box) -> bool:
        return False

    def finish(self) -> None:
        """Nothing is there to publish."""

    def abort(self) -> None:
        """Nothing is there to remove."""

    def describe(self) -> str:
        return self._label


def new_file(
    path: str | os.PathLike[str], shape: tuple[int, ...], dtype: npt.DTypeLike,
    chunks: tuple[int, ...] | None, chunk_bytes: int,
) -> Nowhere:  # fmt: skip
    """What stands for the file that `wf.store` would make at a path."""
    name = os.fspath(path)
    suffix = os.path.splitext(name.partition("::")[0].rstrip("/"))[1].lower()
    if suffix == ".npy":
        chunks = None
    elif suffix == ".zarr" and chunks is None:
        chunks = default_chunks(shape, np.dtype(dtype).itemsize, chunk_bytes)
    return Nowhere(shape, dtype, chunks, name, takes_parts=suffix == ".zarr")


def planned_sink(
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
    """What `weft.io.sinks.open_sink` would give, without making or changing a file."""
    if not isinstance(target, (str, os.PathLike)):
        return open_sink(target, shape, dtype, chunks, mode, resume, region)
    if region is None and mode != "r+":
        return new_file(target, shape, dtype, chunks, chunk_bytes)
    there = open_source(target)
    is_plain = isinstance(there, DecodingSource) and not there.decoding
    whole = Nowhere(there.shape, dtype, there.chunks, there.describe(), held(there), is_plain)
    return whole if region is None else RegionSink(whole, region_box(region, there.shape))
