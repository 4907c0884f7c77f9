"""A call with packed arguments: what it transfers, and how it runs."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from weft.fun import nodes as fun
from weft.launch.computation import Computation
from weft.ops.dtypes import DType
from weft.plan.nodes import size_text
from weft.records import dataclass
from weft.runtime.incore import derive
from weft.runtime.memory import host_pool
from weft.transfer.groups import Group
from weft.transfer.guarded import Guarded
from weft.transfer.packing import memory_of, pack
from weft.transfer.regions import Part
from weft.transfer.trapezoids import unpack

NDArray: TypeAlias = npt.NDArray[Any]
Run: TypeAlias = Callable[
    [Computation, Mapping[str, int], Sequence[Any], Sequence[NDArray | None] | None], list[Any]
]


@dataclass(frozen=True, slots=True)
class Piece:
    """A packed argument: a union of elements of the memory that some inputs share."""

    group: Group
    inputs: tuple[int, ...]
    dtype: DType

    @property
    def bytes(self) -> int:
        return self.group.union.count * self.dtype.itemsize


@dataclass(frozen=True, slots=True)
class Updated:
    """A result that is written to parts of an input; `values`: packed results, or constants.

    `guards`: of parts of which only a trapezoid is written.
    """

    parts: tuple[Part, ...]
    values: tuple[int | fun.Const, ...]
    guards: tuple[Guarded | None, ...]

    @property
    def is_plain(self) -> bool:
        """Whether it is one part, all of which a packed result is."""
        return len(self.parts) == 1 and isinstance(self.values[0], int) and self.guards == (None,)


@dataclass(frozen=True, slots=True)
class PackedCall:
    """A computation on packed arguments, for arguments that lie as when it was made.

    Attributes
    ----------
    computation : Computation
    sizes : dict of str to int
    """

    computation: Computation
    sizes: dict[str, int]
    origins: tuple[int | Piece, ...]
    results: tuple[int | Updated, ...]
    instead: int  # bytes that the inputs have which are not transferred whole

    def bytes(self, given: Sequence[NDArray]) -> int:
        """What the packed arguments and results take."""
        known = derive(self.sizes, self.computation.program.derived)
        total = sum(
            given[origin].nbytes if isinstance(origin, int) else origin.bytes
            for origin in self.origins
        )
        for atom in self.computation.results:
            if isinstance(atom.type, fun.Array):
                shape = (extent.evaluate(known) for extent in atom.type.shape)
                total += math.prod(shape) * atom.type.dtype.itemsize
        return total

    @property
    def reads_packed_alone(self) -> bool:
        """Whether every array is packed in the order in which a trapezoid's iterations read it."""
        return all(
            isinstance(origin, Piece) and origin.group.union.kind == "trapezoid"
            for origin, is_array in zip(self.origins, self.computation.is_array, strict=True)
            if is_array
        )

    def inputs(self, given: Sequence[NDArray]) -> list[NDArray]:
        """The arguments of the packed computation, in the memory of the host."""
        found = []
        for origin in self.origins:
            if isinstance(origin, int):
                found.append(given[origin])
            else:
                memory = memory_of([given[number] for number in origin.inputs])
                found.append(pack(origin.group.union, memory, host_pool().empty))
        return found

    def call(
        self, run: Run, given: Sequence[NDArray], out: Sequence[NDArray | None] | None
    ) -> list[Any]:
        """What the computation gives, with the parts of inputs that it updates written."""
        inputs = self.inputs(given)
        if out is None:
            return run(self.computation, self.sizes, inputs, None)
        places: list[NDArray | None] = [None] * len(self.computation.results)
        for number, result in enumerate(self.results):
            if isinstance(result, int):
                places[result] = out[number]
            elif result.is_plain:
                target = out[number]
                assert target is not None
                assert isinstance(result.values[0], int)
                view = target[(*result.parts[0], ...)]
                if view.ndim == _rank(self.computation.results[result.values[0]]):
                    places[result.values[0]] = view
        # Parts that are updated are copied, not seen where they lie: a run may fail when some of
        # its results are there, and another begins from what there was.
        inputs = [_apart_from(array, places) for array in inputs]
        values = run(self.computation, self.sizes, inputs, places)
        found: list[Any] = []
        for number, result in enumerate(self.results):
            if isinstance(result, int):
                found.append(values[result])
                continue
            target = out[number]
            assert target is not None
            for part, value, guard in zip(
                result.parts, result.values, result.guards, strict=True
            ):
                if isinstance(value, fun.Const):
                    target[part] = value.value
                elif guard is not None:
                    axes = guard.row, guard.column
                    unpack(guard.trapezoid, values[value], target[part], axes)
                elif places[value] is None:
                    target[part] = values[value]
            found.append(target)
        return found

    def lines(self) -> list[str]:
        """What is transferred, in words."""
        names = self.computation.names
        found = []
        for name, origin in zip(names, self.origins, strict=True):
            if isinstance(origin, int):
                continue
            union = origin.group.union
            shape = " x ".join(map(str, union.shape))
            found.append(
                f"transfers {name}: {len(origin.group.members)} accesses, {union.kind}, "
                f"{shape} {origin.dtype.numpy.name}, {size_text(origin.bytes)}"
            )
        if found:
            found.append(f"instead of {size_text(self.instead)} of whole arguments")
        for result in self.results:
            if isinstance(result, Updated):
                found.append(f"copies back {_parts(result)} alone of an argument")
        return found


def _apart_from(array: NDArray, places: Sequence[NDArray | None]) -> NDArray:
    """A packed argument, or a copy of it where results are written to what it is a view of."""
    if array.flags.writeable or not any(
        place is not None and np.may_share_memory(array, place) for place in places
    ):
        return array
    copy = host_pool().empty(array.shape, array.dtype)
    np.copyto(copy, array)
    return copy


def _rank(atom: fun.Atom) -> int:
    type_ = atom.type if isinstance(atom, fun.Var) else None
    return len(type_.shape) if isinstance(type_, fun.Array) else 0


def _parts(result: Updated) -> str:
    return " and ".join(
        ("" if guard is None else f"{guard.trapezoid.count} elements of ")
        + "[" + ", ".join(
            str(dim) if isinstance(dim, int) else f"{dim.start}:{dim.stop}:{dim.step}"
            for dim in part
        ) + "]"
        for part, guard in zip(result.parts, result.guards, strict=True)
    )  # fmt: skip
