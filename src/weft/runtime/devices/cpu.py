"""The CPU device: compiled segments, and how they are called.

"cpu" is all of the cores that the process may use; "cpu:0" the first of them alone, and
"cpu:0-3" the first four.
"""

from __future__ import annotations

import ctypes
import os
import re
import signal
import struct
import threading
from _signal import getsignal  # type: ignore[import-not-found]  # 2 us less than signal.getsignal
from collections.abc import Sequence
from typing import NoReturn

from weft.errors import SourceError
from weft.plan.segment import Segment
from weft.runtime import built, tiers
from weft.runtime import threads as runtime_threads
from weft.runtime.boxes import Table, TargetError
from weft.runtime.devices.protocol import Statistics, raise_failure
from weft.runtime.threads import CancelFlag, Cancelled
from weft.runtime.toolchain import Effort, find_compiler

WHOLE = "cpu"
_PART = re.compile(r"cpu:(\d+)(?:-(\d+))?")

HEADER = 9  # int64 words before the pointers: see `record` in pool.c
_RECORD = struct.Struct(f"{HEADER}q")
_STAGE = "13q"  # a `stage` in boxes.c
_CANCELLED, _BUS_ERROR, _WRITE_FAILED = 1, 2, 3


class Code:
    """What a C text is compiled to in this process: the same for all CPU devices.

    Where it is first compiled with less than full effort, `entry` is that until there is better.
    """

    def __init__(self, segment: Segment, effort: Effort) -> None:
        found = built.entry_of(segment.source)
        self._name = segment.entry if found is None else found.name
        with runtime_threads.pool_meanwhile():
            if found is None:
                tiers.load(segment.source, effort, self._adopt)
            else:
                self._adopt(found.library)

    def _adopt(self, library: ctypes.CDLL) -> None:
        """Have later calls run this library's code; those that run go on with the other one's."""
        self.entry = ctypes.cast(getattr(library, self._name), ctypes.c_void_p).value


class LoadedSegment:
    """A segment on a CPU device. Calls from any number of threads are safe."""

    def __init__(self, device: CpuDevice, segment: Segment, code: Code) -> None:
        self.device = device
        self.segment = segment
        self.code = code
        self._call = runtime_threads.pool().call
        self._buffers = len(segment.params) + len(segment.results) + 1
        self._words = struct.Struct(f"{HEADER + self._buffers + len(segment.integers)}q")
        self._threads = segment.integers.index("threads") if "threads" in segment.integers else None
        self._records: list[tuple[ctypes.Array[ctypes.c_char], int]] = []  # not in use now

    def call(
        self,
        integers: Sequence[int],
        pointers: Sequence[int],
        threads: int | None = None,
        cancel: CancelFlag | None = None,
    ) -> None:
        """Run the segment.

        Parameters
        ----------
        integers : sequence of int
            The values of `segment.integers`, in order.
        pointers : sequence of int
            Addresses of parameters, results and workspace (0 where it is empty).
        threads : int, optional
            By default the value of the integer "threads" where there is one.
        cancel : CancelFlag, optional
            Ends the call early from another thread.

        Raises
        ------
        OutOfBoundsError
            When a data-dependent index is outside its array.
        SourceError
            When a mapped file shrank while it was read.
        KeyboardInterrupt
            On Ctrl-C, on the main thread.
        Cancelled
            When `cancel` was set.
        """
        if threads is None:
            place = self._threads
            threads = integers[place] if place is not None else runtime_threads.threads()
        try:
            record = self._records.pop()
        except IndexError:
            block = ctypes.create_string_buffer(self._words.size)
            record = block, ctypes.addressof(block)
        self.device.statistics.launches += 1
        self._words.pack_into(
            record[0], 0, self.code.entry, threads, 0 if cancel is None else cancel.address,
            is_interruptible(), 0, 0, 0, 0, self._buffers, *pointers, *integers,
        )  # fmt: skip
        status = self._call(record[1])
        if status == 0:
            self._records.append(record)
        else:
            self.fail(status, record[0], pointers, cancel)

    def call_boxes(self, table: Table, cancel: CancelFlag) -> None:
        """Run the segment for many boxes at once, each on one thread, and write their results.

        Raises
        ------
        TargetError
            When a write fails; also what `call` raises.
        """
        boxes, buffers = table.addresses.shape
        threads, share = table.memory.shape
        columns = table.inside, table.addresses, table.integers, table.files, table.parts
        stage = struct.pack(
            _STAGE, self.code.entry, boxes, buffers, table.integers.shape[1], len(table.files),
            *(column.ctypes.data for column in columns), table.memory.ctypes.data, share,
            table.told.ctypes.data,
        )  # fmt: skip
        self.device.statistics.launches += boxes
        status, record = call_entry(runtime_threads.pool().boxes, stage, threads, cancel)
        if status == _WRITE_FAILED:
            number, target, *_ = struct.unpack_from("4q", record, 4 * 8)
            error = TargetError(number, os.strerror(number))
            error.target = target
            raise error
        if status:
            self.fail(status, record, table.addresses[0].tolist(), cancel)

    def fail(
        self,
        status: int,
        record: ctypes.Array[ctypes.c_char] | bytes,
        pointers: Sequence[int],
        cancel: CancelFlag | None = None,
    ) -> NoReturn:
        """Raise what a call that did not end well means, given its record."""
        detail = struct.unpack_from("4q", record, 4 * 8)
        segment = self.segment
        if status == _CANCELLED:
            if cancel is not None:
                raise Cancelled
            raise KeyboardInterrupt
        if status == _BUS_ERROR:
            below = [
                (pointer, slot.name)
                for pointer, slot in zip(pointers, segment.params, strict=False)
                if pointer <= detail[0]
            ]
            name = f" of {max(below)[1]}" if below else ""
            raise SourceError(
                f"a mapped file{name} became shorter while it was read",
                "files that stay as they are during a computation",
                "run again once the file is whole",
            )
        raise_failure(segment, status, detail[0], detail[1])


def call_entry(
    entry: int | None, argument: bytes, threads: int, cancel: CancelFlag | None = None,
    interruptible: bool = False,
) -> tuple[int, ctypes.Array[ctypes.c_char]]:  # fmt: skip
    """Have the pool run an entry of its own: its status, and the record with the details.

    Parameters
    ----------
    entry : int
        `Pool.boxes`, `Pool.gram` or `Pool.copy`.
    argument : bytes
        The struct that it takes.
    threads : int
    cancel : CancelFlag, optional
    interruptible : bool
        Whether Ctrl-C ends it early.
    """
    words = _RECORD.pack(
        entry, threads, 0 if cancel is None else cancel.address,
        interruptible and is_interruptible(), 0, 0, 0, 0, 0,
    )  # fmt: skip
    record = ctypes.create_string_buffer(words + argument, len(words) + len(argument))
    return runtime_threads.pool().call(ctypes.addressof(record)), record


_main_thread = threading.main_thread().ident
_SIGINT = int(signal.SIGINT)


def is_interruptible() -> bool:
    """Whether a SIGINT during a call should cancel it: it would raise KeyboardInterrupt.

    A user's own handler keeps its meaning: Python runs it when the call returns.
    """
    return (
        threading.get_ident() == _main_thread and getsignal(_SIGINT) is signal.default_int_handler
    )


def _after_fork() -> None:
    global _main_thread
    _main_thread = threading.get_ident()  # the thread that forked is now the main one


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


def is_cpu(name: str) -> bool:
    """Whether a device is the CPU, or some of its cores."""
    return name == WHOLE or name.startswith(f"{WHOLE}:")


def parts() -> tuple[str, ...]:
    """The cores, as devices of their own; none where there is one core alone."""
    count = len(runtime_threads.cores())
    return tuple(f"{WHOLE}:{core}" for core in range(count)) if count > 1 else ()


def cores_of(name: str) -> tuple[int, ...]:
    """The cores of a CPU device, as the operating system numbers them; () for no such device."""
    cores = runtime_threads.cores()
    if name == WHOLE:
        return cores
    found = _PART.fullmatch(name)
    if found is None:
        return ()
    first = int(found[1])
    last = first if found[2] is None else int(found[2])
    return cores[first : last + 1] if first <= last < len(cores) else ()


class CpuDevice:
    """The machine's CPUs, or some of their cores, through C compiled at run time.

    Parameters
    ----------
    name : str
        "cpu", or of a part of it.
    codes : dict, optional
        What texts are compiled to: that of another device, which is of the same kind.

    Attributes
    ----------
    limit : int
        Bytes of the host's memory that its boxes may take.
    name, threads, slots, statistics
        As every `weft.runtime.devices.protocol.Device` has.
    """

    is_processor = True
    slots: int | None = None  # its boxes are read and written by its own threads

    def __init__(self, name: str = WHOLE, codes: dict[str, Code] | None = None) -> None:
        self.name = name
        self.threads = max(len(cores_of(name)), 1)
        self.limit = 0
        self.statistics = Statistics()
        self._codes = {} if codes is None else codes
        self._loaded: dict[str, LoadedSegment] = {}
        self._parts: dict[str, CpuDevice] = {}

    @staticmethod
    def available() -> bool:
        """Whether a C compiler was found (the first time in a process, this looks for one)."""
        return find_compiler() is not None

    def part(self, name: str) -> CpuDevice:
        """Some of the cores, as a device of their own; all of them as "cpu"."""
        if name == self.name:
            return self
        if name not in self._parts:
            self._parts[name] = CpuDevice(name, self._codes)
        return self._parts[name]

    def load(self, segment: Segment, effort: Effort = Effort.FULL) -> LoadedSegment:
        """The segment's library: from this process, from the cache, or compiled now.

        Of the first tier (`weft.runtime.tiers`) where that takes less effort.

        Raises
        ------
        CompileError
            When there is no compiler, or it refuses the text.
        """
        found = self._loaded.get(segment.source)
        if found is None or (found.segment is not segment and found.segment != segment):
            code = self._codes.get(segment.source)
            if code is None:
                code = self._codes[segment.source] = Code(segment, effort)
            found = self._loaded[segment.source] = LoadedSegment(self, segment, code)
        return found

    def load_together(self, segments: Sequence[Segment], effort: Effort = Effort.FULL) -> None:
        """Load several segments; those that have to be compiled are compiled side by side.

        What fails does so again, and says so, when it is loaded by itself.
        """
        missing = {s.source: s for s in segments if s.source not in self._codes}
        if len(missing) < 2:
            return
        from concurrent.futures import ThreadPoolExecutor

        with ThreadPoolExecutor(min(len(missing), runtime_threads.threads())) as pool:
            pool.map(lambda segment: self.load(segment, effort), missing.values())

    def describe(self) -> str:
        """The name, the threads and the compiler."""
        compiler = find_compiler()
        made = compiler.describe() if compiler is not None else "no C compiler"
        return f"{self.name}: {self.threads} threads, {made}"
