"""Results that wait in scratch files until all has been read of what lies where they belong."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any, TypeAlias

import numpy.typing as npt

from weft.plan.nodes import Plan
from weft.plan.protocols import Box, Sink
from weft.plan.rounds import Buffer
from weft.runtime.scratch import scratch_array

NDArray: TypeAlias = npt.NDArray[Any]

_SLAB = 4 << 20  # bytes that are brought at once, unless a row of chunks has more


class Waiting(Buffer):
    """A scratch file for the new values of what is read until the end."""

    def describe(self) -> str:
        return "a scratch file, and then to its place"


def with_files(plan: Plan) -> tuple[Plan, dict[int, NDArray]]:
    """The plan with scratch files for the results that wait, and these by number of a result."""
    files = {
        number: scratch_array(sink.shape, sink.dtype)
        for number, sink in enumerate(plan.sinks) if isinstance(sink, Waiting)
    }  # fmt: skip
    sinks = (Waiting(files[k]) if k in files else sink for k, sink in enumerate(plan.sinks))
    return replace(plan, sinks=tuple(sinks)), files


def bring(sink: Sink, value: NDArray) -> None:
    """Write a result that has waited."""
    for box in _slabs(sink, value):
        sink.write(box, value[box])


def _slabs(sink: Sink, value: NDArray) -> Iterator[Box]:
    """Parts of an array that are whole chunks of where it goes."""
    if not value.shape or not value.size:
        yield tuple(slice(0, extent) for extent in value.shape)
        return
    length, *others = value.shape
    chunk = 1 if sink.chunks is None else sink.chunks[0]
    rows = max(_SLAB // (value[:1].nbytes * chunk), 1) * chunk
    for first in range(0, length, rows):
        yield (slice(first, min(first + rows, length)), *(slice(0, other) for other in others))
