"""Repeated calls by the shortest way: of what gives new arrays, and of what writes arguments.

Data that streamed through the caches has left little of the interpreter's own in them: the
next call then pays some ten microseconds for each function that it goes through, which a call
of a few milliseconds on all cores feels.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from weft.config import Settings, settings
from weft.launch.boxes import nearer_in_boxes
from weft.launch.computation import Computation
from weft.launch.device import CPU, have_compiler, host_threads
from weft.launch.recorded import Recorded, Targets, record
from weft.plan.protocols import is_source
from weft.records import dataclass
from weft.runtime.address import address_of, is_one
from weft.runtime.incore import InCore
from weft.runtime.memory import host_pool
from weft.runtime.watch import is_mapped

_ONLY_WRITTEN = "only written "  # begins the names of arrays that no program names


@dataclass(frozen=True, slots=True)
class Direct:
    """What a call has found out that holds for others of the same shapes and dtypes.

    Attributes
    ----------
    settings : Settings
    threads : int
    steps : InCore
    names : tuple of str
        Of the computation's inputs.
    recorded : Recorded or None
        Several steps as one call.
    """

    settings: Settings
    threads: int
    steps: InCore
    names: tuple[str, ...]
    recorded: Recorded | None

    def call(self, inputs: Sequence[Any]) -> list[Any] | None:
        """The results; None where the settings are others, or an array is not row-major."""
        current = settings()
        if current is not self.settings and current != self.settings:
            return None
        if host_threads(current) != self.threads:
            return None
        for array in inputs:
            if not array.flags.carray:
                return None
        if self.recorded is not None:
            values = self.recorded.call(inputs, [address_of(array) for array in inputs])
            if values is not None:
                return values
        held = dict(zip(self.names, inputs, strict=True))
        return self.steps.call(held, host_pool(), self.threads)

    def record(self, inputs: Sequence[Any]) -> Recorded | None:
        """The steps as one call, even where there is one step."""
        held = dict(zip(self.names, inputs, strict=True))
        return record(self.steps, held, (), self.settings.limit)


def direct(
    computation: Computation, sizes: Mapping[str, int], inputs: Sequence[Any]
) -> Direct | None:
    """For a call that has run; None where it was not in core on the CPU, or gives a view."""
    current = settings()
    if current.devices != (CPU,) or not have_compiler():
        return None
    if any(is_source(value) for value in inputs):
        return None
    if not all(array.flags.carray and array.dtype.isnative for array in inputs):
        return None
    threads = host_threads(current)
    ready, _ = computation.ready(sizes, inputs, threads, current.optimise)
    if not ready.plain or ready.steps.peak_bytes > current.limit:
        return None
    if nearer_in_boxes(computation, sizes, inputs, current) is not None:
        return None
    held = dict(zip(computation.names, inputs, strict=True))
    recorded = None
    if ready.steps.single is None:
        recorded = record(ready.steps, held, (), current.limit)
    return Direct(current, threads, ready.steps, computation.names, recorded)


@dataclass(frozen=True, slots=True)
class DirectUpdate:
    """What a call that writes arrays has found out for others of the same shapes and dtypes.

    Attributes
    ----------
    settings : Settings
    threads : int
    written : tuple of int
        Which inputs the first results replace, in the order of the results.
    steps : _Steps
    recorded : Recorded or None
        The steps as one call.
    copied : tuple of int
        The results that it does not leave in the inputs that they replace.
    """

    settings: Settings
    threads: int
    written: tuple[int, ...]
    steps: _Steps
    recorded: Recorded | None
    copied: tuple[int, ...]

    def call(self, inputs: Sequence[Any]) -> Sequence[Any] | None:
        """The results that replace no input; None where settings are others, or arrays overlap."""
        current = settings()
        if current is not self.settings and current != self.settings:
            return None
        if host_threads(current) != self.threads:
            return None
        addresses = _apart(inputs, self.written)
        if addresses is None:
            return None
        values = None if self.recorded is None else self.recorded.call(inputs, addresses)
        if values is None:
            return self.steps.run(inputs)
        for number in self.copied:
            np.copyto(inputs[self.written[number]], values[number], casting="no")
        return values[len(self.written) :]


def _apart(inputs: Sequence[Any], written: Sequence[int]) -> list[int] | None:
    """The addresses of arrays; None where one is not row-major and writable, or some overlap.

    Those that are written must overlap no others. Two mapped files may be one.
    """
    begins = []
    ends = []
    mapped = 0
    for array in inputs:
        if not array.flags.carray:
            return None
        if array.base is not None and is_mapped(array):
            mapped += 1
        begin = address_of(array)
        begins.append(begin)
        ends.append(begin + array.nbytes)
    if mapped > 1:
        return None
    for number in written:
        begin, end = begins[number], ends[number]
        for other, start in enumerate(begins):
            if start < end and begin < ends[other] and other != number:
                return None
    return begins


@dataclass(frozen=True, slots=True)
class _Steps:
    """Steps whose first results replace inputs.

    Attributes
    ----------
    steps : InCore
    names : tuple of str
        Of the inputs.
    written : tuple of int
    targets : tuple of (str, int, tuple of int)
        Results that are written to the inputs that they replace; see `record`.
    """

    steps: InCore
    names: tuple[str, ...]
    written: tuple[int, ...]
    targets: Targets

    def run(self, inputs: Sequence[Any]) -> Sequence[Any]:
        held = dict(zip(self.names, inputs, strict=True))
        targets = {name: inputs[number].reshape(shape) for name, number, shape in self.targets}
        values = self.steps.call(held, host_pool(), int(self.steps.values["threads"]), targets)
        for number, value in zip(self.written, values, strict=False):
            if not is_one(inputs[number], value):
                np.copyto(inputs[number], value, casting="no")
        return values[len(self.written) :]


def direct_update(
    computation: Computation, sizes: Mapping[str, int], inputs: Sequence[Any],
    written: Sequence[int], returned: int = 0,
) -> DirectUpdate | None:  # fmt: skip
    """For a call that has run; None where others cannot be done the short way.

    `inputs` are the program's, and then arrays that it only writes. `written` are those that
    results replace, in the order of the results; so many more results are `returned`.
    """
    current = settings()
    if any(is_source(value) for value in inputs):
        return None
    if current.devices != (CPU,) or not have_compiler() or _apart(inputs, written) is None:
        return None
    if not all(array.dtype.isnative for array in inputs):
        return None
    threads = host_threads(current)
    out = [inputs[number] for number in written] + [None] * returned
    read = inputs[: len(computation.names)]
    donated = computation.donated(read, out)
    ready, _ = computation.ready(sizes, read, threads, current.optimise, CPU, donated)
    if not ready.plain or ready.steps.peak_bytes > current.limit:
        return None
    found = computation.targets(ready, read, out)
    targets = [(name, written[number], shape) for name, number, shape in found]
    names = *computation.names, *(f"{_ONLY_WRITTEN}{k}" for k in range(len(inputs) - len(read)))
    held = dict(zip(names, inputs, strict=True))
    recorded = record(ready.steps, held, targets, current.limit)
    copied = () if recorded is None else recorded.others(written)
    steps = _Steps(ready.steps, names, tuple(written), targets)
    return DirectUpdate(current, threads, tuple(written), steps, recorded, copied)
