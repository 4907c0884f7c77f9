"""Lengths of dimensions: how two of them go together, and what only the run knows of them."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from contextvars import ContextVar
from typing import TypeAlias

from weft.errors import ShapeError, TracingError, user_place
from weft.frontend.extent import (
    Extent,
    at_least,
    constant,
    decide_equal,
    require_equal,
    smaller,
    values,
)
from weft.frontend.gathering import gathering
from weft.records import dataclass


@dataclass(frozen=True, slots=True)
class NotEmpty:
    """A length that is to be more than 0, and NumPy's error where it is not."""

    extent: Extent
    numpys: str


@dataclass(frozen=True, slots=True)
class Equal:
    """Two lengths that are to be equal."""

    left: Extent
    right: Extent


@dataclass(frozen=True, slots=True)
class NotNegative:
    """A length that is to be 0 or more."""

    extent: Extent


Asked: TypeAlias = NotEmpty | Equal | NotNegative

_asked: ContextVar[list[Asked] | None] = ContextVar("asked", default=None)


def agree(left: Extent, right: Extent) -> bool:
    """Whether two dimensions have one length; `require_equal` then says so for every call.

    Raises
    ------
    ShapeError
        When the lengths differ from round to round, and may be equal in some rounds only.
    """
    if left is right or left.poly == right.poly:
        return True
    if not (left.symbols or right.symbols):
        return left.value == right.value
    try:
        return decide_equal(left, right)
    except TracingError:
        raise ShapeError(
            f"lengths {left} and {right}, which are not known to be equal in every round",
            "one length",
            "the same expression for both, or wf.assume(...) of the sizes before the loop",
            place=user_place(),
        ) from None


def one_length(left: Extent, right: Extent) -> Extent | None:
    """The length that two dimensions are to have in common; None where they differ.

    Where only the run knows, or that they differ in rounds that there may be none of, whoever
    asks it is told, and it is the smaller one.

    Raises
    ------
    ShapeError
        Where only the run knows, and nobody asks it.
    """
    found = _asked.get()
    try:
        if agree(left, right):
            return require_equal(left, right)
    except ShapeError:
        if found is None:
            raise
    if found is None or not (left.symbols or right.symbols):
        return None
    found.append(Equal(left, right))
    return smaller(left, right)


def agree_all(left: Sequence[Extent], right: Sequence[Extent]) -> bool:
    """Whether two shapes are the same, as they are in every call then."""
    if len(left) != len(right) or not all(map(agree, left, right)):
        return False
    for one, other in zip(left, right, strict=True):
        require_equal(one, other)
    return True


def certainly_agree(left: Sequence[Extent], right: Sequence[Extent]) -> bool:
    """Whether two shapes are the same in every round too, as they are in every call then."""
    try:
        return agree_all(left, right)
    except ShapeError:
        return False


def is_just(extent: Extent, length: int) -> bool:
    """Whether a length is this one in every round of the loops around."""
    return extent.poly == length if extent.symbols else extent.value == length


def may_be_empty(extent: Extent) -> bool:
    """Whether a length is 0, or not known to be anything else in every round."""
    if not extent.symbols:
        return extent.value == 0
    try:
        return not at_least(extent, constant(1))
    except TracingError:
        return True


def asked() -> list[Asked] | None:
    """What is gathered for whoever asks the run; None where nobody does."""
    return _asked.get()


def asking() -> AbstractContextManager[list[Asked]]:
    """Inside, what only the run knows of lengths is gathered: if they are 0 or more, or equal."""
    return gathering(_asked)


def require_any(extent: Extent, shape: Sequence[Extent], what: str, numpys: str) -> None:
    """What `what` names, such as a maximum, is asked for of at least one element.

    `extent`: how many there are, in an array of a shape; `numpys`: NumPy's error, for whoever asks
    the run.

    Raises
    ------
    ShapeError
        Where there may be none, and nobody does.
    """
    if not may_be_empty(extent):
        return
    found = _asked.get()
    if found is None or not extent.symbols:
        raise ShapeError(
            f"{what} of no elements (shape {values(shape)})",
            "at least one element",
            place=user_place(),
        )
    found.append(NotEmpty(extent, numpys))
