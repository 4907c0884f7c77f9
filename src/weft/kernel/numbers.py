"""Python's numbers among NumPy's: conversions, ints that a dtype does not hold, powers, bits."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from typing import Any

import numpy as np

from weft import functions
from weft.array import Array, node_of
from weft.array.fitting import COMPARISONS, OF_ONE_DTYPE, holds
from weft.errors import TracingError
from weft.frontend import graph, operations, symbolic
from weft.frontend.elementwise import apply, common_dtype, out_of_range, python_value
from weft.frontend.extent import Extent
from weft.frontend.graph import Node, make
from weft.kernel.frame import Frame
from weft.kernel.values import Selection
from weft.ops.dtypes import DType

_NAMES: dict[type[ast.AST], str] = {
    ast.Add: "add", ast.Sub: "subtract", ast.Mult: "multiply", ast.FloorDiv: "floor_divide",
    ast.Mod: "remainder", ast.Pow: "pow", ast.BitAnd: "bitwise_and", ast.BitOr: "bitwise_or",
    ast.BitXor: "bitwise_xor", ast.LShift: "bitwise_left_shift", ast.RShift: "bitwise_right_shift",
    ast.Lt: "less", ast.LtE: "less_equal", ast.Gt: "greater", ast.GtE: "greater_equal",
    ast.Eq: "equal", ast.NotEq: "not_equal",
}  # fmt: skip


def as_int(value: Any) -> Any:
    """`int(x)`: towards zero; a Python int, so it takes others' dtypes."""
    if isinstance(value, Extent):
        return value
    return weak(value, DType.I64) if isinstance(value, Array) else int(value)


def as_float(value: Any) -> Any:
    """`float(x)`: a Python float."""
    return weak(value, DType.F64) if isinstance(value, Array | Extent) else float(value)


def as_complex(real: Any, imaginary: Any = None) -> Any:
    """`complex(a, b)`: a Python complex number, of these parts as they are where real."""
    if imaginary is None:
        if isinstance(real, Array) and real._node.dtype.is_complex:
            return weak(real, DType.C128)  # a zero added would lose the sign of another
        imaginary = 0.0
    if not any(isinstance(part, Array | Extent) for part in (real, imaginary)):
        return complex(real, imaginary)
    one, other = (Array(node_of(part)) for part in (real, imaginary))
    if other._node.dtype is DType.C64:  # whose own imaginary part Python drops, with a warning
        raise TypeError("an imaginary part of complex64 is an argument not supported")
    if other._node.dtype.is_complex:  # one + other * 1j
        real, imaginary = as_float(one.real) - as_float(other.imag), as_float(other.real)
        if one._node.dtype.is_complex:
            imaginary = as_float(one.imag) + imaginary
    elif one._node.dtype.is_complex:
        real, imaginary = as_float(one.real), as_float(one.imag) + as_float(other)
    parts = (node_of(as_float(part)) for part in (real, imaginary))
    return weak(Array(apply("complex", *parts)), DType.C128)


def weak(value: Any, dtype: DType) -> Array:
    """A scalar as a Python number, which takes the dtype of what it is combined with."""
    node = node_of(value)
    if node.shape:
        raise TypeError("an array with dimensions, where one number is asked for")
    if node.weak and node.dtype is dtype:
        return Array(node)
    return Array(make(operations.Cast(dtype), (node,), (), dtype, weak=True))


def counted(*operands: Any) -> list[Any]:
    """Operands as arithmetic takes them: Python's bools are ints among Python's numbers."""
    nodes = [x._node if isinstance(x, Array) else None for x in operands]
    if any(isinstance(x, np.generic | Selection) for x in operands) or any(
        node is not None and not node.weak for node in nodes
    ):
        return list(operands)
    return [
        x if node is None or node.dtype is not DType.BOOL else weak(x, DType.I64)
        for x, node in zip(operands, nodes, strict=True)
    ]


def name_of(op: ast.AST) -> str:
    """The scalar operation that an operator is; empty where it is none."""
    return _NAMES.get(type(op), "")


# ---------------------------------------------------------------- ranges


def fitted(name: str, operands: Sequence[Any]) -> list[Any]:
    """Operands whose dtype holds the ints of this call: a comparison is in a wider one.

    That they are held, or not, becomes a guard of the program.
    """
    if name in COMPARISONS:
        return widened(operands)
    dtype = _narrow_dtype(operands) if name in OF_ONE_DTYPE else None
    if dtype is not None:
        for operand in operands:
            require_held(dtype, operand)
    return list(operands)


def widened(operands: Sequence[Any]) -> list[Any]:
    """Operands of integers, in a dtype that holds all of them."""
    dtype = _narrow_dtype(operands)
    if dtype is None or all(_holds(dtype, x) for x in operands):
        return list(operands)
    wide = np.dtype(np.float64 if dtype == np.uint64 else np.int64)
    return [
        functions.astype(x, wide) if isinstance(x, Array) and not x._node.weak
        else Selection(functions.astype(x.array, wide), x.mask) if isinstance(x, Selection)
        else x
        for x in operands
    ]  # fmt: skip


def dtype_of_one(*values: Any) -> DType:
    """The dtype of a number that is one of several.

    Python's ints may be among NumPy's small integers: where these are not known to hold them,
    int64. That larger ones hold what data give is assumed, as that int64 does.
    """
    nodes = tuple(map(node_of, values))
    dtype = common_dtype(nodes)
    if not dtype.is_integer or dtype.itemsize == 8:
        return dtype
    return dtype if all(_is_held(dtype, node) for node in nodes) else DType.I64


def _is_held(dtype: DType, node: Node) -> bool:
    value = python_value(node)
    if isinstance(value, int):
        return holds(dtype.numpy, value)
    if not node.weak or _holds(dtype.numpy, Array(node)):
        return True
    if not node.shape and graph.is_index(node):
        return False
    # what a loop carries may turn out to be no int of Python's
    return dtype.itemsize > 2 or isinstance(node.operation, operations.Param)


def _narrow_dtype(operands: Sequence[Any]) -> np.dtype[Any] | None:
    """The dtype of NumPy's integers among operands; None where there are none, or others."""
    arrays = [x.array if isinstance(x, Selection) else x for x in operands]
    kinds = Array | np.ndarray | np.generic  # not NumPy's types, which have the attribute too
    strong = [x.dtype for x in arrays if isinstance(x, kinds) and not _is_weak(x)]
    if not strong or any(dtype.kind not in "iu" for dtype in strong):
        return None
    dtype = np.result_type(*strong)
    return None if dtype == np.int64 or dtype.kind not in "iu" else dtype


def require_held(dtype: np.dtype[Any], value: Any) -> None:
    """Refuse an int of this call that a dtype does not hold."""
    if not isinstance(value, Extent) or value.symbols or dtype.kind not in "iu":
        return
    if not _holds(dtype, value):
        raise out_of_range(value.value, dtype)


def _holds(dtype: np.dtype[Any], value: Any) -> bool:
    """Whether a dtype is known to hold a value, of a Python int that is not a constant."""
    if _is_weak(value) and python_value(value._node) is None:
        if value._node.dtype is not DType.I64:
            return True
        if value.ndim or not graph.is_index(value._node):
            return False
        value = symbolic.extent_of(value._node)
    if not isinstance(value, Extent):
        return True
    try:
        return holds(dtype, value)
    except TracingError:  # it differs between rounds
        return False


def _is_weak(value: Any) -> bool:
    return isinstance(value, Array) and value._node.weak


# ---------------------------------------------------------------- powers and bits


def base(frame: Frame, node: ast.AST, left: Any, right: Any) -> Any:
    """What is raised to a power: of an int to a negative one, a float."""
    whole = isinstance(left, Extent) or (isinstance(left, int) and not isinstance(left, bool))
    if isinstance(left, Array):
        whole = left._node.dtype.is_integer
    if not whole:
        return left
    negative = _is_negative(right)
    if negative is False:
        return left
    if isinstance(left, Array) and not left._node.weak:
        if negative:
            frame.refuse(
                node, "a negative power of NumPy's integers, which NumPy refuses",
                "an exponent that is not negative", "x.astype(np.float64) ** n",
            )  # fmt: skip
        return left
    if negative:
        return as_float(left)
    if isinstance(left, int) and abs(left) == 1:
        return left  # the same number, whether float or int
    return frame.refuse(
        node, "a power of an int that is an int or a float, as its exponent's sign differs",
        "an exponent that is never negative, or always", "float(x) ** n",
    )  # fmt: skip


def _is_negative(value: Any) -> bool | None:
    """Whether an exponent is negative; None where that differs, False where nothing is known."""
    if isinstance(value, Array) and not value.ndim and graph.is_index(value._node):
        value = symbolic.extent_of(value._node)
    if isinstance(value, int):
        return value < 0
    if not isinstance(value, Extent):
        return False
    try:
        return not value.is_nonnegative()
    except TracingError:
        pass
    try:  # a float for 0 as well: of the same value
        return True if (-value).is_nonnegative() else None
    except TracingError:
        return None


def bits(frame: Frame, node: ast.AST, op: ast.AST, left: Any, right: Any) -> Any:
    """Operations on the bits of ints of a call, as arithmetic where it is; None of others."""
    if not isinstance(op, ast.BitAnd | ast.BitOr | ast.BitXor | ast.LShift | ast.RShift):
        return None
    if not (isinstance(left, int | Extent) and isinstance(right, int | Extent)):
        return None
    if not (isinstance(left, Extent) or isinstance(right, Extent)):
        return None
    if isinstance(op, ast.LShift | ast.RShift):
        if _is_negative(right):
            frame.refuse(node, "a negative shift count", "one that is not negative")
        count = _constant(right)
        if count is not None and count < 62:
            return left * 2**count if isinstance(op, ast.LShift) else left // 2**count
    if isinstance(op, ast.BitAnd):
        for number, mask in ((left, _constant(right)), (right, _constant(left))):
            if mask is not None and mask >= 0 and mask & (mask + 1) == 0:
                return number % (mask + 1)
    return Array(apply(name_of(op), node_of(left), node_of(right)))


def inverted(value: Any) -> Any:
    return -value - 1 if isinstance(value, Extent) else ~value


def _constant(value: Any) -> int | None:
    if isinstance(value, Extent):
        return value.value if value.is_constant and not value.symbols else None
    return int(value)
