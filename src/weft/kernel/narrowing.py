"""What the condition of a `while` says of numbers within its rounds.

    while size <= n: ...  =>  while size <= n: size = min(size, n); ...

These are the same numbers, whose bounds all passes see: those of slices and of arrays' lengths.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from weft import functions
from weft.array import Array
from weft.frontend.extent import Extent
from weft.kernel import numbers
from weft.kernel.creation import CREATION
from weft.kernel.expressions import optional
from weft.kernel.frame import Frame
from weft.ops.dtypes import DType

_TURNED: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.Gt, ast.LtE: ast.GtE, ast.Gt: ast.Lt, ast.GtE: ast.LtE
}  # fmt: skip
_SIMPLE = (
    ast.Name, ast.Constant, ast.BinOp, ast.Add, ast.Sub, ast.Mult, ast.Attribute, ast.Subscript,
    ast.expr_context,
)  # fmt: skip


def narrow(frame: Frame, node: ast.While) -> None:
    """Bind variables that the condition bounds anew, where lengths may follow from them."""
    if not any(_has_length(part) for statement in node.body for part in ast.walk(statement)):
        return
    for name, how, bound in _said(node.test):
        value = frame.variables.get(name)
        if isinstance(value, Array) and not value.ndim and value.dtype == DType.I64.numpy:
            limit = _known(frame, bound)
            if limit is not None:
                frame.variables[name] = numbers.weak(_within(value, how, limit), DType.I64)


def _has_length(node: ast.AST) -> bool:
    """Whether a variable may say how long an array is: a slice, or one that is made."""
    match node:
        case ast.Slice():
            return True
        case ast.Call(ast.Attribute(attr=name)):
            return name in CREATION
    return False


def _said(test: ast.expr) -> Iterator[tuple[str, type[ast.cmpop], ast.expr]]:
    """The comparisons of variables that hold where a condition does."""
    if isinstance(test, ast.BoolOp) and isinstance(test.op, ast.And):
        for value in test.values:
            yield from _said(value)
    if not isinstance(test, ast.Compare):
        return
    operands = [test.left, *test.comparators]
    for left, op, right in zip(operands, test.ops, operands[1:], strict=False):
        if type(op) in _TURNED:
            if isinstance(left, ast.Name):
                yield left.id, type(op), right
            if isinstance(right, ast.Name):
                yield right.id, _TURNED[type(op)], left


def _known(frame: Frame, bound: ast.expr) -> Extent | int | None:
    """A bound that is the same in every round."""
    if not all(isinstance(part, _SIMPLE) for part in ast.walk(bound)):
        return None
    value = optional(frame, bound)
    if isinstance(value, Extent):
        return None if value.symbols else value
    return value if type(value) is int else None


def _within(value: Array, how: type[ast.cmpop], limit: Extent | int) -> Array:
    if how in (ast.Lt, ast.LtE):
        return functions.minimum(value, limit - 1 if how is ast.Lt else limit)
    return functions.maximum(value, limit + 1 if how is ast.Gt else limit)
