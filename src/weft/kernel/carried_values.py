"""What a loop carries: numbers, and arrays by their values."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from weft.array import Array, strong
from weft.frontend import graph
from weft.frontend.elementwise import as_dtype
from weft.frontend.graph import Node, Scope, Shape
from weft.kernel.frame import Origin
from weft.kernel.values import Cell, Reference
from weft.ops.dtypes import DType
from weft.records import dataclass


@dataclass(slots=True)
class Scalar:
    """A number that a loop carries."""

    name: str
    initial: Node
    dtype: DType
    weak: bool
    local: bool = False  # made by the body, and read after the loop

    def node(self) -> Node:
        return (
            strong(self.initial, self.dtype)
            if self.initial.weak
            else as_dtype(self.initial, self.dtype)
        )


@dataclass(slots=True)
class Whole:
    """An array that a loop carries by its value: a variable that each round binds anew."""

    name: str
    initial: Array
    before: Reference | None  # None: made by the body, and read after the loop
    began: Sequence[Origin] = ()  # what it begins with, where others see that too
    bound: Sequence[Origin] = ()  # likewise what a round binds it to
    is_list: bool = False


def parameters(
    scalars: Mapping[str, Scalar], wholes: Mapping[str, Whole], cells: Iterable[Cell], scope: Scope
) -> list[Node]:
    """The parameters of a body: numbers, arrays that are bound anew, and memory."""
    found = []
    for scalar in scalars.values():
        param = graph.parameter(scalar.name, (), scalar.dtype, scope)
        param.weak = scalar.weak
        found.append(param)
    arrays = [(whole.name, whole.initial) for whole in wholes.values()]
    arrays += [(cell.name, cell.array) for cell in cells]
    for name, array in arrays:
        found.append(graph.parameter(name, array._node.shape, array._node.dtype, scope))
    return found


def initial(
    scalars: Mapping[str, Scalar], wholes: Mapping[str, Whole], cells: Iterable[Cell]
) -> list[Node]:
    """What they are in the first round."""
    return [
        *(scalar.node() for scalar in scalars.values()),
        *(whole.initial._node for whole in wholes.values()),
        *(cell.array._node for cell in cells),
    ]


def types(
    scalars: Mapping[str, Scalar], wholes: Mapping[str, Whole], cells: Iterable[Cell]
) -> tuple[tuple[Shape, DType], ...]:
    """Their shapes and dtypes."""
    arrays = [whole.initial for whole in wholes.values()] + [cell.array for cell in cells]
    numbers: list[tuple[Shape, DType]] = [((), scalar.dtype) for scalar in scalars.values()]
    return (*numbers, *((array._node.shape, array._node.dtype) for array in arrays))
