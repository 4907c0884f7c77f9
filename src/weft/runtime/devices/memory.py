"""The memory of a device: what is taken of it under a limit, in slots and by arrays that stay.

What is the same for every driver, as are runs (`weft.runtime.devices.runs`).
"""

from __future__ import annotations

import os
import threading
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any, Generic, TypeAlias, TypeVar

import numpy.typing as npt

from weft.errors import DeviceError, MemoryLimitError, WeftError
from weft.plan.code import FlankPlace
from weft.plan.segment import Segment
from weft.runtime import profile
from weft.runtime.devices.protocol import Statistics, row_major
from weft.runtime.memory import format_bytes

NDArray: TypeAlias = npt.NDArray[Any]


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
    threads : int
        Of the host, that copy to and from memory that the device cannot.
    together : int
        Small boxes that the host does best to begin one after another, once as many have ended.
    host_limit : int
        Bytes of the host's memory that may be in use.
    """

    failures: tuple[type[BaseException], ...]
    is_processor = False
    has_long_atomics = True
    threads = 1
    together = 1
    host_limit = 0

    def __init__(self, name: str, limit: int) -> None:
        self.name = name
        self.default_limit = self.limit = limit
        self.statistics = Statistics()
        self._process = os.getpid()
        self._lock = threading.Lock()
        self._used = 0
        self._free_slots: list[Any] = []

    def check_process(self) -> None:
        """Refuse a process that was forked since the device was found: drivers' threads are gone.

        Raises
        ------
        DeviceError
        """
        if os.getpid() != self._process:
            raise DeviceError(
                f"{self.name} was found before this process was forked: drivers work in no fork",
                advice='start processes anew (multiprocessing.get_context("spawn")), or compute '
                'on the CPU: wf.config(devices=["cpu"])',
            )

    def takes(self, array: NDArray) -> bool:
        """Whether it copies the array as it lies, and back to there."""
        flags = array.flags
        return bool(flags.c_contiguous and flags.aligned and array.dtype.isnative)

    def page_locked(self, results: Sequence[int]) -> int:
        """Bytes of the host's memory that a slot's copies go through: `results` have so many."""
        return 0

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

    def is_full(self, error: BaseException) -> bool:
        """Whether an allocation failed for want of memory: drivers have many words for it."""
        return True

    def allocate(self, count: int, purpose: str) -> Any:
        """A buffer of `count` bytes.

        Raises
        ------
        MemoryLimitError
            When that passes the limit, or the device has no more.
        DeviceError
            When the device fails.
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
            if not self.is_full(error):
                raise self.error(f"an allocation for {purpose}", error) from error
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
        self.check_process()
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
        with self._lock:  # nobody takes one meanwhile
            slots, self._free_slots = self._free_slots, []
        for slot in slots:
            slot.release()
        with self._lock:
            self._free_slots += slots


DeviceT = TypeVar("DeviceT", bound=Memory)


class Buffers(ABC, Generic[DeviceT]):
    """A slot: a queue (of the driver's own kind), and buffers by what they are for."""

    def __init__(self, device: DeviceT) -> None:
        self.device = device
        self.buffers: list[tuple[int, Any]] = []
        self._fitting: Sequence[int] = ()  # sizes for which they were seen to do
        self.zeroed: Any = None  # the buffer that is known to record no failure
        self.runs = 0  # that are queued, one behind the other
        self.failed = False

    def fits(self, sizes: Sequence[int]) -> bool:
        """Whether the buffers are as many, and each as large, as they are."""
        if sizes == self._fitting:
            return True
        have = [count for count, _ in self.buffers]
        fits = len(have) == len(sizes) and all(h >= n for h, n in zip(have, sizes, strict=True))
        if fits:
            self._fitting = sizes
        return fits

    def fit(self, sizes: Sequence[int], names: Sequence[str]) -> list[Any]:
        """One buffer for each size; those that were there are used again if they are as large."""
        # The limit may have been lowered; but what is in use stays.
        lowered = self.device.used > self.device.limit and self.runs <= 1
        if lowered or not self.fits(sizes):
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
        self.zeroed, self._fitting = None, ()
        while self.buffers:
            count, buffer = self.buffers.pop()
            with suppress(*self.device.failures):  # a lost device takes nothing back
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
                    what = f"copy in {segment.params[number].name}"
                    with profile.span(what, f"{device.name} in", array.nbytes):
                        self._slot.copy_in(buffer, array)
                        if profile.recorder is not None:
                            self._slot.finish()
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


def in_short(error: BaseException) -> str:
    """What a driver says, on one line."""
    return " ".join(str(error).split())[:500]


def failure(
    name: str, what: str, error: BaseException, *, out_of_memory: bool, lost: bool = False
) -> WeftError:
    """What a failed call of a device's driver becomes; `lost`: all later ones will fail, too."""
    said = in_short(error)
    if out_of_memory:
        return MemoryLimitError(
            f"{name} has no memory left for {what}: {said}",
            advice=f'lower memory_limit={{"{name}": ...}}, so that boxes are smaller',
        )
    return DeviceError(
        f"{name} failed at {what}: {said}",
        advice=f"{'start Python anew' if lost else 'try again'}, or compute on the CPU: "
        'wf.config(devices=["cpu"])',
    )
