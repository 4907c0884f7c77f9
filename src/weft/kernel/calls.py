"""Calls in a user's function: NumPy's and Python's functions as Weft's; other functions inlined."""

from __future__ import annotations

import ast
import builtins
import functools
import inspect
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FunctionType
from typing import Any

import numpy as np

from weft import functions
from weft.array import Array, node_of
from weft.errors import ArgumentError, WeftError
from weft.frontend.elementwise import apply, as_dtype
from weft.frontend.extent import Extent
from weft.functions import interoperability
from weft.functions.interoperability import _RENAMED
from weft.kernel import aliases, closures, gamma, numbers, real_numbers, selection, whole_numbers
from weft.kernel.advice import in_place_of
from weft.kernel.branches import kind
from weft.kernel.closures import Closure
from weft.kernel.creation import CREATION
from weft.kernel.frame import Frame, all_plain, is_traced, plain, plain_named
from weft.kernel.keys import is_view
from weft.kernel.numbers import as_float, as_int, weak
from weft.kernel.values import (
    KeyView,
    Reference,
    Selection,
    replaced,
)
from weft.ops.dtypes import DType
from weft.records import dataclass


@dataclass(frozen=True, slots=True)
class Method:
    """A method of an array, waiting for its arguments."""

    of: Any  # a Reference, or a scalar
    name: str


def call(
    frame: Frame, node: ast.Call, function: Any, arguments: list[Any], named: dict[str, Any]
) -> Any:
    """What a call gives, its arguments being evaluated."""
    if isinstance(function, Method):
        with _told(frame, node, function.name):
            return _method(frame, node, function, arguments, named)
    if isinstance(function, Closure):
        return frame.trace.enter(closures.entered(frame, node, function, arguments, named),
                                 function.node)  # fmt: skip
    inner = getattr(function, "interpreted", None)  # a kernel's function
    if inner is None and _is_users(function):
        inner = function
    if inner is not None:
        _require_bound(frame, node, inner, arguments, named)
        return frame.trace.call(frame.trace, inner, arguments, named)
    with _told(frame, node, getattr(function, "__name__", repr(function))):
        return _of_library(frame, node, function, arguments, named)


def is_interpreted(function: Any) -> bool:
    """Whether calls of a function are those of the user's own, which may take what may be None."""
    return _is_users(function) or hasattr(function, "interpreted") or isinstance(function, Closure)


def _of_library(
    frame: Frame, node: ast.Call, function: Any, arguments: list[Any], named: dict[str, Any]
) -> Any:
    if isinstance(function, type) and issubclass(function, np.generic):
        (value,) = arguments
        return _converted(plain(value), function)
    if isinstance(function, np.ufunc) and len(arguments) == function.nin + function.nout == 3:
        named = {"out": arguments.pop(), **named}
    if _is_numpys(function) and "out" in named:
        return _into(
            frame, node, named.pop("out"), lambda: call(frame, node, function, arguments, named)
        )
    found = _in_place(frame, node, function, arguments, named)
    if found is not None:
        return found[0]
    shown = aliases.function(frame, node, function, arguments, named)
    if shown is not None:
        return shown
    combined = getattr(function, "__self__", None)  # np.add, of np.add.reduce
    if isinstance(combined, np.ufunc) and function.__name__ in ("accumulate", "outer", "reduce"):
        plain_arguments = tuple(all_plain(arguments))
        return interoperability.ufunc(
            combined, function.__name__, plain_arguments, plain_named(named)
        )
    return _known(frame, node, function, all_plain(arguments), plain_named(named))


def _into(frame: Frame, node: ast.Call, target: Any, compute: Callable[[], Any]) -> Any:
    """`out=target`: what is computed, written there."""
    if isinstance(target, tuple) and len(target) == 1:
        (target,) = target
    if target is None:
        return compute()
    write(frame, node, target, compute())
    return target


@contextmanager
def _told(frame: Frame, node: ast.Call, name: str) -> Iterator[None]:
    """Say where arguments stand that a function does not take, not what takes none within Weft."""
    try:
        yield
    except TypeError as error:
        if isinstance(error, WeftError):
            raise
        found = str(error)
        if "argument" in found:
            found = found.partition("() ")[2] or found
        frame.refuse(node, f"a call of {name}: {found}", "arguments that Weft's function takes")


def _require_bound(
    frame: Frame, node: ast.Call, function: Any, arguments: list[Any], named: dict[str, Any]
) -> None:
    """Whether the arguments are those of a user's function."""
    signature = inspect.signature(function)
    try:
        signature.bind(*arguments, **named)
    except TypeError as error:
        raise ArgumentError(
            f"a call of {function.__name__}: {error}", str(signature), place=frame.place(node)
        ) from None


def _is_numpys(function: Any) -> bool:
    module = str(getattr(function, "__module__", None))
    return isinstance(function, np.ufunc) or module.split(".")[0] == "numpy"


_NUMBERS_GIVEN = (builtins.sum, builtins.min, builtins.max)


def goes_over(function: Any) -> bool:
    """Whether a function takes anything that it can go over, as an array."""
    return _is_numpys(function) or any(function is own for own in (*_NUMBERS_GIVEN, any, all, len))


def gives_element(function: Any) -> bool:
    """Whether a function gives a Python number of Python numbers."""
    return any(function is own for own in _NUMBERS_GIVEN)


def _is_users(function: Any) -> bool:
    """Whether a function is the user's own, written in Python."""
    if not isinstance(function, FunctionType):
        return False
    return (function.__module__ or "").split(".")[0] not in ("numpy", "weft", "math", "scipy")


def _known(
    frame: Frame, node: ast.Call, function: Any, arguments: list[Any], named: dict[str, Any]
) -> Any:
    module = _module(function)
    name = getattr(function, "__name__", "")
    if selection.is_within([*arguments, *named.values()]):
        return _of_selection(frame, node, function, arguments, named)
    if function is builtins.pow and len(arguments) == 2 and not named:
        return numbers.base(frame, node, *arguments) ** arguments[1]
    own = _BUILTINS.get(function) if _hashable(function) else None
    if own is not None:
        return own(*arguments, **named)
    if module.startswith("numpy"):
        made = CREATION.get(name)
        if made is not None:
            return made(*arguments, **named)
    given = [*arguments, *named.values()]
    if module in _PURE and not is_traced(given) and not has_extent(given):
        found = function(*arguments, **named)
        return frame.made(found, node) if module.startswith("numpy") else frame.constant(found)
    if isinstance(function, np.ufunc) and is_traced(arguments):
        return _numpys_own(_ufunc(frame, node, function, arguments, named))
    if module in ("math", "cmath"):
        if named:
            frame.refuse(node, f"math.{name} with {', '.join(named)}", "positional arguments")
        return _math(frame, node, name, arguments)
    if module.split(".")[0] == "weft" and callable(function):
        return function(*arguments, **named)
    if module.split(".")[0] == "numpy":
        return _numpys_own(_numpy(frame, node, function, arguments, named))
    frame.refuse(
        node, f"a call of {name or function!r}, which cannot be compiled",
        "functions of math, NumPy and weft, other kernels, and functions written in Python",
        in_place_of(function),
    )  # fmt: skip


def _of_selection(
    frame: Frame, node: ast.Call, function: Any, arguments: list[Any], named: dict[str, Any]
) -> Any:
    """A function of elements that a mask selects."""
    name = getattr(function, "__name__", "")
    if function is builtins.abs:
        return selection.lifted(frame, node, functions.abs, arguments)
    if isinstance(function, np.ufunc) and not selection.is_within(list(named.values())):
        return _ufunc(frame, node, function, arguments, named)
    if len(arguments) == 1 and not named and isinstance(arguments[0], Selection):
        if function is builtins.sum:
            return _sum(selection.filled(arguments[0], 0).reshape(-1))
        return selection.method(frame, node, arguments[0], name)
    return selection.refuse(frame, node, f"a call of {name} on elements that a mask selects")


_PURE = frozenset({"builtins", "math", "cmath", "numpy", "numpy.linalg", "numpy.fft"})


def _hashable(value: Any) -> bool:
    try:
        hash(value)
    except TypeError:
        return False
    return True


def _module(function: Any) -> str:
    """Where a function is from; a method in C has no module, but its object's type has."""
    of = getattr(function, "__self__", function)
    return getattr(function, "__module__", None) or type(of).__module__


def has_extent(value: Any) -> bool:
    """Whether a value is a size, or holds one."""
    if isinstance(value, tuple | list):
        return any(map(has_extent, value))
    return isinstance(value, Extent)


def _fixed(value: Any) -> Any:
    """Sizes as the ints that they are in this call, and in all calls of the program."""
    if isinstance(value, tuple | list):
        return type(value)(map(_fixed, value))
    return int(value) if isinstance(value, Extent) else value


# ---------------------------------------------------------------- NumPy and math


def _ufunc(
    frame: Frame, node: ast.Call, function: np.ufunc, arguments: list[Any], named: dict[str, Any]
) -> Any:
    name = _RENAMED.get(function.__name__, function.__name__)
    dtype = named.pop("dtype", None)
    own = getattr(functions, name, None)
    if own is None or named:
        frame.refuse(
            node, f"np.{function.__name__}" + (f" with {', '.join(named)}" if named else ""),
            "a function that weft has: see dir(weft)",
        )  # fmt: skip
    if name == "pow" and len(arguments) == 2:
        arguments = [numbers.base(frame, node, *arguments), arguments[1]]
    arguments = numbers.fitted(name, arguments)
    result = selection.lifted(frame, node, own, arguments)
    if dtype is None:
        return result
    return selection.lifted(frame, node, lambda made: functions.astype(made, dtype), [result])


def _numpys_own(result: Any) -> Any:
    """What NumPy makes of Python's numbers has a dtype of its own, as all that it gives."""
    return functions.asarray(result) if isinstance(result, Array) else result


def _numpy(
    frame: Frame, node: ast.Call, function: Any, arguments: list[Any], named: dict[str, Any]
) -> Any:
    name = getattr(function, "__name__", "")
    name = _RENAMED.get(name, name)
    has = getattr(functions, name, None) is not None or hasattr(Array, name)
    if function.__module__ == "numpy.linalg":
        from weft import linalg

        has = name in linalg.__all__
    if not has or function.__module__ not in (*_PURE, *interoperability.MODULES):
        given = [*arguments, *named.values()]
        if function.__module__ in _PURE and not is_traced(given):
            sizes = {key: _fixed(value) for key, value in named.items()}
            return frame.made(function(*map(_fixed, arguments), **sizes), node)
        frame.refuse(
            node, f"a call of {function.__module__}.{name}, which cannot be compiled",
            "a function that weft has: see dir(weft)",
        )  # fmt: skip
    if name == "clip" and isinstance(arguments[0], Array):
        for bound in (*arguments[1:], *named.values()):
            numbers.require_held(arguments[0].dtype, bound)
    call = interoperability.translated(function, tuple(arguments), named)
    if call is None:
        frame.refuse(
            node, f"np.{function.__name__} with {', '.join(named) or 'these arguments'}",
            "arguments that Weft's function takes",
        )  # fmt: skip
    return call()


def _math(frame: Frame, node: ast.Call, name: str, arguments: list[Any]) -> Any:
    """A function of `math`, of weak or strong scalars; whole numbers where Python gives ints."""
    if name in ("floor", "ceil", "trunc"):
        return as_int(getattr(functions, name)(*arguments))
    if name == "fabs":
        return functions.abs(as_float(arguments[0]))
    if name == "fmod":
        return functions.fmod(*map(as_float, arguments))
    if name == "pow":
        return as_float(arguments[0]) ** as_float(arguments[1])
    if name in ("radians", "degrees"):
        return getattr(functions, name)(as_float(arguments[0]))
    if whole_numbers.written_out(name, len(arguments)) is not None:
        return whole_numbers.call(frame, node, name, arguments)
    if name in ("gamma", "lgamma"):
        return gamma.call(frame, node, name, *arguments)
    written = real_numbers.written_out(name, len(arguments))
    if written is not None:
        return frame.trace.call(frame.trace, written, arguments, {})
    own = getattr(functions, {"log": "log", **_RENAMED, **_MATH}.get(name, name), None)
    if own is None:
        frame.refuse(node, f"math.{name}", "a function that weft has: see dir(weft)")
    if name == "log" and len(arguments) == 2:
        return functions.log(arguments[0]) / functions.log(arguments[1])
    return own(*arguments)


_MATH = {
    "acos": "acos", "asin": "asin", "atan": "atan", "pow": "pow", "isnan": "isnan",
    "isinf": "isinf", "isfinite": "isfinite", "copysign": "copysign",
}  # fmt: skip


# ---------------------------------------------------------------- Python's own functions


def _converted(value: Any, function: Any) -> Any:
    """`np.float32(x)`: a scalar or array of that dtype."""
    if not isinstance(value, Array | Extent):
        return function(value)
    numbers.require_held(np.dtype(function), value)
    array = value if isinstance(value, Array) else Array(node_of(value))
    return functions.astype(array, np.dtype(function))


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


def _sum(values: Any, start: Any = 0) -> Any:
    if isinstance(values, Array):  # NumPy's function would sum small integers in 64 bits
        dtype = None if values.dtype == bool else values.dtype
        return functions.sum(values, axis=0, dtype=dtype) + start
    return functools.reduce(lambda a, b: a + b, values, start)


def _any_or_all(both: bool) -> Callable[[Any], Any]:
    """Python's `all` or `any`."""

    def found(values: Any) -> Any:
        if isinstance(values, Array):
            return (functions.all if both else functions.any)(_in_one_dimension(values))
        truths = [_bool(value) for value in values]
        if any(isinstance(truth, Array) and truth.ndim for truth in truths):
            raise TypeError("arrays among what its argument holds have no truth")
        if any(truth is not both for truth in truths if not isinstance(truth, Array)):
            return not both
        traced = [truth._node for truth in truths if isinstance(truth, Array)]
        operation = "logical_and" if both else "logical_or"
        if not traced:
            return both
        return Array(functools.reduce(lambda a, b: apply(operation, a, b), traced))

    return found


def _len(value: Any) -> Any:
    if isinstance(value, Array) and not value.ndim:
        raise TypeError("a number, which has no length")
    return value.shape[0] if isinstance(value, Array) else len(value)


def _round(value: Any, digits: Any = None) -> Any:
    if isinstance(value, Extent):
        if digits is not None and not (isinstance(digits, int) and digits >= 0):
            raise TypeError("digits left of the point, of an int, are an argument not supported")
        return value
    if not isinstance(value, Array):
        return round(value, digits)
    return as_int(functions.round(value)) if digits is None else value.round(digits)


def _bool(value: Any) -> Any:
    return Array(as_dtype(node_of(value), DType.BOOL)) if is_traced(value) else bool(value)


def _pow(base: Any, power: Any) -> Any:
    return base**power


def _complex(real: Any, imaginary: Any = 0) -> Any:
    if is_traced(real) or is_traced(imaginary):
        return real + imaginary * 1j
    return complex(real, imaginary)


def _absolute(value: Any) -> Any:
    return functions.abs(value) if isinstance(value, Array) else abs(value)


_BUILTINS: dict[Any, Callable[..., Any]] = {
    builtins.all: _any_or_all(True), builtins.any: _any_or_all(False),
    builtins.abs: _absolute, builtins.min: _extreme("less"), builtins.max: _extreme("greater"),
    builtins.sum: _sum, builtins.len: _len, builtins.int: as_int, builtins.float: as_float,
    builtins.round: _round, builtins.bool: _bool, builtins.pow: _pow, builtins.complex: _complex,
    builtins.divmod: lambda a, b: (a // b, a % b), builtins.tuple: tuple, builtins.list: list,
    builtins.zip: lambda *parts: list(zip(*parts, strict=False)),
    builtins.enumerate: lambda part, start=0: list(enumerate(part, start)),
    builtins.range: range, builtins.slice: slice, builtins.reversed: lambda part: list(part)[::-1],
}  # fmt: skip


# ---------------------------------------------------------------- writing


def write(
    frame: Frame, node: ast.AST, target: Any, value: Any, key: Any = None,
    combine: str | None = None,
) -> None:  # fmt: skip
    """`target[key] = value`, in place; without a key all of the target.

    With `combine`, a scalar operation, of what is there and each value that comes, in order.
    """
    if isinstance(target, Selection):
        selection.refuse(frame, node, "a write to a copy of elements that a mask selects")
    if not isinstance(target, Reference):
        frame.refuse(node, f"a write to {kind(target)}", "a write to an array")
    cell = target.cell
    if cell.refusal:
        frame.refuse(
            node, f"a write to an array that cannot be written: {cell.refusal}",
            "an argument, or an array made in the kernel",
        )  # fmt: skip
    if isinstance(value, Selection):
        part = selection.written(frame, node, target.read(), key, value)
    else:
        if key is not None and target.shows_part and is_view(key) and combine is None:
            target, key = target.through(KeyView(key)), None
        key = Ellipsis if key is None else key
        numbers.require_held(target.read().dtype, value)
        part = KeyView(key).put(target.read(), plain(value), combine)
    frame.memory.write(cell, replaced(cell.array, target.views, part))


def _in_place(
    frame: Frame, node: ast.Call, function: Any, arguments: list[Any], named: dict[str, Any]
) -> tuple[Any] | None:
    """NumPy's functions that write one of their arguments; a result in a tuple."""
    if function is np.copyto:
        _copy_to(frame, node, *arguments, **named)
        return (None,)
    if function is np.fill_diagonal:
        _fill_diagonal(frame, node, *arguments, **named)
        return (None,)
    accumulated = getattr(function, "__self__", None)  # np.add, of np.add.at
    if isinstance(accumulated, np.ufunc) and function.__name__ == "at" and len(arguments) == 3:
        target, key, value = arguments
        write(frame, node, target, value, plain(key), accumulated.__name__)
        return (None,)
    return None


def _copy_to(
    frame: Frame, node: ast.Call, dst: Any, src: Any, casting: str = "same_kind", where: Any = True
) -> None:  # fmt: skip
    new, mask = plain(src), plain(where)
    if isinstance(new, Array) and isinstance(dst, Reference):
        own = dst.read().dtype
        if not new._node.weak and not np.can_cast(new.dtype, own, casting):  # type: ignore[arg-type]
            frame.refuse(
                node, f"a copy of {new.dtype} to {own}, casting={casting!r}",
                "a dtype that can be cast so", "src.astype(dtype)",
            )  # fmt: skip
    if mask is not True:
        new = functions.where(mask, new, plain(dst))
    write(frame, node, dst, new)


def _fill_diagonal(frame: Frame, node: ast.Call, a: Any, val: Any, wrap: Any = False) -> None:
    if wrap is not False:
        frame.refuse(node, "fill_diagonal with wrap", "a diagonal that ends with the columns")
    array = plain(a)
    count = functions.arange(min(array.shape))
    write(frame, node, a, plain(val), (count,) * array.ndim)


def _method(
    frame: Frame, node: ast.Call, method: Method, arguments: list[Any], named: dict[str, Any]
) -> Any:
    reference, name = method.of, method.name
    arguments = all_plain(arguments)
    if isinstance(reference, Reference):
        if name == "fill":
            (value,) = _only(arguments, named)
            write(frame, node, reference, value)
            return None
        if name == "sort":
            write(frame, node, reference, _sorted(reference.read(), *arguments, **named))
            return None
        shown = aliases.method(frame, node, reference, name, arguments, named)
        if shown is not None:
            return shown
    if isinstance(reference, Selection):
        if arguments or named:
            selection.refuse(frame, node, f"{name} of elements that a mask selects")
        return selection.method(frame, node, reference, name)
    array = plain(reference)
    if name == "copy":
        return Array(array._node)
    if name == "clip" and isinstance(array, Array):
        for bound in (*arguments, *named.values()):
            numbers.require_held(array.dtype, bound)
    if name in _AXIS_AND_MORE:
        given = dict(zip(_AXIS_AND_MORE[name], arguments, strict=False)) | named
        if len(arguments) > len(_AXIS_AND_MORE[name]):
            raise TypeError(f"{len(arguments)} arguments")
        arguments = []
        named = {key: value for key, value in given.items() if value is not None or key == "axis"}
        if "out" in named:
            target = named.pop("out")
            return _into(frame, node, target, lambda: _method(frame, node, method, [], named))
    if name == "item" and not arguments:
        scalar = array.reshape(())
        kind = {"f": DType.F64, "c": DType.C128}.get(scalar.dtype.kind, DType.I64)
        return weak(scalar, DType.BOOL if scalar.dtype == bool else kind)
    if not hasattr(array, name) or name.startswith("_"):
        frame.refuse(node, f"the method {name} of an array", "one that weft.Array has")
    return getattr(array, name)(*arguments, **plain_named(named))


_AXIS_AND_MORE = {
    **dict.fromkeys(("sum", "prod", "mean", "cumsum", "cumprod"), ("axis", "dtype", "out")),
    **dict.fromkeys(("std", "var"), ("axis", "dtype", "out", "ddof")),
    **dict.fromkeys(("min", "max", "argmin", "argmax", "all", "any"), ("axis", "out")),
    "argsort": ("axis", "kind", "order"),
}
"""What NumPy's methods take by position; None where that is the default."""


def _only(arguments: list[Any], named: dict[str, Any]) -> list[Any]:
    if named or len(arguments) != 1:
        raise TypeError("one argument is needed, and none by name")
    return arguments


def _sorted(
    array: Array, axis: Any = -1, kind: Any = None, order: Any = None, *, stable: Any = None
) -> Array:
    if order is not None:
        raise TypeError("an order is of arrays with fields")
    return functions.sort(array, axis=axis)
