"""`assert` and `raise` that only running a kernel decides: its program gives the first that failed.

So do Python's own errors, in branches that only the run takes. Programs have no exceptions, and
these may stand in any loop or branch. So each has a number, and a cell that loops and branches
carry like arrays holds the least of those that failed: a reduction, which leaves loops parallel.
"""

from __future__ import annotations

import ast
from copy import copy
from typing import Any

import numpy as np

from weft.array import Array
from weft.errors import Place, WeftError, note_place
from weft.frontend.elementwise import apply
from weft.frontend.graph import scalar_constant
from weft.kernel.values import Cell, Memory
from weft.ops.dtypes import DType

_NONE = int(np.iinfo(np.int64).max)


class Assertions:
    """Those of the calls that are interpreted into one program."""

    def __init__(self) -> None:
        self.may_fill = False  # lists, so that a run is to be begun again with more room
        self._cell: Cell | None = None
        self._numbers: dict[tuple[str, Place], int] = {}
        self._errors: list[tuple[Exception, Place]] = []

    def note(self, memory: Memory, held: Array, error: Exception, place: Place) -> None:
        """Let the program note that an assertion failed, unless it held."""
        if self._cell is None:
            self._cell = Cell(Array(scalar_constant(_NONE, DType.I64)), 0, name="failed")
        number = self._numbers.setdefault((repr(error), place), len(self._errors))
        if number == len(self._errors):  # else a body is traced again
            self._errors.append((placed(error, place), place))
        none, own = (scalar_constant(n, DType.I64) for n in (_NONE, number))
        failed = apply("where", held._node, none, own)
        memory.write(self._cell, Array(apply("minimum", self._cell.array._node, failed)))

    def fail(self, memory: Memory, error: Exception, place: Place) -> None:
        """Let the program note that it came here, where it fails."""
        self.note(memory, Array(scalar_constant(False, DType.BOOL)), error, place)

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
            raise placed(*self._errors[int(failed)])


def placed(error: Exception, place: Place) -> Exception:
    """The error, with a note of where in the user's code it arose."""
    made = copy(error).with_traceback(None)
    made.__cause__ = made.__context__ = None
    if not isinstance(error, WeftError) or error.place is None:
        note_place(made, place)
    return made


def error_of(node: ast.Assert) -> AssertionError:
    """Python's error; with a message that is computed, its source."""
    if node.msg is None:
        return AssertionError()
    if isinstance(node.msg, ast.Constant):
        return AssertionError(node.msg.value)
    return AssertionError(ast.unparse(node.msg))
