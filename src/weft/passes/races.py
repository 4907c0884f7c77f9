"""Whether two rounds of a loop access one element, by trying all, with the sizes of a call."""

from __future__ import annotations

import itertools
import math
from collections.abc import Collection, Iterator, Mapping

from weft.fun import nodes as fun
from weft.passes.dependence import Access, Rounds
from weft.passes.knowledge import Knowledge
from weft.passes.versions import bound_in
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


def keeps(written: fun.Atom, bound: Mapping[str, fun.Let]) -> bool:
    """Whether what a round writes may be what is there: by a branch, a loop, or a part's update.

    `bound` has what the round binds.
    """
    while isinstance(written, fun.Var) and (let := bound.get(written.name)) is not None:
        match let.expr:
            case fun.Slice(array) | fun.LmadSlice(array) | fun.Permute(array) | fun.Reshape(array):
                written = array
            case fun.Kernel(_, body):
                own = bound_in(body)
                return any(keeps(result, own) for result in body.results)
            case expr:
                return isinstance(
                    expr, fun.If | fun.Loop | fun.Update | fun.LmadUpdate | fun.Scatter
                )
    return False


def meeting(
    write: Access, other: Access, rounds: Rounds, known: Knowledge
) -> tuple[bool, Race | None]:
    """Whether accesses are apart with the sizes of a call, and where two rounds certainly meet."""
    try:
        race = find_race(write, other, rounds, known)
    except Unknown:
        return False, None
    return race is None, None if write.conditional or other.conditional else race


def find_race(write: Access, other: Access, rounds: Rounds, known: Knowledge) -> Race | None:
    """Two rounds that access one element, in some round of the loops around; None where none do.

    Where the accesses are two, no two rounds are to write one element.

    Raises
    ------
    Unknown
    """
    budget = [MOST]
    outer = tuple(around(names_used((write, other), rounds), known).items())
    for values in _values_around(outer, known.values):
        race = _race_within(write, other, rounds, values, budget)
        if race is not None:
            return race
    return None


def names_used(accesses: Collection[Access], rounds: Rounds) -> set[str]:
    """The names that tell which rounds there are, and what they access."""
    names = {*rounds.lower.variables(), *rounds.upper.variables()}
    for access in accesses:
        for dim in access.dims:
            parts = (dim.start, dim.extent) if isinstance(dim, fun.Span) else (dim,)
            names.update(*(size.variables() for size in parts))
        for inner in access.inner:
            names |= inner.lower.variables() | inner.upper.variables()
    return names - {rounds.index}


def around(names: Collection[str], known: Knowledge) -> dict[str, tuple[Size, Size]]:
    """The indices of the loops around that names are, or are bounded by; outer ones first."""
    found: dict[str, tuple[Size, Size]] = {}
    needed = set(names)
    for name in reversed(list(known.ranges)):
        lower, upper = known.ranges[name]
        if name in needed:
            found[name] = (lower, upper)
            needed |= lower.variables() | upper.variables()
    return dict(reversed(found.items()))


def _values_around(
    outer: tuple[tuple[str, tuple[Size, Size]], ...], values: Mapping[str, int]
) -> Iterator[dict[str, int]]:
    """The values of names, for each index of the loops around."""
    if not outer:
        yield dict(values)
        return
    (name, (lower, upper)), *more = outer
    for index in range(_value(lower, values), _value(upper, values) + 1):
        yield from _values_around(tuple(more), {**values, name: index})


def _race_within(
    write: Access, other: Access, rounds: Rounds, values: dict[str, int], budget: list[int]
) -> Race | None:
    lower, upper = (_value(bound, values) for bound in (rounds.lower, rounds.upper))
    numbers = range(lower, upper)
    # Where rounds meet, neighbours mostly do, and at once.
    for first, second in (numbers[:2], numbers[1::-1]) if len(numbers) > 1 else ():
        here, there = ({**values, rounds.index: index} for index in (first, second))
        common = _meeting(next(_boxes(write, here), ()), next(_boxes(other, there), ()))
        if common is not None:
            return Race(first, second, common)
    budget[0] -= 1
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
