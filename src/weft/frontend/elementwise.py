"""Elementwise operations on nodes: promotion of dtypes, broadcasting of shapes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np

from weft.errors import (
    ArgumentError,
    ArgumentTypeError,
    DTypeError,
    ShapeError,
    WeftError,
    user_place,
)
from weft.frontend import graph
from weft.frontend.extent import Extent, decide_equal
from weft.frontend.extent import constant as extent_constant
from weft.frontend.graph import Node, Shape, leading, make, scalar_constant
from weft.frontend.guards import forget_guards
from weft.frontend.lengths import is_just, one_length
from weft.frontend.operations import Broadcast, Cast, Constant, Elementwise, Leaf
from weft.ops import table
from weft.ops.dtypes import DType, from_numpy
from weft.ops.promotion import default_dtype, promote, promote_with_python

_PYTHON = {"b": bool, "i": int, "u": int, "f": float, "c": complex}
_ONE = extent_constant(1)
_AS_INT8 = frozenset({"conj", "floor_divide", "remainder", "pow", "square"})  # of booleans
_COMPARISONS = frozenset({"less", "less_equal", "greater", "greater_equal", "equal", "not_equal"})


def scalar_node(value: Any) -> Node:
    """A Python or NumPy scalar, or an extent, as a node; Python's are weak.

    Raises
    ------
    ArgumentTypeError
        For anything else.
    """
    if isinstance(value, Extent):
        return graph.size_scalar(value, weak=True)
    if isinstance(value, np.generic):
        return scalar_constant(value.item(), from_numpy(value.dtype))
    for python_type in (bool, int, float, complex):
        if isinstance(value, python_type):
            return _weak_constant(value, python_type)
    raise ArgumentTypeError(
        f"a {type(value).__name__} where an array or a number is needed",
        "a weft.Array, NumPy array, or Python number",
        place=user_place(),
    )


def _weak_constant(value: Any, python_type: type) -> Node:
    dtype = default_dtype(python_type)
    if python_type is int and value >= 2**63:
        dtype = DType.U64  # also of what no integers hold: which is refused where it meets some
    return scalar_constant(value, dtype, weak=True)


# ---------------------------------------------------------------- dtypes


def common_dtype(nodes: tuple[Node, ...]) -> DType:
    """The dtype to which operands are promoted, Python scalars being weak."""
    strong = [node.dtype for node in nodes if not node.weak]
    if len(strong) == len(nodes):
        first = strong[0]
        return first if all(dtype is first for dtype in strong) else promote(*strong)
    if not strong:
        return promote(*(node.dtype for node in nodes))
    common = promote(*strong)
    for node in nodes:
        if node.weak:
            common = promote_with_python(common, _PYTHON[node.dtype.kind])
    return common


@cache
def computed_in(operation: str, dtype: DType) -> DType:
    """The dtype in which an operation on operands of a (common) dtype is computed.

    Raises
    ------
    DTypeError
        Where the operation has no meaning on the dtype.
    """
    accepts = table.lookup(operation).accepts
    if dtype in accepts:
        return dtype
    if accepts == {DType.BOOL}:
        return DType.BOOL
    if dtype.kind in "biu":
        if dtype is DType.BOOL and operation in _AS_INT8:
            return DType.I8
        if dtype in (DType.I16, DType.U16) and operation != "divide" and DType.F32 in accepts:
            return DType.F32  # float64 stands for NumPy's float16 of smaller ones
        if dtype is not DType.BOOL or not accepts & {DType.I8, DType.U8}:
            return DType.F64
    names = ", ".join(str(d.numpy) for d in DType if d in accepts)
    raise DTypeError(f"{operation} of {dtype.numpy}", f"one of {names}")


def python_value(node: Node) -> Any:
    """The Python scalar that a weak node is, or None where its value is not known."""
    if node.weak:
        if isinstance(node.operation, Constant):
            return node.operation.const.value
        if isinstance(node.operation, Leaf) and not node.abstract:
            return node.value
    return None


def cast(node: Node, dtype: DType) -> Node:
    """The node with another dtype; constants and Python scalars are converted at once."""
    value = python_value(node)
    if value is not None:
        _check_range(value, dtype)
        if node.dtype is not dtype:
            value = _converted(value, dtype)
        if isinstance(node.operation, Constant):
            return scalar_constant(value, dtype)
        return graph.leaf(value, (), dtype)
    if node.dtype is dtype and not node.weak:
        return node
    if isinstance(node.operation, Constant) and _exact(node.operation.const.value, dtype):
        return scalar_constant(_converted(node.operation.const.value, dtype), dtype)
    return make(Cast(dtype), (node,), node.shape, dtype)


def _check_range(value: Any, dtype: DType) -> None:
    if not dtype.is_integer or isinstance(value, complex):
        return
    if not math.isfinite(value):
        raise ArgumentError(f"{value} as {dtype.numpy}", "a finite number", place=user_place())
    if not _fits(int(value), dtype):
        raise out_of_range(int(value), dtype.numpy)


class IntegerRangeError(WeftError, OverflowError):
    """A Python int that a dtype does not hold."""


def out_of_range(value: int, dtype: np.dtype[Any]) -> IntegerRangeError:
    """What is said of an int beside integers that do not hold it."""
    limits = np.iinfo(dtype)
    return IntegerRangeError(
        f"Python integer {value} out of bounds for {dtype}",
        f"an int from {limits.min} to {limits.max}", "a wider dtype: x.astype(np.int64)",
        place=user_place(),
    )  # fmt: skip


def _exact(value: Any, dtype: DType) -> bool:
    """Whether a constant can be converted without asking what a cast does at the edges."""
    if dtype.is_integer:
        return isinstance(value, int) and _fits(value, dtype)
    return not isinstance(value, complex) or dtype.is_complex


def _fits(value: int, dtype: DType) -> bool:
    info = np.iinfo(dtype.numpy)
    return bool(info.min <= value <= info.max)


def _converted(value: Any, dtype: DType) -> Any:
    return value if dtype.kind == "b" else dtype.numpy.type(value).item()


# ---------------------------------------------------------------- shapes


def broadcast_shapes(shapes: list[Shape], what: str = "") -> Shape:
    """The common shape.

    Raises
    ------
    ShapeError
        When the shapes do not fit together.
    """
    first = shapes[0]
    if all(shape is first for shape in shapes):
        return first
    rank = max(map(len, shapes))
    result = []
    for axis in range(-rank, 0):
        common: Extent | None = None
        for shape in shapes:
            if len(shape) < -axis:
                continue
            common = shape[axis] if common is None else _common(common, shape[axis])
            if common is None:
                forget_guards()
                listed = " and ".join(str(tuple(s)) for s in shapes)
                raise ShapeError(
                    f"{what or 'an operation'} on arrays of shapes {listed}",
                    "shapes that are equal or broadcast (aligned on the right, 1 repeats)",
                    "slices of one shape, or a dimension of 1 where one repeats: x[:, None]",
                    place=user_place(),
                )
        assert common is not None
        result.append(common)
    return tuple(result)


def _common(left: Extent, right: Extent) -> Extent | None:
    """The extent to which two dimensions broadcast; None where they do not."""
    if left.poly == right.poly:
        return left
    if is_just(left, 1) and not is_just(right, 1):
        decide_equal(left, _ONE)
        return right
    if is_just(right, 1) and not is_just(left, 1):
        decide_equal(right, _ONE)
        return left
    return one_length(left, right)


def apply(operation: str, *operands: Node) -> Node:
    """A scalar operation of the table on arrays, promoted and broadcast."""
    if operation in _COMPARISONS and (exact := _compared(operation, *operands)) is not None:
        return exact
    common = common_dtype(operands[1:]) if operation == "where" else common_dtype(operands)
    try:
        dtype = computed_in(operation, common)
    except DTypeError as error:
        raise DTypeError(error.found, error.expected, place=user_place()) from None
    weak = all(node.weak for node in operands)
    if operation == "where":
        arguments: tuple[Node, ...] = (
            as_dtype(operands[0], DType.BOOL), *(as_dtype(x, dtype) for x in operands[1:]),
        )  # fmt: skip
    else:
        arguments = tuple([as_dtype(x, dtype) for x in operands])
    shape = broadcast_shapes([x.shape for x in arguments], operation)
    if any(extent.symbols for extent in shape):
        arguments = tuple([_cut(x, shape, arguments) for x in arguments])
    result = _gives(operation, dtype)
    return make(Elementwise(operation), arguments, shape, result, weak=weak)


def _cut(node: Node, shape: Shape, nodes: Sequence[Node]) -> Node:
    """An operand of the lengths that operands are to have in common, where the run compares them.

    Such a length is that of none of them.
    """
    own = list(node.shape)
    for axis in range(-len(own), 0):
        lengths = [other.shape[axis].poly for other in nodes if len(other.shape) >= -axis]
        if shape[axis].symbols and shape[axis].poly not in lengths and not is_just(own[axis], 1):
            own[axis] = shape[axis]
    return leading(node, tuple(own))


def of_one_length(
    left: Node, left_axis: int, right: Node, right_axis: int
) -> tuple[Node, Node] | None:
    """Two arrays of one length along an axis of each; None where they are not.

    Where the run compares the lengths, the arrays are cut to the smaller one.

    Raises
    ------
    ShapeError
        Where only the run knows, and nobody asks it.
    """
    lengths = left.shape[left_axis], right.shape[right_axis]
    length = one_length(*lengths)
    if length is None:
        return None
    if any(length.poly == own.poly for own in lengths):
        return left, right
    cut = []
    for node, axis in ((left, left_axis), (right, right_axis)):
        shape = list(node.shape)
        shape[axis] = length
        cut.append(leading(node, tuple(shape)))
    return cut[0], cut[1]


@cache
def _gives(operation: str, dtype: DType) -> DType:
    return table.lookup(operation).gives(dtype)


def as_dtype(node: Node, dtype: DType) -> Node:
    """`cast`, where nothing is done for a node that has the dtype already."""
    if node.dtype is not dtype:
        return cast(node, dtype)
    if node.weak and (value := python_value(node)) is not None:
        _check_range(value, dtype)
    return node


def _compared(operation: str, left: Node, right: Node) -> Node | None:
    """A comparison of integers that have no dtype in common, without rounding; else None."""
    for node, other in ((left, right), (right, left)):
        value = python_value(other)
        if node.weak or not node.dtype.is_integer:
            continue
        if isinstance(value, int) and not _fits(value, node.dtype):
            answer = scalar_constant(_says(operation, (value > 0) == (other is right)), DType.BOOL)
            if not node.shape:
                return answer
            return make(Broadcast(), (answer,), node.shape, DType.BOOL, sizes=node.shape)
        if node.dtype is DType.U64 and other.dtype.is_signed and not other.weak:
            below = apply("less", other, scalar_constant(0, other.dtype))
            parts = (as_dtype(x, DType.U64) for x in (left, right))  # of what is not below 0
            answer = scalar_constant(_says(operation, other is left), DType.BOOL)
            return apply("where", below, answer, apply(operation, *parts))
    return None


def _says(operation: str, less: bool) -> bool:
    """What a comparison says where its left operand is less than the right one, or greater."""
    return operation == "not_equal" or operation.startswith("less" if less else "greater")
