"""Tuples and lists of what is traced, compared as Python does: by the first parts that differ."""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Iterable
from typing import Any

from weft.array import Array, node_of
from weft.frontend.elementwise import apply
from weft.kernel import numbers
from weft.kernel.maybe import is_number

_STRICT: dict[Callable[[Any, Any], Any], Callable[[Any, Any], Any]] = {
    operator.lt: operator.lt, operator.le: operator.lt,
    operator.gt: operator.gt, operator.ge: operator.gt,
}  # fmt: skip


def compared(how: Callable[[Any, Any], Any], first: Any, second: Any) -> Any:
    """What an operator of comparison gives of two tuples or lists: a bool, or a traced one."""
    if holds_arrays((first, second)):
        raise TypeError("arrays within a tuple or list that is compared, which have no truth")
    if how in (operator.eq, operator.ne):
        same = equal(first, second)
        if how is operator.eq:
            return same
        return Array(apply("logical_not", same._node)) if isinstance(same, Array) else not same
    if type(first) is not type(second):
        return how(type(first)(), type(second)())  # which raises Python's error
    return _in_order(how, first, second)


def _in_order(how: Callable[[Any, Any], Any], first: Any, second: Any) -> Any:
    found: Any = how(len(first), len(second))
    for one, other in reversed(list(zip(first, second, strict=False))):
        if is_number(one) and is_number(other):
            before = _STRICT[how](*numbers.fitted("less", (one, other)))
        elif is_sequence(one) and is_sequence(other):
            before = compared(_STRICT[how], one, other)
        else:
            before = _STRICT[how](one, other)
        found = either((before, both((equal(one, other), found))))
    return found


def is_sequence(value: Any) -> bool:
    return type(value) in (tuple, list)


def chosen(condition: Any, first: Any, second: Any) -> Any:
    """The first where a condition holds, else the second: numbers, or tuples of as many."""
    if not isinstance(condition, Array):
        return first if condition else second
    if is_sequence(first) and type(first) is type(second):
        if len(first) == len(second):
            return type(first)(map(functools.partial(chosen, condition), first, second))
    elif is_number(first) and is_number(second):
        one, other = map(node_of, numbers.widened((first, second)))
        return Array(apply("where", condition._node, one, other))
    raise TypeError("arguments of several kinds or lengths, of which the run would choose one")


def equal(first: Any, second: Any) -> Any:
    if isinstance(first, tuple | list) and type(first) is type(second):
        if len(first) != len(second):
            return False
        return both(map(equal, first, second))
    if is_number(first) and is_number(second):
        return equal_numbers(first, second)
    return False if isinstance(first, Array) or isinstance(second, Array) else first == second


def equal_numbers(first: Any, second: Any) -> Any:
    return operator.eq(*numbers.fitted("equal", (first, second)))


def holds_arrays(value: Any) -> bool:
    if isinstance(value, tuple | list):
        return any(map(holds_arrays, value))
    return bool(getattr(value, "ndim", 0))


def either(truths: Iterable[Any]) -> Any:
    return _combined("logical_or", list(truths), decides=True)


def both(truths: Iterable[Any]) -> Any:
    return _combined("logical_and", list(truths), decides=False)


def _combined(operation: str, truths: list[Any], decides: bool) -> Any:
    traced = [truth for truth in truths if isinstance(truth, Array)]
    if any(bool(truth) is decides for truth in truths if not isinstance(truth, Array)):
        return decides
    if not traced:
        return not decides
    return Array(functools.reduce(lambda a, b: apply(operation, a, b), map(node_of, traced)))
