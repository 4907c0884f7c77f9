"""What a plan is made for: data, limits, and the devices that there are."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Protocol

import numpy as np

from weft.errors import MemoryLimitError
from weft.fun import nodes as fun
from weft.plan.code import Rates, StageCode
from weft.plan.nodes import ArrayForm, Input
from weft.plan.protocols import Sink, is_source
from weft.plan.segment import Layout
from weft.records import dataclass

if TYPE_CHECKING:
    from weft.plan.one_by_one import PlanPart

BOX_BYTES = 32 << 20
"""The data of one box: long enough that its overheads vanish, short enough to interrupt."""

ALLOWANCE = 24 << 20
"""Bytes that a run may take besides arrays: code, stacks, Python objects."""

_LEAST_CHUNK = 64 << 10


def chunk_bytes(limit: int, of_devices: Iterable[int] = ()) -> int:
    """The most bytes of a chunk of a result for which none was chosen.

    Boxes are of whole chunks: with what they are made of, several have to fit the limit, and those
    of devices, at once.
    """
    return max(min((limit - ALLOWANCE, *of_devices)) // 16, _LEAST_CHUNK)


class Compile(Protocol):
    """How the code of a stage is made; see `weft.launch.stage.stage_code`."""

    def __call__(
        self, program: fun.Program, layouts: tuple[Layout, ...], private: Sequence[str] = (), /
    ) -> StageCode: ...


@dataclass(frozen=True, slots=True)
class Processor:
    """One of several devices that boxes are spread over.

    Attributes
    ----------
    device : str
    kind : str
        Devices of one kind are expected to be equally fast.
    is_host : bool
        Whether it is the CPU, or some of its cores.
    threads : int
    compile : callable
    limit : int or None
        Bytes of the host's memory for its boxes; None for no limit of its own.
    rates : callable, optional
        () -> the rates of a device with memory of its own.
    """

    device: str
    kind: str
    is_host: bool
    threads: int
    compile: Compile
    limit: int | None = None
    rates: Callable[[], Rates] | None = None


@dataclass(frozen=True, slots=True)
class Setting:
    """What a stage is scheduled for.

    Attributes
    ----------
    inputs : mapping of str to Input
    sinks : mapping of str to list of (Sink or None)
        For each result of the program, where it goes.
    limit : int
        Bytes for everything that is allocated, the fixed `allowance` already taken off.
    box_bytes : int, optional
        The most data that one box should touch; by default `BOX_BYTES`, on a device any.
    processors : tuple of Processor
        The devices that boxes are spread over, where they are several.
    apart : callable, optional
        What compiles a stage that a device has refused, given its error: for the host.
    rates : Rates, optional
        Of the device that computes boxes, if it is not the host.
    reads : int
        What of the `allowance` sources need to decode chunks.
    plan_part : PlanPart, optional
        How a round of a loop is planned.
    spared : set of str, optional
        Where it is there, boxes that copy all there is to a device many times over are refused, as
        those are that do not fit, and what they compute is added to it.
    """

    inputs: Mapping[str, Input]
    sinks: Mapping[str, list[Sink | None]]
    limit: int
    threads: int
    compile: Compile
    box_bytes: int | None = None
    allowance: int = 0
    processors: tuple[Processor, ...] = ()
    apart: Callable[[MemoryLimitError], Compile] | None = None
    rates: Rates | None = None
    reads: int = 0
    plan_part: PlanPart | None = None
    spared: set[str] | None = None

    @property
    def on_device(self) -> bool:
        """Whether a device with memory of its own computes boxes."""
        return self.rates is not None or any(not p.is_host for p in self.processors)

    def of_one(self, processor: Processor | None = None) -> Setting:
        """For one of the devices that boxes are spread over, or for who computes alone.

        Whether that one has memory of its own is not to be taken from the others.
        """
        if processor is None:
            return replace(self, processors=())
        rates = None if processor.is_host else self.rates
        return replace(
            self, compile=processor.compile, threads=processor.threads, rates=rates,
            processors=(processor,),
        )  # fmt: skip


def form_in_memory(value: Input) -> ArrayForm | None:
    """How the input lies in addressable memory, if it does."""
    if isinstance(value, ArrayForm):
        return value
    array = value.direct() if is_source(value) else np.asarray(value)
    return None if array is None else ArrayForm.of(array)
