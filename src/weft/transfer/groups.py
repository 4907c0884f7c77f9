"""Which accesses are transferred together: the overlap graph, its components, their groups.

Accesses are joined by an edge where the intervals of their elements overlap (section 4.3); each
connected component is a transfer of its own. Within one, accesses share one packed array, or have
one for each set of strides, or each its own: whatever moves the fewest elements.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence

from weft.records import dataclass
from weft.transfer.accesses import Access
from weft.transfer.trapezoids import PackedRows
from weft.transfer.unions import Union, union


@dataclass(frozen=True, slots=True)
class Group:
    """Accesses, by their positions, that share one packed array."""

    members: tuple[int, ...]
    union: Union | PackedRows


def components(accesses: Sequence[Access]) -> list[list[int]]:
    """The connected components of the overlap graph, by positions."""
    found: list[list[int]] = []
    reach: int | None = None
    for number in sorted(range(len(accesses)), key=lambda n: accesses[n].base):
        if reach is None or accesses[number].base > reach:
            found.append([])
            reach = accesses[number].last
        found[-1].append(number)
        reach = max(reach, accesses[number].last)
    return found


def groups(accesses: Sequence[Access], members: Sequence[int]) -> list[Group]:
    """The groups of one component that together transfer the fewest elements."""
    ways: list[Callable[[int], Hashable]] = [
        lambda number: None,
        lambda number: accesses[number].strides,
        lambda number: (accesses[number].base, accesses[number].strides),
    ]
    best: list[Group] | None = None
    for way in ways:
        parts: dict[Hashable, list[int]] = {}
        for number in members:
            parts.setdefault(way(number), []).append(number)
        made = [
            Group(tuple(part), union([accesses[n] for n in part])) for part in parts.values()
        ]
        if best is None or elements(made) < elements(best):
            best = made
    assert best is not None
    return best


def elements(found: Sequence[Group]) -> int:
    """How many elements groups transfer together."""
    return sum(group.union.count for group in found)
