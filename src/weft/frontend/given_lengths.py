"""Lengths of dimensions as users give them: sizes, numbers of a call, or what the run computes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from weft.errors import ArgumentError, ShapeError, TracingError, user_place
from weft.frontend.extent import Extent, at_least, constant, literal, not_negative
from weft.frontend.lengths import NotNegative, asked
from weft.frontend.symbolic import at_most
from weft.records import dataclass


@dataclass(frozen=True, slots=True)
class Measuring:
    """Who knows lengths that nothing bounds, and whether the run certainly asks for them."""

    known: Callable[[Extent], Extent]
    in_any_case: bool


_bounded: ContextVar[bool] = ContextVar("bounded", default=False)
_measuring: ContextVar[Measuring | None] = ContextVar("measuring", default=None)


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
    by = _measuring.get()
    return extent if by is None or at_most(extent, -1) is not None else by.known(extent)


def _in_vain(extent: Extent) -> bool:
    """Whether a length is negative, of a branch that the run may not take; it is asked then."""
    by, found = _measuring.get(), asked()
    if by is None or by.in_any_case or found is None or at_least(extent, constant(0)):
        return False
    found.append(NotNegative(extent))
    return True


def _length_of_rounds(extent: Extent, what: str) -> Extent:
    """A length that differs from round to round; 0 where only the run finds it negative."""
    if _bounded.get() and at_most(extent, -1) is None:
        raise ShapeError(
            f"{what} is {extent}, which differs from round to round without a bound",
            "a length that sizes bound", place=user_place(),
        )  # fmt: skip
    try:
        if extent.is_nonnegative():
            return extent
    except TracingError:
        found = asked()
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
