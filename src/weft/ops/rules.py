"""What the rules of library routines are about: types of arguments, options, batches."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

import numpy.typing as npt

from weft.errors import ShapeError
from weft.ops.dtypes import DType

NDArray: TypeAlias = npt.NDArray[Any]

ArrayType: TypeAlias = tuple[DType, tuple[Any, ...]]
"""A dtype and a shape; extents are of any type with `==` (also to integers)."""

Options: TypeAlias = Mapping[str, Any]

Rule: TypeAlias = Callable[[tuple[ArrayType, ...], Options], tuple[ArrayType, ...]]
"""(argument types, options) -> result types; raises ShapeError or DTypeError."""

Described: TypeAlias = tuple[Rule, Callable[..., None], Options]
"""The rule of a routine, what computes it, and the options with their defaults."""


def broadcast(left: tuple[Any, ...], right: tuple[Any, ...]) -> tuple[Any, ...]:
    """The shape of batches of two shapes."""
    rank = max(len(left), len(right))
    left = (1,) * (rank - len(left)) + left
    right = (1,) * (rank - len(right)) + right
    for a, b in zip(left, right, strict=True):
        if a != b and a != 1 and b != 1:
            raise ShapeError(f"batches of shapes {text(left)} and {text(right)}")
    return tuple(b if a == 1 else a for a, b in zip(left, right, strict=True))


def text(shape: tuple[Any, ...]) -> str:
    """A shape as messages show it."""
    return f"({', '.join(map(str, shape))})"
