"""What a launch decides about a program from its sizes, before it is compiled."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import product
from typing import TypeAlias

from weft.records import dataclass
from weft.sizes import Derived, Size

_ROW_BYTES = 512 << 10  # of a row that is worked on in a core's own cache
_ROWS_PER_THREAD = 4  # fewer, and threads would wait for the last of them
_LONG_ROW = 1 << 17  # elements that are worth sharing among threads
_TILED_BYTES = 64 << 10  # of arrays of a step that are worth tiles in time
_FEW_ROUNDS = 4
_FEW_CHOICES = 3
_SHORT_SUM = 1024  # terms of an element of a contraction, up to which
_FILLED = 256  # elements are enough for tiles, and beyond
_MANY_TILES = 4096  # so many
_LONG_SUM = 1 << 15  # terms are better added in parts, which are combined by neighbours
_MANY_COLUMNS = 4096  # that are enough for boxes of them
_WIDE = 1 << 13  # columns that are enough for all threads, and
_SHORT = 32  # elements of such columns, which are one tile: its sums would be copied
_COLUMNS_PER_THREAD = 128  # that are worth a share of them, of columns that are together
_ONE_TILE = 1 << 20  # elements: one tile, which one thread would reduce
_ROOM = 32  # bytes of a device for each of a tile: 8 in each of several arrays, or boxes
_AGAIN = 16  # reads of each record that are worth a copy of it, if there are
_SOME_RECORDS = 16
_AHEAD = range(128, 65537)  # elements of a row that is reduced while it is in a core's own cache

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
    tiles : tuple of (rounds, bytes of a step)
        Loops that can be tiled in time.
    columns : tuple of (columns, elements of a column)
        Reductions of columns, which are split into tiles unless it is decided otherwise.
    ahead : tuple of (rows, elements of a row)
        Reductions in loops that the round before can do (only of rows of more than 64 elements).
    contractions : tuple of (elements, terms of an element)
        Reductions that are sums of products of rows with columns.
    records : tuple of (times, records)
        Arrays of records, and how many times each is read by lanes that go along them.
    pairs : tuple of (columns, elements of a column)
        Those of `columns` whose elements are all computed of pairs (`fun.columns.reads_pairs`).
    """

    derived: tuple[Derived, ...]
    nests: tuple[Extents, ...]
    splits: tuple[Extents, ...]
    tiles: tuple[Extents, ...] = ()
    columns: tuple[Extents, ...] = ()
    ahead: tuple[Extents, ...] = ()
    contractions: tuple[Extents, ...] = ()
    records: tuple[Extents, ...] = ()
    pairs: tuple[Extents, ...] = ()


@dataclass(frozen=True, slots=True)
class Decided:
    """One answer to `Choices`: a flag for each of its pairs; columns left whole.

    `contract` depends on no size: products that are added are rounded with the sum.
    `tile_elements`: those of a tile of a reduction, unless the smallest has more.
    """

    nests: tuple[bool, ...] = ()
    splits: tuple[bool, ...] = ()
    tiles: tuple[bool, ...] = ()
    columns: tuple[bool, ...] = ()
    ahead: tuple[bool, ...] = ()
    contractions: tuple[bool, ...] = ()
    records: tuple[bool, ...] = ()
    contract: bool = False
    tile_elements: int | None = None

    def __str__(self) -> str:
        groups = (
            self.nests, self.splits, self.tiles, self.columns, self.ahead, self.contractions,
            self.records,
        )  # fmt: skip
        flags = "n".join("".join("y" if flag else "n" for flag in group) for group in groups)
        if self.tile_elements is not None:
            flags += f" tiles of {self.tile_elements}"
        return f"{flags} contract" if self.contract else flags


def nothing(given: Choices) -> Decided:
    """Neither nests nor tiles."""
    return Decided(
        (False,) * len(given.nests), (False,) * len(given.splits), (False,) * len(given.tiles),
        (False,) * len(given.columns), (False,) * len(given.ahead),
        (False,) * len(given.contractions), (False,) * len(given.records),
    )  # fmt: skip


def every_decision(given: Choices) -> Iterator[Decided]:
    """All answers of a launch on one device, if there are few; first that of `nothing`."""
    yield nothing(given)
    groups = (given.nests, given.splits, given.tiles, given.columns, given.contractions)
    few = sum(map(len, groups)) <= _FEW_CHOICES
    flags = [list(product((False, True), repeat=len(group) if few else 0)) for group in groups]
    # Records are copied all or not at all: mostly they are read as often as each other.
    copied = dict.fromkeys((yes,) * len(given.records) for yes in (False, True))
    for nests, splits, tiles, columns, contractions, records in product(*flags, copied):
        if any((*nests, *splits, *tiles, *columns, *contractions, *records)):
            found = replace(nothing(given), records=records)
            yield found if not few else replace(
                found, nests=nests, splits=splits, tiles=tiles, columns=columns,
                contractions=contractions,
            )  # fmt: skip


def whole_columns(given: Choices, decided: Decided, values: Mapping[str, int]) -> Decided:
    """The decision, with many columns left whole: boxes of several devices are columns then."""
    known = _known(given, values)
    return replace(
        decided,
        columns=tuple(columns.evaluate(known) >= _MANY_COLUMNS for columns, _ in given.columns),
    )


def in_room(given: Choices, decided: Decided, values: Mapping[str, int], room: int) -> Decided:
    """The decision where boxes are computed on a device with `room` bytes.

    Where tiles of reductions take too much of that, they are smaller, and long rows are split. Or
    columns are left whole, for boxes of some of them: not where they are longer than the smallest
    tile, so that few would fit.
    """
    elements = room // _ROOM
    if elements >= _ONE_TILE:
        return decided
    known = _known(given, values)

    def is_better_whole(columns: int, length: int) -> bool:
        smallest = _SHORT * columns  # elements of a tile
        usual = columns * min(length, max(_SHORT, _ONE_TILE // max(columns, 1)))
        return length <= smallest and usual > elements

    splits = tuple(
        yes or length.evaluate(known) > elements
        for yes, (_, length) in zip(decided.splits, given.splits, strict=True)
    )
    whole = tuple(
        yes or is_better_whole(columns.evaluate(known), length.evaluate(known))
        for yes, (columns, length) in zip(decided.columns, given.columns, strict=True)
    )
    tile = 1 << max(elements, 1).bit_length() - 1
    return replace(decided, splits=splits, columns=whole, tile_elements=tile)


def for_device(given: Choices, values: Mapping[str, int], optimise: str = "") -> Decided:
    """What many small processors want: a work item for each row or column, if they are many.

    Loops of many rounds are tiled in time, however small: each launch costs.
    """
    known = _known(given, values)
    decided = whole_columns(given, nothing(given), values)
    splits = tuple(
        rows.evaluate(known) < _MANY_COLUMNS and length.evaluate(known) >= _LONG_ROW
        for rows, length in given.splits
    )
    words = optimise.split()
    wanted = "no-time-tiles" not in words
    tiles = tuple(
        wanted and rounds.evaluate(known) >= _FEW_ROUNDS for rounds, _ in given.tiles
    )
    return replace(
        decided, splits=splits, tiles=tiles, contractions=_contractions(given, known),
        contract="contract" in words,
    )  # fmt: skip


def decide(given: Choices, values: Mapping[str, int], optimise: str = "") -> Decided:
    """Nest where there are many rows that fit a core's cache; split rows that are few and long.

    Columns that are one tile, or are of pairs, are whole, if there are enough for all threads:
    sums of pairs would be written for every few of them, and read again.

    Loops of many rounds over arrays that are not tiny are tiled in time, unless `optimise`
    (see `weft.config`) says "no-time-tiles". What they reduce is reduced by the round before where
    there are many rows, neither short nor long, unless it says "no-reduce-ahead". Products are
    contracted where it says "contract". Records that are read many times are copied.
    """
    words = optimise.split()
    contract = "contract" in words
    if not any((
        given.nests, given.splits, given.tiles, given.columns, given.ahead, given.contractions,
        given.records,
    )):  # fmt: skip
        return Decided(contract=contract)
    enough = _ROWS_PER_THREAD * values["threads"]
    known = _known(given, values)
    return Decided(
        tuple(
            rows.evaluate(known) >= enough and size.evaluate(known) <= _ROW_BYTES
            for rows, size in given.nests
        ),
        tuple(
            rows.evaluate(known) < enough and length.evaluate(known) >= _LONG_ROW
            for rows, length in given.splits
        ),
        tuple(
            rounds.evaluate(known) >= _FEW_ROUNDS and step.evaluate(known) >= _TILED_BYTES
            for rounds, step in given.tiles
        ) if "no-time-tiles" not in words else (False,) * len(given.tiles),
        tuple(
            _are_whole(
                each[0].evaluate(known), each[1].evaluate(known), values["threads"],
                each in given.pairs,
            )
            for each in given.columns
        ),
        tuple(
            rows.evaluate(known) >= enough and length.evaluate(known) in _AHEAD
            for rows, length in given.ahead
        ) if "no-reduce-ahead" not in words else (False,) * len(given.ahead),
        _contractions(given, known),
        tuple(
            times.evaluate(known) >= _AGAIN and number.evaluate(known) >= _SOME_RECORDS
            for times, number in given.records
        ),
        contract,
    )


def _are_whole(columns: int, length: int, threads: int, paired: bool) -> bool:
    if columns >= _WIDE and length <= _SHORT:
        return True
    some = paired or columns * length <= _ONE_TILE
    return some and columns >= _COLUMNS_PER_THREAD * threads


def most_sums(given: Choices, values: Mapping[str, int]) -> int:
    """The elements of the largest contraction that is decided for."""
    if not given.contractions:
        return 0
    known = _known(given, values)
    wanted = zip(given.contractions, _contractions(given, known), strict=True)
    return max((elements.evaluate(known) for (elements, _), yes in wanted if yes), default=0)


def _contractions(given: Choices, known: Mapping[str, int]) -> tuple[bool, ...]:
    """All but few elements, and long sums: both are better done in parts."""

    def whether(elements: int, length: int) -> bool:
        return length < _LONG_SUM and elements >= (
            _FILLED if length <= _SHORT_SUM else _MANY_TILES
        )

    return tuple(
        whether(elements.evaluate(known), length.evaluate(known))
        for elements, length in given.contractions
    )


def _known(given: Choices, values: Mapping[str, int]) -> dict[str, int]:
    known = dict(values)
    for entry in given.derived:
        known[entry.name] = entry.evaluate(known)
    return known
