"""`in` and `not in`, where only running the program tells: whether some element is equal."""

from __future__ import annotations

import ast
import functools
import operator
from collections.abc import Iterable
from typing import Any

from weft import functions
from weft.array import Array, node_of
from weft.frontend.elementwise import apply
from weft.kernel import numbers
from weft.kernel.frame import Frame
from weft.kernel.maybe import is_number


def contains(frame: Frame, node: ast.AST, elements: Any, value: Any) -> Any:
    """`value in elements`: a bool, or a boolean scalar that is traced."""
    if isinstance(elements, range) and is_number(value):
        return _in_range(elements, value)
    if isinstance(elements, tuple | list) and not _holds_arrays((elements, value)):
        return _either(_equal(element, value) for element in elements)
    if isinstance(elements, Array) and elements.ndim and is_number(value):
        return functions.any(_equal_numbers(elements, value))
    frame.refuse(
        node, f"`in` of a {type(elements).__name__}, by what only the run knows",
        "a number in a range, in an array, or in a tuple or list of numbers", "np.any(x == y)",
    )  # fmt: skip


def _in_range(numbers_of: range, value: Any) -> Any:
    if not numbers_of:
        return False
    ends = sorted((numbers_of[0], numbers_of[-1]))
    steps = (value - numbers_of.start) % abs(numbers_of.step)
    return _all((value >= ends[0], value <= ends[1], _equal_numbers(steps, 0)))


def _equal(first: Any, second: Any) -> Any:
    if isinstance(first, tuple | list) and type(first) is type(second):
        if len(first) != len(second):
            return False
        return _all(map(_equal, first, second))
    if is_number(first) and is_number(second):
        return _equal_numbers(first, second)
    return False if isinstance(first, Array) or isinstance(second, Array) else first == second


def _equal_numbers(first: Any, second: Any) -> Any:
    return operator.eq(*numbers.fitted("equal", (first, second)))


def _holds_arrays(value: Any) -> bool:
    if isinstance(value, tuple | list):
        return any(map(_holds_arrays, value))
    return bool(getattr(value, "ndim", 0))


def _either(truths: Iterable[Any]) -> Any:
    return _combined("logical_or", list(truths), decides=True)


def _all(truths: Iterable[Any]) -> Any:
    return _combined("logical_and", list(truths), decides=False)


def _combined(operation: str, truths: list[Any], decides: bool) -> Any:
    traced = [truth for truth in truths if isinstance(truth, Array)]
    if any(bool(truth) is decides for truth in truths if not isinstance(truth, Array)):
        return decides
    if not traced:
        return not decides
    return Array(functools.reduce(lambda a, b: apply(operation, a, b), map(node_of, traced)))
