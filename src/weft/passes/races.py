"""Whether two rounds of a loop access one element, by trying all, with the sizes of a call."""

from __future__ import annotations

import itertools
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
    budget = [MOST]
    written: dict[tuple[int, ...], int] = {}
    lower, upper = (_value(bound, values) for bound in (rounds.lower, rounds.upper))
    for index in range(lower, upper):
        for element in _elements(write, {**values, rounds.index: index}, budget):
            before = written.setdefault(element, index)
            if before != index and write is other:
                return Race(before, index, element)
    if write is other:
        return None
    for index in range(lower, upper):
        for element in _elements(other, {**values, rounds.index: index}, budget):
            writer = written.get(element)
            if writer is not None and writer != index:
                return Race(writer, index, element)
    return None


def _elements(
    access: Access, values: Mapping[str, int], budget: list[int]
) -> Iterator[tuple[int, ...]]:
    """The elements that a round accesses."""
    if not access.inner:
        spans = [_along(dim, values) for dim in access.dims]
        for element in itertools.product(*spans):
            budget[0] -= 1
            if budget[0] < 0:
                raise Unknown
            yield element
        return
    inner, *more = access.inner
    rest = Access(access.array, access.dims, tuple(more), access.place)
    for index in range(_value(inner.lower, values), _value(inner.upper, values)):
        yield from _elements(rest, {**values, inner.name: index}, budget)


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
