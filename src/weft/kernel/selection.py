"""The elements that a mask selects: computed where they are, since their number is not known.

    z[inside] = z[inside] ** 2 + c[inside]  =>  z[...] = where(inside, z ** 2 + c, z)
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from weft import functions
from weft.array import Array
from weft.frontend import operations
from weft.frontend.graph import Node
from weft.functions.statistical import greatest, least
from weft.kernel.frame import Frame
from weft.kernel.numbers import weak
from weft.kernel.values import Selection
from weft.ops.dtypes import DType


def is_mask(key: Any, array: Array) -> bool:
    """Whether a key is one mask over all dimensions of an array."""
    return (
        isinstance(key, Array) and key._node.dtype is DType.BOOL and key.ndim == array.ndim > 0
    )


def is_within(value: Any) -> bool:
    """Whether a value is what a mask selects, or holds it."""
    if isinstance(value, tuple | list):
        return any(map(is_within, value))
    return isinstance(value, Selection)


def lifted(
    frame: Frame, node: ast.AST, function: Callable[..., Any], operands: Sequence[Any]
) -> Any:
    """An elementwise function of operands, of which selections have one mask."""
    masks = [operand.mask for operand in operands if isinstance(operand, Selection)]
    if not masks:
        return function(*operands)
    if not all(_alike(mask._node, masks[0]._node) for mask in masks):
        refuse(frame, node, "elements that two masks select")
    arrays = []
    for operand in operands:
        if isinstance(operand, Array) and operand.ndim:
            refuse(frame, node, "elements that a mask selects, with an array")
        arrays.append(operand.array if isinstance(operand, Selection) else operand)
    return Selection(function(*arrays), masks[0])


def written(frame: Frame, node: ast.AST, target: Array, key: Any, value: Selection) -> Array:
    """The target with its elements replaced that the value's mask selects."""
    if not is_mask(key, target) or not _alike(key._node, value.mask._node):
        refuse(frame, node, "elements that one mask selects, written elsewhere")
    new = functions.astype(value.array, target.dtype)
    return functions.where(key, new, target)


def filled(of: Selection, value: Any) -> Array:
    """The array with a value where the mask selects nothing."""
    return functions.where(of.mask, of.array, value)


def count(of: Selection) -> Array:
    """How many elements there are: a Python int."""
    return weak(functions.count_nonzero(of.mask), DType.I64)


def method(frame: Frame, node: ast.AST, of: Selection, name: str) -> Any:
    """What a method without arguments gives, or the function of its name."""
    if name == "copy":
        return of
    if name == "len":
        return count(of)
    if name not in _REDUCTIONS:
        refuse(frame, node, f"the method {name} of elements that a mask selects")
    if name in ("max", "min"):
        _require_any(frame, node, of, name)
    return _REDUCTIONS[name](of)


def _mean(of: Selection) -> Array:
    array = functions.sum(filled(_inexact(of), 0))
    return array / functions.astype(count(of), array.real.dtype)


def _variance(of: Selection) -> Array:
    """By two passes, as NumPy's."""
    of = _inexact(of)
    apart = functions.abs(of.array - _mean(of))
    return _mean(Selection(apart * apart, of.mask))


def _inexact(of: Selection) -> Selection:
    if of.array.dtype.kind in "fc":
        return of
    return Selection(functions.astype(of.array, np.dtype(np.float64)), of.mask)


_REDUCTIONS: dict[str, Callable[[Selection], Array]] = {
    "sum": lambda of: functions.sum(filled(of, 0)),
    "prod": lambda of: functions.prod(filled(of, 1)),
    "any": lambda of: functions.any(of.mask & functions.astype(of.array, np.dtype(bool))),
    "all": lambda of: functions.all(~of.mask | functions.astype(of.array, np.dtype(bool))),
    "count_nonzero": lambda of: functions.count_nonzero(filled(of, 0)),
    "max": lambda of: functions.max(filled(of, least(of.array._node.dtype))),
    "min": lambda of: functions.min(filled(of, greatest(of.array._node.dtype))),
    "mean": _mean,
    "var": _variance,
    "std": lambda of: functions.sqrt(_variance(of)),
}


def _require_any(frame: Frame, node: ast.AST, of: Selection, name: str) -> None:
    """NumPy's error where a mask selects nothing, of which there is no greatest element."""
    error = ValueError(f"zero-size array to reduction operation {name}imum which has no identity")
    frame.trace.assertions.note(frame.memory, functions.any(of.mask), error, frame.place(node))


def refuse(frame: Frame, node: ast.AST, what: str) -> Any:
    frame.refuse(
        node, f"{what}: how many they are is not known while compiling",
        "elementwise operations on elements of one mask, written where it selects, or reduced",
        "np.where(mask, new, old), or a loop that counts them",
    )  # fmt: skip


def _alike(left: Node, right: Node) -> bool:
    """Whether two nodes are the same operations on the same nodes."""
    return left is right or (
        (bool(left.inputs) or isinstance(left.operation, operations.Constant))
        and left.operation == right.operation
        and not (left.lambdas or right.lambdas)
        and left.dtype is right.dtype
        and [size.poly for size in left.sizes] == [size.poly for size in right.sizes]
        and len(left.inputs) == len(right.inputs)
        and all(map(_alike, left.inputs, right.inputs))
    )
