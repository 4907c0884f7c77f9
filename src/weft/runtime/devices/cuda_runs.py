"""Runs of segments on NVIDIA GPUs: streams, copies, launches and graphs of them."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from time import perf_counter
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import numpy.typing as npt

from weft.errors import WeftError
from weft.plan import launches
from weft.runtime import profile
from weft.runtime.address import address_of
from weft.runtime.devices import copies
from weft.runtime.devices.memory import Buffers, HeldArrays
from weft.runtime.devices.pinned import IN_TURN, Ring, parts, view_of
from weft.runtime.devices.protocol import Rows, rows_of
from weft.runtime.devices.runs import Run

if TYPE_CHECKING:
    from weft.runtime.devices.cuda import CudaDevice, CudaSegment

NDArray: TypeAlias = npt.NDArray[Any]
_MOST_PITCH = 2**31 - 1  # bytes from one row to the next, in one copy of the driver's
_SHORT_ROW = 256  # bytes of rows that the host gathers sooner than a GPU copies them


def _like(staged: NDArray, array: NDArray) -> NDArray:
    """Page-locked bytes as a row-major array of another's type."""
    return staged.view(array.dtype).reshape(array.shape)


class Slot(Buffers["CudaDevice"]):
    """A stream, buffers on the GPU, and page-locked memory that copies go through.

    Attributes
    ----------
    ring : Ring
        What copies take in turns.
    pinned : dict of (int, int) to buffer
        Where small results land, by their numbers and the turns of runs.
    """

    def __init__(self, device: CudaDevice) -> None:
        super().__init__(device)
        self.stream = device.device.create_stream()
        self.ring = Ring(device.pinned.allocate, self.stream.record)
        self.pinned: dict[tuple[int, int], Any] = {}

    def staging(self, number: int, count: int, turn: int = 0) -> tuple[Any, NDArray]:
        """Page-locked memory for so many bytes of the array of a number, and a view of it.

        Runs that are queued one behind the other have memory of their own, in turns.
        """
        buffer = self.pinned.get((number, turn))
        if buffer is None or buffer.size < count:
            if buffer is not None:
                self.stream.sync()  # which may still copy from it
            buffer = self.pinned[number, turn] = self.device.pinned.allocate(count)
        return buffer, view_of(buffer, count)

    def part(self, buffer: Any, offset: int, count: int) -> Any:
        """Some bytes of a buffer, as a buffer: copies are between buffers of one size."""
        if offset == 0 and buffer.size == count:
            return buffer
        at = int(buffer.handle) + offset
        return self.device.core.Buffer.from_handle(at, count, owner=buffer)

    def copy_in(self, buffer: Any, array: NDArray, offset: int = 0) -> None:
        """Queue a copy to the GPU, so many bytes into the buffer."""
        if self._copy_as_it_lies("in", buffer, array, offset):
            return
        device, most = self.device, self.device.piece
        for begin, part in parts(array, most):  # one is on its way while the host copies the next
            count = part.nbytes
            staged, at, view = self.ring.room(count, most)
            copies.copy(_like(view, part), part, device.threads)
            target = self.part(buffer, offset + begin, count)
            device.copy(target, self.part(staged, at, count), self.stream)

    def copy_out(
        self, buffer: Any, array: NDArray, number: int, turn: int = 0, offset: int = 0
    ) -> NDArray | None:
        """Queue a copy from the GPU, from so many bytes into the buffer on.

        Returns
        -------
        ndarray or None
            Page-locked memory that has the elements then; None: the array itself has.
        """
        if self._copy_as_it_lies("out", buffer, array, offset):
            return None
        staged, view = self.staging(number, array.nbytes, turn)
        source = self.part(buffer, offset, array.nbytes)
        self.device.copy(self.part(staged, 0, array.nbytes), source, self.stream)
        return _like(view, array)

    def land(self, buffer: Any, array: NDArray, offset: int = 0) -> None:
        """Copy from the GPU, part by part: the host copies one while the next is on its way."""
        device, most = self.device, self.device.piece
        coming: deque[tuple[Any, NDArray, NDArray]] = deque()

        def arrive() -> None:
            event, view, part = coming.popleft()
            event.sync()
            copies.copy(part, _like(view, part), device.threads)

        for begin, part in parts(array, most):
            count = part.nbytes
            staged, at, view = self.ring.room(count, most)
            source = self.part(buffer, offset + begin, count)
            device.copy(self.part(staged, at, count), source, self.stream)
            coming.append((self.stream.record(), view, part))
            if len(coming) == IN_TURN - 1:
                arrive()
        while coming:
            arrive()

    def lies(self, array: NDArray) -> tuple[bool, Rows | None]:
        """Whether copies are from and to the array's own memory, page-locked; its rows, if apart.
        """
        rows = None if array.flags.c_contiguous else rows_of(array)
        if rows is None and not array.flags.c_contiguous:
            return False, None
        return (rows is None or rows.bytes >= _SHORT_ROW) and self.device.locks.holds(array), rows

    def _copy_as_it_lies(self, way: str, buffer: Any, array: NDArray, offset: int) -> bool:
        """Queue a copy from or to the array's own memory, if that is page-locked."""
        is_held, rows = self.lies(array)
        if not is_held:
            return False
        address = address_of(array)
        if rows is not None and rows.pitch <= _MOST_PITCH:
            self.device.copy_rows(way, buffer, offset, address, rows, self.stream)
            self.device.statistics.boxes += 1
            return True
        begins, count = (iter([0]), array.nbytes) if rows is None else (rows.begins(), rows.bytes)
        for number, begin in enumerate(begins):
            host = self.device.core.Buffer.from_handle(address + begin, count, owner=array)
            ends = self.part(buffer, offset + number * count, count), host
            self.device.copy(*(ends if way == "in" else ends[::-1]), self.stream)
        return True

    def release(self) -> None:
        with suppress(WeftError):  # of one that is lost
            self.device.enter()  # for a thread that may have used no GPU, or another one
        super().release()
        self.ring.release()
        self.pinned.clear()

    def release_buffer(self, buffer: Any) -> None:
        buffer.close(self.stream)

    def finish(self) -> None:
        self.stream.sync()


class CudaRun(Run["CudaDevice"]):
    """One run of a segment on a stream."""

    def __init__(
        self, loaded: CudaSegment, integers: Sequence[int], inputs: Sequence[NDArray],
        results: Sequence[NDArray], held: HeldArrays | None, behind: Run[CudaDevice] | None,
    ) -> None:  # fmt: skip
        super().__init__(loaded, integers, inputs, results, held, behind)
        self.loaded: CudaSegment = loaded
        self.landings: list[tuple[NDArray, NDArray]] = []  # page-locked, and where it belongs
        self.late: list[tuple[str, Any, int, NDArray]] = []  # results that come once it has ended
        self.graphs: list[Any] = []  # those that may still run
        self.timed = profile.recorder is not None
        self.marks: list[tuple[str, str, Any, Any, int]] = []

    # ------------------------------------------------------------ copies

    def copy(
        self, way: str, name: str, number: int, buffer: Any, array: NDArray, offset: int = 0
    ) -> None:
        if way == "out" and self._is_late(array):
            self.late.append((name, buffer, offset, array))
            return
        began = self._time()
        if way == "in":
            self.slot.copy_in(buffer, array, offset)
        else:
            self._copy_out(number, buffer, offset, array)
        self._timed(f"copy {way} {name}", way, began, array.nbytes)

    def _is_late(self, array: NDArray) -> bool:
        """Whether it takes more page-locked memory than a piece: it comes in parts, at the end."""
        return array.nbytes > self.device.piece and not self.slot.lies(array)[0]

    @property
    def ends_late(self) -> bool:
        return bool(self.late)

    def _copy_out(self, number: int, buffer: Any, offset: int, array: NDArray) -> None:
        staged = self.slot.copy_out(buffer, array, number, self.turn, offset)
        if staged is not None:
            self.landings.append((staged, array))

    def read(self, step: launches.Read, buffer: Any, offset: int) -> NDArray:
        value = np.zeros(1, np.dtype(step.dtype))
        self._copy_out(-3, buffer, offset, value)
        if self.segment.failures:
            self._copy_out(-1, self.buffers[-1], 0, self.failure)
        return value

    def landing(self) -> None:
        for view, array in self.landings:
            copies.copy(array, view, self.device.threads)
        self.landings.clear()
        if self.late:
            self._land_late()
        self._close_graphs()

    def _land_late(self) -> None:
        self.device.enter()
        for name, buffer, offset, array in self.late:
            began = self._time()
            self.slot.land(buffer, array, offset)
            self._timed(f"copy out {name}", "out", began, array.nbytes)
        self.late.clear()
        if self.timed:
            self.slot.finish()  # for the clock's last event

    # ------------------------------------------------------------ launches

    def launch(
        self, step: launches.Launch, items: int, blocks: list[Any], integers: Sequence[int]
    ) -> None:
        device, given = self.device, map(np.int64, integers)
        began = self._time()
        config = device.launch_config(-(-items // step.group), step.group)
        kernel = self.loaded.kernel(step.kernel)
        device.core.launch(self.slot.stream, config, kernel, self.buffers[-1], *blocks, *given)
        self._timed(step.kernel, "compute", began, 0)

    def steps(self, steps: launches.Steps) -> None:
        found = self.loaded.launches.of(self.values) if steps is self.segment.steps else None
        if found is None or self.timed:
            super().steps(steps)
            return
        self.stage = "the launch of its kernels"
        stream = self.slot.stream
        addresses = [int(buffer.handle) for buffer in self.buffers]
        run = found.launcher(addresses, self.device.launch, int(stream.handle))
        for part in found.parts:
            if part.times == 1:
                self.device.check(run(part))
                continue
            graph = self._captured(partial(run, part))
            for _ in range(part.times):
                graph.launch(stream)
        self.device.statistics.launches += found.count

    def _captured(self, queue: Callable[[], int]) -> Any:
        """A graph of what is queued."""
        builder = self.slot.stream.create_graph_builder().begin_building("relaxed")
        status = queue()
        graph = builder.end_building().complete()
        builder.close()
        self.graphs.append(graph)
        self.device.check(status)
        return graph

    def _close_graphs(self) -> None:
        while self.graphs:
            with suppress(*self.device.failures):
                self.graphs.pop().close()

    # ------------------------------------------------------------ events

    def mark(self) -> Any:
        return self.slot.stream.record()

    def follow(self, event: Any) -> None:
        self.slot.stream.wait(event)

    def is_done(self, event: Any) -> bool:
        return bool(event.is_done)

    def complete(self, event: Any) -> None:
        event.sync()

    def abandon(self) -> None:
        super().abandon()
        self._close_graphs()

    def _time(self) -> Any:
        if not self.timed:
            return None
        return self.slot.stream.record(options=self.device.core.EventOptions(timing_enabled=True))

    def _timed(self, name: str, queue: str, began: Any, count: int) -> None:
        if began is not None:
            self.marks.append((name, f"{self.device.name} {queue}", began, self._time(), count))

    def record(self) -> None:
        """What the GPU's clock says of each command, on the host's clock."""
        recorder = profile.recorder
        if recorder is None or not self.marks:
            return
        ended, last = perf_counter(), self.marks[-1][3]
        for name, queue, began, done, count in self.marks:
            start = ended - (last - began) * 1e-3
            recorder.record(name, queue, start, ended - (last - done) * 1e-3, count)
