"""Loops whose rounds are done one by one: what each round runs, and what it takes and gives."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import numpy.typing as npt

from weft.plan.code import HostCode, Wholes
from weft.plan.nodes import Input, Plan, PlannedStage
from weft.plan.protocols import Box, Sink
from weft.records import dataclass
from weft.sizes import Derived, Size

if TYPE_CHECKING:
    from typing import Self

Replan: TypeAlias = Callable[[int, Mapping[str, Input], Sequence[Sink | None]], Plan]


class Buffer:
    """An array in memory that a round writes."""

    chunks: tuple[int, ...] | None = None

    def __init__(self, array: npt.NDArray[Any]) -> None:
        self._array = array
        self.shape, self.dtype = array.shape, array.dtype

    @classmethod
    def like(cls, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Self:
        """One that stands for those of a shape and dtype, without memory."""
        return cls(np.broadcast_to(np.empty((), dtype), shape))

    def direct(self) -> npt.NDArray[Any]:
        return self._array

    def write(self, box: Box, data: npt.NDArray[Any]) -> None:
        np.copyto(self._array[box], data)

    def done(self, box: Box) -> bool:
        return False

    def finish(self) -> None:
        pass

    def abort(self) -> None:
        pass

    def describe(self) -> str:
        return "memory"


@dataclass(frozen=True, slots=True)
class Part:
    """A program that rounds run, planned without its data.

    Attributes
    ----------
    params : tuple of str
        What it takes, by the names of the whole program, and of what its loop carries.
    plan : Plan or None
        Of the first round; None where there is none, or only running tells which that is.
    replan : callable, optional
        (number of a round, inputs, sinks) -> plan of that round, where sizes tell it apart.
    """

    params: tuple[str, ...]
    plan: Plan | None
    replan: Replan | None = None

    @property
    def stages(self) -> tuple[PlannedStage, ...]:
        """Those of the plan, where there is one."""
        return () if self.plan is None else self.plan.stages

    @property
    def peak(self) -> int:
        """Bytes that are allocated while it runs."""
        return max((stage.peak_bytes for stage in self.stages), default=0)


@dataclass(frozen=True, slots=True)
class Carried:
    """An array or a scalar that a loop carries.

    Attributes
    ----------
    name, result : str
        What a round calls it, and what it is called in the end.
    begins : str or scalar
        The array or scalar that it begins as, by its name; or a constant; "" where `Rounds.begin`
        gives it.
    shape, dtype
        () for a scalar.
    makes : int or None
        The result of a round that it becomes; None for what a round carries on as it was,
    kept : int
        perhaps as another: the number of what it was.
    spilled : bool
        Whether it lies in a scratch file.
    """

    name: str
    result: str
    begins: Any
    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    makes: int | None
    kept: int
    spilled: bool

    @property
    def bytes(self) -> int:
        """Of an array; none of a scalar."""
        return math.prod(self.shape) * self.dtype.itemsize if self.shape else 0


@dataclass(frozen=True, slots=True)
class Rounds:
    """A loop whose rounds are done one by one.

    Attributes
    ----------
    carried : tuple of Carried
    bounds : (Size, Size), or None
        The first round and the end of them; None: as long as `condition` holds.
    count : int or None
        How many there are, where that is known.
    index : str
        The parameter of a round that is its number; "" where none is.
    begin : Part, optional
        Gives what is carried that begins as what lies in no memory of its own.
    condition : Part, optional
    round : Part
    donated : tuple of str
        Arrays that no stage needs after this one: memory for those that it makes.
    sizes : mapping of str to int
        Those that the bounds are made of, as far as they are known.
    """

    carried: tuple[Carried, ...]
    bounds: tuple[Size, Size] | None
    count: int | None
    index: str
    begin: Part | None
    condition: Part | None
    round: Part
    donated: tuple[str, ...]
    sizes: Mapping[str, int]

    @property
    def peak(self) -> int:
        """Bytes that a round allocates, besides what the loop carries."""
        parts = (self.begin, self.condition, self.round)
        return max(part.peak for part in parts if part is not None)

    @property
    def stages(self) -> list[PlannedStage]:
        """Those of all parts."""
        parts = (self.begin, self.condition, self.round)
        return [stage for part in parts if part is not None for stage in part.stages]

    @property
    def times(self) -> int:
        """How many rounds there are; where only running them tells, one."""
        return 1 if self.count is None else self.count


class OwnCode(HostCode):
    """The code of a loop whose rounds have code of their own."""

    integers: tuple[str, ...] = ()
    derived: tuple[Derived, ...] = ()
    workspace: Size | None = None

    def __init__(self, kernels: tuple[str, ...]) -> None:
        self.kernels = kernels

    def run(self, *arguments: Any) -> None:
        """Rounds are run by plans of their own."""

    def check(self, values: Mapping[str, Any], wholes: Wholes) -> None:
        """Those check what they read."""
