"""Python ints of a call beside arrays of integers: whether the dtype holds them, as NumPy asks."""

from __future__ import annotations

from typing import Any

import numpy as np

from weft.array.making import node_of
from weft.frontend.elementwise import as_dtype, out_of_range
from weft.frontend.extent import Extent
from weft.frontend.graph import Node
from weft.ops.dtypes import DType

COMPARISONS = frozenset({"less", "less_equal", "greater", "greater_equal", "equal", "not_equal"})
OF_ONE_DTYPE = COMPARISONS | {
    "add", "subtract", "multiply", "floor_divide", "remainder", "pow", "maximum", "minimum",
    "bitwise_and", "bitwise_or", "bitwise_xor", "bitwise_left_shift", "bitwise_right_shift",
}  # fmt: skip


def operands(operation: str, left: Any, right: Any) -> tuple[Node, Node]:
    """The nodes of two operands, each as it is `beside` the other."""
    first, second = node_of(left), node_of(right)
    return beside(operation, first, right), beside(operation, second, left)


def beside(operation: str, node: Node, value: Any) -> Node:
    """An operand, as it is computed with beside another, which may be an int of this call.

    Integers that do not hold it are compared with it in a wider dtype. That they hold it, or do
    not, becomes a guard of the program.

    Raises
    ------
    IntegerRangeError
        Where it would be computed with in their dtype.
    """
    dtype = node.dtype
    if not isinstance(value, Extent) or value.symbols or operation not in OF_ONE_DTYPE:
        return node
    if node.weak or not dtype.is_integer or dtype is DType.I64 or holds(dtype.numpy, value):
        return node
    if operation not in COMPARISONS:
        raise out_of_range(value.value, dtype.numpy)
    return as_dtype(node, DType.F64 if dtype is DType.U64 else DType.I64)


def holds(dtype: np.dtype[Any], value: Extent | int) -> bool:
    """Whether integers hold an int, which may be one of this call."""
    limits = np.iinfo(dtype)
    if isinstance(value, int):
        return bool(limits.min <= value <= limits.max)
    return (dtype == np.int64 or value >= int(limits.min)) and (
        dtype.itemsize == 8 or value <= int(limits.max)
    )
