"""A stage on one device: boxes are read ahead, computed, and written behind.

The calling thread computes, on all threads of the pool; reader threads fill the staging
buffers of the boxes to come, and writer threads empty those of the boxes before. Direct
inputs are passed where they lie; results in memory are computed in place.
"""

from __future__ import annotations

import math
import threading
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import pairwise
from time import perf_counter
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import numpy.typing as npt

from weft.plan.code import Held, Pending
from weft.plan.nodes import Cut, Flank, Output, PlannedStage, Window
from weft.plan.protocols import READERS, Box, Sink, Source, readers_of
from weft.plan.segment import Inset
from weft.runtime import profile
from weft.runtime.scheduler import box_of

if TYPE_CHECKING:
    from weft.runtime.executor import Running

Array: TypeAlias = npt.NDArray[Any]

_WRITERS = 2
_PIECE = 4 << 20  # a read is shared among readers in pieces of at least so many bytes
_SMALL = 4 << 20  # bytes that a box moves which is soon done, and of which several are queued


class _Readers:
    """The threads that read ahead, and the one for the sources that only one thread reads."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self.shared = ThreadPoolExecutor(READERS, "weft-read")
        self._serial = ThreadPoolExecutor(1, "weft-read-serial")

    def of(self, source: Source) -> ThreadPoolExecutor:
        return self._serial if readers_of(source, self._limit) == 1 else self.shared

    def shutdown(self, *, wait: bool, cancel_futures: bool) -> None:
        self.shared.shutdown(wait=wait, cancel_futures=cancel_futures)
        self._serial.shutdown(wait=wait, cancel_futures=cancel_futures)


class Pipeline:
    """One stage: its buffers, its threads, its boxes."""

    def __init__(self, run: Running, planned: PlannedStage) -> None:
        self.run_ = run
        self.planned = planned
        self.stage = planned.stage
        self.boxes = planned.boxes
        self.pool = run.pool
        self.plan = run.plan
        self.stopping = threading.Event()
        self.before = run.moved
        self.each = (planned.bytes_read + planned.bytes_written) / max(self.boxes.count, 1)
        self.held: Held | None = None
        stays = () if planned.tiles is None else planned.tiles.stays
        # Of windows that several tiles share: which part each tile has, and the first with each.
        self.parts = {k: np.cumsum(~same) for k, same in enumerate(stays) if same is not None}
        self.since: dict[int, list[int]] = {number: [] for number in self.parts}
        self.workspaces = [
            self.pool.empty((planned.workspace,), np.uint8) for _ in range(planned.workspaces)
        ]
        self.within = {inset.slot: inset for inset in planned.code.within}
        self.windows: list[Callable[[int], Array]] = [
            self._input(number, window) for number, window in enumerate(self.stage.windows)
        ]
        self.staged = [
            (number, window)
            for number, window in enumerate(self.stage.windows)
            if planned.where[number] == "staged"
        ]
        self.carried = self._carries()
        left = {output.carry: number for number, output in enumerate(self.stage.outputs)}
        self.flanks = {f.name: self._flank(f, left[f.name]) for f in self.stage.flanks}
        self.written: list[tuple[int, Output, Sequence[Sink], Array | None]] = []
        self.outputs: list[Callable[[int], Array]] = [
            self._output(number, output) for number, output in enumerate(self.stage.outputs)
        ]
        self.sources = [
            source
            for window in self.stage.windows
            if isinstance(source := self.plan.inputs.get(window.array), Source)
        ]
        self.resumable = not self.stage.in_order and all(
            array is None and sinks for _, _, sinks, array in self.written
        ) and len(self.written) == len(self.stage.outputs)  # fmt: skip

    # ------------------------------------------------------------ arguments of a box

    def _input(self, number: int, window: Window) -> Callable[[int], Array]:
        """A function of the box: what the window holds."""
        if self.planned.where[number] == "staged":
            return self._staged_view(self.planned.input_bytes[number], window.array, window.cuts)
        array = self.run_.array(window.array)
        if window.axis is None:
            return lambda box: array
        return self._part(array, window.cuts)

    def _part(self, array: Array, cuts: tuple[Cut, ...]) -> Callable[[int], Array]:
        where = self._where(array.shape, cuts)
        return lambda box: array[where(box)]

    def _where(self, shape: Sequence[int], cuts: tuple[Cut, ...]) -> Callable[[int], Box]:
        """A function of the box: its part of an array. (It holds on to no buffers.)"""
        bounds = [(axis, *self._bounds(lower, upper)) for axis, lower, upper in cuts]
        whole = [slice(0, extent) for extent in shape]

        def where(box: int) -> Box:
            found = whole.copy()
            for axis, lows, highs in bounds:
                found[axis] = slice(lows[box], highs[box])
            return tuple(found)

        return where

    def _bounds(self, lower: str, upper: str) -> tuple[list[int], list[int]]:
        return self.boxes.values[lower].tolist(), self.boxes.values[upper].tolist()

    def _staged_view(
        self, count: int, name: str, cuts: tuple[Cut, ...]
    ) -> Callable[[int], Array]:
        """Views of staging buffers, one buffer for each box in flight."""
        depth, value = self.planned.depth, self.plan.values[name]
        buffers = [self.pool.empty((count,), np.uint8) for _ in range(depth)]
        where = self._where(value.shape, cuts)

        def view(box: int) -> Array:
            shape = tuple(part.stop - part.start for part in where(box))
            if not count:
                return np.empty(shape, value.dtype)
            return np.ndarray(shape, value.dtype, buffers[box % depth].data)

        return view

    def _view_within(
        self, inset: Inset, where: Callable[[int], Box], dtype: np.dtype[Any]
    ) -> Callable[[int], Array]:
        """Views of what boxes leave within their workspaces."""
        names, integers = self.planned.code.integers, self.planned.integers

        def view(box: int) -> Array:
            shape = tuple(part.stop - part.start for part in where(box))
            if not math.prod(shape):
                return np.empty(shape, dtype)
            known = dict(zip(names, integers[box].tolist(), strict=True))
            workspace = self.workspaces[box % len(self.workspaces)]
            return np.ndarray(shape, dtype, workspace.data, inset.offset.evaluate(known))

        return view

    def _carries(self) -> list[tuple[Array, Array, str]]:
        """For each carry what goes into a box, what comes out, and the name it ends as."""
        found = []
        results = {output.carry: output.array for output in self.stage.outputs}
        for name, begin in self.stage.carries:
            first = self.run_.array(begin)
            state = self.pool.empty(first.shape, first.dtype)
            state[...] = first
            # Arrays are updated in place; a scalar might be written before it is read.
            found.append((state, state if first.ndim else np.empty_like(state), results[name]))
        return found

    def _flank(self, flank: Flank, number: int) -> Callable[[int], Array]:
        """A function of the box: where it leaves a flank, and the next one takes it from."""
        if number in self.within:
            whole = tuple(slice(0, extent) for extent in flank.shape)
            return self._view_within(self.within[number], lambda box: whole, flank.dtype)
        if self.planned.code.device is not None:  # it stays in the device's memory
            state = np.broadcast_to(np.empty((), flank.dtype), flank.shape)
        else:
            state = self.pool.empty(flank.shape, flank.dtype)
            if flank.begins:
                state[...] = self.run_.array(flank.begins)
        return lambda box: state  # all of it is read before any of it is written

    def _output(self, number: int, output: Output) -> Callable[[int], Array]:
        """A function of the box: where a result is computed."""
        name = output.array
        if output.carry:
            if output.carry in self.flanks:
                return self.flanks[output.carry]
            names = [carry for carry, _ in self.stage.carries]
            out = self.carried[names.index(output.carry)][1]
            return lambda box: out
        to = self.run_.destination(self.planned, output)
        kept, axis = to.array, output.axis
        in_place = to.in_place or self.planned.code.strided
        if kept is not None and (in_place or self._copies_to(kept, output)):
            if to.sinks:
                self.written.append((number, output, to.sinks, None))
            if axis is None:
                return lambda box: kept
            return self._part(kept, output.cuts)
        self.written.append((number, output, to.sinks, kept))
        if number in self.within:
            value = self.plan.values[name]
            where = self._where(value.shape, output.cuts)
            return self._view_within(self.within[number], where, value.dtype)
        return self._staged_view(self.planned.output_bytes[number], name, output.cuts)

    def _copies_to(self, kept: Array, output: Output) -> bool:
        """Whether a device copies what it computes to where that belongs, in pieces as it is."""
        device = self.planned.code.device
        if device is None or output.axis is None or not self.boxes.count:
            return False
        return device.takes(self._part(kept, output.cuts)(0))

    # ------------------------------------------------------------ boxes

    def run(self) -> None:
        count = self.boxes.count
        readers = _Readers(self.plan.limit) if self.staged else None
        writers = ThreadPoolExecutor(_WRITERS, "weft-write") if self.written else None
        try:
            self._pipeline(range(count), readers, writers)
        except BaseException:
            self.stopping.set()
            raise
        finally:
            for threads in (readers, writers):
                if threads is not None:
                    threads.shutdown(wait=True, cancel_futures=True)
        for state, _, name in self.carried:
            self.run_.memory[name] = state
            for sink in self.run_.destinations.get(name, ()):
                if sink is not None:
                    sink.write(tuple(slice(0, n) for n in state.shape), state)

    def _pipeline(
        self,
        boxes: Sequence[int],
        readers: _Readers | None,
        writers: ThreadPoolExecutor | None,
    ) -> None:
        depth, slots = self.planned.depth, self.planned.slots
        # More boxes are queued than there are slots, so that the device need not wait for the host:
        # each behind the last in its slot. What a box carries to the next comes by the host, which
        # has buffers for one box more than there are slots.
        together = 1
        if self.stage.carries:
            queued = slots
        elif self.staged or self.written:
            queued = slots + 1
        else:
            together = self._together()
            queued = 2 * max(slots, together)
        done = [self.resumable and self._is_done(box) for box in boxes]
        reads: dict[int, list[Future[None]]] = {}
        writes: dict[int, list[Future[None]]] = {}
        flying: deque[tuple[int, Pending, list[Array]]] = deque()  # boxes on a device
        ahead = 0

        def read_ahead(limit: int) -> None:
            nonlocal ahead
            while readers is not None and ahead < min(limit, len(boxes)):
                if not done[ahead]:
                    after = None if ahead and done[ahead - 1] else reads.get(ahead - 1, ())
                    reads[ahead] = self._submit_reads(ahead, readers, after)
                ahead += 1

        def finish(box: int, outputs: list[Array]) -> None:
            for state, out, _ in self.carried:
                if out is not state:
                    state[...] = out
            if writers is not None:
                writes[box] = self._submit_writes(box, outputs, writers)

        def land(count: int) -> None:
            """Wait for the oldest boxes on the device."""
            if count > 1:
                flying[count - 1][1].pause()
            for _ in range(count):
                box, pending, outputs = flying[0]
                pending.wait()
                flying.popleft()
                finish(box, outputs)

        self.held = self._hold()
        try:
            for box in boxes:
                oldest = flying[0][0] if flying else box
                read_ahead(max(oldest + depth - 1, box + 1))
                _wait(reads.get(box, ()))
                # Now nobody needs the buffers of the box before the oldest.
                read_ahead(oldest + depth)
                reads.pop(box, None)
                _wait(writes.pop(box - depth, ()))
                if not done[box]:
                    changing = self._changing(box)
                    ends = self._ends_for(box, changing)
                    self._change(box, changing)
                    behind = flying[-slots][1] if len(flying) >= slots else None
                    before = [pending for number, pending, _ in flying if number < ends]
                    after = before[-slots:]  # the last in each slot
                    pending, outputs = self._compute(box, behind, after)
                    if pending is None:
                        finish(box, outputs)
                    else:
                        flying.append((box, pending, outputs))
                while len(flying) >= queued:
                    land(together)
                self._report(box)
            while flying:
                land(min(together, len(flying)))
        finally:
            for _, pending, _ in flying:
                pending.abandon()
            if self.held is not None:
                self.held.release()
        for futures in writes.values():
            _wait(futures)

    def _together(self) -> int:
        """How many boxes' ends the host sees at once, to begin as many others."""
        device = self.planned.code.device
        if device is None or self.each > _SMALL or not self.boxes.count:
            return 1
        cut = [k for k, window in enumerate(self.stage.windows) if window.axis is not None]
        # What is packed for a box takes memory of the host.
        return device.together if all(device.takes(self.windows[k](0)) for k in cut) else 1

    def _hold(self) -> Held | None:
        """What all boxes need, on the device from the first to the last."""
        device = self.planned.code.device
        if device is None or (self.boxes.count < 2 and not self.stage.flanks):
            return None
        windows = enumerate(self.stage.windows)
        flanks = self.stage.flank_places()
        whole = {k: self.windows[k](0) for k, w in windows if w.axis is None}
        return device.hold(whole, flanks, self.planned.device_bytes)

    def _ends_for(self, box: int, changing: Sequence[int]) -> int:
        """The box before which all have to end for this one to change what stays on the device."""
        ends = 0
        for number in changing:
            assert self.planned.tiles is not None
            buffers, since = self.planned.tiles.buffers[number], [*self.since[number], box]
            if len(since) > buffers:  # a part goes: all that need it were before the one after
                ends = max(ends, since[-buffers])
        return ends

    def _changing(self, box: int) -> list[int]:
        """The windows of which this box needs another part than is on the device."""
        return [
            number for number, parts in self.parts.items()
            if not self.since[number] or parts[box] != parts[self.since[number][-1]]
        ]  # fmt: skip

    def _change(self, box: int, changing: Sequence[int]) -> None:
        """Have this box bring the parts that stay for some boxes after it."""
        tiles = self.planned.tiles
        for number in changing:
            assert tiles is not None
            assert self.held is not None
            self.held.change(number, self.planned.input_bytes[number], tiles.buffers[number])
            self.since[number].append(box)

    def _compute(
        self, box: int, behind: Pending | None, after: Sequence[Pending]
    ) -> tuple[Pending | None, list[Array]]:
        """Compute a box, or begin it on a device; where its results are, or will be."""
        for source in self.sources:
            source.check()
        inputs = [window(box) for window in self.windows]
        inputs += [state for state, _, _ in self.carried]
        # Nothing is read of what is before the first box.
        inputs += [flank(max(box - 1, 0)) for flank in self.flanks.values()]
        outputs = [output(box) for output in self.outputs]
        code, integers = self.planned.code, self.planned.integers[box]
        if code.device is not None:
            pending = code.device.start(integers, inputs, outputs, self.held, behind, after)
            return pending, outputs
        with profile.span(f"{self.plan.name} box", "compute", int(self.each)):
            code.run(integers, inputs, outputs, self.workspaces[box % len(self.workspaces)])
        return None, outputs

    def _report(self, box: int) -> None:
        self.run_.moved = self.before + int(self.each * (box + 1))
        if self.run_.progress is not None:
            self.run_.progress(self.run_.moved, self.plan.bytes_moved)

    def _submit_reads(
        self, box: int, readers: _Readers, after: Sequence[Future[None]] | None
    ) -> list[Future[None]]:
        """Fill the windows of a box; `after` are the reads of the box before (None: skipped)."""
        futures = []
        for number, window in self.staged:
            source = self.plan.inputs[window.array]
            assert isinstance(source, Source)
            assert window.axis is not None
            out = self.windows[number](box)
            lower = int(self.boxes.values[window.lower][box])
            front = (slice(None),) * window.axis
            where = list(box_of(self.plan.values[window.array].shape, window, self.boxes, box))
            kept = self.planned.kept_rows[number]
            rows = 0 if kept is None or after is None else int(kept[box])
            if rows and after is not None:
                first = lower - int(self.boxes.values[window.lower][box - 1])
                halo = self.windows[number](box - 1)[(*front, slice(first, first + rows))]
                rest = out[(*front, slice(rows))]
                futures.append(readers.shared.submit(_copy_after, after, halo, rest))
            for start, stop in _pieces(lower + rows, lower, out, window.axis, source.chunks):
                part = out[(*front, slice(start - lower, stop - lower))]
                where[window.axis] = slice(start, stop)
                threads = readers.of(source)
                futures.append(threads.submit(self._read, source, tuple(where), part, window.array))
        return futures

    def _box(self, name: str, axis: int | None, lower: int, upper: int) -> Box:
        box = [slice(0, extent) for extent in self.plan.values[name].shape]
        if axis is not None:
            box[axis] = slice(lower, upper)
        return tuple(box)

    def _read(self, source: Source, box: Box, out: Array, name: str) -> None:
        if out.size and not self.stopping.is_set():
            with profile.span(f"read {name}", "read", out.nbytes):
                source.read(box, out)

    def _owned(self, number: int, output: Output, box: int) -> tuple[Box, tuple[slice, ...]]:
        """What of an output belongs to a box: in the result, and in the box's window."""
        if output.axis is None:
            whole = self._box(output.array, None, 0, 0)
            return whole, whole
        if output.more:  # tiles own what they compute
            return self._where(self.plan.values[output.array].shape, output.cuts)(box), ()
        first, last = (int(bound[box]) for bound in self.boxes.owned[number])
        lower = int(self.boxes.values[output.lower][box])
        part = (slice(None),) * output.axis + (slice(first - lower, last - lower),)
        return self._box(output.array, output.axis, first, last), part

    def _submit_writes(
        self, box: int, outputs: list[Array], writers: ThreadPoolExecutor
    ) -> list[Future[None]]:
        futures = []
        for number, output, sinks, kept in self.written:
            where, part = self._owned(number, output, box)
            data = outputs[number][part]
            if not data.size:
                continue
            for sink in sinks:
                futures.append(writers.submit(self._write, sink, where, data, output.array))
            if kept is not None:
                futures.append(writers.submit(np.copyto, kept[where], data))
        return futures

    def _write(self, sink: Sink, box: Box, data: Array, name: str) -> None:
        if not self.stopping.is_set():
            start = perf_counter()
            sink.write(box, data)
            recorder = profile.recorder
            if recorder is not None:
                recorder.record(f"write {name}", "write", start, perf_counter(), data.nbytes)

    def _is_done(self, box: int) -> bool:
        return all(
            sink.done(self._owned(number, output, box)[0])
            for number, output, sinks, _ in self.written
            for sink in sinks
        )


def _copy_after(reads: Sequence[Future[None]], source: Array, out: Array) -> None:
    _wait(reads)
    np.copyto(out, source)


def _wait(futures: Sequence[Future[None]]) -> None:
    for future in futures:
        future.result()


def _pieces(
    start: int, lower: int, out: Array, axis: int, chunks: tuple[int, ...] | None
) -> list[tuple[int, int]]:
    """A window from `start` on cut into pieces for several readers, at chunk borders."""
    stop = lower + out.shape[axis]
    extent = stop - start
    parts = max(1, min(READERS, out.nbytes // _PIECE))
    step = -(-extent // parts) if extent else 1
    if chunks is not None:
        step = max(-(-step // chunks[axis]), 1) * chunks[axis]
    edges = [start]
    while edges[-1] < stop:
        aligned = (edges[-1] // step + 1) * step if chunks is not None else edges[-1] + step
        edges.append(min(aligned, stop))
    return list(pairwise(edges))
