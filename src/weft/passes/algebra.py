"""Identities of scalar operations that hold for every value, NaN and signed zeros included.

`simplify_apply` and `simplify_cast` look at one operation, whose arguments are already
simple, and at the operations that defined its arguments.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TypeAlias

import numpy as np

from weft.fun import nodes as fun
from weft.ops import table
from weft.ops.dtypes import DType

Definition: TypeAlias = Callable[[fun.Atom], fun.Expr | None]
Emit: TypeAlias = Callable[[fun.Expr, fun.Type], fun.Var]

# operation(operation(x)) => x
_INVOLUTIONS = frozenset({"negative", "logical_not", "bitwise_invert", "conj"})
# operation(operation(x)) => operation(x)
_IDEMPOTENT = frozenset({"abs", "floor", "ceil", "trunc", "round", "sign", "positive"})
_ROUNDINGS = frozenset({"floor", "ceil", "trunc", "round"})
# operation(x, x) => x
_SAME = frozenset({
    "minimum", "maximum", "fmin", "fmax",
    "bitwise_and", "bitwise_or", "logical_and", "logical_or",
})  # fmt: skip
COMMUTATIVE = frozenset({
    "add", "multiply", "bitwise_and", "bitwise_or", "bitwise_xor", "logical_and", "logical_or",
    "logical_xor", "equal", "not_equal",
})  # fmt: skip

# Of float32 numbers, float64's result has the bits of float32's once it is rounded to that: what
# is rounded first to 53 bits, which are 2 * 24 + 2 and more, is as if rounded once (Figueroa,
# "When is double rounding innocuous?", 1995), and the others are not rounded.
_NARROWS = frozenset({
    "add", "subtract", "multiply", "divide", "reciprocal", "square", "sqrt", "abs", "negative",
    "positive", "copysign", "floor", "ceil", "trunc", "round", "minimum", "maximum", "fmin", "fmax",
})  # fmt: skip


def simplify_apply(
    operation: str,
    arguments: tuple[fun.Atom, ...],
    type_: fun.Type,
    definition: Definition,
    emit: Emit,
) -> fun.Atom | fun.Expr:
    """The operation, or something simpler of the same value."""
    assert isinstance(type_, fun.Scalar)
    if all(isinstance(argument, fun.Const) for argument in arguments):
        folded = fold(operation, arguments, type_.dtype)  # type: ignore[arg-type]
        if folded is not None:
            return folded
    match arguments:
        case (argument,):
            return _unary(operation, argument, definition)
        case (left, right):
            # (x & 1) != 0 => (x & 1) > 0, which gcc makes vectors of, as of all other bits
            if operation == "not_equal" and _is(right, 0) and _is_bit(definition(left)):
                return fun.Apply("greater", arguments)
            # 0.0 + x * x => x * x, which is never -0.0: what Python's `sum` begins with
            if operation == "add" and type_.dtype.is_float:
                for zero, other in (arguments, arguments[::-1]):
                    if _is(zero, 0) and _is_square(definition(other)):
                        return other
            return _binary(operation, left, right, type_.dtype, emit)
        case (condition, then, otherwise) if operation == "where":
            # where(c, x, x) => x
            if then == otherwise:
                return then
            # where(true, x, y) => x
            if isinstance(condition, fun.Const):
                return then if condition.value else otherwise
            inner = definition(condition)
            # where(not(c), x, y) => where(c, y, x)
            if isinstance(inner, fun.Apply) and inner.operation == "logical_not":
                return fun.Apply("where", (*inner.arguments, otherwise, then))
            # where((x & 8) != 0, y, 0) => y & (x << 28 >> 31), of 32 bits
            bit = _tested_bit(inner, definition)
            if bit is not None and type_.dtype is DType.I32 and _is(otherwise, 0):
                return fun.Apply("bitwise_and", (then, _spread(*bit, emit)))
    return fun.Apply(operation, arguments)


def fold(operation: str, arguments: tuple[fun.Const, ...], dtype: DType) -> fun.Const | None:
    """The operation done now, by the table's NumPy function."""
    values = [np.asarray(a.value, dtype=a.dtype.numpy)[()] for a in arguments]
    with np.errstate(all="ignore"):
        result = np.asarray(table.TABLE[operation].numpy(*values))
    if result.dtype != dtype.numpy or result.shape:
        return None
    return fun.Const(result.item(), dtype)


def _unary(operation: str, argument: fun.Atom, definition: Definition) -> fun.Atom | fun.Expr:
    inner = definition(argument)
    if isinstance(inner, fun.Apply) and inner.operation == operation:
        # negative(negative(x)) => x
        if operation in _INVOLUTIONS:
            return inner.arguments[0]
        # floor(floor(x)) => floor(x)
        if operation in _IDEMPOTENT and not argument.type.dtype.is_complex:
            return argument
    # positive(x) => x
    if operation == "positive":
        return argument
    # floor(x) => x, of integers
    if operation in _ROUNDINGS and argument.type.dtype.kind in "biu":
        return argument
    # real(x) => x, of real x
    if operation in ("real", "conj") and not argument.type.dtype.is_complex:
        return argument
    return fun.Apply(operation, (argument,))


def _is(atom: fun.Atom, value: float) -> bool:
    """Whether an atom is this constant; zeros must have the same sign, booleans are none."""
    if not isinstance(atom, fun.Const) or isinstance(atom.value, bool | complex):
        return False
    return atom.value == value and math.copysign(1, atom.value) == math.copysign(1, value)


def _is_square(expr: fun.Expr | None) -> bool:
    """Whether an expression is a number times itself."""
    match expr:
        case fun.Apply("square", _):
            return True
        case fun.Apply("multiply", (left, right)):
            return left == right
        case _:
            return False


def _is_bit(expr: fun.Expr | None) -> bool:
    """Whether an expression is the lowest bit of an integer."""
    if not isinstance(expr, fun.Apply) or expr.operation != "bitwise_and":
        return False
    return any(_is(argument, 1) for argument in expr.arguments)


def _tested_bit(expr: fun.Expr | None, definition: Definition) -> tuple[fun.Atom, int] | None:
    """The int32 and the number of its bit, if that is what a condition asks for."""
    match expr:
        case fun.Apply("not_equal" | "greater", (tested, zero)) if _is(zero, 0):
            masked = definition(tested)
        case _:
            return None
    match masked:
        case fun.Apply("bitwise_and", (value, fun.Const(int(mask), DType.I32))) if (
            mask > 0 and mask & (mask - 1) == 0
        ):
            return value, mask.bit_length() - 1
        case _:
            return None


def _spread(value: fun.Atom, bit: int, emit: Emit) -> fun.Var:
    """All bits what this one is: shifts, which hold no register for a constant, as tests do."""
    number = fun.Scalar(DType.I32)
    left, right = fun.Const(31 - bit, DType.I32), fun.Const(31, DType.I32)
    shifted = emit(fun.Apply("bitwise_left_shift", (value, left)), number)
    return emit(fun.Apply("bitwise_right_shift", (shifted, right)), number)


def _binary(
    operation: str, left: fun.Atom, right: fun.Atom, dtype: DType, emit: Emit
) -> fun.Atom | fun.Expr:
    if left == right and operation in _SAME:
        return left
    same = fun.Apply(operation, (left, right))
    if not (isinstance(left, fun.Const) or isinstance(right, fun.Const)):
        return same
    if dtype.is_complex:
        return _complex_power(left, right, dtype, emit) if operation == "pow" else same
    match operation:
        case "multiply":
            # x * 1 => x
            if _is(right, 1):
                return left
            if _is(left, 1):
                return right
            # x * 0 => 0, of integers
            if dtype.is_integer and (_is(left, 0) or _is(right, 0)):
                return fun.Const(0, dtype)
        case "add":
            # x + -0.0 => x; x + 0 => x, of integers
            zero = 0 if dtype.is_integer else -0.0
            if _is(right, zero):
                return left
            if _is(left, zero):
                return right
        case "subtract":
            # x - 0 => x
            if _is(right, 0):
                return left
        case "divide":
            # x / 1 => x
            if _is(right, 1) and left.type.dtype is dtype:
                return left
        case "floor_divide":
            # x // 1 => x, of integers
            if _is(right, 1) and dtype.is_integer:
                return left
        case "pow":
            return _power(left, right, dtype, emit)
        case "bitwise_or" | "bitwise_xor" | "bitwise_left_shift" | "bitwise_right_shift":
            # x | 0 => x
            if _is(right, 0):
                return left
        case "logical_and" | "logical_or":
            return _logical(operation, left, right)
    return same


def _logical(operation: str, left: fun.Atom, right: fun.Atom) -> fun.Atom | fun.Expr:
    unit = operation == "logical_and"
    for this, other in ((left, right), (right, left)):
        if isinstance(this, fun.Const) and this.dtype is DType.BOOL:
            # true and x => x; false and x => false
            if bool(this.value) != unit:
                return this
            if other.type == fun.Scalar(DType.BOOL):
                return other
    return fun.Apply(operation, (left, right))


def _power(base: fun.Atom, exponent: fun.Atom, dtype: DType, emit: Emit) -> fun.Atom | fun.Expr:
    """Small constant exponents as products: at most one rounding more than `pow`."""
    type_ = fun.Scalar(dtype)
    # pow(x, 0) => 1, of NaN too
    if _is(exponent, 0) or _is(exponent, -0.0):
        return fun.Const(1 if dtype.is_integer else 1.0, dtype)
    # pow(x, 1) => x
    if _is(exponent, 1):
        return base
    square = fun.Apply("multiply", (base, base))
    # pow(x, 2) => x * x, as NumPy does
    if _is(exponent, 2):
        return square
    # pow(x, 3) => (x * x) * x
    if _is(exponent, 3):
        return fun.Apply("multiply", (emit(square, type_), base))
    # pow(x, 4) => (x * x) * (x * x)
    if _is(exponent, 4):
        squared = emit(square, type_)
        return fun.Apply("multiply", (squared, squared))
    # pow(x, -1) => 1 / x
    if _is(exponent, -1) and dtype.is_float:
        return fun.Apply("divide", (fun.Const(1.0, dtype), base))
    return fun.Apply("pow", (base, exponent))


def _complex_power(
    base: fun.Atom, exponent: fun.Atom, dtype: DType, emit: Emit
) -> fun.Atom | fun.Expr:
    square = fun.Apply("multiply", (base, base))
    if isinstance(exponent, fun.Const):
        # pow(z, 1) => z
        if exponent.value == 1:
            return base
        # pow(z, 2) => z * z, as NumPy does
        if exponent.value == 2:
            return square
        # pow(z, 3) => (z * z) * z
        if exponent.value == 3:
            return fun.Apply("multiply", (emit(square, fun.Scalar(dtype)), base))
    return fun.Apply("pow", (base, exponent))


# ---------------------------------------------------------------- casts


def simplify_cast(dtype: DType, argument: fun.Atom, definition: Definition) -> fun.Atom | fun.Expr:
    """The cast, or something simpler of the same value."""
    source: DType = argument.type.dtype
    # cast(x: f32, f32) => x
    if source is dtype:
        return argument
    if isinstance(argument, fun.Const):
        value = table.cast_numpy(dtype, np.asarray(argument.value, dtype=source.numpy))
        return fun.Const(value.item(), dtype)
    inner = definition(argument)
    if isinstance(inner, fun.Cast):
        first: DType = inner.argument.type.dtype
        # cast(cast(x: i16, i32), f64) => cast(x, f64)
        if lossless(first, source) and _same_path(first, source, dtype):
            return simplify_cast(dtype, inner.argument, definition)
    if isinstance(inner, fun.Apply) and (source, dtype) == (DType.F64, DType.F32):
        narrow = [_single(operand, definition) for operand in inner.arguments]
        # cast(sqrt(cast(x: f32, f64)), f32) => sqrt(x)
        if inner.operation in _NARROWS and None not in narrow:
            return fun.Apply(inner.operation, tuple(atom for atom in narrow if atom is not None))
    return fun.Cast(dtype, argument)


def _single(operand: fun.Atom, definition: Definition) -> fun.Atom | None:
    """A float32 of the same value as a float64, if one is at hand."""
    if isinstance(operand, fun.Const):
        value = table.cast_numpy(DType.F32, np.asarray(operand.value)).item()
        return fun.Const(value, DType.F32) if value == operand.value else None
    inner = definition(operand)
    if isinstance(inner, fun.Cast) and inner.argument.type.dtype is DType.F32:
        return inner.argument
    return None


def lossless(source: DType, target: DType) -> bool:
    """Whether every value of `source` is one of `target`."""
    return np.can_cast(source.numpy, target.numpy, "safe") and not (
        source in (DType.I64, DType.U64) and target.kind in "fc"
    )


def _same_path(first: DType, middle: DType, last: DType) -> bool:
    """Whether a cast from `middle` does to values of `first` what a cast from it does."""
    if last is first or lossless(first, last):
        return True
    # An integer that was made a float saturates or not, where one that stayed one wraps.
    return (first.kind in "iu") == (middle.kind in "iu") or last.kind not in "iu"
