"""Chunk files that boxes are written to: each appears whole, whatever part of it a box has."""

from __future__ import annotations

import contextlib
import os
import threading
from dataclasses import field
from typing import TypeAlias

from weft.errors import InternalError
from weft.io.files import Array, Extent, chunks_of, extend, window, write_box
from weft.io.parts import Part
from weft.io.publish import DraftDirectory, final_place, unwritable
from weft.io.zarr_layout import ChunkLayout, write_metadata
from weft.plan.protocols import Box
from weft.records import dataclass

PARTIAL_METADATA = "zarr.json.partial"
"""What says how an array lies that is not finished yet."""

_UNFINISHED = ".unfinished"
"""Behind the name of a chunk's file until it is whole."""

Index: TypeAlias = tuple[int, ...]


@dataclass(slots=True)
class _Begun:
    """A chunk that several boxes have parts of, along one axis.

    Attributes
    ----------
    axis, extent : int
        That axis, and how long the chunk is along it.
    runs : list of (int, int)
        What is written, in order, disjoint.
    """

    axis: int
    extent: int
    runs: list[tuple[int, int]] = field(default_factory=list)

    @property
    def is_whole(self) -> bool:
        return self.runs == [(0, self.extent)]

    def add(self, start: int, stop: int) -> None:
        """Write down a part; the same one may come again."""
        apart = [run for run in self.runs if run[1] < start or stop < run[0]]
        joined = [run for run in self.runs if run not in apart]
        whole = min([start, *(a for a, _ in joined)]), max([stop, *(b for _, b in joined)])
        self.runs = sorted([*apart, whole])


class ChunkFilesSink:
    """Chunk files written straight, each appearing whole.

    In a draft directory the whole array appears at once, when it is finished. A chunk file
    that is there counts as done: it gets its name only after its last byte, whichever box
    has that.
    """

    takes_parts = True

    def __init__(
        self, name: str, directory: str, layout: ChunkLayout, draft: DraftDirectory | None
    ) -> None:
        self._name, self._directory, self._layout, self._draft = name, directory, layout, draft
        self.held = (Part(directory),) if draft is None else ()
        self.appears = "" if draft is None else final_place(draft.name)
        self.shape = layout.shape
        self.dtype = layout.dtype.newbyteorder("=")
        self.chunks: tuple[int, ...] | None = layout.chunks or None
        self._lock = threading.Lock()
        self._begun: dict[Index, _Begun] = {}

    def direct(self) -> Array | None:
        return None

    def write(self, box: Box, data: Array) -> None:
        for index, inside, here in chunks_of(box, self._layout.chunks):
            path = os.path.join(self._directory, self._layout.name(index))
            part = window(data, here)
            axes = self._cut(index, inside)
            try:
                if axes:
                    self._write_part(index, path, inside, part, axes)
                else:
                    self._write_chunk(path, inside, part)
            except OSError as error:
                raise unwritable(path, error) from error

    def _extents(self, index: Index) -> list[int]:
        """How much of a chunk lies in the array."""
        sides = zip(index, self._layout.chunks, self.shape, strict=True)
        return [min(chunk, extent - number * chunk) for number, chunk, extent in sides]

    def _cut(self, index: Index, inside: Box) -> list[int]:
        """The axes along which a box has a part of a chunk."""
        extents = self._extents(index)
        return [d for d, side in enumerate(inside) if side.stop - side.start < extents[d]]

    def _write_chunk(self, path: str, inside: Box, data: Array) -> None:
        descriptor = self._open(path, os.O_TRUNC)
        try:
            self._fill(descriptor, inside, data)
        finally:
            os.close(descriptor)
        os.rename(path + _UNFINISHED, path)

    def _write_part(
        self, index: Index, path: str, inside: Box, data: Array, axes: list[int]
    ) -> None:
        axis, *others = axes
        if others:
            raise InternalError(f"a box has a part of chunk {index} along several axes")
        with self._lock:
            begun = self._begun.get(index)
            if begun is None and self._is_left(path):
                return
            if begun is not None and begun.is_whole:  # what is computed again is the same
                descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC)
            else:
                descriptor = self._open(path, os.O_TRUNC if begun is None else 0)
                if begun is None or begun.axis != axis:  # cut otherwise, after a device failed
                    begun = self._begun[index] = _Begun(axis, self._extents(index)[axis])
        try:
            self._fill(descriptor, inside, data)
        finally:
            os.close(descriptor)
        with self._lock:
            if not begun.is_whole:
                begun.add(inside[begun.axis].start, inside[begun.axis].stop)
                if begun.is_whole:
                    os.rename(path + _UNFINISHED, path)

    def _open(self, path: str, flags: int = 0) -> int:
        """The file of a chunk that is not whole yet."""
        flags |= os.O_RDWR | os.O_CREAT | os.O_CLOEXEC
        try:
            return os.open(path + _UNFINISHED, flags, 0o666)
        except FileNotFoundError:
            os.makedirs(os.path.dirname(path), exist_ok=True)
            return os.open(path + _UNFINISHED, flags, 0o666)

    def _fill(self, descriptor: int, inside: Box, data: Array) -> None:
        extent = Extent(0, self._layout.chunks, self._layout.dtype)
        extend(descriptor, extent.nbytes)
        write_box(descriptor, extent, inside, data)

    def _is_left(self, path: str) -> bool:
        """Whether an interrupted run, which goes on, has completed a chunk."""
        return self._draft is not None and self._draft.found and os.path.exists(path)

    def done(self, box: Box) -> bool:
        if self._draft is None or not self._draft.found:
            return False
        names = (self._layout.name(index) for index, _, _ in chunks_of(box, self._layout.chunks))
        return all(os.path.exists(os.path.join(self._directory, name)) for name in names)

    def finish(self) -> None:
        if not all(begun.is_whole for begun in self._begun.values()):
            raise InternalError(f"{self._name} has chunks of which parts were not written")
        if self._draft is not None:
            try:
                write_metadata(os.path.join(self._directory, "zarr.json"), self._layout)
                with contextlib.suppress(FileNotFoundError):
                    os.unlink(os.path.join(self._directory, PARTIAL_METADATA))
            except OSError as error:
                raise unwritable(self._name, error) from error
            self._draft.publish()

    def abort(self) -> None:
        for index, begun in self._begun.items():
            if not begun.is_whole:
                name = self._layout.name(index) + _UNFINISHED
                with contextlib.suppress(OSError):
                    os.unlink(os.path.join(self._directory, name))
        if self._draft is not None:
            self._draft.discard()

    def describe(self) -> str:
        return self._name
