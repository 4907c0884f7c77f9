"""Tuples and lists, of whose elements a number that only the run knows chooses one."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from typing import Any

import numpy as np

from weft import functions
from weft.array import Array, node_of
from weft.frontend.elementwise import as_dtype
from weft.frontend.extent import Extent
from weft.frontend.operations import Constant, Elementwise
from weft.kernel import numbers, one_of
from weft.kernel.frame import Frame
from weft.kernel.maybe import is_array, is_number
from weft.ops.dtypes import DType


def is_index(key: Any) -> bool:
    """Whether a key is a whole number that only the run knows."""
    return isinstance(key, Array) and not key.ndim and key.dtype.kind in "iu"


def element(frame: Frame, node: ast.AST, values: Sequence[Any], index: Any) -> Any:
    """`values[index]`: a number; of tuples of as many numbers, a tuple."""
    name = type(values).__name__
    if not _are_alike(values):
        frame.refuse(
            node, f"an index that only the run knows, into a {name}",
            "numbers, arrays of one shape, or tuples of as many of them; or a constant index",
            "an array instead: np.array(...) or np.stack(...)",
        )  # fmt: skip
    count = len(values)
    if _is_residue(index, count):
        return _chosen(frame, node, values, Array(as_dtype(node_of(index), DType.I64)))
    number = from_first(frame, node, index, count, f"{name} index out of range")
    if not count:
        return 0
    place = functions.minimum(functions.maximum(number, 0), count - 1)
    return _chosen(frame, node, values, place)


def _is_residue(index: Array, count: int) -> bool:
    """Whether an index is `k % m`, which is inside for all k."""
    node = node_of(index)
    if node.operation != Elementwise("remainder"):
        return False
    by = node.inputs[1].operation
    divisor = by.const.value if isinstance(by, Constant) else None
    return isinstance(divisor, int) and 0 < divisor <= count


def from_first(
    frame: Frame, node: ast.AST, index: Any, count: Any, otherwise: str
) -> Array:
    """An index counted from the first element of so many; the run notes one that is outside."""
    number = Array(as_dtype(node_of(index), DType.I64))
    number = functions.where(number < 0, number + count, number)
    inside = (number >= 0) & (number < count)
    frame.trace.assertions.note(frame.memory, inside, IndexError(otherwise), frame.place(node))
    return number


def _are_alike(values: Sequence[Any]) -> bool:
    """Whether all are numbers, or arrays, or tuples of as many that are so."""
    if all(map(is_number, values)) or all(map(is_array, values)):
        return True
    first = values[0]
    return (
        type(first) in (tuple, list)
        and all(type(value) is type(first) and len(value) == len(first) for value in values)
        and all(map(_are_alike, zip(*values, strict=True)))
    )


def _chosen(frame: Frame, node: ast.AST, values: Sequence[Any], place: Array) -> Any:
    if type(values[0]) in (tuple, list):
        columns = zip(*values, strict=True)
        return type(values[0])(_chosen(frame, node, column, place) for column in columns)
    if is_array(values[0]):
        made = [frame.memory.make(v) if isinstance(v, Array) else v for v in values]
        return one_of.of(frame, node, made, place)
    nodes = tuple(map(node_of, values))
    dtype = numbers.dtype_of_one(*values)
    if any(isinstance(value, Array | Extent) for value in values):
        table = functions.stack([functions.asarray(Array(as_dtype(n, dtype))) for n in nodes])
    else:
        table = frame.constant(np.array(values, dtype.numpy)).read()
    found = table[place]
    return numbers.weak(found, dtype) if all(node.weak for node in nodes) else found
