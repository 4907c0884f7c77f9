"""`in` and `not in`, where only running the program tells: whether some element is equal."""

from __future__ import annotations

import ast
from typing import Any

from weft import functions
from weft.array import Array
from weft.kernel.frame import Frame
from weft.kernel.maybe import is_number
from weft.kernel.sequences import both, either, equal, equal_numbers, holds_arrays


def contains(frame: Frame, node: ast.AST, elements: Any, value: Any) -> Any:
    """`value in elements`: a bool, or a boolean scalar that is traced."""
    if isinstance(elements, range) and is_number(value):
        return _in_range(elements, value)
    if isinstance(elements, tuple | list) and not holds_arrays((elements, value)):
        return either(equal(element, value) for element in elements)
    if isinstance(elements, Array) and elements.ndim and is_number(value):
        return functions.any(equal_numbers(elements, value))
    frame.refuse(
        node, f"`in` of a {type(elements).__name__}, by what only the run knows",
        "a number in a range, in an array, or in a tuple or list of numbers", "np.any(x == y)",
    )  # fmt: skip


def _in_range(numbers_of: range, value: Any) -> Any:
    if not numbers_of:
        return False
    ends = sorted((numbers_of[0], numbers_of[-1]))
    steps = (value - numbers_of.start) % abs(numbers_of.step)
    return both((value >= ends[0], value <= ends[1], equal_numbers(steps, 0)))
