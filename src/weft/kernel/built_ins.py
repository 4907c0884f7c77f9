"""Python's own functions (`min`, `sum`, `len`, ...), of what is traced."""

from __future__ import annotations

import builtins
import functools
import math
import operator
from collections.abc import Callable
from typing import Any

from weft import functions
from weft.array import Array, node_of
from weft.errors import UnsupportedError, user_place
from weft.frontend.elementwise import apply, common_dtype
from weft.frontend.extent import Extent
from weft.functions import exchanges
from weft.kernel import numbers, sequences
from weft.kernel.frame import is_traced
from weft.kernel.numbers import as_complex, as_float, as_int, counted, weak
from weft.ops.dtypes import DType

_ORDERS = {"less": operator.lt, "greater": operator.gt}


def _extreme(comparison: str) -> Callable[..., Any]:
    """Python's `min` or `max`: the first of equal ones, and of those that do not compare."""

    def chosen(*arguments: Any) -> Any:
        if len(arguments) == 1 and isinstance(arguments[0], Array):
            return _extreme_of(_in_one_dimension(arguments[0]), comparison)
        values = list(arguments[0]) if len(arguments) == 1 else list(arguments)
        if any(getattr(value, "ndim", 0) for value in values):
            raise TypeError("arrays, of which none is less or greater as a whole")
        if not values:
            name = "min" if comparison == "less" else "max"
            raise ValueError(f"{name}() iterable argument is empty")
        best = values[0]
        for value in values[1:]:
            if not is_traced(best) and not is_traced(value):
                better = value < best if comparison == "less" else value > best
                best = value if better else best
                continue
            if sequences.is_sequence(best) or sequences.is_sequence(value):
                better = sequences.compared(_ORDERS[comparison], value, best)
                best = sequences.chosen(better, value, best)
                continue
            left, right = map(node_of, numbers.widened((value, best)))
            if left.dtype.is_integer and right.dtype.is_integer:  # whose bounds lengths may need
                best = Array(apply("minimum" if comparison == "less" else "maximum", left, right))
                continue
            best = Array(apply("where", apply(comparison, left, right), left, right))
        return best

    return chosen


def _extreme_of(array: Array, comparison: str) -> Array:
    """NaN where the first element is, than which none is less or greater; else of the others."""
    if array.dtype.kind != "f":
        return (functions.min if comparison == "less" else functions.max)(array)
    functions.max(array)  # says that there are no elements
    best = (functions.nanmin if comparison == "less" else functions.nanmax)(array)
    first = array[0]
    return functions.where(functions.isnan(first), first, best)


def _in_one_dimension(array: Array) -> Array:
    if array.ndim != 1:
        raise TypeError(f"an argument of {array.ndim} dimensions, whose rows are no numbers")
    return array


def total(values: Any, start: Any = 0) -> Any:
    if isinstance(values, Array):
        return functions.sum(values, axis=0, dtype=_begun_with(start, values)) + start
    return functools.reduce(lambda a, b: a + b, values, start)


def product(values: Any, *, start: Any = 1) -> Any:
    """`math.prod`."""
    if isinstance(values, Array):
        return functions.prod(values, axis=0, dtype=_begun_with(start, values)) * start
    return functools.reduce(lambda a, b: a * b, values, start)


def _begun_with(start: Any, values: Array) -> Any:
    """The dtype of a sum; NumPy's function would take 64 bits for small integers."""
    return common_dtype((node_of(start), values._node)).numpy


def _any_or_all(both: bool) -> Callable[[Any], Any]:
    """Python's `all` or `any`."""

    def found(values: Any) -> Any:
        if isinstance(values, Array):
            found = (functions.all if both else functions.any)(_in_one_dimension(values))
            return _bool(found)
        values = list(values)
        if any(getattr(value, "ndim", 0) for value in values):
            raise TypeError("arrays among what its argument holds have no truth")
        truths = [_bool(value) for value in values]
        if any(truth is not both for truth in truths if not isinstance(truth, Array)):
            return not both
        traced = [truth._node for truth in truths if isinstance(truth, Array)]
        operation = "logical_and" if both else "logical_or"
        if not traced:
            return both
        return Array(functools.reduce(lambda a, b: apply(operation, a, b), traced))

    return found


_FEW = 64  # numbers in order by exchanges, of which there are half as many as their square


def sorted_array(values: Array, reverse: Any) -> Array:
    """What Python's `sorted` gives of an array."""
    return functions.sort(_in_one_dimension(values), descending=bool(reverse))


def _sorted(values: Any, /, *, key: Any = None, reverse: Any = False) -> Any:
    """Python's `sorted`, of a few numbers."""
    if key is not None:
        raise TypeError("a key is an argument not supported, of what is no array")
    found = list(values)
    if not is_traced(found):
        return sorted(found, reverse=reverse)
    if len(found) > _FEW:
        raise TypeError(f"an argument of {len(found)} numbers, of which an array is better made")
    how = _ORDERS["greater" if reverse else "less"]
    for i, j in exchanges.neighbours(len(found)):
        back = sequences.compared(how, (found[j],), (found[i],))
        low, high = found[i], found[j]
        found[i] = sequences.chosen(back, high, low)
        found[j] = sequences.chosen(back, low, high)
    return found


def _range(*bounds: Any) -> range:
    """A range that is held, rather than gone over at once."""
    if is_traced(list(bounds)):
        raise UnsupportedError(
            "a range of bounds that only the run knows, which no loop goes over at once",
            "for i in range(a, b)", "np.arange(a, b), or variables for the bounds",
            place=user_place(),
        )  # fmt: skip
    return range(*bounds)


def _len(value: Any) -> Any:
    if isinstance(value, Array) and not value.ndim:
        raise TypeError("a number, which has no length")
    return value.shape[0] if isinstance(value, Array) else len(value)


def _round(value: Any, digits: Any = None) -> Any:
    (value,) = counted(value)
    if isinstance(value, Extent):
        if digits is not None and not (isinstance(digits, int) and digits >= 0):
            raise TypeError("digits left of the point, of an int, are an argument not supported")
        return value
    if not isinstance(value, Array):
        return round(value, digits)
    if digits is None:
        return as_int(functions.round(value))
    is_float = value._node.weak and value._node.dtype is DType.F64
    if is_float and isinstance(digits, int) and 0 <= digits <= 22:
        return _round_float(value, 10.0**digits)
    return value.round(digits)


def _round_float(x: Array, power: float) -> Array:
    """A float of Python's, rounded as its exact value is, where NumPy rounds a product's."""
    scaled = x * power
    lost = functions.fma(x, power, -scaled)
    whole = functions.floor(scaled)
    is_tie = (scaled - whole == 0.5) & (lost != 0)
    nearest = functions.where(is_tie, whole + (lost > 0), functions.round(scaled))
    found = functions.where(abs(scaled) < 2.0**53, nearest / power, x)
    return weak(functions.copysign(found, x), DType.F64)


def _bool(value: Any) -> Any:
    return weak(value, DType.BOOL) if is_traced(value) else bool(value)


def _pow(base: Any, power: Any) -> Any:
    base, power = counted(base, power)
    return base**power


def _divmod(left: Any, right: Any) -> Any:
    left, right = counted(left, right)
    return left // right, left % right


def _absolute(value: Any) -> Any:
    (value,) = counted(value)
    return functions.abs(value) if isinstance(value, Array) else abs(value)


OWN: dict[Any, Callable[..., Any]] = {
    math.prod: product,
    builtins.all: _any_or_all(True), builtins.any: _any_or_all(False),
    builtins.abs: _absolute, builtins.min: _extreme("less"), builtins.max: _extreme("greater"),
    builtins.sum: total, builtins.len: _len, builtins.int: as_int, builtins.float: as_float,
    builtins.round: _round, builtins.bool: _bool, builtins.pow: _pow, builtins.complex: as_complex,
    builtins.divmod: _divmod, builtins.tuple: tuple, builtins.list: list,
    builtins.zip: lambda *parts: list(zip(*parts, strict=False)),
    builtins.enumerate: lambda part, start=0: list(enumerate(part, start)),
    builtins.range: _range, builtins.slice: slice, builtins.reversed: lambda part: list(part)[::-1],
    builtins.sorted: _sorted,
}  # fmt: skip
