"""What a FUNMEM program costs: allocations, copies and bytes moved, counted by running it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from weft.mem.heap import Costs
from weft.mem.interpret import traced
from weft.mem.nodes import Program

__all__ = ["Costs", "costs"]


def costs(
    program: Program, arguments: Sequence[Any], sizes: Mapping[str, int] | None = None
) -> Costs:
    """What one run of a program costs, counted by the heap interpreter.

    A `Copy`, each part of a `Concat` and an `Update` with an array is a copy each time it is
    executed and its elements are not already in their place; one of no elements is none.
    Of memory of threads one thread's is counted. The slow plain interpreter counts, so
    arguments should be small.

    Parameters
    ----------
    program : Program
    arguments : sequence of ndarray or scalar
        As for `weft.mem.interpret.interpret`.
    sizes : mapping of str to int, optional
        Size variables that no parameter's shape gives.

    Raises
    ------
    InternalError, OutOfBoundsError
        As `weft.mem.interpret.interpret`.
    """
    return traced(program, arguments, sizes or {})[1]
