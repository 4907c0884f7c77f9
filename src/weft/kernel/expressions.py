"""Expressions of a user's function, evaluated on tracers."""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable
from typing import Any

import numpy as np

from weft.array import Array, node_of
from weft.errors import TracingError, interpreting
from weft.frontend import graph, operations, symbolic
from weft.frontend.elementwise import apply, as_dtype, python_value
from weft.frontend.extent import Extent
from weft.frontend.graph import Node
from weft.functions import where
from weft.kernel import branches, calls
from weft.kernel.frame import Frame, is_traced, plain
from weft.kernel.syntax import is_read
from weft.kernel.values import KeyView, PermutedView, Reference
from weft.ops.dtypes import DType

BINARY: dict[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul,
    ast.Div: operator.truediv, ast.FloorDiv: operator.floordiv, ast.Mod: operator.mod,
    ast.Pow: operator.pow, ast.MatMult: operator.matmul, ast.BitAnd: operator.and_,
    ast.BitOr: operator.or_, ast.BitXor: operator.xor, ast.LShift: operator.lshift,
    ast.RShift: operator.rshift,
}  # fmt: skip
_COMPARE: dict[type[ast.cmpop], Callable[[Any, Any], Any]] = {
    ast.Lt: operator.lt, ast.LtE: operator.le, ast.Gt: operator.gt, ast.GtE: operator.ge,
    ast.Eq: operator.eq, ast.NotEq: operator.ne,
    ast.Is: operator.is_, ast.IsNot: operator.is_not,
    ast.In: lambda a, b: a in b, ast.NotIn: lambda a, b: a not in b,
}  # fmt: skip
_UNARY: dict[type[ast.unaryop], Callable[[Any], Any]] = {
    ast.USub: operator.neg, ast.UAdd: operator.pos, ast.Invert: operator.invert,
}  # fmt: skip


def evaluate(frame: Frame, node: ast.expr) -> Any:
    """The value of an expression: a Python value, an `Array`, or a `Reference`."""
    match node:
        case ast.Constant(value):
            return value
        case ast.Name():
            return frame.look_up(node)
        case ast.BinOp(left, op, right):
            return binary(frame, node, op, evaluate(frame, left), evaluate(frame, right))
        case ast.UnaryOp(ast.Not(), operand):
            return negated(truth(frame, operand))
        case ast.UnaryOp(op, operand):
            return _UNARY[type(op)](plain(evaluate(frame, operand)))
        case ast.Compare():
            return _compare(frame, node)
        case ast.BoolOp(op, operands):
            return _both_or_either(frame, node, isinstance(op, ast.And), operands)
        case ast.IfExp(test, then, otherwise):
            return _choice(frame, node, test, then, otherwise)
        case ast.Subscript(value, key):
            return subscript(frame, node, evaluate(frame, value), index(frame, key))
        case ast.Attribute(value, name):
            return attribute(frame, node, evaluate(frame, value), name)
        case ast.Call():
            return _call(frame, node)
        case ast.Tuple(elements):
            return tuple(_elements(frame, elements))
        case ast.List(elements):
            return _elements(frame, elements)
        case ast.Slice(lower, upper, step):
            parts = (None if p is None else evaluate(frame, p) for p in (lower, upper, step))
            return slice(*parts)
        case ast.ListComp() | ast.GeneratorExp():
            return _comprehension(frame, node)
        case ast.NamedExpr(target, value):
            found = evaluate(frame, value)
            frame.assign(target.id, found, node)
            return frame.variables[target.id]
    frame.refuse(
        node, f"{_words(node)} in a kernel", "expressions on numbers and arrays",
        "compute it outside, and pass the result",
    )  # fmt: skip


def _words(node: ast.AST) -> str:
    return {
        ast.Dict: "a dictionary",
        ast.Set: "a set",
        ast.JoinedStr: "a formatted string",
        ast.Lambda: "a lambda",
        ast.DictComp: "a dictionary",
        ast.Await: "await",
        ast.Yield: "yield",
        ast.YieldFrom: "yield",
        ast.Starred: "a starred expression",
    }.get(type(node), f"{type(node).__name__}")


def _elements(frame: Frame, elements: list[ast.expr]) -> list[Any]:
    found: list[Any] = []
    for element in elements:
        if isinstance(element, ast.Starred):
            found.extend(evaluate(frame, element.value))
        else:
            found.append(evaluate(frame, element))
    return found


def binary(frame: Frame, node: ast.AST, op: ast.operator, left: Any, right: Any) -> Any:
    left, right = plain(left), plain(right)
    try:
        with interpreting(frame.place(node)):
            return BINARY[type(op)](left, right)
    except TypeError as error:
        if isinstance(error, TracingError) or is_traced(left) or is_traced(right):
            raise
        frame.refuse(node, str(error), "numbers or arrays")


def _comprehension(frame: Frame, node: ast.ListComp | ast.GeneratorExp) -> list[Any]:
    """A list of what is known while tracing: each element is evaluated by itself."""
    first, *more = node.generators
    elements = evaluate(frame, first.iter)
    if more or is_traced(elements) or not isinstance(elements, tuple | list | range):
        frame.refuse(
            node, "a comprehension over what is not known while compiling",
            "one over a tuple, or a range of constants", "a loop that writes an array",
        )  # fmt: skip
    before = dict(frame.variables)
    found = []
    for element in elements:
        assign_names(frame, first.target, element)
        if all(truth(frame, test) for test in first.ifs):
            found.append(evaluate(frame, node.elt))
    frame.variables = before
    return found


def assign_names(frame: Frame, target: ast.expr, value: Any) -> None:
    """Bind a name, or a tuple of names."""
    if isinstance(target, ast.Name):
        frame.assign(target.id, value, target)
        return
    if isinstance(target, ast.Tuple | ast.List):
        for part, element in zip(target.elts, value, strict=True):
            assign_names(frame, part, element)
        return
    frame.refuse(target, "a loop variable that is no name", "a name, or a tuple of names")


def _call(frame: Frame, node: ast.Call) -> Any:
    function = evaluate(frame, node.func)
    arguments = _elements(frame, node.args)
    named: dict[str, Any] = {}
    for keyword in node.keywords:
        value = evaluate(frame, keyword.value)
        named |= value if keyword.arg is None else {keyword.arg: value}
    with interpreting(frame.place(node)):
        return calls.call(frame, node, function, arguments, named)


# ---------------------------------------------------------------- truth


def truth(frame: Frame, node: ast.expr) -> Any:
    """A condition: a Python bool, or a boolean scalar that is traced."""
    return as_truth(frame, node, evaluate(frame, node))


def as_truth(frame: Frame, node: ast.AST, value: Any) -> Any:
    value = plain(value)
    if not isinstance(value, Array):
        return bool(value)
    if value.ndim:
        frame.refuse(
            node, f"the truth of an array of shape {value.shape}", "a scalar",
            "np.any(x), np.all(x), or np.where(condition, a, b) for each element",
        )  # fmt: skip
    known = python_value(value._node)
    return Array(as_dtype(value._node, DType.BOOL)) if known is None else bool(known)


def negated(value: Any) -> Any:
    return Array(apply("logical_not", value._node)) if isinstance(value, Array) else not value


def _compare(frame: Frame, node: ast.Compare) -> Any:
    left = plain(evaluate(frame, node.left))
    result: Any = True
    for op, comparator in zip(node.ops, node.comparators, strict=True):
        right = plain(evaluate(frame, comparator))
        one = _COMPARE[type(op)](left, right)
        if result is True:
            result = one
        elif not is_traced(result) and not result:
            return result
        else:
            result = Array(apply("logical_and", node_of(result), node_of(one)))
        left = right
    return result


def _both_or_either(frame: Frame, node: ast.BoolOp, both: bool, operands: list[ast.expr]) -> Any:
    """`and`, `or`: what stands right is evaluated where the left does not decide."""
    first, *rest = operands
    value = evaluate(frame, first)
    if not rest:
        return value
    test = as_truth(frame, first, value)
    remaining = rest[0] if len(rest) == 1 else ast.copy_location(ast.BoolOp(node.op, rest), node)
    if not isinstance(test, Array):
        return evaluate(frame, remaining) if test is both else value
    if any(map(is_read, rest)):
        other = branches.chosen(
            frame, node, test,
            lambda: truth(frame, remaining) if both else True,
            lambda: False if both else truth(frame, remaining),
        )  # fmt: skip
        return as_truth(frame, node, other)
    other = truth(frame, remaining)
    return Array(apply("logical_and" if both else "logical_or", test._node, node_of(other)))


def _choice(
    frame: Frame, node: ast.IfExp, test: ast.expr, then: ast.expr, otherwise: ast.expr
) -> Any:
    condition = truth(frame, test)
    if not isinstance(condition, Array):
        return evaluate(frame, then if condition else otherwise)
    if is_read(then) or is_read(otherwise):
        return branches.chosen(
            frame, node, condition,
            lambda: plain(evaluate(frame, then)), lambda: plain(evaluate(frame, otherwise)),
        )  # fmt: skip
    return where(condition, plain(evaluate(frame, then)), plain(evaluate(frame, otherwise)))


# ---------------------------------------------------------------- subscripts and attributes


def index(frame: Frame, node: ast.expr) -> Any:
    """A key, its arrays as tracers."""
    key = evaluate(frame, node)
    return tuple(map(_entry, key)) if isinstance(key, tuple) else _entry(key)


def _entry(entry: Any) -> Any:
    if isinstance(entry, slice):
        return slice(*(plain(bound) for bound in (entry.start, entry.stop, entry.step)))
    return plain(entry)


def is_view(key: Any) -> bool:
    """Whether NumPy gives a view for a key."""
    entries = key if isinstance(key, tuple) else (key,)
    return not any(
        isinstance(entry, list | np.ndarray) or (isinstance(entry, Array) and entry.ndim)
        for entry in entries
    )


def subscript(frame: Frame, node: ast.AST, value: Any, key: Any) -> Any:
    if isinstance(value, Array) and value.ndim:
        value = frame.memory.make(value)
    if not isinstance(value, Reference):
        if isinstance(value, Array):
            frame.refuse(node, "an index into a number", "an array")
        if isinstance(key, Array):
            frame.refuse(
                node, f"a traced index into a {type(value).__name__}", "a constant index",
                "an array instead: np.array(...)",
            )  # fmt: skip
        return value[key]
    with interpreting(frame.place(node)):
        array = value.read()
        key = from_start(array, key)
        part = array[key]
    if not is_view(key):
        return part
    return value.through(KeyView(key)) if part.ndim else part


def from_start(array: Array, key: Any) -> Any:
    """A key whose scalar indices count from the start, or are told apart where they are used.

    Weft's own affine indices do not count from the end; Python's do.
    """
    entries = list(key) if isinstance(key, tuple) else [key]
    shape = array._node.shape
    used = [e for e in entries if e is not None and e is not Ellipsis]
    if len(used) > len(shape) or any(isinstance(e, Array) and e.dtype == bool for e in used):
        return key  # refused, or a mask, by indexing itself
    axis = 0
    for number, entry in enumerate(entries):
        if entry is Ellipsis:
            axis += len(shape) - len(used)
            continue
        if entry is None:
            continue
        if isinstance(entry, Array) and not entry.ndim and entry._node.dtype.is_integer:
            entries[number] = Array(_counted(entry._node, shape[axis]))
        axis += 1
    return tuple(entries) if isinstance(key, tuple) else entries[0]


def _counted(node: Node, length: Extent) -> Node:
    """An index that may be negative, so that indexing tells; one that may not, as it is."""
    node = as_dtype(node, DType.I64)
    if not graph.is_index(node):
        return node
    extent = symbolic.extent_of(node)
    try:
        if extent.is_nonnegative():
            return node
        return graph.size_scalar(extent + length)
    except TracingError:
        return graph.make(operations.Cast(DType.I64), (node,), (), DType.I64)


def attribute(frame: Frame, node: ast.AST, value: Any, name: str) -> Any:
    if isinstance(value, Array):
        if not value.ndim:
            if name in ("real", "imag", "dtype", "shape", "ndim", "size", "itemsize"):
                return getattr(value, name)
            return calls.Method(value, name)
        value = frame.memory.make(value)
    if not isinstance(value, Reference):
        try:
            return frame.constant(getattr(value, name))
        except AttributeError as error:
            frame.refuse(node, str(error), "an attribute that is there")
    array = value.read()
    if name in ("T", "mT"):
        order = list(range(array.ndim))
        order = order[::-1] if name == "T" else [*order[:-2], order[-1], order[-2]]
        return value.through(PermutedView(tuple(order)))
    if name in ("shape", "dtype", "ndim", "size", "itemsize", "nbytes", "real", "imag"):
        return getattr(array, name)
    return calls.Method(value, name)
