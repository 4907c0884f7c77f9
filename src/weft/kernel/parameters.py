"""Arguments as a kernel's parameters take them; errors are placed at the parameter."""

from __future__ import annotations

from typing import Any

import numpy as np

from weft.array import Array
from weft.errors import ArgumentTypeError, DTypeError, Place, ShapeError, WeftError
from weft.kernel.annotations import ArrayType, ParameterType, describe
from weft.kernel.scalars import as_scalar, show
from weft.ops.dtypes import from_numpy


def checked(name: str, value: Any, wanted: ParameterType, place: Place) -> Any:
    """An argument as its annotation says.

    Raises
    ------
    DTypeError, ShapeError
    """
    if isinstance(value, Array):
        return value
    if isinstance(wanted, ArrayType):
        if isinstance(value, np.ndarray):
            if _described(name, value, place) and from_numpy(value.dtype) is not wanted.dtype:
                raise DTypeError(
                    f"argument {name} is {describe(value)}", f"{wanted}",
                    f"{name}.astype({wanted.dtype.numpy.name!r}), or another annotation", place,
                )  # fmt: skip
            if value.ndim == wanted.rank:
                return value
        raise ShapeError(
            f"argument {name} is {_described(name, value, place)}", f"{wanted}", "", place
        )
    if isinstance(value, list | tuple) or (isinstance(value, np.ndarray) and value.ndim):
        raise ShapeError(
            f"argument {name} is {_described(name, value, place)}", f"one number, {wanted}", "",
            place,
        )  # fmt: skip
    number = as_scalar(value, wanted.dtype)
    if number is None:
        raise DTypeError(f"argument {name} is {show(value)}", f"{wanted}", "", place)
    return number


def _described(name: str, value: Any, place: Place) -> str:
    """What an argument is; an error where it has a dtype that no annotation names."""
    try:
        return describe(value)
    except DTypeError as error:
        raise refused(name, value, error, place) from None


def refused(name: str, value: Any, error: WeftError, place: Place) -> WeftError:
    """The error of an argument that is, or holds, what no kernel takes, at its parameter."""
    if isinstance(error, DTypeError):
        dtype = value.dtype
        what = "an array" if getattr(value, "ndim", 0) else "a number"
        return DTypeError(
            f"argument {name} is {what} of dtype {dtype}", error.expected, _instead(name, dtype),
            place,
        )  # fmt: skip
    if isinstance(error, ArgumentTypeError) and not isinstance(value, np.ndarray):
        return ArgumentTypeError(
            f"argument {name} is {show(value)}, a {type(value).__name__}", error.expected,
            "an array: np.array(...)", place,
        )  # fmt: skip
    error.move_to(place)
    return error


def _instead(name: str, dtype: np.dtype[Any]) -> str:
    """What to give for an array of a dtype that Weft has not."""
    if dtype.names:
        return f"one of its fields: {name}[{dtype.names[0]!r}]"
    if dtype.kind in "mM":
        return f"whole numbers: {name}.astype('int64')"
    wanted = {"c": "complex128", "O": "float64", "S": "float64", "U": "float64"}.get(dtype.kind)
    if dtype == np.float16:
        wanted = "float32"
    return f"{name}.astype({wanted or 'float64'!r})"
