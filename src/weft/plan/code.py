"""What runs the boxes of a stage, on the host or on a device, as plans know it."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, Protocol, TypeAlias, runtime_checkable

import numpy as np
import numpy.typing as npt

from weft.plan.segment import Inset
from weft.records import dataclass
from weft.sizes import Derived, Size

Wholes: TypeAlias = Mapping[tuple[str, int], tuple[Any, int]]
"""For parameters that are parts of arrays along an axis: where a part begins, for each box or as
an int, and the extent of the array."""


class Pending(Protocol):
    """A box that a device may still be at work on."""

    def pause(self) -> None:
        """Return when the device is done with it; what became of it is for `wait` to tell."""

    def wait(self) -> None:
        """Return when its results are there, or raise what went wrong."""

    def abandon(self) -> None:
        """Return when its arrays are not in use any more, whatever went wrong."""


@dataclass(frozen=True, slots=True)
class FlankPlace:
    """What a box leaves to the next one in a device's memory, which holds anything at first.

    Attributes
    ----------
    input, output : int
        The positions, among those of a box, of what it takes and of what it leaves.
    bytes : int
    """

    input: int
    output: int
    bytes: int


class Held(Protocol):
    """Arrays that stay on a device while boxes that need them come and go."""

    def change(self, number: int, size: int, buffers: int) -> None:
        """The next box brings another part of an input, by its position, for those after it too.

        Of at most so many bytes; so many parts are there at once, and no box under way needs the
        one that goes.
        """

    def release(self) -> None:
        """Give their memory back."""


@dataclass(frozen=True, slots=True)
class Rates:
    """How quick a device is, as measured on it.

    Attributes
    ----------
    copy_in, copy_out, memory : float
        Bytes a second that one queue copies from the host, to it, and that kernels touch.
    launch, box : float
        Seconds of a launch, however small, and of a box besides its launches.
    engines : int
        Copies that run at once, each as quick as one alone.
    beside : bool
        Whether copies run beside kernels, and do not take processors from them.
    operations : float
        Scalar operations that kernels do in a second, on data in registers and caches.
    copy : float
        Seconds of a copy, however small, in which no other runs the same way.
    start : float
        Seconds that a kernel takes the device to begin and to end, however small it is.
    duplex : float
        The part of its rate that a copy has while another goes the other way.
    contracting : float
        The part of `operations` that contractions do at best, of sums of 4 bytes.
    processors : int
        Those that share out the groups of a launch, some of which have none of the last.
    """

    copy_in: float
    copy_out: float
    memory: float
    launch: float
    box: float
    engines: int
    beside: bool
    operations: float = math.inf
    copy: float = 0.0
    start: float = 0.0
    duplex: float = 1.0
    contracting: float = 1.0
    processors: int = 1

    def idle(self, groups: float) -> float:
        """How many times as long so many groups take as if all processors always had some."""
        return math.ceil(groups / self.processors) * self.processors / groups if groups else 1.0

    def copying(self, bytes_in: float, bytes_out: float) -> float:
        """Seconds that so many bytes take each way, both ways at once as long as there are any."""
        ways = bytes_in / self.copy_in, bytes_out / self.copy_out
        return max(ways) + min(ways) * (1 / self.duplex - 1)


class DeviceCode(Protocol):
    """What runs boxes on a device with memory of its own, several at once.

    Attributes
    ----------
    name : str
        Of the device.
    limit : int
        Bytes that all boxes in flight may take there.
    items : int
        Work items of a launch whose items have memory of their own, at most ("threads").
    slots : int or None
        Boxes that are to be in flight; None: as many as is quickest.
    together : int
        Small boxes that the host does best to begin one after another, once as many have ended.
    rates : Rates
        What its time is predicted from.
    """

    @property
    def name(self) -> str: ...

    @property
    def limit(self) -> int: ...

    @property
    def items(self) -> int: ...

    @property
    def slots(self) -> int | None: ...

    @property
    def together(self) -> int: ...

    @property
    def rates(self) -> Rates: ...

    def launches(self, values: Mapping[str, Any]) -> int:
        """How many kernels a box launches."""

    def idle(self, values: Mapping[str, Any]) -> float:
        """How many times as long the largest takes as if no processor waited for the others."""

    def memory(self, values: Mapping[str, Any]) -> Any:
        """Bytes of a box besides its arguments, for sizes that are ints or one for each box."""

    def takes(self, array: npt.NDArray[Any]) -> bool:
        """Whether it copies an array as it lies, and back to there, without packing it."""

    def page_locked(self, results: Sequence[int]) -> int:
        """Bytes of the host's memory that a slot's copies go through: `results` have so many."""

    def hold(
        self, inputs: Mapping[int, npt.NDArray[Any]], flanks: Sequence[FlankPlace] = (),
        room: int = 0,
    ) -> Held:  # fmt: skip
        """Copy inputs, by their positions, that are the same for all boxes; make room for flanks.

        Boxes that are begun with flanks run their kernels one after another. `room`: bytes that
        boxes, and what is held, will take together; what earlier stages left makes way for them.
        """

    def prepare(self, integers: npt.NDArray[np.int64]) -> bool:
        """Compile what a box with these integers needs; whether anything was to be compiled."""

    def start(
        self,
        integers: npt.NDArray[np.int64],
        inputs: Sequence[npt.NDArray[Any]],
        outputs: Sequence[npt.NDArray[Any]],
        held: Any,
        behind: Pending | None = None,
        after: Sequence[Pending] = (),
    ) -> Pending:
        """Begin a box: copies in of what is not held (as `hold` gave it), kernels, copies out.

        `behind`: a box in whose memory it is computed, once that one has ended. None: it has
        memory of its own. `after`: others that have to end before it begins; the device waits for
        them, not the host.
        """


class StageCode(Protocol):
    """What can run a stage on a box: compiled code, or an interpreter.

    Attributes
    ----------
    integers : tuple of str
        The names of the integers that `run` takes: sizes, derived sizes, "threads", and
        strides in elements "<parameter>.stride<d>" where the layouts leave them free.
    derived : tuple of Derived
        How those are computed that its program did not know: sizes of its own memory.
    workspace : Size or None
        Bytes that one run needs besides its arguments (None: the planner estimates it).
    kernels : tuple of str
        One line for each kernel, for `explain`.
    remarks : tuple of str
        One line for each copy and each block of memory that remains, and why.
    device : DeviceCode or None
        What begins boxes on a device instead; None: `run` computes them in the host's memory.
    within : tuple of Inset
        Results that `run` leaves within the workspace, by their numbers.
    strided : bool
        Whether outputs of `run` may be parts of an array, in pieces.
    """

    @property
    def device(self) -> DeviceCode | None: ...

    @property
    def integers(self) -> tuple[str, ...]: ...

    @property
    def derived(self) -> tuple[Derived, ...]: ...

    @property
    def workspace(self) -> Size | None: ...

    @property
    def kernels(self) -> tuple[str, ...]: ...

    @property
    def remarks(self) -> tuple[str, ...]: ...

    @property
    def within(self) -> tuple[Inset, ...]: ...

    @property
    def strided(self) -> bool: ...

    def compile(self) -> None:
        """Make what runs it: of what is planned in the end, and not of all that is tried.

        Raises
        ------
        CompileError
            Where that is refused.
        """

    def run(
        self,
        integers: npt.NDArray[np.int64],
        inputs: Sequence[npt.NDArray[Any]],
        outputs: Sequence[npt.NDArray[Any]],
        workspace: npt.NDArray[np.uint8],
        cancel: Any = None,
    ) -> None:
        """Compute one box. Scalars are arrays of rank 0; outputs are contiguous, or `strided`.

        `cancel`: a flag that, set by another thread, ends it early.
        """

    def check(self, values: Mapping[str, Any], wholes: Wholes) -> None:
        """Raise `OutOfBoundsError` if an access that is known at launch is outside its array.

        `values` holds an int, or one for each box, for every size variable. `wholes`: what
        parameters are parts of, so that errors are about that.
        """


class HostCode:
    """What code that runs in the host's memory has in common."""

    device: DeviceCode | None = None
    remarks: tuple[str, ...] = ()
    within: tuple[Inset, ...] = ()
    strided: bool = False

    def compile(self) -> None:
        """There is nothing to be compiled, as a rule."""


@runtime_checkable
class BoxesCode(Protocol):
    """Stage code of which many boxes run at once, each on one thread."""

    def run_boxes(self, table: Any, cancel: Any) -> None:
        """Compute boxes, and write what they give to files.

        `table` is a `weft.runtime.boxes.Table`; `cancel` a flag that ends it early.
        """
