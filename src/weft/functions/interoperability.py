"""NumPy's functions and ufuncs on lazy arrays: the functions of Weft that they mean."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import numpy as np

from weft.array import Array, asarray
from weft.frontend.containers import map_leaves

_RENAMED = {
    "absolute": "abs", "arccos": "acos", "arccosh": "acosh", "arcsin": "asin",
    "arcsinh": "asinh", "arctan": "atan", "arctan2": "atan2", "arctanh": "atanh",
    "bitwise_invert": "bitwise_invert", "concatenate": "concat", "conjugate": "conj",
    "invert": "bitwise_invert", "left_shift": "bitwise_left_shift", "mod": "remainder",
    "power": "pow", "right_shift": "bitwise_right_shift", "rint": "round",
    "true_divide": "divide", "float_power": "pow", "fabs": "abs", "transpose": "transpose",
    "amax": "max", "amin": "min", "cumsum": "cumsum", "cumprod": "cumprod", "ravel": "ravel",
    "bitwise_not": "bitwise_invert", "around": "round",
}  # fmt: skip
_METHODS = frozenset({"transpose", "cumsum", "cumprod", "ravel", "swapaxes", "astype", "round"})
_REDUCTIONS = {
    "add": "sum", "multiply": "prod", "maximum": "max", "minimum": "min", "logical_and": "all",
    "logical_or": "any",
}  # fmt: skip
_LAZY_OPTIONS = frozenset({
    "axis", "keepdims", "dtype", "ddof", "axes", "indexing", "n", "mode", "constant_values",
    "decimals",
})  # fmt: skip


def ufunc(function: Any, method: str, inputs: tuple[Any, ...], options: dict[str, Any]) -> Any:
    """What `Array.__array_ufunc__` gives: lazy where Weft has the operation."""
    from weft import functions

    name = function.__name__
    name = _RENAMED.get(name, name)
    out = options.pop("out", None)
    if out is not None:
        return _written(out, lambda: ufunc(function, method, inputs, options))
    if method == "__call__" and not options:
        own = getattr(functions, name, None)
        if own is not None:
            return own(*inputs)
    if method == "reduce" and name in _REDUCTIONS and set(options) <= {"axis", "keepdims"}:
        options.setdefault("axis", 0)
        return getattr(functions, _REDUCTIONS[name])(*inputs, **options)
    if method == "outer" and len(inputs) == 2 and not options:
        left, right = map(asarray, inputs)
        spread = functions.reshape(left, (*left.shape, *(1,) * right.ndim))
        return getattr(functions, name)(spread, right)
    computed = map_leaves(_computed, (inputs, options))
    return getattr(function, method)(*computed[0], **computed[1])


def _written(out: tuple[Any, ...], make: Callable[[], Any]) -> Any:
    """A result in the NumPy array that is to hold it, as of `array += lazy`."""
    if len(out) != 1 or not isinstance(out[0], np.ndarray):
        return NotImplemented
    np.copyto(out[0], np.asarray(make()), casting="same_kind")
    return out[0]


def function(function: Any, args: tuple[Any, ...], options: dict[str, Any]) -> Any:
    """What `Array.__array_function__` gives: lazy where Weft has the function.

    Others compute their arguments, as `implicit_compute` allows, and give NumPy arrays.
    """
    from weft import functions

    given = {name: value for name, value in options.items() if not _is_default(name, value)}
    name = function.__name__
    name = _RENAMED.get(name, name)
    if name == "einsum":
        given.pop("optimize", None)
    lazy = function.__module__ == "numpy" and set(given) <= _LAZY_OPTIONS
    if lazy and name in _METHODS and args and isinstance(args[0], Array):
        return getattr(args[0], name)(*args[1:], **given)
    own = getattr(functions, name, None)
    if lazy and own is not None and name in functions.__all__:
        if "ddof" in given and not name.startswith("nan"):
            given["correction"] = given.pop("ddof")
        call, given = _by_keyword(name, args, given)
        if call is not None:
            return own(*call, **given)
    if function.__module__ == "numpy.linalg":
        from weft import linalg

        own = getattr(linalg, name, None)
        if own is not None and set(given) <= set(inspect.signature(own).parameters):
            return own(*args, **given)
    computed = map_leaves(_computed, (args, options))
    return function(*computed[0], **computed[1])


_AXIS_SECOND = frozenset({
    "all", "any", "argmax", "argmin", "concat", "count_nonzero", "expand_dims", "flip", "max",
    "mean", "min", "nanmax", "nanmean", "nanmin", "nanprod", "nanstd", "nansum", "nanvar", "prod",
    "stack", "std", "sum", "var", "argsort", "sort",
})  # fmt: skip


def _by_keyword(
    name: str, args: tuple[Any, ...], options: dict[str, Any]
) -> tuple[Any, dict[str, Any]]:
    """NumPy's positional `axis` by keyword, as the standard's functions take it."""
    if name in _AXIS_SECOND and len(args) == 2:
        return args[:1], {"axis": args[1], **options}
    if name in ("roll", "repeat", "take") and len(args) == 3:
        return args[:2], {"axis": args[2], **options}
    if name == "tensordot" and len(args) == 3:
        return args[:2], {"axes": args[2], **options}
    if name == "take" and "axis" not in options:
        return (asarray(args[0]).ravel(), *args[1:]), options
    if name == "squeeze" and len(args) == 1 and not options:
        ones = tuple(k for k, n in enumerate(args[0].shape) if n == 1)
        return (args[0], ones), options
    if name == "einsum" and not isinstance(args[0], str):
        return None, options
    if name == "where" and len(args) != 3:
        return None, options
    if name in ("moveaxis", "where", "clip"):
        return args, options
    return (None, options) if name in _AXIS_SECOND and len(args) > 2 else (args, options)


def _is_default(name: str, value: Any) -> bool:
    """Options that NumPy passes on though nobody gave them."""
    return value is np._NoValue or (value is None and name != "axis")


def _computed(value: Any) -> Any:
    return (
        value._implicit("a function of NumPy that Weft does not have")
        if isinstance(value, Array)
        else value
    )
