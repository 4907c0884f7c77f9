"""What a launch decides about a program from its sizes, before it is compiled."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias

from weft.sizes import Derived, Size

_ROW_BYTES = 512 << 10  # of a row that is worked on in a core's own cache
_ROWS_PER_THREAD = 4  # fewer, and threads would wait for the last of them
_LONG_ROW = 1 << 17  # elements that are worth sharing among threads

Extents: TypeAlias = tuple[Size, Size]


@dataclass(frozen=True, slots=True)
class Choices:
    """What a launch can decide of a program, by its sizes.

    Attributes
    ----------
    derived : tuple of Derived
        Sizes that the polynomials below name, besides the program's own.
    nests : tuple of (rows, bytes of a row)
        Groups of statements that can become one kernel over rows.
    splits : tuple of (rows, elements of a row)
        Reductions of rows that can be split into tiles.
    """

    derived: tuple[Derived, ...]
    nests: tuple[Extents, ...]
    splits: tuple[Extents, ...]


@dataclass(frozen=True, slots=True)
class Decided:
    """One answer to `Choices`: a flag for each nest and each split."""

    nests: tuple[bool, ...] = ()
    splits: tuple[bool, ...] = ()

    def __str__(self) -> str:
        flags = (*self.nests, False, *self.splits)
        return "".join("y" if flag else "n" for flag in flags)


def decide(given: Choices, values: Mapping[str, int]) -> Decided:
    """Nest where there are many rows that fit a core's cache; split rows that are few and long."""
    if not given.nests and not given.splits:
        return Decided()
    enough = _ROWS_PER_THREAD * values["threads"]
    known = dict(values)
    for entry in given.derived:
        known[entry.name] = entry.evaluate(known)
    return Decided(
        tuple(
            rows.evaluate(known) >= enough and size.evaluate(known) <= _ROW_BYTES
            for rows, size in given.nests
        ),
        tuple(
            rows.evaluate(known) < enough and length.evaluate(known) >= _LONG_ROW
            for rows, length in given.splits
        ),
    )
