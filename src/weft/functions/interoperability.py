"""NumPy's functions and ufuncs on lazy arrays: the functions of Weft that they mean."""

from __future__ import annotations

import contextlib
import functools
import inspect
import math
from collections.abc import Callable
from types import ModuleType
from typing import Any

import numpy as np

from weft.array import Array, asarray
from weft.errors import UnsupportedError, user_place
from weft.frontend import extent as extents
from weft.frontend import lengths
from weft.frontend.containers import map_leaves
from weft.functions.arguments import NumPyOnlyError, axes_of

_RENAMED = {
    "absolute": "abs", "arccos": "acos", "arccosh": "acosh", "arcsin": "asin",
    "arcsinh": "asinh", "arctan": "atan", "arctan2": "atan2", "arctanh": "atanh",
    "bitwise_invert": "bitwise_invert", "concatenate": "concat", "conjugate": "conj",
    "invert": "bitwise_invert", "left_shift": "bitwise_left_shift", "mod": "remainder",
    "power": "pow", "right_shift": "bitwise_right_shift", "true_divide": "divide",
    "transpose": "transpose",
    "amax": "max", "amin": "min", "cumsum": "cumsum", "cumprod": "cumprod", "ravel": "ravel",
    "bitwise_not": "bitwise_invert", "around": "round",
}  # fmt: skip
_REDUCTIONS = {
    "add": "sum", "multiply": "prod", "maximum": "max", "minimum": "min", "logical_and": "all",
    "logical_or": "any",
}  # fmt: skip


def ufunc(function: Any, method: str, inputs: tuple[Any, ...], options: dict[str, Any]) -> Any:
    """What `Array.__array_ufunc__` gives: lazy where Weft has the operation."""
    from weft import functions

    name = function.__name__
    name = _RENAMED.get(name, name)
    if method == "at" and isinstance(inputs[0], Array):
        raise _refused(f"np.{function.__name__}.at", "x = x.at[indices].add(values)")
    out = options.pop("out", None)
    held = options.pop("where", True) if method == "__call__" else True
    if out is not None:
        return _written(out, lambda: ufunc(function, method, inputs, options), held)
    if held is not True:  # NumPy's result elsewhere is whatever lay there
        return map_leaves(
            lambda made: functions.where(held, made, functions.zeros_like(made)),
            ufunc(function, method, inputs, options),
        )
    if method == "__call__" and not options:
        own = getattr(functions, name, None)
        if own is not None:
            return own(*inputs)
    if method == "reduce" and name in _REDUCTIONS and set(options) <= {"axis", "keepdims"}:
        options.setdefault("axis", 0)
        return getattr(functions, _REDUCTIONS[name])(*inputs, **options)
    if method == "accumulate" and name in _REDUCTIONS and set(options) <= {"axis"}:
        return _accumulated(name, *inputs, **options)
    if method == "reduceat" and set(options) <= {"axis", "dtype"}:
        from weft.functions import applied

        if name in applied.SEGMENTED:
            return applied.reduceat(name, *inputs, **options)
    if method == "outer" and len(inputs) == 2 and not options:
        left, right = map(asarray, inputs)
        spread = functions.reshape(left, (*left.shape, *(1,) * right.ndim))
        return getattr(functions, name)(spread, right)
    given, options = _computed(
        f"numpy.{function.__name__}" + ("" if method == "__call__" else f".{method}"),
        inputs, options,
    )  # fmt: skip
    return getattr(function, method)(*given, **options)


def _accumulated(name: str, x: Any, axis: int = 0) -> Array:
    from weft import functions

    match name:
        case "add":
            return functions.cumulative_sum(x, axis=axis)
        case "multiply":
            return functions.cumulative_prod(x, axis=axis)
        case _:
            found: Array = functions.associative_scan(name, x, axis=axis)
            return found


def _written(out: tuple[Any, ...], make: Callable[[], Any], held: Any = True) -> Any:
    """A result in the NumPy array that is to hold it, as of `array += lazy`, where that holds."""
    if any(isinstance(array, Array) for array in out):
        raise _refused("out=", "x = the result")
    if len(out) != 1 or not isinstance(out[0], np.ndarray):
        return NotImplemented
    np.copyto(out[0], np.asarray(make()), casting="same_kind", where=np.asarray(held))
    return out[0]


def function(function: Any, args: tuple[Any, ...], options: dict[str, Any]) -> Any:
    """What `Array.__array_function__` gives: lazy where Weft has the function.

    Others compute their arguments, as `implicit_compute` allows, and give NumPy arrays.
    """
    written = args[:1] if function.__name__ in _WRITING else options.get("out")
    if any(isinstance(x, Array) for x in (written if isinstance(written, tuple) else (written,))):
        what = f"np.{function.__name__}" + ("" if function.__name__ in _WRITING else " with out=")
        raise _refused(what, "x[key] = value, x = x.at[key].set(value), or x = the result")
    apart = {key: value for key, value in options.items() if key != "out"}
    call = translated(function, args, apart if isinstance(written, np.ndarray) else options)
    if call is not None:
        with contextlib.suppress(NumPyOnlyError):
            made = call()
            if not isinstance(written, np.ndarray) or function.__name__ in _WRITING:
                return made
            if np.shape(made) == written.shape:
                return _written((written,), lambda: made)
    args, options = _computed(f"{function.__module__}.{function.__name__}", args, options)
    return function(*args, **options)


def _refused(what: str, advice: str) -> UnsupportedError:
    """What writes into an argument would write into a copy of a lazy one."""
    return UnsupportedError(
        f"{what} writes into a lazy array", "a NumPy array", advice, place=user_place()
    )


_WRITING = frozenset({
    "copyto", "fill_diagonal", "place", "put", "put_along_axis", "putmask",
})  # fmt: skip
_METHODS: dict[str, Callable[..., Any]] = {
    "transpose": lambda a, /, axes=None: asarray(a).transpose(axes),
    "swapaxes": lambda a, axis1, axis2, /: asarray(a).swapaxes(axis1, axis2),
    "cumsum": lambda a, /, axis=None, dtype=None: asarray(a).cumsum(axis, dtype),
    "cumprod": lambda a, /, axis=None, dtype=None: asarray(a).cumprod(axis, dtype),
    "ravel": lambda a, /, order="C": asarray(a).ravel(order),
    "reshape": lambda a, /, shape, order="C", *, copy=None: asarray(a).reshape(
        shape, order=order, copy=copy
    ),
    "argsort": lambda a, /, axis=-1, kind=None, *, stable=None: asarray(a).argsort(
        axis, kind, stable=stable
    ),
    "copy": lambda a, /, order="K", subok=False: asarray(a).copy(),
    "clip": lambda a, /, min=None, max=None: asarray(a).clip(min, max),
    "shape": lambda a, /: asarray(a).shape,
    "ndim": lambda a, /: asarray(a).ndim,
    "size": lambda a, /, axis=None: _size(asarray(a).shape, axis),
}


def _size(shape: tuple[Any, ...], axis: Any) -> Any:
    return math.prod(shape[one] for one in axes_of(axis, len(shape)))


_PARAMETERS = {"a_min": "min", "a_max": "max"}
_WITHOUT_EFFECT = frozenset({"kind", "optimize"})  # sorts are stable, as any kind may be
MODULES = ("numpy", "numpy.lib.stride_tricks")
"""Whose functions are Weft's of the same names."""
_NEUTRAL = {"sum": False, "prod": True, "all": True, "any": False, "max": None, "min": None}
"""What changes no result: of elements that `where` leaves out, whatever their dtype (None: what
the reduction begins with, `initial`)."""
_COMBINED = {"sum": "add", "prod": "multiply", "max": "maximum", "min": "minimum"}
"""What combines a reduction's result with what it begins with."""
_signature = functools.cache(inspect.signature)


def translated(
    function: Any, args: tuple[Any, ...], options: dict[str, Any]
) -> Callable[[], Any] | None:
    """A call of NumPy's function as one of Weft's that does the same; None where there is none."""
    from weft import functions as own_functions
    from weft.functions import masked, where

    name = _RENAMED.get(function.__name__, function.__name__)
    own = _own(function.__module__, name)
    if own is None or (name == "einsum" and not (args and isinstance(args[0], str))):
        return None
    try:
        parameters = _signature(function).parameters
        given = _signature(function).bind(*args, **options).arguments
    except (TypeError, ValueError):
        return None  # NumPy says what is wrong
    known = _signature(own).parameters
    first = [key for key, p in known.items() if p.kind is inspect.Parameter.POSITIONAL_ONLY]
    several = any(p.kind is inspect.Parameter.VAR_KEYWORD for p in known.values())
    positional: list[Any] = []
    named: dict[str, Any] = {}
    apart = {"where": {*_NEUTRAL, *masked.MOMENTS}, "initial": _COMBINED}
    for key, value in given.items():
        kind, default = parameters[key].kind, parameters[key].default
        renamed = key if key in known else _PARAMETERS.get(key, key)
        if kind is inspect.Parameter.VAR_POSITIONAL:
            positional += value
        elif kind is inspect.Parameter.VAR_KEYWORD:
            named |= value
        elif value is np._NoValue or (key in _WITHOUT_EFFECT and key not in known):
            continue
        elif name in apart.get(key, ()):
            continue  # below
        elif renamed in known and renamed not in first:
            named[renamed] = value
        elif len(positional) < len(first):
            positional.append(value)
        elif several and positional:
            named[renamed] = value
        elif value is not default:
            return None
    if name in ("argsort", "sort") and asarray(positional[0]).dtype.kind == "c":
        return None  # which NumPy orders by real parts, and the standard does not
    if name == "take" and named.get("axis") is None:
        positional[0] = asarray(positional[0]).ravel()
    if name in masked.MOMENTS and given.get("where", True) is not True:
        own, named["where"] = masked.MOMENTS[name], given["where"]
    initial = given.get("initial", np._NoValue)
    combined = _COMBINED.get(name) if initial is not np._NoValue else None
    if name in _NEUTRAL and given.get("where", True) is not True:
        neutral = initial if _NEUTRAL[name] is None else asarray(_NEUTRAL[name])
        if neutral is np._NoValue or "out" in given:
            return None
        positional[0] = where(given["where"], positional[0], neutral)
    if combined is not None and not _may_begin(initial, positional[0]):
        return None
    if name == "squeeze" and named.get("axis") is None:
        named["axis"] = tuple(k for k, n in enumerate(args[0].shape) if n == 1)
    try:
        _signature(own).bind(*positional, **named)
    except TypeError:
        return None
    if combined is not None:
        return lambda: getattr(own_functions, combined)(own(*positional, **named), initial)
    return functools.partial(own, *positional, **named)


def _may_begin(initial: Any, array: Any) -> bool:
    """Whether a reduction of some elements, begun so, has their dtype."""
    node = asarray(array)._node
    kinds = {"f": (int, float), "c": (int, float, complex), "i": (int,), "u": ()}
    fits = isinstance(initial, kinds.get(node.dtype.kind, ())) and not isinstance(initial, bool)
    return fits and not lengths.may_be_empty(extents.product(node.shape))


def _own(module: str, name: str) -> Any:
    """The function of Weft for one of NumPy's, or None."""
    from weft import functions

    own = extension(module)
    if own is not None:
        return getattr(own, name) if name in own.__all__ else None
    if module not in MODULES:
        return None
    return _METHODS.get(name) or (getattr(functions, name) if name in functions.__all__ else None)


def unknown_name(name: str) -> AttributeError:
    """What `weft.<name>` raises that there is not: of NumPy's names, it tells Weft's."""
    from weft import functions

    what = f"module 'weft' has no attribute {name!r}"
    numpys = getattr(np, name, None)
    if name.startswith("_") or not callable(numpys) or isinstance(numpys, type):
        return AttributeError(what)  # Python adds the nearest one
    if _own("numpy", _RENAMED.get(name, name)) is None:
        advice = f"np.{name}, on NumPy's arrays"
    else:
        own = {"cumsum": "cumulative_sum", "cumprod": "cumulative_prod"}.get(name)
        own = own or _RENAMED.get(name, name)
        own = f"wf.{own}" if own in functions.__all__ else f"x.{own}"
        advice = f"{own}, or np.{name}, which is lazy for Weft's arrays as well"
    return AttributeError(f"{what}; use {advice}", name=name, obj=None)


def extension(module: str) -> ModuleType | None:
    """The module of Weft for one of NumPy's beside its namespace, or None."""
    from weft import fft, linalg

    return {"numpy.fft": fft, "numpy.linalg": linalg}.get(module)


def _computed(name: str, args: tuple[Any, ...], options: dict[str, Any]) -> Any:
    """Arguments of a function of NumPy that Weft does not have as NumPy's, computed."""
    what = f"{name} (which Weft does not have, or not with such arguments)"

    def values(leaf: Any) -> Any:
        return leaf._implicit(what) if isinstance(leaf, Array) else leaf

    return map_leaves(values, (args, options))
