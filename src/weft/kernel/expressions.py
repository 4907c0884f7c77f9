"""Expressions of a user's function, evaluated on tracers."""

from __future__ import annotations

import ast
import inspect
import operator
from collections.abc import Callable, Sequence
from functools import partial
from types import ModuleType
from typing import Any

import numpy as np

from weft.array import Array, node_of
from weft.errors import TracingError, interpreting
from weft.frontend.elementwise import apply, as_dtype, python_value
from weft.frontend.extent import Extent
from weft.functions import where
from weft.kernel import (
    branches,
    calls,
    closures,
    maybe,
    membership,
    numbers,
    ordered,
    repeated,
    selection,
    sequences,
)
from weft.kernel.asked import asked
from weft.kernel.frame import Frame, NoneOperandError, Number, is_traced, plain
from weft.kernel.lists import Grown
from weft.kernel.parts import attribute, subscript, unpacked
from weft.kernel.selection import compacted, lifted
from weft.kernel.syntax import is_read
from weft.kernel.values import Maybe, Selection
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
    ast.USub: operator.neg, ast.UAdd: operator.pos, ast.Invert: numbers.inverted,
}  # fmt: skip


def evaluate(frame: Frame, node: ast.expr) -> Any:
    """The value of an expression: a Python value, an `Array`, or a `Reference`."""
    return maybe.needed(frame, node, optional(frame, node))


def optional(frame: Frame, node: ast.expr) -> Any:
    """The value of an expression, which may also be a number or None, by what the run decides."""
    match node:
        case ast.Constant(value):
            return value
        case ast.Name():
            return maybe.bound(frame, node, frame.look_up(node))
        case ast.BinOp(left, op, right):
            return binary(frame, node, op, evaluate(frame, left), evaluate(frame, right))
        case ast.UnaryOp(ast.Not(), operand):
            return negated(truth(frame, operand))
        case ast.UnaryOp(op, operand):
            value = plain(evaluate(frame, operand))
            return lifted(frame, node, _UNARY[type(op)], numbers.counted(value))
        case ast.Compare():
            return _compare(frame, node)
        case ast.BoolOp(op, operands):
            return _operand(frame, node, isinstance(op, ast.And), operands)
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
            return calls.listed(frame, node, _elements(frame, elements))
        case ast.Slice(lower, upper, step):
            parts = (None if p is None else evaluate(frame, p) for p in (lower, upper, step))
            return slice(*parts)
        case ast.Dict(keys, values):
            return _dictionary(frame, node, keys, values)
        case ast.ListComp() | ast.GeneratorExp():
            return comprehensions().listed(frame, node)
        case ast.JoinedStr(parts):
            return "".join(_text(frame, node, part) for part in parts)
        case ast.Lambda():
            return closure(frame, node)
        case ast.NamedExpr(target, value):
            found = optional(frame, value)
            frame.assign(target.id, found, node)
            return frame.variables[target.id]
    frame.refuse(
        node, f"{_words(node)} in a kernel", "expressions on numbers and arrays",
        "compute it outside, and pass the result",
    )  # fmt: skip


def closure(frame: Frame, node: ast.FunctionDef | ast.Lambda) -> closures.Closure:
    """The function that a definition makes, its defaults evaluated."""
    by_name = [
        inspect.Parameter.empty if value is None else optional(frame, value)
        for value in node.args.kw_defaults
    ]
    return closures.defined(frame, node, _elements(frame, node.args.defaults), by_name)


def returned(frame: Frame, node: ast.expr) -> Any:
    """What a function returns."""
    value = optional(frame, node)
    if frame.trace.depth == 1 and isinstance(value, closures.Closure):
        frame.refuse(node, "a kernel that returns a function", "numbers and arrays")
    return value


def _words(node: ast.AST) -> str:
    return {
        ast.Set: "a set",
        ast.DictComp: "a dictionary",
        ast.Await: "await",
        ast.Yield: "yield",
        ast.YieldFrom: "yield",
        ast.Starred: "a starred expression",
    }.get(type(node), f"{type(node).__name__}")


_CONVERSIONS: dict[str, Callable[[Any], str]] = {"r": repr, "s": str, "a": ascii}


def _text(frame: Frame, node: ast.JoinedStr, part: ast.expr) -> str:
    """A part of a formatted string, of what is known while compiling."""
    if not isinstance(part, ast.FormattedValue):
        return str(evaluate(frame, part))
    value = plain(evaluate(frame, part.value))
    if is_traced(value):
        frame.refuse(
            node, "a formatted string of what only the run knows", "numbers known while compiling",
            "compute it outside, of what the kernel returns",
        )  # fmt: skip
    value = int(value) if isinstance(value, Extent) else value
    if part.conversion != -1:
        value = _CONVERSIONS[chr(part.conversion)](value)
    return format(value, "" if part.format_spec is None else evaluate(frame, part.format_spec))


def _elements(frame: Frame, elements: list[ast.expr]) -> list[Any]:
    found: list[Any] = []
    for element in elements:
        if isinstance(element, ast.Starred):
            found += unpacked(frame, element, evaluate(frame, element.value))
        else:
            found.append(frame.held(optional(frame, element), element))
    return found


def _dictionary(
    frame: Frame, node: ast.expr, keys: Sequence[ast.expr | None], values: Sequence[ast.expr]
) -> dict[Any, Any]:
    """A dictionary whose keys are known while compiling."""
    found: dict[Any, Any] = {}
    for key, value in zip(keys, values, strict=True):
        name = None if key is None else evaluate(frame, key)
        if key is not None and (is_traced(name) or isinstance(name, Extent)):
            frame.refuse(
                key, "a key of a dictionary that only the run knows", "a constant, as a string",
                "an array, and the key as its index",
            )  # fmt: skip
        held = frame.held(optional(frame, value), value)
        found |= held if key is None else {name: held}
    return found


def binary(frame: Frame, node: ast.AST, op: ast.operator, left: Any, right: Any) -> Any:
    if any(map(ordered.is_list, (left, right))):
        made = ordered.of_lists(frame, node, op, left, right)
        if made is not None:
            return made
    elif any(isinstance(operand, list | Grown) for operand in (left, right)):
        made = repeated.of_list(frame, node, op, left, right)
        if made is not None:
            return made
    left, right = plain(left), plain(right)
    try:
        with interpreting(frame.place(node)), asked(frame, node):
            _require_operands(node, left, right)
            made = numbers.bits(frame, node, op, left, right)
            if made is not None:
                return made
            if not isinstance(op, ast.BitAnd | ast.BitOr | ast.BitXor):
                left, right = numbers.counted(left, right)
            if isinstance(op, ast.Pow):
                left = numbers.base(frame, node, left, right)
            if isinstance(op, ast.MatMult):
                left, right = compacted([left, right])
            operands = numbers.fitted(numbers.name_of(op), (left, right))
            return lifted(frame, node, BINARY[type(op)], operands)
    except TypeError as error:
        if isinstance(error, TracingError | NoneOperandError) or is_traced([left, right]):
            raise
        frame.refuse(node, str(error), "numbers or arrays")


def _require_operands(node: ast.AST, *operands: Any) -> None:
    if any(operand is None for operand in operands):
        raise NoneOperandError(f"an operand of {ast.unparse(node)} is None")


def assign_names(frame: Frame, target: ast.expr, value: Any) -> None:
    """Bind a name, or a tuple of names."""
    if isinstance(target, ast.Name):
        frame.assign(target.id, value, target)
        return
    if isinstance(target, ast.Tuple | ast.List):
        for part, element in zip(*gathered(target.elts, value), strict=True):
            assign_names(frame, part, element)
        return
    frame.refuse(target, "a loop variable that is no name", "a name, or a tuple of names")


def gathered(parts: list[ast.expr], values: Sequence[Any]) -> tuple[list[ast.expr], list[Any]]:
    """Targets and values, those that a starred target takes as one list."""
    values = list(values)
    for place, part in enumerate(parts):
        more = len(values) - len(parts) + 1
        if isinstance(part, ast.Starred) and more >= 0:
            values[place : place + more] = [values[place : place + more]]
            return [*parts[:place], part.value, *parts[place + 1 :]], values
    return parts, values


def _call(frame: Frame, node: ast.Call) -> Any:
    function = evaluate(frame, node.func)
    given = comprehensions().consumed(frame, node, function)
    arguments = _elements(frame, node.args) if given is None else [
        given.values, *_elements(frame, node.args[1:])
    ]  # fmt: skip
    named: dict[str, Any] = {}
    for keyword in node.keywords:
        value = optional(frame, keyword.value)
        named |= value if keyword.arg is None else {keyword.arg: value}
    if not calls.is_interpreted(function):
        arguments = [maybe.needed(frame, node, argument) for argument in arguments]
        named = {name: maybe.needed(frame, node, value) for name, value in named.items()}
    with interpreting(frame.place(node)):
        result = calls.call(frame, node, function, arguments, named)
        if given is not None and given.are_weak and calls.gives_element(function):
            return numbers.weak(result, result._node.dtype)
        return result


def comprehensions() -> ModuleType:
    from weft.kernel import comprehensions  # which evaluate expressions in turn

    return comprehensions


# ---------------------------------------------------------------- truth


def truth(frame: Frame, node: ast.expr) -> Any:
    """A condition: a Python bool, or a boolean scalar that is traced."""
    if isinstance(node, ast.BoolOp):
        return _both_or_either(frame, node, isinstance(node.op, ast.And), node.values)
    return as_truth(frame, node, optional(frame, node))


def as_truth(frame: Frame, node: ast.AST, value: Any) -> Any:
    if isinstance(value, Maybe):
        holds = node_of(as_truth(frame, node, value.number))
        return Array(apply("logical_and", value.present._node, holds))
    if isinstance(value, Grown):
        return value.length() > 0
    value = plain(value)
    if isinstance(value, Selection):
        selection.refuse(frame, node, "the truth of elements that a mask selects")
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
    """`not value`: a bool of Python's."""
    if not isinstance(value, Array):
        return not value
    return numbers.weak(Array(apply("logical_not", value._node)), DType.BOOL)


def _waits(frame: Frame, nodes: Sequence[ast.expr]) -> bool:
    """Whether expressions are evaluated only if needed: they may fail, or do something."""
    return any(map(is_read, nodes)) or any(
        isinstance(part, ast.Name) and not frame.is_sure(part.id)
        for node in nodes for part in ast.walk(node)
    )  # fmt: skip


def _compare(frame: Frame, node: ast.Compare) -> Any:
    if len(node.ops) == 1 and isinstance(node.ops[0], ast.Is | ast.IsNot | ast.Eq | ast.NotEq):
        left, right = optional(frame, node.left), optional(frame, node.comparators[0])
        is_same = isinstance(node.ops[0], ast.Is | ast.IsNot) or left is None or right is None
        if not is_same and any(map(maybe.may_be_array, (left, right))):  # of each element
            left = maybe.needed(frame, node.left, left)
            right = maybe.needed(frame, node.comparators[0], right)
        if isinstance(left, Maybe) or isinstance(right, Maybe):
            return _compared_with_none(frame, node, left, right)
        are_equal = ordered.are_equal(left, right)
        if are_equal is not None and isinstance(node.ops[0], ast.Eq | ast.NotEq):
            return are_equal if isinstance(node.ops[0], ast.Eq) else negated(are_equal)
        return _compared(frame, node, plain(left), 0, plain(right))
    return _compared(frame, node, plain(evaluate(frame, node.left)), 0)


def _compared_with_none(frame: Frame, node: ast.Compare, left: Any, right: Any) -> Any:
    """What a comparison gives, a side of which is a number or None."""
    value, other = (left, right) if isinstance(left, Maybe) else (right, left)
    if other is None:
        same = maybe.is_none(value)
    elif isinstance(node.ops[0], ast.Eq | ast.NotEq) and isinstance(other, Number):
        same = maybe.equals(value, other)
    else:
        frame.refuse(
            node, "a comparison of two values that may be None", "one with None, or a number"
        )
    if isinstance(node.ops[0], ast.Eq | ast.Is):
        return same
    return value.present if other is None else negated(same)


_AT_ITS_TURN = object()


def _compared(
    frame: Frame, node: ast.Compare, left: Any, number: int, right: Any = _AT_ITS_TURN
) -> Any:
    """The comparisons of a chain from a number on; what is read is evaluated if needed."""
    op = node.ops[number]
    if right is _AT_ITS_TURN:
        right = plain(evaluate(frame, node.comparators[number]))
    with interpreting(frame.place(node)), asked(frame, node):
        if isinstance(op, ast.In | ast.NotIn) and (is_traced(left) or is_traced(right)):
            one = membership.contains(frame, node, right, left)
            one = numbers.weak(one, DType.BOOL) if isinstance(one, Array) else one
            one = negated(one) if isinstance(op, ast.NotIn) else one
        else:
            if not isinstance(op, ast.Eq | ast.NotEq | ast.Is | ast.IsNot | ast.In | ast.NotIn):
                _require_operands(node, left, right)
            one = _one_compared(frame, node, op, left, right)
    later = node.comparators[number + 1 :]
    if not later:
        return one

    def others() -> Any:
        return _compared(frame, node, right, number + 1)

    if not is_traced(one):
        return others() if one else one
    if _waits(frame, later) and not getattr(one, "ndim", 1):
        return branches.chosen(frame, node, one, others, lambda: False)
    return Array(apply("logical_and", node_of(one), node_of(others())))


def _one_compared(frame: Frame, node: ast.AST, op: ast.cmpop, left: Any, right: Any) -> Any:
    how = _COMPARE[type(op)]
    if sequences.is_sequence(left) and sequences.is_sequence(right) and is_traced([left, right]):
        try:
            return sequences.compared(how, left, right)
        except TypeError as error:
            frame.refuse(node, str(error), "tuples or lists of numbers, both of one kind")
    return lifted(frame, node, how, numbers.fitted(numbers.name_of(op), (left, right)))


def _both_or_either(frame: Frame, node: ast.BoolOp, both: bool, operands: list[ast.expr]) -> Any:
    """The truth of `and`, `or`: the right is evaluated where the left does not decide."""
    first, *rest = operands
    test = truth(frame, first)
    if not rest:
        return test
    remaining = _without_first(node)
    if not isinstance(test, Array):
        return truth(frame, remaining) if test is both else test
    if _waits(frame, rest):
        other = branches.chosen(
            frame, node, test,
            lambda: truth(frame, remaining) if both else True,
            lambda: False if both else truth(frame, remaining),
        )  # fmt: skip
        return as_truth(frame, node, other)
    other = truth(frame, remaining)
    return Array(apply("logical_and" if both else "logical_or", test._node, node_of(other)))


def _operand(frame: Frame, node: ast.BoolOp, both: bool, operands: list[ast.expr]) -> Any:
    """The value of `and`, `or`: the operand that decides, where both are of one type."""
    first, *rest = operands
    value = optional(frame, first)
    test = as_truth(frame, first, value)
    if isinstance(value, Maybe):
        if both:
            frame.refuse(node, "`and` of a number or None, either of which it may give",
                         "a truth", "x is not None and ..., as a condition")  # fmt: skip
        value = value.number
    left = plain(value)
    remaining = _without_first(node)
    if not isinstance(test, Array):
        return evaluate(frame, remaining) if test is both else value

    def right() -> Any:
        found = plain(evaluate(frame, remaining))
        if not _are_of_one_type(left, found):
            word = "and" if both else "or"
            frame.refuse(
                node, f"`{word}` of values of two types, of which one is given",
                "numbers of one type", f"x != 0 {word} y > 0 for a truth, or if and else",
            )  # fmt: skip
        return found

    if _waits(frame, rest):
        sides = (right, lambda: left) if both else (lambda: left, right)
        return branches.chosen(frame, node, test, *sides)
    other = right()
    if left._node.dtype is DType.BOOL:
        return Array(apply("logical_and" if both else "logical_or", test._node, node_of(other)))
    return _either(test, other, left) if both else _either(test, left, other)


def _without_first(node: ast.BoolOp) -> ast.expr:
    rest = node.values[1:]
    return rest[0] if len(rest) == 1 else ast.copy_location(ast.BoolOp(node.op, rest), node)


def _are_of_one_type(left: Any, right: Any) -> bool:
    """Whether choosing one of two scalars changes neither (Python's numbers take any width)."""
    if not isinstance(right, Array | Extent | bool | int | float | complex | np.generic):
        return False
    nodes = (node_of(left), node_of(right))
    if any(node.shape for node in nodes):
        return False
    if any(node.weak for node in nodes):
        return len({node.dtype.kind.replace("u", "i") for node in nodes}) == 1
    return nodes[0].dtype is nodes[1].dtype


def _choice(
    frame: Frame, node: ast.IfExp, test: ast.expr, then: ast.expr, otherwise: ast.expr
) -> Any:
    condition = truth(frame, test)
    if not isinstance(condition, Array):
        return optional(frame, then if condition else otherwise)
    sides = (partial(optional, frame, then), partial(optional, frame, otherwise))
    if _waits(frame, [then, otherwise]):
        return branches.chosen(frame, node, condition, *sides)
    try:
        first, second = (side() for side in sides)
    except ArithmeticError:  # of one that may not be needed
        return branches.chosen(frame, node, condition, *sides)
    if isinstance(first, Number) and isinstance(second, Number):
        return _either(condition, first, second)
    return branches.chosen(frame, node, condition, lambda: first, lambda: second)


def _either(condition: Array, first: Any, second: Any) -> Array:
    """One of two numbers; it is Python's where both are, as `np.where` gives none."""
    dtype = numbers.dtype_of_one(first, second)
    made = where(condition, *(Array(as_dtype(node_of(x), dtype)) for x in (first, second)))
    are_weak = node_of(first).weak and node_of(second).weak
    return numbers.weak(made, made._node.dtype) if are_weak else made


# ---------------------------------------------------------------- keys


def index(frame: Frame, node: ast.expr) -> Any:
    """A key, its arrays as tracers."""
    key = evaluate(frame, node)
    return tuple(map(_entry, key)) if isinstance(key, tuple) else _entry(key)


def _entry(entry: Any) -> Any:
    if isinstance(entry, slice):
        return slice(*(plain(bound) for bound in (entry.start, entry.stop, entry.step)))
    return plain(entry)
