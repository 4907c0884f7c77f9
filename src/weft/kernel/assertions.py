"""Assertions that only running a kernel decides: its program gives the first that failed.

Programs have no exceptions, and an assertion may stand in any loop or branch. So each has a
number, and a cell that loops and branches carry like arrays holds the least of those that failed:
a reduction, which leaves loops parallel.
"""

from __future__ import annotations

import ast
from typing import Any

import numpy as np

from weft.array import Array
from weft.errors import Place
from weft.frontend.elementwise import apply
from weft.frontend.graph import scalar_constant
from weft.kernel.values import Cell, Memory
from weft.ops.dtypes import DType

_NONE = int(np.iinfo(np.int64).max)


class Assertions:
    """Those of the calls that are interpreted into one program."""

    def __init__(self) -> None:
        self._cell: Cell | None = None
        self._numbers: dict[Place, int] = {}
        self._texts: list[tuple[str | None, Place]] = []

    def note(self, memory: Memory, held: Array, message: str | None, place: Place) -> None:
        """Let the program note that an assertion failed, unless it held."""
        if self._cell is None:
            self._cell = Cell(Array(scalar_constant(_NONE, DType.I64)), 0, name="failed")
        if place not in self._numbers:  # a body that is traced again has it again
            self._numbers[place] = len(self._texts)
            self._texts.append((message, place))
        none, own = (scalar_constant(n, DType.I64) for n in (_NONE, self._numbers[place]))
        number = apply("where", held._node, none, own)
        memory.write(self._cell, Array(apply("minimum", self._cell.array._node, number)))

    def none_failed(self) -> Array | None:
        """Whether none has failed so far; None where there are none.

        A loop that goes on until something is true may never end once one has failed.
        """
        if self._cell is None:
            return None
        none = scalar_constant(_NONE, DType.I64)
        return Array(apply("equal", self._cell.array._node, none))

    def outcome(self) -> tuple[Any, ...]:
        """What the program gives beside its results: what failed, and these assertions."""
        return () if self._cell is None else (self._cell.array, self)

    def require(self, failed: Any) -> None:
        """Raise the error of the assertion that failed, if one did."""
        if int(failed) != _NONE:
            raise failure(*self._texts[int(failed)])


def failure(message: str | None, place: Place) -> AssertionError:
    """Python's error, with a note of where the assertion stands."""
    error = AssertionError() if message is None else AssertionError(message)
    error.add_note(f"at {place}: {place.excerpt()}")
    return error


def message_of(node: ast.Assert) -> str | None:
    """The message; of one that is computed, its source."""
    if node.msg is None:
        return None
    return str(node.msg.value) if isinstance(node.msg, ast.Constant) else ast.unparse(node.msg)
