"""Calls in a user's function: NumPy's and Python's functions as Weft's; other functions inlined."""

from __future__ import annotations

import ast
import builtins
import inspect
import math
from collections.abc import Iterator
from contextlib import contextmanager
from types import FunctionType, MethodType
from typing import Any

import numpy as np

from weft import functions
from weft.array import Array, node_of
from weft.errors import ArgumentError, WeftError
from weft.frontend import lengths
from weft.frontend.extent import Extent
from weft.functions import interoperability
from weft.functions.interoperability import _RENAMED
from weft.kernel import (
    aliases,
    built_ins,
    closures,
    complex_numbers,
    counting,
    exact_sums,
    grown,
    instances,
    mathematics,
    methods,
    numbers,
    ordered,
    real_numbers,
    selection,
    writing,
)
from weft.kernel import named as named_values
from weft.kernel.advice import in_place_of
from weft.kernel.asked import asked
from weft.kernel.closures import Closure
from weft.kernel.creation import CREATION
from weft.kernel.frame import Frame, all_plain, is_traced, plain, plain_named
from weft.kernel.lists import Grown
from weft.kernel.values import Reference, Selection

_OF_UFUNCS = frozenset({"accumulate", "outer", "reduce", "reduceat"})
"""The methods of ufuncs that are compiled."""


def call(
    frame: Frame, node: ast.Call, function: Any, arguments: list[Any], named: dict[str, Any]
) -> Any:
    """What a call gives, its arguments being evaluated."""
    if isinstance(function, methods.Method) and isinstance(function.of, Grown) and not named:
        return grown.method(frame, node, function.of, function.name, arguments)
    if function is builtins.isinstance and len(arguments) == 2 and not named:
        return instances.is_instance(*arguments)
    if function is builtins.list and not arguments and not named:
        return listed(frame, node, [])
    if function is builtins.list and len(arguments) == 1 and not named:
        if isinstance(arguments[0], Grown):
            return grown.copied(frame, arguments[0])
        if type(arguments[0]) in (tuple, list, range):
            return listed(frame, node, list(arguments[0]))
    if function is builtins.len and len(arguments) == 1 and isinstance(arguments[0], Grown):
        return arguments[0].length()
    if isinstance(function, methods.Method):
        with _told(frame, node, function.name), asked(frame, node, function.name):
            return methods.call(frame, node, function, arguments, named)
    if named_values.is_made(function) or named_values.is_method(function):
        with _told(frame, node, function.__name__):
            return function(*(frame.held(a, node) for a in arguments),
                            **{name: frame.held(a, node) for name, a in named.items()})  # fmt: skip
    if isinstance(function, MethodType) and _is_users(function.__func__):
        function, arguments = function.__func__, [function.__self__, *arguments]
    known = getattr(function, "__self__", None)
    if type(known) is list:
        if named:
            frame.refuse(node, f"{function.__name__} of a list with {', '.join(named)}",
                         "no arguments by name")  # fmt: skip
        return grown.of_known(frame, node, known, function.__name__, arguments)
    if isinstance(function, Closure):
        return frame.trace.enter(closures.entered(frame, node, function, arguments, named),
                                 function.node)  # fmt: skip
    inner = getattr(function, "interpreted", None)  # a kernel's function
    if inner is None and _is_users(function):
        inner = exact_sums.of_statistics(function)
    if inner is not None:
        _require_bound(frame, node, inner, arguments, named)
        result = frame.trace.call(frame.trace, inner, arguments, named)
        checked = getattr(function, "checked_result", None)  # of a kernel
        return result if checked is None else checked(result)
    name = getattr(function, "__name__", repr(function))
    with _told(frame, node, name), asked(frame, node, name):
        return _of_library(frame, node, function, arguments, named)


def listed(frame: Frame, node: ast.expr, elements: list[Any]) -> Any:
    """A list that an expression makes: of Python's, unless it is known to grow in a loop."""
    place = frame.place(node)
    if place in frame.trace.growing:
        return grown.begun(frame, elements, node, frame.trace.growing[place])
    frame.trace.literals[id(elements)] = elements, place
    return elements


def is_interpreted(function: Any) -> bool:
    """Whether calls of a function are those of the user's own, which may take what may be None."""
    if isinstance(function, MethodType):
        function = function.__func__
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
        return writing.into(
            frame, node, named.pop("out"), lambda: call(frame, node, function, arguments, named)
        )
    found = writing.by_function(frame, node, function, arguments, named)
    if found is not None:
        return found[0]
    shown = aliases.function(frame, node, function, arguments, named)
    if shown is not None:
        return shown
    combined = getattr(function, "__self__", None)  # np.add, of np.add.reduce
    if isinstance(combined, np.ufunc) and function.__name__ in _OF_UFUNCS:
        plain_arguments = tuple(all_plain(arguments))
        return interoperability.ufunc(
            combined, function.__name__, plain_arguments, plain_named(named)
        )
    return _known(frame, node, function, all_plain(arguments), plain_named(named))


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


_NUMBERS_GIVEN = (builtins.sum, builtins.min, builtins.max, math.prod)
_TAKING_ANY = (builtins.any, builtins.all, builtins.len, builtins.sorted, math.fsum)


def goes_over(function: Any) -> bool:
    """Whether a function takes anything that it can go over, as an array."""
    return _is_numpys(function) or any(function is own for own in (*_NUMBERS_GIVEN, *_TAKING_ANY))


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
        base, exponent = numbers.counted(*arguments)
        return numbers.base(frame, node, base, exponent) ** exponent
    if function is builtins.sorted and len(arguments) == 1 and isinstance(arguments[0], Array):
        return _sorted_list(frame, node, arguments[0], **named)
    own = built_ins.OWN.get(function) if _hashable(function) else None
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
        of_module = complex_numbers if module == "cmath" else mathematics
        if name == "isclose":
            number = numbers.as_complex if module == "cmath" else numbers.as_float
            given = [number(x) for x in arguments[:2]] + arguments[2:]
            return frame.trace.call(frame.trace, real_numbers.isclose, given, named)
        if function is math.prod and named.keys() == {"start"}:
            return mathematics.call(frame, node, name, arguments) * named["start"]
        if named:
            frame.refuse(node, f"{module}.{name} with {', '.join(named)}", "positional arguments")
        return of_module.call(frame, node, name, arguments)
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
    name, given = getattr(function, "__name__", ""), arguments[0] if arguments else None
    if function is builtins.abs:
        return selection.lifted(frame, node, functions.abs, arguments)
    if function in (np.stack, np.vstack) and len(arguments) == 1 and not named:
        (of,) = arguments
        if isinstance(of, Selection) and of.array.ndim > of.mask.ndim == 1:
            return of  # rows, on top of one another
    if function is np.asarray and arguments == [given] and not named:
        return given
    if function in (np.array, np.asarray) and isinstance(given, Selection):
        return _array_of(arguments[0], *arguments[1:], **named)
    if isinstance(function, np.ufunc) and not selection.is_within(list(named.values())):
        return _ufunc(frame, node, function, arguments, named)
    if function in (np.quantile, np.percentile) and len(arguments) == 2 and not named:
        of, share = arguments
        if isinstance(of, Selection) and not isinstance(share, Selection):
            return selection.quantile(of, share / 100 if function is np.percentile else share)
    axis = selection.axis_alone(arguments[1:], named)
    is_of_masks = function is builtins.len or selection.is_of_masks(name)
    if is_of_masks and axis is not selection.OTHER and isinstance(arguments[0], Selection):
        if function is builtins.sum and arguments[0].array.ndim == arguments[0].mask.ndim:
            return built_ins.total(selection.filled(arguments[0], 0).reshape(-1))
        of_python = gives_element(function)
        return selection.method(frame, node, arguments[0], name, axis, of_python)
    given = {key: selection.compacted(value) for key, value in named.items()}
    return _known(frame, node, function, selection.compacted(arguments), given)


def _sorted_list(
    frame: Frame, node: ast.Call, of: Array, *, key: Any = None, reverse: Any = False
) -> Reference:
    """Python's `sorted` of an array."""
    if key is None:
        return ordered.as_list(frame, node, built_ins.sorted_array(of, reverse))
    return ordered.as_list(frame, node, ordered.by(frame, of, key, bool(reverse)))


def _array_of(of: Selection, dtype: Any = None) -> Selection:
    array = of.array if dtype is None else functions.astype(of.array, np.dtype(dtype))
    return Selection(array, of.mask)


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
    if function.signature is not None:  # it is not elementwise
        arguments = selection.compacted(arguments)
    arguments = numbers.fitted(name, arguments)
    if dtype is None:
        return selection.lifted(frame, node, own, arguments)
    wanted = np.dtype(dtype)

    def computed(*operands: Any) -> Any:
        found = own(*operands).dtype
        made = own(*(functions.astype(x, wanted) for x in map(functions.asarray, operands)))
        if made.dtype != wanted or not np.can_cast(found, wanted, "same_kind"):
            raise TypeError(f"a dtype of {wanted}, in which it is not computed, is an argument")
        return made

    return selection.lifted(frame, node, computed, arguments)


def _numpys_own(result: Any) -> Any:
    """What NumPy makes of Python's numbers has a dtype of its own, as all that it gives."""
    return functions.asarray(result) if isinstance(result, Array) else result


def _numpy(
    frame: Frame, node: ast.Call, function: Any, arguments: list[Any], named: dict[str, Any]
) -> Any:
    if len(arguments) == 1 and not named and is_traced(arguments):
        if function is np.flatnonzero:
            return selection.positions(functions.asarray(arguments[0]).reshape(-1))[0]
        if function in (np.nonzero, np.where):
            return selection.positions(functions.asarray(arguments[0]))
        if function is np.argwhere:
            return selection.rows_of_positions(functions.asarray(arguments[0]))
    if function is np.extract and len(arguments) == 2:
        mask, of = map(functions.asarray, arguments)
        if lengths.agree_all(mask._node.shape, of._node.shape):
            return Selection(of, functions.astype(mask, np.dtype(bool)))
    name = getattr(function, "__name__", "")
    name = _RENAMED.get(name, name)
    has = getattr(functions, name, None) is not None or hasattr(Array, name)
    extension = interoperability.extension(function.__module__)
    if extension is not None:
        has = name in extension.__all__
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
    if function is np.unique and len(arguments) == 1 and is_traced(arguments):
        if not named:
            return selection.distinct(functions.asarray(arguments[0]))
        if named == {"return_counts": True}:
            return selection.distinct_and_counts(functions.asarray(arguments[0]))
    if function is np.bincount and is_traced(arguments):
        return counting.bincount(frame, node, *arguments, **named)
    call = interoperability.translated(function, tuple(arguments), named)
    if call is None:
        frame.refuse(
            node, f"np.{function.__name__} with {', '.join(named) or 'these arguments'}",
            "arguments that Weft's function takes",
        )  # fmt: skip
    return call()


def _converted(value: Any, function: Any) -> Any:
    """`np.float32(x)`: a scalar or array of that dtype."""
    if not isinstance(value, Array | Extent):
        return function(value)
    numbers.require_held(np.dtype(function), value)
    array = value if isinstance(value, Array) else Array(node_of(value))
    return functions.astype(array, np.dtype(function))
