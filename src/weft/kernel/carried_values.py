"""What a loop carries: numbers, and arrays by their values."""

from __future__ import annotations

from collections.abc import Sequence

from weft.array import Array, strong
from weft.frontend.elementwise import as_dtype
from weft.frontend.graph import Node
from weft.kernel.frame import Origin
from weft.kernel.values import Reference
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
