"""The operators of lazy arrays, as Python and NumPy have them."""

from __future__ import annotations

from typing import Any

import numpy as np

from weft.array.fitting import beside
from weft.array.lazy import Array
from weft.array.making import node_of
from weft.errors import DTypeError, ShapeError, user_place
from weft.frontend import layout
from weft.frontend.elementwise import apply, as_dtype
from weft.frontend.extent import Extent
from weft.frontend.graph import Node, scalar_constant
from weft.ops.dtypes import DType


def _operand(value: Any) -> Node | None:
    """The other operand of an operator, or None where Python should ask it instead."""
    if isinstance(value, Array):
        return value._node
    if isinstance(value, (bool, int, float, complex, np.ndarray, np.generic, Extent, list, tuple)):
        return node_of(value)
    if hasattr(value, "__dlpack__"):
        return node_of(value)
    return None


def _unlike(self: Array, other: Any, operation: str) -> Any:
    """What NumPy says of None and text beside numbers: equal to none of them."""
    if operation not in ("equal", "not_equal") or not (other is None or isinstance(other, str)):
        return NotImplemented
    answer = scalar_constant(operation == "not_equal", DType.BOOL)
    return Array(layout.broadcast(answer, self._node.shape))


def install() -> None:
    binary = {
        "add": "add", "sub": "subtract", "mul": "multiply", "truediv": "divide",
        "floordiv": "floor_divide", "mod": "remainder", "pow": "pow", "and": "bitwise_and",
        "or": "bitwise_or", "xor": "bitwise_xor", "lshift": "bitwise_left_shift",
        "rshift": "bitwise_right_shift",
    }  # fmt: skip
    comparisons = {
        "lt": "less", "le": "less_equal", "gt": "greater", "ge": "greater_equal",
        "eq": "equal", "ne": "not_equal",
    }  # fmt: skip
    unary = {"neg": "negative", "pos": "positive", "abs": "abs", "invert": "bitwise_invert"}
    for name, operation in binary.items():
        setattr(Array, f"__{name}__", _binary(operation))
        setattr(Array, f"__r{name}__", _reflected(operation))
        setattr(Array, f"__i{name}__", _in_place(operation))
    for name, operation in comparisons.items():
        setattr(Array, f"__{name}__", _binary(operation))
    for name, operation in unary.items():
        setattr(Array, f"__{name}__", _unary(operation))
    setattr(Array, "__divmod__", lambda left, right: (left // right, left % right))  # noqa: B010
    setattr(Array, "__rdivmod__", lambda right, left: (left // right, left % right))  # noqa: B010
    setattr(Array, "__matmul__", _matmul)  # noqa: B010
    setattr(Array, "__rmatmul__", lambda right, left: _matmul(left, right))  # noqa: B010


def _binary(operation: str) -> Any:
    def method(self: Array, other: Any) -> Any:
        node = other._node if type(other) is Array else _operand(other)
        if node is None:
            return _unlike(self, other, operation)
        if operation == "pow" and (root := _special_power(self._node, other)) is not None:
            return Array(root)
        return Array(apply(operation, beside(operation, self._node, other), node))

    return method


def _special_power(base: Node, exponent: Any) -> Node | None:
    """NumPy's `**` of complex arrays by 0.5 and -1, and of bools by 2, which are no powers to it.

    None of others.
    """
    if base.dtype is DType.BOOL and base.shape and type(exponent) is int and exponent == 2:
        return apply("square", base)
    if not base.dtype.is_complex or not base.shape:
        return None
    if type(exponent) is float and exponent == 0.5:
        return apply("sqrt", base)
    if type(exponent) is int and exponent == -1:
        return apply("reciprocal", base)
    return None


def _reflected(operation: str) -> Any:
    def method(self: Array, other: Any) -> Any:
        node = _operand(other)
        if node is None:
            return NotImplemented
        return Array(apply(operation, node, beside(operation, self._node, other)))

    return method


def _in_place(operation: str) -> Any:
    plain = _binary(operation)

    def method(self: Array, other: Any) -> Any:
        if not self._node.shape:  # NumPy's is a scalar, which is never changed: += gives another
            return plain(self, other)
        node = _operand(other)
        if node is None:
            return NotImplemented
        special = _special_power(self._node, other) if operation == "pow" else None
        result = special or apply(operation, beside(operation, self._node, other), node)
        if layout.values(result.shape) != layout.values(self._node.shape):
            raise ShapeError(
                f"an in-place {operation} of shape {layout.values(result.shape)} on an array of "
                f"shape {layout.values(self._node.shape)}",
                "an operand that broadcasts to the array",
                place=user_place(),
            )
        if result.dtype is not self._node.dtype and not np.can_cast(
            result.dtype.numpy, self.dtype, "same_kind"
        ):
            raise DTypeError(
                f"an in-place {operation} that gives {result.dtype.numpy} on {self.dtype}",
                f"an operand that keeps {self.dtype}",
                "x = x + y instead of x += y",
                place=user_place(),
            )
        self._node = as_dtype(result, self._node.dtype)
        return self

    return method


def _unary(operation: str) -> Any:
    def method(self: Array) -> Array:
        return Array(apply(operation, self._node))

    return method


def _matmul(left: Any, right: Any) -> Any:
    if _operand(left) is None or _operand(right) is None:
        return NotImplemented
    from weft.functions import matmul

    return matmul(left, right)
