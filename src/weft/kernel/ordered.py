"""Lists that Python's `sorted` makes of arrays: arrays in memory, with the operators of lists."""

from __future__ import annotations

import ast
from typing import Any

import numpy as np

from weft import functions
from weft.array import Array, node_of
from weft.frontend import lengths
from weft.kernel.frame import Frame, plain
from weft.kernel.maybe import is_number
from weft.kernel.numbers import weak
from weft.kernel.values import Reference
from weft.ops.dtypes import DType

OF_LISTS = ("append", "extend", "insert", "pop", "remove", "clear", "reverse", "index", "count")
"""Methods of lists that arrays do not have."""


def is_list(value: Any) -> bool:
    """Whether a value is a list that is in memory as an array."""
    return isinstance(value, Reference) and value.cell.is_list and not value.views


def as_list(frame: Frame, node: ast.AST, array: Array) -> Reference:
    """A list of the elements of an array."""
    made = frame.memory.make(array, frame.place(node))
    made.cell.is_list = True
    return made


def by_key(values: Any, key: Any) -> Any:
    """The order in which keys ascend; interpreted as a user's function is."""
    keys = np.array([key(value) for value in values])
    return np.argsort(keys, kind="stable")


def by_key_descending(values: Any, key: Any) -> Any:
    """The order in which they descend, equal ones as they are."""
    keys = np.array([key(value) for value in values])
    return len(keys) - 1 - np.argsort(keys[::-1], kind="stable")[::-1]


def by(frame: Frame, values: Array, key: Any, reverse: bool) -> Array:
    """The elements in the order of what a function gives of each."""
    how = by_key_descending if reverse else by_key
    order = plain(frame.trace.call(frame.trace, how, [frame.memory.make(values), key], {}))
    if order.ndim != 1:
        raise TypeError("a key of several numbers is an argument not supported")
    return functions.take(values, order, axis=0)


def of_lists(frame: Frame, node: ast.AST, op: ast.operator, left: Any, right: Any) -> Any:
    """What an operator gives of such a list and another operand; None where arrays tell."""
    held, other = (left, right) if is_list(left) else (right, left)
    both = all(is_list(value) or type(value) is list for value in (left, right))
    if isinstance(op, ast.Add) and both:
        parts = [_array(value) for value in (left, right) if is_list(value) or value]
        return as_list(frame, node, functions.concat(parts))
    if isinstance(op, ast.Mult) and is_number(other) and not isinstance(other, Array):
        return as_list(frame, node, functions.tile(plain(held), int(other)))
    if getattr(plain(other), "ndim", 0) and not is_list(other):
        return None
    frame.refuse(
        node, "an operator on a list that sorted made", "a list plus a list, or times an int",
        "np.array(x), whose operators are of each element",
    )  # fmt: skip


def _array(value: Any) -> Array:
    if is_list(value):
        return plain(value)  # type: ignore[no-any-return]
    return functions.stack([functions.asarray(Array(node_of(plain(one)))) for one in value])


def are_equal(left: Any, right: Any) -> Any:
    """Whether two lists are equal, of which one is such a list; None of others."""
    values = (left, right)
    if not any(map(is_list, values)) or not all(is_list(v) or type(v) is list for v in values):
        return None
    if [] in (left, right):  # whose elements have no type
        return bool(plain(left if is_list(left) else right).shape[0] == 0)
    one, other = map(_array, values)
    if not lengths.agree_all(one._node.shape, other._node.shape):
        return False
    return weak(functions.all(one == other), DType.BOOL)


def require_no_change(frame: Frame, node: ast.AST, name: str) -> None:
    """Refuse what would change how many elements there are."""
    frame.refuse(
        node, f"{name} of a list that sorted made", "its elements, slices, + and *",
        "y = sorted(x) + [value], or [*sorted(x), value]" if name in ("append", "+=")
        else "np.array(sorted(x)), and NumPy's functions",
    )  # fmt: skip
