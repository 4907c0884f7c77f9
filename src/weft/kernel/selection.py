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
from weft.kernel.frame import Frame
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


def method(frame: Frame, node: ast.AST, of: Selection, name: str) -> Any:
    """What a method without arguments gives."""
    if name == "sum":
        return functions.sum(functions.where(of.mask, of.array, 0))
    if name == "any":
        return functions.any(of.mask & functions.astype(of.array, np.dtype(bool)))
    if name == "all":
        return functions.all(~of.mask | functions.astype(of.array, np.dtype(bool)))
    if name == "copy":
        return of
    refuse(frame, node, f"the method {name} of elements that a mask selects")


def refuse(frame: Frame, node: ast.AST, what: str) -> Any:
    frame.refuse(
        node, f"{what}: how many they are is not known while compiling",
        "elementwise operations on elements of one mask, written where it selects, or their sum",
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
