"""Runs of segments on a device with memory of its own: copies in, launches, copies out.

What is the same for every driver. A run takes a slot: a queue and its buffers. Slots are
independent, so that the copies of one run overlap with the kernels of another. A run may be queued
*behind* another, in its slot: it has the same buffers, once that one has ended, and the device
does not wait for the host in between.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from operator import itemgetter
from time import perf_counter, sleep
from typing import Any, Generic, TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt

from weft.errors import InternalError
from weft.plan import launches
from weft.plan.code import FlankPlace
from weft.plan.segment import Inset, Segment
from weft.records import dataclass
from weft.runtime.devices.memory import DeviceT, HeldArrays
from weft.runtime.devices.protocol import FAILURE_BYTES, raise_failure

NDArray: TypeAlias = npt.NDArray[Any]

_SPINS, _MORE_SPINS = 20, 200
"""Looks before the first pause, which the system makes far longer than asked for; and how many
where looking takes no processor from the run."""

_SHORTEST, _LONGEST = 20e-6, 10e-3  # seconds between two looks at whether a run has ended
_LATE = 32  # a run's end is seen late by this part of its time, at most
_LATER = 4  # and by this one where a processor goes on with another: looking takes from it


_LISTS = 256  # of launches, that a segment keeps for runs that come again
_WORKSPACES = 4096  # whose sizes it keeps: a run has one, of many terms

LaunchesT = TypeVar("LaunchesT")


class KeptLaunches(Generic[LaunchesT]):
    """What runs of a segment launch, worked out when their integers are met first.

    Parameters
    ----------
    make : function
        make(integers by their names) works it out.
    """

    def __init__(self, make: Callable[[dict[str, int]], LaunchesT]) -> None:
        self._make = make
        self._known: dict[tuple[int, ...], tuple[LaunchesT, dict[str, int]]] = {}

    def of(self, values: dict[str, int]) -> LaunchesT:
        """The launches for some integers, to which those are added that steps define."""
        key, known = tuple(values.values()), self._known
        found = known.get(key)
        if found is None:
            after = dict(values)
            found = self._make(after), after
            while len(known) >= _LISTS:
                known.pop(next(iter(known)), None)  # another thread may do the same
            known[key] = found
        launches_, after = found
        if launches_ is not None:
            values.update(after)
        return launches_


def values_of(device: Any, segment: Segment, integers: Sequence[int]) -> dict[str, int]:
    """The integers of a run by their names, and those that say what the device is."""
    values = dict(zip(segment.integers, integers, strict=True))
    values[launches.PROCESSOR] = int(device.is_processor)
    values[launches.LONG_EXTREMES] = int(device.has_long_atomics)
    return values


@dataclass(frozen=True, slots=True)
class _Buffers:
    """The buffers of runs that share what is held.

    Attributes
    ----------
    own : list of int
        The positions of the arrays that have one for each run, as the workspace and the record of
        failures have.
    names : list of str
        What those, and these, are for.
    arranged : function
        arranged((what is held, then those)) has them by their positions.
    """

    own: list[int]
    names: list[str]
    arranged: Callable[[tuple[Any, ...]], tuple[Any, ...]]


class Loaded(Generic[DeviceT]):
    """A segment compiled for a device, and what is the same for all of its runs.

    Parameters
    ----------
    device, segment
    listed : function
        listed(integers by their names) makes a list of the launches of a run, if there is one.

    Attributes
    ----------
    names : list of str
        Of what a run has buffers for: parameters, results, the workspace, the failures.
    within : dict of int to Inset
        Those, by their positions, that lie within the workspace.
    """

    def __init__(
        self, device: DeviceT, segment: Segment, listed: Callable[[dict[str, int]], Any]
    ) -> None:
        self.device = device
        self.segment = segment
        self.launches = KeptLaunches(listed)
        self.names = [slot.name for slot in (*segment.params, *segment.results)]
        self.names += ["workspace", "failures"]
        self.within = {inset.slot: inset for inset in segment.insets}
        self._workspace = lru_cache(_WORKSPACES)(self._evaluated)
        self._buffers: dict[tuple[int, ...], _Buffers] = {}

    def workspace(self, values: Mapping[str, int]) -> int:
        """Bytes of a run's workspace, from its integers as `values_of` names them."""
        return self._workspace(*values.values())

    def _evaluated(self, *integers: int) -> int:
        return self.segment.workspace.evaluate(values_of(self.device, self.segment, integers[:-2]))

    def buffers(self, held: Mapping[int, Any]) -> _Buffers:
        """Which buffers a run has, beside what is held."""
        key = tuple(held)
        if key not in self._buffers:
            if not self.within.keys().isdisjoint(held):
                raise InternalError("a device run: what is held lies within the workspace, too")
            numbers = range(len(self.names))
            own = [n for n in numbers if n not in held and n not in self.within]
            at = {number: position for position, number in enumerate((*key, *own))}
            at |= dict.fromkeys(self.within, at[len(self.names) - 2])
            self._buffers[key] = _Buffers(
                own[:-2], [self.names[n] for n in own], itemgetter(*map(at.__getitem__, numbers))
            )
        return self._buffers[key]

    def hold(
        self, inputs: Mapping[int, NDArray], flanks: Sequence[FlankPlace] = (), room: int = 0
    ) -> HeldArrays:  # fmt: skip
        """Copy inputs, by their positions, that several runs share; make room for flanks.

        `room`: bytes that those runs, and what is held, will take together.

        Raises
        ------
        MemoryLimitError, DeviceError
        """
        return HeldArrays(self.device, self.segment, inputs, flanks, room)


class Run(ABC, Generic[DeviceT]):
    """One run of a segment in a slot."""

    def __init__(
        self, loaded: Loaded[DeviceT], integers: Sequence[int], inputs: Sequence[NDArray],
        results: Sequence[NDArray], held: HeldArrays | None, behind: Run[DeviceT] | None,
    ) -> None:  # fmt: skip
        device, segment = loaded.device, loaded.segment
        self.shared = held
        self.held: Mapping[int, Any] = {} if held is None else held.buffers
        self.brings = frozenset(() if held is None else held.missing)
        self.loaded: Loaded[DeviceT] = loaded
        self.device = device
        self.segment = segment
        self.values = values_of(device, segment, integers)
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
        self.behind = None if behind is None or behind.ended else behind
        self.slot: Any = device.take_slot() if self.behind is None else self.behind.slot
        self.slot.runs += 1
        self.followed = False  # another is queued behind it
        self.turn: int = 0 if self.behind is None else 1 - self.behind.turn
        self.failure = np.zeros(FAILURE_BYTES // 8, np.int64)
        self.stage = "allocation"
        self.last: Any = None
        self.checked = False
        self.ended: bool = False

    # ------------------------------------------------------------ what a driver does

    @property
    def ends_late(self) -> bool:
        """Whether its results are copied once it has ended: none is queued behind it then."""
        return False

    @abstractmethod
    def copy(
        self, way: str, name: str, number: int, buffer: Any, array: NDArray, offset: int = 0
    ) -> None:
        """Queue a copy ("in" or "out") between a buffer, by its position, and an array.

        `offset`: bytes into the buffer.
        """

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

    def enqueue(self, after: Sequence[Run[DeviceT]]) -> None:
        """Everything that the host does not have to wait for; `after` other runs."""
        slot, segment, held = self.slot, self.segment, self.held
        names, within, made = self.loaded.names, self.loaded.within, self.loaded.buffers(held)
        self.began = perf_counter()
        arrays = (*self.inputs, *self.landed)
        needed = [arrays[number].nbytes for number in made.own]
        needed += (self.loaded.workspace(self.values), FAILURE_BYTES)
        if self.behind is not None:
            if not slot.fits(needed) or self.behind.ends_late:
                self.behind.wait()
            self.behind.followed = True
            self.behind = None  # nor are its arrays kept
        self.buffers = made.arranged((*held.values(), *slot.fit(needed, made.names)))
        self.stage = "a copy to it"
        for run in after:
            if run.slot is not slot and not run.ended:
                self.follow(run.last)
        if slot.zeroed is not self.buffers[-1]:
            self._copy("in", "failures", -1, self.failure)
            slot.zeroed = self.buffers[-1]
        for number, array in enumerate(self.inputs):
            if number not in held or number in self.brings:
                self._copy("in", names[number], number, array, within.get(number))
        self._bring()
        self._in_turn()
        self.stage = "a copy from it"
        for number, array in enumerate(self.landed, len(self.inputs)):
            if number not in held:
                self._copy("out", names[number], number, array, within.get(number))
        if segment.failures:
            self._copy("out", "failures", -1, self.failure)
        self.last = self.mark()

    def _bring(self) -> None:
        """What it has brought is for others too; what others have brought has to be there."""
        shared = self.shared
        if shared is None:
            return
        followed = None  # what one run brought has one event
        for number, event in tuple(shared.brought.items()):
            if self.is_done(event):
                del shared.brought[number]
            elif event is not followed:
                self.follow(event)
                followed = event
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

    def _copy(
        self, way: str, name: str, number: int, array: NDArray, inset: Inset | None = None
    ) -> None:
        offset = 0
        if inset is not None:
            begin, count, offset = (
                size.evaluate(self.values) for size in (inset.begin, inset.count, inset.offset)
            )
            array = array[begin : begin + count]
        if not array.nbytes:
            return
        statistics = self.device.statistics
        self.copy(way, name, number, self.buffers[number], array, offset)
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

    def pause(self) -> None:
        """Return when the device is done with it; what became of it is for `wait` to tell."""
        try:
            self._see(self.last)
        except self.device.failures as error:
            raise self.device.error("waiting for it", error) from error

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
        """Return when it has come, or raise what went wrong before."""
        self._see(event)
        self.complete(event)

    def _see(self, event: Any) -> None:
        """Return when it has come; Ctrl-C is heard meanwhile."""
        is_processor = self.device.is_processor
        spins = 0 if self.followed else _SPINS if is_processor else _MORE_SPINS
        late = _LATER if self.followed and is_processor else _LATE
        while not self.is_done(event):
            spins -= 1
            waited = (perf_counter() - self.began) / late
            sleep(0 if spins > 0 else min(max(waited, _SHORTEST), _LONGEST))

    def _check(self) -> None:
        if self.segment.failures and self.failure[0]:
            raise_failure(self.segment, *self.failure.tolist())

    def abandon(self) -> None:
        """Nothing on the queue uses the arrays any more; the slot is free after its last run."""
        if self.ended:
            return
        self.ended, slot = True, self.slot
        if not self.checked:
            slot.zeroed = None
            try:
                slot.finish()
            except self.device.failures:
                slot.failed = True
        slot.runs -= 1
        if slot.runs:
            return
        if slot.failed:  # the queue is not used again
            slot.release()
        else:
            self.device.give_back(slot)

    def record(self) -> None:
        """Give the profile what is known of when each command ran."""


def begin(run: Run[Any], after: Sequence[Run[Any]]) -> Run[Any]:
    """Queue a run after others; what is under way is waited for if that fails.

    Raises
    ------
    MemoryLimitError
        When the device's memory is too small.
    DeviceError
        When the device fails.
    """
    try:
        run.enqueue(after)
    except BaseException as error:
        run.abandon()
        if isinstance(error, run.device.failures):
            raise run.device.error(run.stage, error) from error
        raise
    return run
