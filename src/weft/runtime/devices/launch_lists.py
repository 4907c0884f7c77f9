"""The launches of a run on a GPU, laid out for C, which calls the driver for each.

A launch costs Python some 10 microseconds, in which a GPU moves 40 MB; C some 2. Where many of
them come again and again, as in the rounds of a loop, they are worth a graph, which costs less than
one for each.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from weft.plan import launches
from weft.runtime import threads

Words: TypeAlias = npt.NDArray[np.int64]

_WORTH_GRAPH = 64  # launches that come again, at least
_CAPTURED = 64  # launches in a graph, about
_PERIOD = 8  # launches after which the same ones come again, at most
_WORD = 8  # bytes


@dataclass(frozen=True, slots=True)
class Part:
    """Launches from `first` to `last`, so many times one after another."""

    first: int
    last: int
    times: int = 1


class LaunchList:
    """Launches, one after another, for buffers that differ from run to run.

    Parameters
    ----------
    listed : sequence of Listed
    kernel : function
        kernel(name): the address of a kernel, for the driver.
    buffers : int
        How many a run has. The record of failures, which every kernel takes first, is the last.
    """

    def __init__(
        self, listed: Sequence[launches.Listed], kernel: Callable[[str], int], buffers: int
    ) -> None:
        self.count = len(listed)
        self.parts = _parts(listed)
        words: list[int] = [0] * buffers  # addresses, then integers
        places: list[int] = []  # of each parameter among the words
        records: list[tuple[int, int, int, int]] = []
        known: dict[int, tuple[int, int, int, int]] = {}  # launches that come again share theirs
        for one in listed:
            if id(one) not in known:
                step, items, integers = one
                groups = -(-items // step.group)
                known[id(one)] = kernel(step.kernel), groups, step.group, len(places)
                places.append(buffers - 1)
                places += [buffers - 2 if number < 0 else number for number in step.blocks]
                places += range(len(words), len(words) + len(integers))
                words += integers
            records.append(known[id(one)])
        self._records: Words = np.array(records, np.int64).reshape(-1, 4)
        self._places: Words = np.array(places, np.int64) * _WORD
        self._words: Words = np.array(words, np.int64)

    def launcher(
        self, addresses: Sequence[int], launch: int, queue: int
    ) -> Callable[[Part], int]:
        """A function that has a part's launches queued, and gives the driver's status.

        Parameters
        ----------
        addresses : sequence of int
            Of the buffers.
        launch, queue : int
            The address of the driver's function, and its queue.
        """
        words = self._words.copy()  # another thread may have other buffers
        words[: len(addresses)] = addresses
        parameters = self._places + words.ctypes.data
        call, records = threads.pool().launch, self._records

        def run(part: Part, keep: Any = words) -> int:
            at = records[part.first :].ctypes.data
            count = part.last - part.first
            return int(call(launch, queue, at, count, parameters.ctypes.data))

        return run


def _parts(listed: Sequence[launches.Listed]) -> tuple[Part, ...]:
    """Launches that come again, as parts of their own."""
    count = len(listed)
    for first in range(min(_PERIOD, count)):
        for period in range(1, _PERIOD + 1):
            end = first
            while end + period < count and listed[end] is listed[end + period]:
                end += 1
            end += period
            once = period * max(_CAPTURED // period, 1)
            times = (end - first) // once
            if end - first >= 2 * _WORTH_GRAPH and times >= 2:
                parts = (
                    Part(0, first), Part(first, first + once, times),
                    Part(first + once * times, count),
                )  # fmt: skip
                return tuple(part for part in parts if part.first < part.last)
    return (Part(0, count),) if count else ()
