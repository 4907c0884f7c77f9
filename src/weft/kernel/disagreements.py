"""Errors about what the rounds of a loop disagree: types, kinds and shapes of a variable."""

from __future__ import annotations

from typing import Any

from weft.array import Array
from weft.errors import DTypeError, Place, ShapeError
from weft.frontend.elementwise import common_dtype
from weft.frontend.graph import Node
from weft.kernel import numbers
from weft.kernel.branches import kind
from weft.kernel.carried_values import Scalar
from weft.ops.dtypes import DType

Places = tuple[Place | None, Place | None]
"""Where a variable was assigned before a loop, and in it."""


class TypesError(DTypeError):
    """A number has other types before and after a round of a loop."""


def of_types(name: str, before: DType, after: DType, places: Places, loop: Place) -> TypesError:
    first, second = places
    return TypesError(
        f"{name} changes its type in a loop: {before.numpy}{_at(first)}, "
        f"{after.numpy}{_at(second)}",
        "one type in every round",
        f"begin with {after.numpy}: {name} = np.{after.numpy}(...), or another variable",
        place=second or loop,
    )


def of_kinds(name: str, before: Any, after: Any, places: Places, loop: Place) -> DTypeError:
    first, second = places
    return DTypeError(
        f"{name} changes what it is in a loop: {kind(before)}{_at(first)}, "
        f"{kind(after)}{_at(second)}",
        "a value of one kind before the loop and after each round",
        f"another variable for {kind(after)}",
        place=second or loop,
    )


def of_shapes(name: str, before: Array, after: Array, place: Place) -> ShapeError:
    return ShapeError(
        f"{name} has shape {before.shape} before a round of this loop, {after.shape} after it",
        "one shape in every round",
        f"an array as large as {name} becomes, made before the loop, and its slices", place=place,
    )  # fmt: skip


def joined_type(scalar: Scalar, result: Node) -> tuple[DType, bool] | None:
    """The dtype of a number that a round gives, and whether it is Python's; None: at odds."""
    if scalar.weak and result.weak:
        return common_dtype((scalar.initial, result)), True
    common = numbers.dtype_of_one(Array(scalar.initial), Array(result))
    if result.weak:
        return (scalar.dtype, False) if common is scalar.dtype else None
    if scalar.weak:
        return None if common is not result.dtype and not scalar.local else (result.dtype, False)
    return (scalar.dtype, False) if result.dtype is scalar.dtype else None


def _at(place: Place | None) -> str:
    return f" at {place}" if place is not None else ""
