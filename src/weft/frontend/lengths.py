"""Lengths of dimensions: what users give, and how two of them go together."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from typing import Any, TypeAlias

from weft.errors import ArgumentError, ShapeError, TracingError, user_place
from weft.frontend.extent import (
    Extent,
    at_least,
    constant,
    decide_equal,
    literal,
    not_negative,
    require_equal,
    smaller,
)
from weft.frontend.gathering import gathering
from weft.records import dataclass


@dataclass(frozen=True, slots=True)
class Measuring:
    """Who knows lengths that nothing bounds, and whether the run certainly asks for them."""

    known: Callable[[Extent], Extent]
    in_any_case: bool


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
_bounded: ContextVar[bool] = ContextVar("bounded", default=False)
_measuring: ContextVar[Measuring | None] = ContextVar("measuring", default=None)


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


def asking() -> AbstractContextManager[list[Asked]]:
    """Inside, what only the run knows of lengths is gathered: if they are 0 or more, or equal."""
    return gathering(_asked)


@contextmanager
def bounded() -> Iterator[None]:
    """Inside, lengths of which nothing is known but by the run are refused at once."""
    token = _bounded.set(True)
    try:
        yield
    finally:
        _bounded.reset(token)


@contextmanager
def measuring(known: Callable[[Extent], Extent], in_any_case: bool) -> Iterator[None]:
    """Inside, lengths of which nothing is known but by the run are those that `known` gives.

    `in_any_case`: the run comes here, so that these are refused at once which are negative.
    """
    token = _measuring.set(Measuring(known, in_any_case))
    try:
        yield
    finally:
        _measuring.reset(token)


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
        from weft.frontend import layout

        raise ShapeError(
            f"{what} of no elements (shape {layout.values(tuple(shape))})",
            "at least one element",
            place=user_place(),
        )
    found.append(NotEmpty(extent, numpys))


def as_length(value: Any, what: str = "a length") -> Extent:
    """A length that the user gave, not negative."""
    given = literal(value)
    extent = measured(given) if given.symbols else given
    if extent.symbols:
        return _length_of_rounds(extent, what)
    if given.symbols and _in_vain(extent):
        return constant(0)
    if extent.value < 0:
        raise ArgumentError(f"{what} is {extent.value}", "0 or more", place=user_place())
    if extent.value >= 2**63:
        raise ArgumentError(f"{what} is {extent.value}", "less than 2**63", place=user_place())
    at_least(extent, constant(0))
    return extent


def measured(extent: Extent) -> Extent:
    """A length that nothing bounds, as somebody knows it to be."""
    from weft.frontend.symbolic import at_most

    by = _measuring.get()
    return extent if by is None or at_most(extent, -1) is not None else by.known(extent)


def _in_vain(extent: Extent) -> bool:
    """Whether a length is negative, of a branch that the run may not take; it is asked then."""
    by, found = _measuring.get(), _asked.get()
    if by is None or by.in_any_case or found is None or at_least(extent, constant(0)):
        return False
    found.append(NotNegative(extent))
    return True


def _length_of_rounds(extent: Extent, what: str) -> Extent:
    """A length that differs from round to round; 0 where only the run finds it negative."""
    from weft.frontend.symbolic import at_most

    if _bounded.get() and at_most(extent, -1) is None:
        raise ShapeError(
            f"{what} is {extent}, which differs from round to round without a bound",
            "a length that sizes bound", place=user_place(),
        )  # fmt: skip
    try:
        if extent.is_nonnegative():
            return extent
    except TracingError:
        found = _asked.get()
        if found is not None:
            found.append(NotNegative(extent))
            return not_negative(extent)
    raise ArgumentError(
        f"{what} is {extent}, which may be negative",
        "0 or more in every round",
        "an argument that is an int (or n: wf.i64), wf.minimum(wf.maximum(length, 0), bound), or "
        "wf.assume(...) of the sizes before the loop",
        place=user_place(),
    )
