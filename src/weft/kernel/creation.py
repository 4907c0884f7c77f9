"""NumPy's functions that make arrays, with NumPy's order of arguments."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from weft import functions
from weft.array import Array
from weft.kernel import numbers


def _dtype(dtype: Any) -> Any:
    return None if dtype is None else np.dtype(dtype)


def _made(make: Callable[..., Any], *names: str) -> Callable[..., Any]:
    """A creation function with NumPy's order of arguments."""

    def adapted(*arguments: Any, **named: Any) -> Any:
        if len(arguments) > len(names):
            raise TypeError(f"more than {len(names)} arguments")
        given = dict(zip(names, arguments, strict=False)) | named
        given.pop("order", None)
        given.pop("subok", None)
        positional = [given.pop(name) for name in names if name in given and name in _FIRST]
        if given.get("dtype") is not None:
            given["dtype"] = _dtype(given["dtype"])
            for value in positional[1:]:
                numbers.require_held(given["dtype"], value)
        return make(*positional, **given)

    return adapted


_FIRST = frozenset({"shape", "object", "a", "prototype", "fill_value", "N", "M"})


def _arange(*arguments: Any, **named: Any) -> Any:
    """NumPy's, of which each argument may be given by name."""
    given = dict(zip(("start", "stop", "step", "dtype"), arguments, strict=False)) | named
    dtype = _dtype(given.pop("dtype", None))
    bounds = [given.pop(name) for name in ("start", "stop") if given.get(name) is not None]
    if "step" in given:
        bounds = [0, *bounds] if len(bounds) == 1 else bounds
        bounds.append(given.pop("step"))
    return functions.arange(*bounds, dtype=dtype, **given)  # type: ignore[misc]


def _linspace(start: Any, stop: Any, num: Any = 50, endpoint: bool = True, **named: Any) -> Any:
    return functions.linspace(start, stop, num, endpoint=endpoint, **named)


def _array(
    obj: Any, dtype: Any = None, order: Any = None, *, copy: Any = None, subok: bool = False,
    ndmin: int = 0,
) -> Any:  # fmt: skip
    """An array of its own: `aliases` gives those that NumPy does not copy."""
    if dtype is not None:
        for value in obj if isinstance(obj, tuple | list) else [obj]:
            numbers.require_held(np.dtype(dtype), value)
    made = functions.asarray(obj, dtype=_dtype(dtype))
    if made.ndim < ndmin:
        made = functions.expand_dims(made, tuple(range(ndmin - made.ndim)))
    return Array(made._node)


def _contiguous(a: Any, dtype: Any = None) -> Any:
    return _array(a, dtype, ndmin=1)


def _copied(a: Any, order: Any = "K", subok: bool = False) -> Any:
    return _array(a)


def _unfilled(shape: Any, dtype: Any = None, *, buffer: None = None) -> Any:
    """`np.ndarray(shape, dtype)`, called as a function."""
    if buffer is not None:
        raise TypeError("an argument buffer, whose memory the array would be")
    return functions.zeros(shape, dtype=_dtype(dtype))


def _grid(*indices: Any) -> Any:
    """`np.ix_`: vectors of indices, each along an axis of its own."""
    found = []
    for axis, index in enumerate(map(functions.asarray, indices)):
        if index.ndim != 1 or index.dtype == bool:
            raise TypeError("other than vectors of integers")
        others = tuple(k for k in range(len(indices)) if k != axis)
        found.append(functions.expand_dims(index, axis=others))
    return tuple(found)


CREATION: dict[str, Callable[..., Any]] = {
    "zeros": _made(functions.zeros, "shape", "dtype", "order"),
    "ones": _made(functions.ones, "shape", "dtype", "order"),
    "empty": _made(functions.zeros, "shape", "dtype", "order"),
    "full": _made(functions.full, "shape", "fill_value", "dtype", "order"),
    "zeros_like": _made(functions.zeros_like, "a", "dtype", "order"),
    "ones_like": _made(functions.ones_like, "a", "dtype", "order"),
    "ndarray": _made(_unfilled, "shape", "dtype", "buffer", "offset", "strides", "order"),
    "empty_like": _made(functions.zeros_like, "prototype", "dtype", "order"),
    "full_like": _made(functions.full_like, "a", "fill_value", "dtype", "order"),
    "eye": _made(functions.eye, "N", "M", "k", "dtype"),
    "identity": _made(functions.eye, "N", "dtype"),
    "arange": _arange,
    "linspace": _linspace,
    "array": _array,
    "asarray": _array,
    "asanyarray": _array,
    "ascontiguousarray": _contiguous,
    "copy": _copied,
    "ix_": _grid,
}
