"""A stage whose boxes are computed side by side, each by one thread that also writes it to files.

What each box reads, where it computes and what it writes is known beforehand, as tables of
addresses; the C pool (`boxes.c`) goes through them in one call.
"""

from __future__ import annotations

import math
from concurrent.futures import ThreadPoolExecutor, wait
from time import perf_counter
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import numpy.typing as npt

from weft.plan.code import BoxesCode
from weft.plan.nodes import Output, PlannedStage, Window
from weft.plan.protocols import FileSink, Source
from weft.records import dataclass
from weft.runtime import profile
from weft.runtime.threads import CancelFlag

if TYPE_CHECKING:
    from weft.runtime.executor import Running

Array: TypeAlias = npt.NDArray[Any]
Numbers: TypeAlias = npt.NDArray[np.int64]

_PAGE = 4096
_TICK = 0.05  # seconds after which progress is told


class TargetError(OSError):
    """A write to a file failed; `target` is its number in the table."""

    target = 0


@dataclass(frozen=True, slots=True)
class Table:
    """Boxes, as the pool takes them.

    Attributes
    ----------
    integers : ndarray of int64, (boxes, integers)
    addresses : ndarray of int64, (boxes, buffers)
        Of inputs, outputs and the workspace, or the bytes at which they begin in the memory
        of the thread that computes the box.
    inside : ndarray of int64, (buffers,)
        1 for what is in that memory.
    files : ndarray of int64, (targets, 2)
        For each target the buffer that is written to it, and its descriptor.
    parts : ndarray of int64, (boxes, targets, 3)
        The first byte of the buffer that is written, how many are, and where in the file.
    memory : ndarray of uint8, (threads, bytes)
    told : ndarray of int64, (2,)
        Given back: how many boxes are done, and for how many nanoseconds threads wrote, together.
    """

    integers: Numbers
    addresses: Numbers
    inside: Numbers
    files: Numbers
    parts: Numbers
    memory: npt.NDArray[np.uint8]
    told: Numbers


class SideBySide:
    """One stage: the table of its boxes, and the one call that goes through it."""

    def __init__(self, run: Running, planned: PlannedStage) -> None:
        self.run_ = run
        self.planned = planned
        self.boxes = planned.boxes
        self.before = run.moved
        self.targets: list[FileSink] = []
        self._used = 0  # bytes of a thread's memory
        self._addresses: list[Numbers | int] = []
        self._inside: list[int] = []
        self._files: list[tuple[int, int]] = []
        self._parts: list[tuple[Numbers, Numbers, Numbers]] = []
        self.sources = [
            source
            for window in planned.stage.windows
            if isinstance(source := run.plan.inputs.get(window.array), Source)
        ]

    def run(self) -> None:
        """Compute and write all boxes, and meanwhile tell how many are done.

        Raises
        ------
        WeftError
            Whatever ends the call of compiled code, or a write.
        KeyboardInterrupt
            On Ctrl-C, once nothing runs any more.
        """
        table, cancel, start = self._table(), CancelFlag(), perf_counter()
        assert isinstance(self.planned.code, BoxesCode)
        # Another thread makes the call: this one is there for signals.
        with ThreadPoolExecutor(1, "weft-boxes") as caller:
            self._check()
            call = caller.submit(self.planned.code.run_boxes, table, cancel)
            try:
                while not wait((call,), _TICK).done:
                    self._check()
                    self._report(int(table.told[0]))
            except BaseException:
                cancel.set()
                raise
        try:
            call.result()
        except TargetError as error:
            raise self.targets[error.target].refusal(error) from error
        self._record(start, int(table.told[1]) * 1e-9)
        self._report(self.boxes.count)

    def _check(self) -> None:
        for source in self.sources:
            source.check()

    def _report(self, done: int) -> None:
        moved = self.planned.bytes_read + self.planned.bytes_written
        self.run_.moved = self.before + moved * done // max(self.boxes.count, 1)
        if self.run_.progress is not None:
            self.run_.progress(self.run_.moved, self.run_.plan.bytes_moved)

    def _record(self, start: float, writing: float) -> None:
        recorder, planned, name = profile.recorder, self.planned, self.run_.plan.name
        if recorder is None:
            return
        # Threads write in turns with computing; here first all of one, then all of the other.
        end = perf_counter()
        middle = end - writing / planned.abreast
        moved = planned.bytes_read + planned.bytes_written
        recorder.record(f"{name} boxes", "compute", start, middle, moved)
        recorder.record(f"write {name}", "write", middle, end, planned.bytes_written)

    # ------------------------------------------------------------ the table

    def _table(self) -> Table:
        planned = self.planned
        for window in planned.stage.windows:
            self._add(self._window(window))
        for number, output in enumerate(planned.stage.outputs):
            self._output(number, output)
        self._add(self._room(planned.workspace), inside=True)
        addresses = np.zeros((self.boxes.count, len(self._addresses)), np.int64)
        for column, address in enumerate(self._addresses):
            addresses[:, column] = address
        parts = np.zeros((self.boxes.count, len(self._parts), 3), np.int64)
        for column, part in enumerate(self._parts):
            for place, numbers in enumerate(part):
                parts[:, column, place] = numbers
        return Table(
            np.ascontiguousarray(planned.integers), addresses, np.array(self._inside, np.int64),
            np.array(self._files, np.int64).reshape(-1, 2), parts,
            self.run_.pool.empty((planned.abreast, self._used), np.uint8), np.zeros(2, np.int64),
        )  # fmt: skip

    def _add(self, address: Numbers | int, inside: bool = False) -> None:
        self._addresses.append(address)
        self._inside.append(int(inside))

    def _room(self, count: int) -> int:
        """Where so many bytes are in a thread's memory."""
        first = self._used
        self._used += -(-count // _PAGE) * _PAGE
        return first

    def _window(self, window: Window) -> Numbers | int:
        array = self.run_.array(window.array)
        address: Numbers | int = _address(array)
        for axis, lower, _ in window.cuts if array.size else ():
            address = address + self.boxes.values[lower] * array.strides[axis]
        return address

    def _output(self, number: int, output: Output) -> None:
        """Where a result is computed, and the files that take it from there."""
        to = self.run_.destination(self.planned, output)
        assert output.axis is not None
        row = math.prod(to.shape[output.axis + 1 :]) * to.dtype.itemsize
        lower = self.boxes.values[output.lower]
        if to.array is not None:
            self._add(_address(to.array) + lower * row)
        else:
            self._add(self._room(self.planned.output_bytes[number]), inside=True)
        first, last = self.boxes.owned[number]
        for sink in to.sinks:
            assert isinstance(sink, FileSink)
            place = sink.file()
            assert place is not None
            descriptor, begin = place
            self._files.append((len(self._addresses) - 1, descriptor))
            self._parts.append(((first - lower) * row, (last - first) * row, begin + first * row))
            self.targets.append(sink)


def _address(array: Array) -> int:
    return int(array.__array_interface__["data"][0])
