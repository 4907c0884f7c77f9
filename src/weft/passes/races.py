"""Whether two rounds of a loop access one element, by trying all, with the sizes of a call."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping

from weft.fun import nodes as fun
from weft.passes.dependence import Access, Rounds
from weft.passes.knowledge import Knowledge
from weft.records import dataclass
from weft.sizes import Size

MOST = 200_000  # elements looked at


@dataclass(frozen=True, slots=True)
class Race:
    """Two rounds, by their indices, and the element that both access."""

    first: int
    second: int
    element: tuple[int, ...]


class Unknown(Exception):  # noqa: N818 - an answer, not an error
    """What is accessed is not known by sizes alone, or is too much to be tried."""


def find_race(write: Access, other: Access, rounds: Rounds, known: Knowledge) -> Race | None:
    """Two rounds that access one element; None where no two do.

    Where the accesses are two, no two rounds are to write one element.

    Raises
    ------
    Unknown
    """
    values = dict(known.values)
    lower, upper = (_value(bound, values) for bound in (rounds.lower, rounds.upper))
    numbers = range(lower, upper)
    # Where rounds meet, neighbours mostly do, and at once.
    for first, second in (numbers[:2], numbers[1::-1]) if len(numbers) > 1 else ():
        here, there = ({**values, rounds.index: index} for index in (first, second))
        meeting = _meeting(next(_boxes(write, here), ()), next(_boxes(other, there), ()))
        if meeting is not None:
            return Race(first, second, meeting)
    budget = [MOST]
    written: dict[tuple[int, ...], int] = {}
    for index in numbers:
        for element in _elements(write, {**values, rounds.index: index}, budget):
            before = written.setdefault(element, index)
            if before != index and write is other:
                return Race(before, index, element)
    if write is other:
        return None
    for index in numbers:
        for element in _elements(other, {**values, rounds.index: index}, budget):
            writer = written.get(element)
            if writer is not None and writer != index:
                return Race(writer, index, element)
    return None


def _elements(
    access: Access, values: Mapping[str, int], budget: list[int]
) -> Iterator[tuple[int, ...]]:
    """The elements that a round accesses."""
    for box in _boxes(access, values):
        budget[0] -= math.prod(map(len, box))
        if budget[0] < 0:
            raise Unknown
        yield from itertools.product(*box)


def _boxes(access: Access, values: Mapping[str, int]) -> Iterator[tuple[range, ...]]:
    """What a round accesses for each of its own indices: ranges along the dimensions."""
    if not access.inner:
        yield tuple(_along(dim, values) for dim in access.dims)
        return
    inner, *more = access.inner
    rest = Access(access.array, access.dims, tuple(more), access.place)
    for index in range(_value(inner.lower, values), _value(inner.upper, values)):
        yield from _boxes(rest, {**values, inner.name: index})


def _meeting(left: tuple[range, ...], right: tuple[range, ...]) -> tuple[int, ...] | None:
    """The first element of a box that is in another one, if any is."""
    found = [number for number in map(_common, left, right) if number is not None]
    return tuple(found) if found and len(found) == len(right) else None


def _common(left: range, right: range) -> int | None:
    """The first number of `right` that is in `left`."""
    if not left or not right:
        return None
    low, high = sorted((left[0], left[-1]))
    away = low - right[0] if right.step > 0 else right[0] - high
    begin = max(0, -(-away // abs(right.step)))
    return next((n for n in right[begin : begin + abs(left.step)] if n in left), None)


def _along(dim: fun.Span | Size, values: Mapping[str, int]) -> range:
    if not isinstance(dim, fun.Span):
        point = _value(dim, values)
        return range(point, point + 1)
    start, extent = _value(dim.start, values), _value(dim.extent, values)
    return range(start, start + extent * dim.step, dim.step)


def _value(size: Size, values: Mapping[str, int]) -> int:
    if not size.variables() <= values.keys():
        raise Unknown
    return size.evaluate(values)
