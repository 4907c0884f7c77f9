"""Runs of segments on a device with memory of its own: copies in, launches, copies out.

What is the same for every driver. A run takes a slot: a queue and its buffers. Slots are
independent, so that the copies of one run overlap with the kernels of another.
"""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from contextlib import suppress
from time import perf_counter, sleep
from typing import Any, Generic, TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt

from weft.errors import DeviceError, MemoryLimitError, WeftError
from weft.plan import launches
from weft.plan.code import FlankPlace
from weft.plan.segment import Segment
from weft.runtime.devices.protocol import FAILURE_BYTES, Statistics, raise_failure, row_major
from weft.runtime.memory import format_bytes

NDArray: TypeAlias = npt.NDArray[Any]

_SPINS = 20
_SHORTEST, _LONGEST = 20e-6, 10e-3  # seconds between two looks at whether a run has ended
_LATE = 32  # a run's end is seen late by this part of its time, at most


class Memory(ABC):
    """What is allocated on a device, below its limit, and the slots that keep it.

    Attributes
    ----------
    name : str
    default_limit, limit : int
        Bytes that may be allocated.
    failures : tuple of type
        What the driver raises.
    is_processor : bool
        Whether it is a CPU, whose compiler vectorises innermost loops.
    has_long_atomics : bool
        Whether its items have atomic operations on 64 bits.
    """

    failures: tuple[type[BaseException], ...]
    is_processor = False
    has_long_atomics = True

    def __init__(self, name: str, limit: int) -> None:
        self.name = name
        self.default_limit = self.limit = limit
        self.statistics = Statistics()
        self._lock = threading.Lock()
        self._used = 0
        self._free_slots: list[Any] = []

    def takes(self, array: NDArray) -> bool:
        """Whether it copies the array as it lies, and back to there."""
        return bool(array.flags.c_contiguous and array.dtype.isnative and array.flags.aligned)

    def packed(self, array: NDArray) -> NDArray:
        """The array as the device takes it: itself, or row-major."""
        if self.takes(array):
            return array
        found = row_major(array)
        if found is not array:
            self.statistics.bytes_packed += found.nbytes
        return found

    @abstractmethod
    def make_buffer(self, count: int) -> Any:
        """A buffer of so many bytes, from the driver."""

    @abstractmethod
    def make_slot(self) -> Any:
        """A queue without buffers."""

    @abstractmethod
    def error(self, what: str, error: BaseException) -> WeftError:
        """What a failed call becomes."""

    def allocate(self, count: int, purpose: str) -> Any:
        """A buffer of `count` bytes.

        Raises
        ------
        MemoryLimitError
            When that passes the limit, or the device has no more.
        """
        count = max(count, 1)
        with self._lock:
            used = self._used + count
            if used > self.limit:
                raise MemoryLimitError(
                    f"{format_bytes(count)} for {purpose} are asked of {self.name}, where "
                    f"{format_bytes(self._used)} are in use",
                    f"at most its limit, {format_bytes(self.limit)}",
                    f'raise memory_limit={{"{self.name}": ...}}',
                )
            self._used = used
            self.statistics.peak_bytes = max(self.statistics.peak_bytes, used)
        try:
            return self.make_buffer(count)
        except BaseException as error:
            self.free(count)
            if not isinstance(error, (*self.failures, MemoryError)):
                raise
            raise MemoryLimitError(
                f"{self.name} has no {format_bytes(count)} left for {purpose}",
                advice=f'lower memory_limit={{"{self.name}": ...}}, so that boxes are smaller',
            ) from error

    @property
    def used(self) -> int:
        """Bytes that are allocated."""
        return self._used

    def free(self, count: int) -> None:
        """Account for a buffer of `count` bytes that is gone."""
        with self._lock:
            self._used -= max(count, 1)

    def take_slot(self) -> Any:
        """A queue with its buffers, that nobody else uses."""
        with self._lock:
            if self._free_slots:
                return self._free_slots.pop()
        return self.make_slot()

    def give_back(self, slot: Any) -> None:
        """The slot is free for another run; its buffers are kept for it while they fit."""
        with self._lock:
            self._free_slots.append(slot)

    def trim(self) -> None:
        """Release the buffers that free slots keep."""
        with self._lock:
            slots = list(self._free_slots)
        for slot in slots:
            slot.release()


DeviceT = TypeVar("DeviceT", bound=Memory)


class Buffers(ABC, Generic[DeviceT]):
    """A slot: a queue (of the driver's own kind), and buffers by what they are for."""

    def __init__(self, device: DeviceT) -> None:
        self.device = device
        self.buffers: list[tuple[int, Any]] = []
        self.failure = np.zeros(3, np.int64)
        self.zeroed: Any = None  # the buffer that is known to record no failure

    def fit(self, sizes: Sequence[int], names: Sequence[str]) -> list[Any]:
        """One buffer for each size; those that were there are used again if they are as large."""
        have = [count for count, _ in self.buffers]
        if (
            self.device.used > self.device.limit  # which may have been lowered
            or len(have) != len(sizes)
            or any(h < n for h, n in zip(have, sizes, strict=True))
        ):
            self.release()
            try:
                self._allocate(sizes, names)
            except MemoryLimitError:
                self.release()
                self.device.trim()  # what idle slots keep is not needed
                self._allocate(sizes, names)
        return [buffer for _, buffer in self.buffers]

    def _allocate(self, sizes: Sequence[int], names: Sequence[str]) -> None:
        for count, name in zip(sizes, names, strict=True):
            self.buffers.append((count, self.device.allocate(count, name)))

    def release(self) -> None:
        """Give the memory back."""
        self.zeroed = None
        while self.buffers:
            count, buffer = self.buffers.pop()
            self.release_buffer(buffer)
            self.device.free(count)

    @abstractmethod
    def release_buffer(self, buffer: Any) -> None:
        """Give one buffer back to the driver."""

    @abstractmethod
    def finish(self) -> None:
        """Wait for all that was queued."""


class HeldArrays:
    """Arrays on the device, by their positions, that several runs share.

    Inputs that are the same for all of them, and what each leaves to the next (`flanks`).

    Attributes
    ----------
    buffers : dict of int to object
        By the positions of inputs, and of results after them.
    in_turn : bool
        Whether runs have to follow one another.
    last : object
        The event after the kernels of the run that was begun last.
    missing : set of int
        Inputs of which the next run brings a part.
    brought : dict of int to object
        The events after that, which runs after it wait for.
    """

    def __init__(
        self, device: Memory, segment: Segment, inputs: Mapping[int, NDArray],
        flanks: Sequence[FlankPlace], room: int,
    ) -> None:  # fmt: skip
        self.device = device
        self.in_turn, self.last = bool(flanks), None
        if device.used + room > device.limit:
            device.trim()  # a slot in use keeps what it has, though another has no room then
        self.buffers: dict[int, Any] = {}
        self.missing: set[int] = set()
        self.brought: dict[int, Any] = {}
        self._segment = segment
        self._rings: dict[int, list[Any]] = {}
        self._slot = device.take_slot()
        arrays = {number: device.packed(array) for number, array in inputs.items()}
        names = [segment.params[number].name for number in (*arrays, *(f.input for f in flanks))]
        sizes = [array.nbytes for array in arrays.values()] + [flank.bytes for flank in flanks]
        try:
            buffers = self._slot.fit(sizes, names)
            for flank, buffer in zip(flanks, buffers[len(arrays) :], strict=True):
                # All of it is read before any of it is written.
                self.buffers[flank.input] = buffer
                self.buffers[len(segment.params) + flank.output] = buffer
            for (number, array), buffer in zip(arrays.items(), buffers, strict=False):
                if array.nbytes:
                    self._slot.copy_in(buffer, array, number)
                    device.statistics.copies_in += 1
                    device.statistics.bytes_in += array.nbytes
                self.buffers[number] = buffer
            self._slot.finish()
        except BaseException as error:
            with suppress(*device.failures):
                self._slot.finish()  # no copy reads an array that is gone
            self.release()
            if isinstance(error, device.failures):
                raise device.error("a copy to it", error) from error
            raise

    def change(self, number: int, size: int, buffers: int) -> None:
        """The next run brings another part of an input, of at most so many bytes.

        It is for the runs from then on, and in place of that of so many changes ago, which no run
        under way needs.
        """
        ring = self._rings.setdefault(number, [])
        slot = self.device.take_slot() if len(ring) < buffers else ring.pop(0)
        ring.append(slot)
        (buffer,) = slot.fit([size], [self._segment.params[number].name])
        self.buffers = {**self.buffers, number: buffer}  # runs under way have theirs
        self.brought.pop(number, None)
        self.missing.add(number)

    def release(self) -> None:
        """Give the memory back."""
        self.buffers = {}
        slots = [self._slot, *(slot for ring in self._rings.values() for slot in ring)]
        self._rings.clear()
        for slot in slots:
            slot.release()
            self.device.give_back(slot)


class Run(ABC, Generic[DeviceT]):
    """One run of a segment in a slot."""

    def __init__(
        self, device: DeviceT, segment: Segment, integers: Sequence[int],
        inputs: Sequence[NDArray], results: Sequence[NDArray], held: HeldArrays | None,
    ) -> None:  # fmt: skip
        self.shared = held
        self.held: Mapping[int, Any] = {} if held is None else held.buffers
        self.brings = frozenset(() if held is None else held.missing)
        self.device = device
        self.segment = segment
        self.values = dict(zip(segment.integers, map(int, integers), strict=True))
        self.values[launches.PROCESSOR] = int(device.is_processor)
        self.values[launches.LONG_EXTREMES] = int(device.has_long_atomics)
        self.inputs = [
            array if number in self.held and number not in self.brings else device.packed(array)
            for number, array in enumerate(inputs)
        ]
        self.results = results
        self.landed = [
            array if number in self.held or device.takes(array)
            else np.empty(array.shape, array.dtype)
            for number, array in enumerate(results, len(inputs))
        ]  # fmt: skip
        self.slot = device.take_slot()
        self.stage = "allocation"
        self.last: Any = None
        self.checked = self.ended = False

    # ------------------------------------------------------------ what a driver does

    @abstractmethod
    def copy(self, way: str, name: str, number: int, buffer: Any, array: NDArray) -> None:
        """Queue a copy ("in" or "out") between a buffer, by its position, and an array."""

    @abstractmethod
    def launch(
        self, step: launches.Launch, items: int, blocks: list[Any], integers: Sequence[int]
    ) -> None:
        """Queue a kernel for so many items."""

    @abstractmethod
    def read(self, step: launches.Read, buffer: Any, offset: int) -> NDArray:
        """Queue a copy of one scalar, and of the record of failures."""

    @abstractmethod
    def mark(self) -> Any:
        """Begin what was queued; an event that comes after it."""

    @abstractmethod
    def follow(self, event: Any) -> None:
        """Queue what comes now behind an event of another queue."""

    @abstractmethod
    def is_done(self, event: Any) -> bool:
        """Whether an event has come."""

    @abstractmethod
    def complete(self, event: Any) -> None:
        """Raise what went wrong before an event."""

    @abstractmethod
    def landing(self) -> None:
        """Results have come: bring them to where they belong."""

    # ------------------------------------------------------------ going in

    def enqueue(self) -> None:
        """Everything that does not have to wait."""
        slot, segment = self.slot, self.segment
        self.began = perf_counter()
        arrays = [*self.inputs, *self.landed]
        workspace = segment.workspace.evaluate(self.values)
        sizes = [a.nbytes for a in arrays] + [workspace, FAILURE_BYTES]
        names = [s.name for s in (*segment.params, *segment.results)] + ["workspace", "failures"]
        own = [number for number in range(len(sizes)) if number not in self.held]
        fitted = slot.fit([sizes[number] for number in own], [names[number] for number in own])
        found = {**self.held, **dict(zip(own, fitted, strict=True))}
        self.buffers = [found[number] for number in range(len(sizes))]
        self.stage = "a copy to it"
        if slot.zeroed is not self.buffers[-1]:
            slot.failure[:] = 0
            self._copy("in", "failures", -1, slot.failure)
            slot.zeroed = self.buffers[-1]
        for number, (param, array) in enumerate(zip(segment.params, self.inputs, strict=True)):
            if number not in self.held or number in self.brings:
                self._copy("in", param.name, number, array)
        self._bring()
        self._in_turn()
        self.stage = "a copy from it"
        outputs = enumerate(zip(segment.results, self.landed, strict=True), len(self.inputs))
        for number, (result, array) in outputs:
            if number not in self.held:
                self._copy("out", result.name, number, array)
        if segment.failures:
            self._copy("out", "failures", -1, slot.failure)
        self.last = self.mark()

    def _bring(self) -> None:
        """What it has brought is for others too; what others have brought has to be there."""
        shared = self.shared
        if shared is None:
            return
        for event in {id(event): event for event in shared.brought.values()}.values():
            if not self.is_done(event):
                self.follow(event)
        if self.brings:
            shared.brought.update(dict.fromkeys(self.brings, self.mark()))
            shared.missing.clear()

    def _in_turn(self) -> None:
        """The kernels, after those of the run before where that leaves something to this one."""
        shared = self.shared
        if shared is None or not shared.in_turn:
            self.steps(self.segment.steps)
            return
        if shared.last is not None:
            self.follow(shared.last)
        self.steps(self.segment.steps)
        shared.last = self.mark()

    def _copy(self, way: str, name: str, number: int, array: NDArray) -> None:
        if not array.nbytes:
            return
        statistics = self.device.statistics
        self.copy(way, name, number, self.buffers[number], array)
        if way == "in":
            statistics.copies_in += 1
            statistics.bytes_in += array.nbytes
        else:
            statistics.copies_out += 1
            statistics.bytes_out += array.nbytes

    # ------------------------------------------------------------ steps

    def steps(self, steps: launches.Steps) -> None:
        """Queue launches, and wait for what decides about them."""
        values = self.values
        for step in steps:
            match step:
                case launches.Launch():
                    self.one_launch(step)
                case launches.Define(name, size):
                    values[name] = size.evaluate(values)
                case launches.Read():
                    values[step.name] = self._read(step)
                case launches.Repeat(index, lower, upper, inner):
                    for number in range(lower.evaluate(values), upper.evaluate(values)):
                        values[index] = number
                        self.steps(inner)
                case launches.While(before, condition, inner):
                    self.steps(before)
                    while values[condition]:
                        self.steps(inner)
                        self.steps(before)
                case launches.Branch(condition, then, otherwise):
                    self.steps(then if values[condition] else otherwise)

    def one_launch(self, step: launches.Launch) -> None:
        """Queue a kernel, if it has anything to do."""
        items = step.items.evaluate(self.values)
        if items > 0:
            self.queue(step, items, [self.values[name] for name in step.integers])

    def queue(self, step: launches.Launch, items: int, integers: Sequence[int]) -> None:
        """Queue a kernel for some items, with the integers that it takes."""
        self.stage = f"the launch of {step.kernel}"
        # Blocks are parameters, results, workspace (-1 among them), then the failures.
        blocks = [self.buffers[-2 if number < 0 else number] for number in step.blocks]
        self.launch(step, items, blocks, integers)
        self.device.statistics.launches += 1

    def _read(self, step: launches.Read) -> int:
        """A scalar, once all that was launched has run."""
        self.stage = "reading a scalar from it"
        buffer = self.buffers[-2 if step.block < 0 else step.block]
        value = self.read(step, buffer, step.offset.evaluate(self.values))
        self._wait_for(self.mark())
        self.landing()
        self._check()
        return int(value[0])

    # ------------------------------------------------------------ coming back

    def wait(self) -> None:
        """Return when the results are there."""
        if self.ended:
            return
        try:
            self.stage = "waiting for it"
            self._wait_for(self.last)
            self.landing()
            self._check()
            self.checked = True
            for array, landed in zip(self.results, self.landed, strict=True):
                if landed is not array:
                    np.copyto(array, landed)
                    self.device.statistics.bytes_packed += array.nbytes
            self.record()
        except self.device.failures as error:
            raise self.device.error(self.stage, error) from error
        finally:
            self.abandon()

    def _wait_for(self, event: Any) -> None:
        """Ctrl-C is heard meanwhile."""
        spins = 0
        while not self.is_done(event):
            spins += 1
            waited = (perf_counter() - self.began) / _LATE
            sleep(0 if spins < _SPINS else min(max(waited, _SHORTEST), _LONGEST))
        self.complete(event)

    def _check(self) -> None:
        code, index, extent = self.slot.failure.tolist()
        if code:
            raise_failure(self.segment, code, index, extent)

    def abandon(self) -> None:
        """The slot is free once nothing on its queue uses the arrays any more."""
        if self.ended:
            return
        self.ended = True
        if not self.checked:
            self.slot.zeroed = None
        try:
            self.slot.finish()
        except self.device.failures:  # a queue that has failed is not used again
            self.slot.release()
        else:
            self.device.give_back(self.slot)

    def record(self) -> None:
        """Give the profile what is known of when each command ran."""


def begin(run: Run[Any]) -> Run[Any]:
    """Queue a run; what is under way is waited for if that fails.

    Raises
    ------
    MemoryLimitError
        When the device's memory is too small.
    DeviceError
        When the device fails.
    """
    try:
        run.enqueue()
    except BaseException as error:
        run.abandon()
        if isinstance(error, run.device.failures):
            raise run.device.error(run.stage, error) from error
        raise
    return run


def in_short(error: BaseException) -> str:
    """What a driver says, on one line."""
    return " ".join(str(error).split())[:500]


def failure(name: str, what: str, error: BaseException, *, out_of_memory: bool) -> WeftError:
    """What a failed call of a device's driver becomes."""
    said = in_short(error)
    if out_of_memory:
        return MemoryLimitError(
            f"{name} has no memory left for {what}: {said}",
            advice=f'lower memory_limit={{"{name}": ...}}, so that boxes are smaller',
        )
    return DeviceError(
        f"{name} failed at {what}: {said}",
        advice='try again, or compute on the CPU: wf.config(devices=["cpu"])',
    )
