"""The steps of a program as one call of the pool: segments, and products of matrices between them.

Between steps the interpreter's own data have gone from the caches, and each function that it goes
through costs some ten microseconds then. So what steps take is written down beforehand, as records
of the pool, and a call fills in addresses.
"""

from __future__ import annotations

import ctypes
import math
import struct
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from copy import copy
from dataclasses import field
from typing import Any, NoReturn, TypeAlias

import numpy as np
import numpy.typing as npt

from weft.launch.gram import gram_words
from weft.launch.host import LibraryCall
from weft.records import dataclass
from weft.runtime import blas, profile
from weft.runtime.address import SMALL, SmallWorkspace, address_of
from weft.runtime.devices.cpu import HEADER, LoadedSegment, is_interruptible
from weft.runtime.incore import HostCall, InCore, Launch
from weft.runtime.memory import host_pool
from weft.runtime.threads import pool
from weft.runtime.watch import is_mapped

NDArray: TypeAlias = npt.NDArray[Any]
Targets: TypeAlias = Sequence[tuple[str, int, tuple[int, ...]]]
Words: TypeAlias = ctypes.Array[ctypes.c_int64]

_INTERRUPTIBLE = 3  # the word of a record that says whether Ctrl-C ends it
UNLIKE = -1
"""What `Pool.call_given` gives where arguments are others, and nothing was done."""

_LITTLE = 4 << 10  # bytes of workspace that lie behind the words
_ALIGNMENT = 64
_NOWHERE = -1  # the block of constants: their offset is their address


@dataclass(frozen=True, slots=True)
class _Place:
    """Where a value lies.

    Attributes
    ----------
    block : int
        An input, or, numbered after them, an array that each call takes from memory.
    offset : int
        Bytes from where that begins.
    example : ndarray
        An array of the value's shape, dtype and strides.
    """

    block: int
    offset: int
    example: NDArray


@dataclass(slots=True)
class _Record:
    """A step, as the pool takes it.

    Attributes
    ----------
    words : list of int or float
        With 0 for what a call fills in.
    places : list of (int, _Place)
        Which words are addresses.
    scalars : list of (int, int)
        Which words are factors, and the inputs that they are read from.
    segment : LoadedSegment, optional
        Whose entry the first word is: another one, once it has been optimised.
    workspace : int
        Which word is the workspace's address; 0 for none.
    """

    words: list[Any]
    places: list[tuple[int, _Place]] = field(default_factory=list)
    scalars: list[tuple[int, int]] = field(default_factory=list)
    segment: LoadedSegment | None = None
    workspace: int = 0


class Recorded:
    """Recorded steps.

    Parameters
    ----------
    recorder : Recorder
    results : sequence of str
        Names of the program's results.

    Attributes
    ----------
    places : list of (int, int, int)
        A word that is an address, the block where that is, and how many bytes on from its begin.
    scalars : list of (int, int)
        A word that is a factor, and the input that it is read from.
    blocks_of_results : list of int
        Where each result lies.
    threads : int or None
        How many a library may have meanwhile.
    """

    def __init__(self, recorder: _Recorder, results: Sequence[str]) -> None:
        words: list[Any] = [len(recorder.records), 0, *(0 for _ in recorder.records)]
        self.places: list[tuple[int, int, int]] = []
        self.scalars: list[tuple[int, int]] = []
        self._segments: list[tuple[int, LoadedSegment]] = []
        self._workspaces: list[int] = []
        self._interruptible: list[int] = []
        for number, record in enumerate(recorder.records):
            begin = words[2 + number] = len(words)
            words += record.words
            self.places += ((begin + at, p.block, p.offset) for at, p in record.places)
            self.scalars += ((begin + at, scalar) for at, scalar in record.scalars)
            if record.segment is not None or record.words[0] == pool().gram:
                self._interruptible.append(begin + _INTERRUPTIBLE)
            if record.segment is not None:
                self._segments.append((begin, record.segment))
            if record.workspace:
                self._workspaces.append(begin + record.workspace)
        layout = "".join("d" if isinstance(w, float) else "q" for w in words)
        self._words = struct.pack(layout, *words)
        self._spare: list[Words] = []  # not in use now
        self._blocks = recorder.blocks
        self._workspace, self.threads = recorder.workspace, recorder.threads
        self._call_all = pool().call_all
        self._constants = recorder.constants
        self._results = [
            (place.block, place.offset, place.example.shape, place.example.strides,
             recorder.is_whole(place))
            for place in (recorder.held[name] for name in results)
        ]  # fmt: skip
        self.blocks_of_results = [block for block, *_ in self._results]

    def others(self, inputs: Sequence[int]) -> tuple[int, ...]:
        """Which of the first results do not lie in the inputs of these numbers."""
        pairs = enumerate(zip(inputs, self._results, strict=False))
        return tuple(
            k for k, (number, (block, offset, *_)) in pairs if (block, offset) != (number, 0)
        )

    def call(self, inputs: Sequence[NDArray], addresses: Sequence[int]) -> list[NDArray] | None:
        """The results, in new arrays or in inputs; None where steps have to run one by one.

        Parameters
        ----------
        inputs : sequence of ndarray
            Row-major ones of the shapes and dtypes that were recorded.
        addresses : sequence of int
            Theirs.

        Raises
        ------
        WeftError
            What a segment raises.
        KeyboardInterrupt
            On Ctrl-C, on the main thread.
        """
        if profile.recorder is not None:
            return None
        if self.threads is not None:  # the library is not to be left by a jump
            for array in inputs:
                if array.base is not None and is_mapped(array):
                    return None
        scalars = [(at, float(inputs[number])) for at, number in self.scalars]
        if any(value == 0 for _, value in scalars):
            return None  # the library takes it for what makes zeros even of NaN
        made = self.made()
        words = self.words()
        for at, value in scalars:
            struct.pack_into("d", words, 8 * at, value)
        bases = [*addresses, *map(address_of, made), 0]
        for at, block, offset in self.places:
            words[at] = bases[block] + offset
        if self.threads is None:
            self.run(words, made, self._call_all)
        else:
            with blas.at_most(self.threads):
                self.run(words, made, self._call_all)
        return self.results(inputs, made)

    def results(
        self, inputs: Sequence[Any], made: Sequence[NDArray], begin: int = 0
    ) -> list[NDArray]:
        """What a call gives, from the result of that number on."""
        return [self._result(inputs, made, *result) for result in self._results[begin:]]

    def filled(self, values: Mapping[int, int], more: int) -> tuple[Recorded, int]:
        """The steps with some words filled in and so many more behind, and where these begin."""
        layout = f"{len(self._words) // 8}q"
        words = [*struct.unpack(layout, self._words)]
        for at, value in values.items():
            words[at] = value
        filled = copy(self)
        filled._words = struct.pack(layout, *words) + bytes(8 * more)
        filled._spare = []
        return filled, len(words)

    def made(self) -> list[NDArray]:
        """New arrays for what a call takes from memory."""
        return [host_pool().empty(shape, dtype) for shape, dtype in self._blocks]

    def words(self) -> Words:
        """The steps for one call, with the addresses of another one's."""
        try:
            return self._spare.pop()
        except IndexError:
            pass
        behind = self._workspace + _ALIGNMENT if self._workspace <= _LITTLE else 0
        text = self._words + bytes(behind + -behind % 8)
        words = (ctypes.c_int64 * (len(text) // 8)).from_buffer_copy(text)
        end = ctypes.addressof(words) + len(self._words)
        for at in self._workspaces:
            words[at] = end + -end % _ALIGNMENT
        return words

    def run(
        self, words: Words, made: Sequence[NDArray], call: Callable[..., int], *given: Any
    ) -> bool:
        """Have the pool do the steps: `call(*given, address of the words)`; False if it did not.

        `call` sees to it that a library has no more threads than it may.
        """
        for at, segment in self._segments:
            words[at] = segment.code.entry or 0
            segment.device.statistics.launches += 1
        if self._interruptible:
            interruptible = is_interruptible()
            for at in self._interruptible:
                words[at] = interruptible
        if self._workspace <= _LITTLE:
            status = call(*given, ctypes.addressof(words))
        else:
            with self._workspace_for(made) as workspace:
                for at in self._workspaces:
                    words[at] = workspace
                status = call(*given, ctypes.addressof(words))
        if status not in (0, UNLIKE):
            self._fail(status, words)
        self._spare.append(words)
        return status == 0

    def _workspace_for(self, made: Sequence[NDArray]) -> AbstractContextManager[int]:
        if self._workspace <= SMALL:
            return SmallWorkspace()
        return host_pool().workspace(self._workspace, made)

    def _fail(self, status: int, words: Words) -> NoReturn:
        begin = words[2 + words[1]]
        for at, segment in self._segments:
            if at == begin:
                pointers = words[begin + HEADER : begin + HEADER + words[begin + HEADER - 1]]
                segment.fail(status, bytes(words)[8 * begin : len(self._words)], pointers)
        raise KeyboardInterrupt

    def _result(
        self, inputs: Sequence[Any], made: Sequence[NDArray], block: int, offset: int,
        shape: tuple[int, ...], strides: tuple[int, ...], is_whole: bool,
    ) -> NDArray:  # fmt: skip
        whole: NDArray = inputs[block] if block < len(inputs) else made[block - len(inputs)]
        if is_whole:
            return whole
        return np.ndarray(shape, whole.dtype, whole, offset, strides)


def record(
    steps: InCore, inputs: Mapping[str, NDArray], targets: Targets, limit: int
) -> Recorded | None:
    """The steps as one call; None where they are others than the pool can do, or take more memory.

    Parameters
    ----------
    steps : InCore
    inputs : mapping of str to ndarray
        Row-major arrays like those of later calls.
    targets : sequence of (str, int, tuple of int)
        What steps write to inputs, the numbers of these, and the shapes in which they are written.
    limit : int
        Bytes that a call may take from memory.
    """
    try:
        recorder = _Recorder(steps, inputs, targets)
    except (_CannotBeRecordedError, MemoryError):
        return None
    if recorder.bytes() > limit or any(
        recorder.held[name].block == _NOWHERE for name in steps.results
    ):
        return None
    return Recorded(recorder, steps.results)


class _CannotBeRecordedError(Exception):
    """A step is none that the pool can run."""


class _Recorder:
    """Steps, written down one after another.

    Parameters
    ----------
    steps : InCore
    inputs : mapping of str to ndarray
        Arrays like those of later calls.
    targets : sequence of (str, int, tuple of int)
        What steps write to inputs, the numbers of these, and the shapes in which they are written.

    Attributes
    ----------
    records : list of _Record
    blocks : list of (tuple of int, dtype)
        What a call takes from memory.
    threads : int or None
        How many the library may have meanwhile; None where it has nothing to do.
    workspace : int
        Bytes of it, for all steps.
    held : dict of str to _Place
        What the last step leaves.
    constants : list of ndarray
        What addresses in the words are of.
    """

    def __init__(
        self, steps: InCore, inputs: Mapping[str, NDArray], targets: Targets
    ) -> None:
        self.records: list[_Record] = []
        self.blocks: list[tuple[tuple[int, ...], np.dtype[Any]]] = []
        self.threads: int | None = None
        self.workspace = 0
        self.held = {name: _Place(k, 0, array) for k, (name, array) in enumerate(inputs.items())}
        self.constants: list[NDArray] = []
        self._inputs = len(inputs)
        self._shapes = [array.shape for array in inputs.values()]
        self._count = int(steps.values["threads"])
        held = list(inputs.values())
        self._targets = {
            name: _Place(number, 0, held[number].reshape(shape)) for name, number, shape in targets
        }
        self._free: list[int] = []
        for step, dead in zip(steps.steps, steps.dead_after, strict=True):
            values = [self.held[name] for name in step.step.params]
            if isinstance(step, Launch):
                results = self._launch(step, values)
            elif isinstance(step.run, LibraryCall):
                results = self._library_call(step.run, values)
            else:
                results = [self._view(step, values)]
            self.held.update(zip(step.step.results, results, strict=True))
            self._forget(dead)

    def bytes(self) -> int:
        """What a call takes from memory."""
        arrays = sum(math.prod(shape) * dtype.itemsize for shape, dtype in self.blocks)
        return arrays + self.workspace

    def is_whole(self, place: _Place) -> bool:
        """Whether a value is all of an input, or of what a call takes from memory, as it is."""
        if place.block < self._inputs:
            shape = self._shapes[place.block]
        else:
            shape, _ = self.blocks[place.block - self._inputs]
        example = place.example
        return not place.offset and example.shape == shape and example.flags.c_contiguous

    def _launch(self, launch: Launch, values: Sequence[_Place]) -> list[_Place]:
        loaded = launch.loaded
        if not isinstance(loaded, LoadedSegment):
            raise _CannotBeRecordedError
        given = dict(launch.step.segment.donated)
        results = [
            values[given[k]] if k in given else self._result(name, shape, dtype)
            for k, (name, (shape, dtype)) in enumerate(
                zip(launch.step.results, launch.results, strict=True)
            )
        ]
        places = [*values, *results]
        record = self._record(loaded.code.entry, len(places) + 1, self._count)
        record.segment = loaded
        record.places += enumerate(places, HEADER)
        record.words += [0] * (len(places) + 1)
        record.words += launch.integers
        if launch.workspace:
            record.workspace = HEADER + len(places)
            self.workspace = max(self.workspace, launch.workspace)
        return results

    def _view(self, call: HostCall, values: Sequence[_Place]) -> _Place:
        if not values:  # a constant, seen as a larger one
            return self._constant(call.run([], None)[0])
        (value,) = values
        (array,) = call.run([value.example], None)
        if array.size and not np.may_share_memory(array, value.example):
            raise _CannotBeRecordedError  # it is a copy
        begin = address_of(array) - address_of(value.example)
        return _Place(value.block, value.offset + begin if array.size else 0, array)

    def _library_call(self, call: LibraryCall, values: Sequence[_Place]) -> list[_Place]:
        arguments = [
            values[place] if isinstance(place, int) else self._constant(place)
            for place in call.places
        ]
        if len(call.kinds) > 1 or call.routine.bind is None:
            raise _CannotBeRecordedError
        name, shape, dtype = call.kinds[0]
        if call.over is None or name in self._targets:
            result = self._result(name, shape, dtype)
        else:
            result = values[call.over]
        is_matmul = call.routine.name == "matmul"
        if not (is_matmul and self._gram(arguments[0], arguments[1], result)):
            self._product(call, arguments, result)
        return [result]

    def _gram(self, left: _Place, right: _Place, result: _Place) -> bool:
        """A matrix times its own transpose; False where it is another product."""
        words = gram_words(left.example, right.example, result.example)
        if words is None:
            return False
        record = self._record(pool().gram, 0, self._count)
        record.words += words
        self._end(record, left, result)
        self._limit(1)
        return True

    def _product(self, call: LibraryCall, arguments: list[_Place], result: _Place) -> None:
        """What one call of the library does."""
        examples = [place.example for place in arguments]
        assert call.routine.bind is not None
        found = call.routine.bind(*examples, out=(result.example,), **call.options)
        if found is None:
            raise _CannotBeRecordedError
        bound = found.bound
        factors = [_of(array, arguments) for array in found.factors]
        record = self._record(pool().product, 0, 1)
        record.words += [
            bound.address, bound.single, len(bound.steps) - 1, bound.triangle, *bound.lie,
            *bound.sizes, bound.steps[0], *bound.steps[-2:],
        ]  # fmt: skip
        for value, usual in ((found.alpha, 1.0), (found.beta, 0.0)):
            if not isinstance(value, np.ndarray):
                record.words.append(usual if value is None else value)
                continue
            place = _of(value, arguments)
            record.words.append(float(value))
            if place.block == _NOWHERE:
                if value == 0:  # the library takes it for what makes zeros even of NaN
                    raise _CannotBeRecordedError
            elif place.block < self._inputs:
                record.scalars.append((len(record.words) - 1, place.block))
            else:
                raise _CannotBeRecordedError
        self._end(record, factors[0], factors[-1], result)
        self._limit(self._count)

    def _end(self, record: _Record, *places: _Place) -> None:
        """The addresses with which a record of the library's ends."""
        record.places += enumerate(places, len(record.words))
        record.words += [0] * len(places)

    def _constant(self, array: NDArray) -> _Place:
        self.constants.append(array)
        return _Place(_NOWHERE, address_of(array), array)

    def _record(self, entry: int | None, buffers: int, threads: int) -> _Record:
        made = _Record([entry, threads, 0, 0, 0, 0, 0, 0, buffers])
        self.records.append(made)
        return made

    def _limit(self, threads: int) -> None:
        if self.threads not in (None, threads):
            raise _CannotBeRecordedError
        self.threads = threads

    def _result(self, name: str, shape: tuple[int, ...], dtype: np.dtype[Any]) -> _Place:
        """Where a result goes: to an input, or to memory that no value needs any more."""
        if name in self._targets:
            return self._targets[name]
        count = math.prod(shape)
        for block in self._free:
            of, held = self.blocks[block]
            if math.prod(of) * held.itemsize == count * dtype.itemsize:
                self._free.remove(block)
                self.blocks[block] = shape, dtype
                break
        else:
            block = len(self.blocks)
            self.blocks.append((shape, dtype))
        return _Place(self._inputs + block, 0, np.empty(shape, dtype))

    def _forget(self, names: Sequence[str]) -> None:
        gone = {self.held.pop(name).block - self._inputs for name in names if name in self.held}
        kept = {place.block - self._inputs for place in self.held.values()}
        self._free += sorted(block for block in gone - kept if block >= 0)


def _of(array: NDArray, arguments: Sequence[_Place]) -> _Place:
    """Which argument an array is."""
    for place in arguments:
        if place.example is array:
            return place
    raise _CannotBeRecordedError
