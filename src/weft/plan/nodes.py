"""Plans: stages, windows, boxes, and what they cost. Data only; no IR is looked into.

A `Stage` is a FUN program that computes one box at a time: its array parameters are
windows of larger arrays, and its own index ranges are size variables whose names begin
with "box". A `Plan` holds the stages with their boxes: numbers, one for each box.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from weft.plan.code import FlankPlace, StageCode
from weft.plan.protocols import Sink, Source
from weft.records import dataclass

if TYPE_CHECKING:
    from weft.plan.rounds import Rounds

Numbers: TypeAlias = npt.NDArray[np.int64]  # one element for each box
Where: TypeAlias = Literal["direct", "staged", "resident"]
Cut: TypeAlias = tuple[int, str, str]
"""An axis of an array, and the size variables of the range of its indices that a box has."""


class SeveralStages(Exception):  # noqa: N818 (a signal: such a plan is of no use)
    """A plan of one stage was asked for, and there is none."""


@dataclass(frozen=True, slots=True)
class ArrayForm:
    """All that a plan needs to know of an array in memory: how it lies, and none of its elements.

    (An array over other memory with such strides would be one that nobody may look at, and errors
    keep what they passed by.)
    """

    shape: tuple[int, ...]
    strides: tuple[int, ...]
    dtype: np.dtype[Any]
    is_contiguous: bool

    @staticmethod
    def of(array: npt.NDArray[Any]) -> ArrayForm:
        """How an array lies."""
        return ArrayForm(array.shape, array.strides, array.dtype, array.flags.c_contiguous)

    @property
    def itemsize(self) -> int:
        """Bytes of an element."""
        return self.dtype.itemsize


Input: TypeAlias = (
    Source | npt.NDArray[Any] | ArrayForm | np.generic | bool | int | float | complex
)


@dataclass(frozen=True, slots=True)
class Window:
    """A parameter of a stage: elements `lower <= i < upper` along `axis` of `array`.

    `axis` is None, and the names empty, where the stage takes the array whole. Tiles are cut
    along `more` axes.
    """

    name: str
    array: str
    axis: int | None = None
    lower: str = ""
    upper: str = ""
    more: tuple[Cut, ...] = ()

    @property
    def cuts(self) -> tuple[Cut, ...]:
        """Every axis along which boxes have parts."""
        return () if self.axis is None else ((self.axis, self.lower, self.upper), *self.more)

    @property
    def last(self) -> int | None:
        """The last axis along which boxes have parts."""
        return max((axis for axis, _, _ in self.cuts), default=None)


@dataclass(frozen=True, slots=True)
class Output:
    """A result of a stage: `array`, computed for `lower <= i < upper` along `axis`.

    `axis` is None for what one box computes whole. `carry` names the parameter that takes
    the value to the next box; after the last box it is the value of `array`. Tiles are cut
    along `more` axes.
    """

    array: str
    axis: int | None = None
    lower: str = ""
    upper: str = ""
    carry: str = ""
    more: tuple[Cut, ...] = ()

    @property
    def cuts(self) -> tuple[Cut, ...]:
        """Every axis along which boxes have parts."""
        return () if self.axis is None else ((self.axis, self.lower, self.upper), *self.more)

    @property
    def last(self) -> int | None:
        """The last axis along which boxes have parts."""
        return max((axis for axis, _, _ in self.cuts), default=None)


@dataclass(frozen=True, slots=True)
class Flank:
    """What boxes that lean leave to the next: a parameter and, updated, a result.

    Before the first box it holds anything; or in all elements what `begins` names, where boxes of
    scans side by side leave what each hands on.
    """

    name: str
    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    begins: str = ""

    @property
    def bytes(self) -> int:
        return math.prod(self.shape) * self.dtype.itemsize


@dataclass(frozen=True, slots=True)
class Stage:
    """A program that computes one box.

    Attributes
    ----------
    program : fun.Program
        Opaque here; `compile` and the interpreter take it.
    windows : tuple of Window
        One for each parameter of the program that is not carried, in order.
    carries : tuple of (str, str)
        Parameters after those, with the array or scalar that each begins as.
    outputs : tuple of Output
        One for each result, in order.
    ranges : tuple of (str, str, str)
        For each statement cut: a name to show, and the size variables of its range.
    reason : str
        Why the stage is cut as it is, and why it is not one with the stage before.
    flanks : tuple of Flank
        Parameters after those that are carried; their outputs, which are of no array, `carry`
        their names.
    """

    program: Any
    windows: tuple[Window, ...]
    carries: tuple[tuple[str, str], ...]
    outputs: tuple[Output, ...]
    ranges: tuple[tuple[str, str, str], ...] = ()
    reason: str = ""
    flanks: tuple[Flank, ...] = ()

    def flank_places(self) -> list[FlankPlace]:
        """Where a box takes its flanks, and where it leaves them."""
        outputs = {output.carry: number for number, output in enumerate(self.outputs)}
        first = len(self.windows) + len(self.carries)
        return [
            FlankPlace(number, outputs[flank.name], flank.bytes)
            for number, flank in enumerate(self.flanks, first)
        ]

    @property
    def in_order(self) -> bool:
        """Whether a box needs what the one before it gives."""
        return bool(self.carries or self.flanks)


@dataclass(frozen=True, slots=True)
class Boxes:
    """The boxes of a stage, as numbers.

    `values` gives each size variable that begins with "box" its value in each box; `owned`
    gives for each output the part of its window that belongs to the box (halos belong to
    the neighbours). `around` gives for windows that wrap around how many indices along their
    axis are read, at both ends of it.
    """

    count: int
    values: Mapping[str, Numbers]
    owned: tuple[tuple[Numbers, Numbers], ...]
    unit: str = ""  # what a box is made of, for `explain`
    extent: int = 0  # of a full box, in that unit
    total: int = 0  # of all of them
    spans: tuple[tuple[int, int], ...] = ()  # of each, along that coordinate
    around: Mapping[str, Numbers] = field(default_factory=dict)

    @property
    def are_alike(self) -> bool:
        """Whether all but the last are as long."""
        return all(stop - start == self.extent for start, stop in self.spans[:-1])


@dataclass(frozen=True, slots=True)
class OneBox:
    """A box that a device takes while a stage runs.

    Attributes
    ----------
    boxes : Boxes
        It alone.
    integers : ndarray of int64, (len(code.integers),)
    staging, workspace : int
        Bytes of what is read or written apart from being computed, and of what computing takes.
    """

    boxes: Boxes
    integers: npt.NDArray[np.int64]
    staging: int
    workspace: int


@dataclass(frozen=True, slots=True)
class Share:
    """What one of several devices does of a stage: boxes that it takes as it has time.

    Attributes
    ----------
    device : str
    code : StageCode
        The stage, compiled for it.
    kind : str
        Devices of one kind are expected to be equally fast.
    threads : int
        Of the host, that compute a box.
    slots : int
        How many boxes it has under way at once.
    largest : int
        The most that a box of it may have, in the coordinate along which boxes are cut.
    host_bytes, device_bytes : int
        The most that a box of it takes of the host's memory, and of its own.
    plan : callable
        (start, stop) -> that box.
    seconds, serial_seconds : float
        How long it would take for all boxes, predicted; and were nothing done beside anything else.
    measured : Measured
        What it did when the stage last ran.
    """

    device: str
    code: StageCode
    kind: str
    threads: int
    slots: int
    largest: int
    host_bytes: int
    device_bytes: int
    plan: Callable[[int, int], OneBox]
    seconds: float = 0.0
    serial_seconds: float = 0.0
    measured: Measured = field(default_factory=lambda: Measured(), compare=False)


@dataclass(frozen=True, slots=True)
class Tiles:
    """Boxes cut along several axes, one after another so that neighbours share what they can.

    Attributes
    ----------
    shape : tuple of int
        The extent of a full tile along each axis of the result that may be cut.
    order : tuple of int
        The axes along which there are several tiles, that along which neighbours follow last.
    stays : tuple of (ndarray of bool, or None)
        For each window, which boxes find it as the box before had it. None where no box does.
    buffers : tuple of int
        How many of each such window are on the device at once: with two, the next is copied
        while the boxes before are computed.
    bytes_in : int
        Copied to the device, by all tiles.
    slabs : int or None
        The bytes that boxes cut along one axis would move; None where none fit.
    parts : tuple of (ndarray of int, or None)
        For each window, which part of the array each box has, where several have the same. Known
        for boxes that devices share: each keeps what the next of its boxes reads again.
    """

    shape: tuple[int, ...]
    order: tuple[int, ...]
    stays: tuple[npt.NDArray[np.bool_] | None, ...]
    buffers: tuple[int, ...]
    bytes_in: int = 0
    slabs: int | None = None
    parts: tuple[npt.NDArray[np.int64] | None, ...] = ()


@dataclass(slots=True)
class Measured:
    """The throughput of a device: coordinates in a second, 0 before it has done any."""

    rate: float = 0.0


@dataclass(frozen=True, slots=True)
class PlannedStage:
    """A stage with its boxes, code and costs.

    Attributes
    ----------
    where : tuple of str
        For each window: "direct" (addressed where it lies), "staged" (read into buffers box
        by box) or "resident" (in memory since an earlier stage).
    input_bytes, output_bytes : tuple of int
        The largest window of each parameter and result, of one buffer.
    workspace : int
        Bytes of the largest workspace.
    depth : int
        How many boxes have staging buffers at once.
    slots : int
        How many boxes are in flight on a device.
    device_bytes : int
        What they take of its memory, together.
    copied : (int, int)
        Bytes that boxes along one axis copy to a device, and from it.
    launches : int
        Of a box on a device: of its kernels those that suit its sizes.
    seconds : float
        How long it takes, predicted.
    serial_seconds : float
        How long with one box after another; of several devices, on the first of them alone.
    peak_bytes : int
        All that is allocated while this stage runs, resident arrays included.
    bytes_written : int
        Moved to results.
    integers : ndarray of int64, (boxes, len(code.integers))
    loads : tuple of str
        Inputs without an address that are read whole before the stage begins.
    kept : tuple of str
        Results that get an array of their own, whole, in memory.
    spilled : tuple of str
        Those of them that are in scratch files instead.
    freed : tuple of str
        Arrays in memory that no later stage needs.
    kernels : tuple of str
        One line for each, for `explain`.
    read : mapping of str to int
        Bytes moved from each input.
    held : int
        Bytes of the arrays that are in memory whole.
    kept_rows : tuple of (ndarray or None)
        For each staged window, how much of the beginning of each box's window is already in
        the buffer of the box before (halos are read once).
    shares : tuple of Share
        The devices that the boxes are spread over; empty where `code` computes them all.
    unit, least : int
        What bounds of boxes are multiples of, and the least that is worth a box of its own.
    usual : int
        The least that a device takes before it is known how quick it is.
    at_once : float
        How much of what would be its part of what is left a device takes as its next box.
    abreast : int
        How many boxes are computed at once, each by one thread that also writes it to files;
        0: one after another, each by all threads.
    workspaces : int
        How many there are: of boxes that are computed at once, or written out of theirs.
    smaller : PlannedStage, optional
        The stage with boxes half as large, for a device that has less memory than it seemed.
    tiles : Tiles, optional
        How boxes are cut along several axes; None where they are cut along one.
    rounds : Rounds, optional
        A loop whose rounds are done one by one, each by stages of its own; the boxes are theirs.
    """

    stage: Stage
    boxes: Boxes
    code: StageCode
    where: tuple[Where, ...]
    input_bytes: tuple[int, ...]
    output_bytes: tuple[int, ...]
    workspace: int
    depth: int
    peak_bytes: int
    bytes_written: int
    integers: npt.NDArray[np.int64]
    loads: tuple[str, ...] = ()
    kept: tuple[str, ...] = ()
    freed: tuple[str, ...] = ()
    spilled: tuple[str, ...] = ()
    kernels: tuple[str, ...] = ()
    remarks: tuple[str, ...] = ()
    read: Mapping[str, int] = field(default_factory=dict)
    held: int = 0
    kept_rows: tuple[Numbers | None, ...] = ()
    slots: int = 1
    device_bytes: int = 0
    copied: tuple[int, int] = (0, 0)
    launches: int = 0
    shares: tuple[Share, ...] = ()
    unit: int = 1
    least: int = 1
    usual: int = 1
    seconds: float = 0.0
    serial_seconds: float = 0.0
    at_once: float = 0.5
    abreast: int = 0
    workspaces: int = 1
    smaller: PlannedStage | None = None
    tiles: Tiles | None = None
    rounds: Rounds | None = None

    @property
    def bytes_read(self) -> int:
        return sum(self.read.values())

    @property
    def codes(self) -> tuple[StageCode, ...]:
        """What runs boxes of it: that of each device that takes some."""
        return tuple(share.code for share in self.shares) or (self.code,)

    @property
    def on_device(self) -> bool:
        """Whether a device computes boxes of it, or several take them."""
        if self.rounds is not None:
            return any(stage.on_device for stage in self.rounds.stages)
        return self.code.device is not None or bool(self.shares)


@dataclass(frozen=True, slots=True)
class Value:
    """An array or scalar of the plan: a parameter, or what a stage gives to others."""

    name: str
    dtype: np.dtype[Any]
    shape: tuple[int, ...]

    @property
    def bytes(self) -> int:
        total = self.dtype.itemsize
        for extent in self.shape:
            total *= extent
        return total

    def __str__(self) -> str:
        return f"{self.name}: {self.dtype} {list(self.shape)}, {size_text(self.bytes)}"


@dataclass(frozen=True, slots=True)
class Plan:
    """Everything that is decided before anything runs.

    Attributes
    ----------
    stages : tuple of PlannedStage
    values : mapping of str to Value
        Parameters and all that stages give.
    inputs : mapping of str to Input
        What each parameter is.
    results : tuple of str
        The names of the program's results, in order (of values or of constants).
    sinks : tuple of (Sink or None)
        Where each result goes; None for a new array in memory.
    constants : mapping of str to object
        Results that are constants, and what carries begin with.
    peak_bytes : int
        An upper bound of what running the plan allocates.
    limit : int
        The limit it was made for.
    transfers : tuple of str
        What goes to a device packed, and comes back in part: one line each.
    """

    name: str
    stages: tuple[PlannedStage, ...]
    values: Mapping[str, Value]
    inputs: Mapping[str, Input]
    results: tuple[str, ...]
    sinks: tuple[Sink | None, ...]
    peak_bytes: int
    limit: int
    constants: Mapping[str, Any] = field(default_factory=dict)
    threads: int = 1
    transfers: tuple[str, ...] = ()

    @property
    def bytes_read(self) -> int:
        return sum(stage.bytes_read for stage in self.stages)

    @property
    def bytes_written(self) -> int:
        return sum(stage.bytes_written for stage in self.stages)

    @property
    def seconds(self) -> float:
        """How long running the plan takes, predicted."""
        return sum(stage.seconds for stage in self.stages)

    @property
    def bytes_moved(self) -> int:
        """Bytes read from inputs and written to results, over all stages."""
        return self.bytes_read + self.bytes_written


def guided(wanted: float, unit: int, least: int, most: int) -> int:
    """The extent of the next box of a device that takes a part of what is left.

    A multiple of `least` (itself one of `unit`), where that is not more than `most`.

    Guided self-scheduling (Polychronopoulos and Kuck, 1987). Boxes of unbalanced work are half
    as large as there, so that the first ones do not outlast all others.
    """
    step = min(least, max(most // unit * unit, unit))  # few bounds, so that boxes come again
    return max(int(min(wanted, most)) // step, 1) * step


def memory_sink(sinks: Sequence[Sink | None]) -> Sink | None:
    """The sink in whose memory a result is computed, of those that take it.

    None where there is none, or where the result also becomes a new array (None in `sinks`).
    """
    if any(sink is None for sink in sinks):
        return None
    return next((s for s in sinks if s is not None and s.direct() is not None), None)


def size_text(count: float) -> str:
    """A number of bytes for people."""
    for unit in ("B", "KiB", "MiB", "GiB", "TiB"):
        if abs(count) < 1024 or unit == "TiB":
            break
        count /= 1024
    return f"{count:.0f} {unit}" if unit == "B" or count >= 99.95 else f"{count:.1f} {unit}"


def duration_text(seconds: float) -> str:
    """A time for people."""
    for factor, unit in ((1.0, "s"), (1e-3, "ms")):
        if seconds >= factor:
            return f"{seconds / factor:.3g} {unit}"
    return f"{seconds * 1e6:.3g} us"
