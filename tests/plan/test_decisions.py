"""What a launch decides of columns: one tile is reduced by all threads; devices may lack room."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import weft as wf
from weft.plan import decisions
from weft.plan.decisions import Choices, decide, every_decision, for_device, in_room
from weft.sizes import Poly

COLUMNS = Choices(derived=(), nests=(), splits=(), columns=((Poly.var("m"), Poly.var("n")),))
ROWS = Choices(derived=(), nests=(), splits=((Poly.var("m"), Poly.var("n")),))


@pytest.mark.parametrize(
    ("columns", "length", "threads", "whole"),
    [
        (1000, 1000, 2, True),
        (1024, 1024, 2, True),
        (1024, 1025, 2, False),  # two tiles
        (256, 1000, 2, True),
        (255, 1000, 2, False),  # too few columns for two threads
        (256, 1000, 3, False),
        (1 << 20, 32, 2, True),  # many short ones
        (1 << 20, 33, 2, False),
    ],
)
def test_columns_of_one_tile_are_whole(
    columns: int, length: int, threads: int, whole: bool
) -> None:
    decided = decide(COLUMNS, {"m": columns, "n": length, "threads": threads})
    assert decided.columns == (whole,)
    assert decided in every_decision(COLUMNS)  # of which `weft build` makes code


@pytest.mark.parametrize("shape", [(300, 700), (1000, 1000), (33, 1024), (1, 40_000)])
def test_bits_are_those_of_tiles(
    shape: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """However many threads share the columns."""
    x = np.random.default_rng(5).random(shape)
    found = []
    for threads, one_tile in ((2, 1 << 20), (1, 1 << 20), (2, 0)):
        monkeypatch.setattr(decisions, "_ONE_TILE", one_tile)
        with wf.config(threads=threads):
            found.append(wf.jit(lambda x: x.sum(axis=0))(x))
    np.testing.assert_array_equal(found[0], found[1])
    np.testing.assert_array_equal(found[0], found[2])


@pytest.mark.parametrize(("columns", "whole"), [(256, True), (255, False), (40_000, True)])
def test_columns_of_pairs_are_whole_however_long(columns: int, whole: bool) -> None:
    pairs = replace(COLUMNS, pairs=COLUMNS.columns)
    values = {"m": columns, "n": 1 << 20, "threads": 2}
    decided = decide(pairs, values)
    assert decided.columns == (whole,)
    assert decide(COLUMNS, values).columns == (False,)
    assert decided in every_decision(pairs)


X, Y = np.random.default_rng(6).random((2, 3000), np.float32)
A = np.random.default_rng(6).random((2000, 3000), np.float32)
OF_PAIRS = {
    "distances": (lambda x, y, a: wf.abs(x[None, :] - y[:, None]).sum(axis=1), True),
    "counts": (lambda x, y, a: (x[None, :] < y[:, None]).sum(axis=1), True),
    "two results": (lambda x, y, a: wf.argmin(wf.abs(x[None, :] - y[:, None]), axis=1), True),
    "a matrix": (lambda x, y, a: wf.abs(a - y[None, :]).sum(axis=0), False),
    "records": (lambda x, y, a: wf.abs(a[:, :1] - y[None, :]).sum(axis=0), True),
    "where data say": (lambda x, y, a: wf.take(x, (y[None, :] + x[:, None]).astype(int)).sum(
        axis=0), False),
}  # fmt: skip


@pytest.mark.parametrize("name", OF_PAIRS)
def test_which_columns_are_of_pairs(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Those have no sums of tiles in memory; with the bits that they would have with them."""
    function, paired = OF_PAIRS[name]
    program = wf.jit(function)
    assert ("partial" not in str(program.explain(X, Y, A))) == paired
    found = program(X, Y, A)
    monkeypatch.setattr(decisions, "_COLUMNS_PER_THREAD", 1 << 30)
    fewer = X, Y[:-1], A[:, :-1]  # which have been decided about nowhere
    assert "partial" in str(program.explain(*fewer))
    np.testing.assert_array_equal(program(*fewer), found[:-1])


@pytest.mark.parametrize(
    ("columns", "length", "room", "whole", "elements"),
    [
        (700, 1000, 1 << 25, False, None),  # as much as any tile takes
        (700, 1000, 1 << 19, True, 1 << 14),
        (700, 22400, 1 << 20, True, 1 << 15),
        (700, 22401, 1 << 20, False, 1 << 15),  # longer than a tile of 32 rows
        (7, 300_000, 1 << 20, False, 1 << 15),
        (100, 100, 1 << 20, False, 1 << 15),  # which fit
        (5000, 1000, 1 << 25, True, None),  # many
        (700, 1000, 3 << 18, True, 1 << 14),  # a power of two
        (700, 1000, 0, True, 1),
    ],
)
def test_where_tiles_have_no_room_columns_are_whole_or_tiles_are_smaller(
    columns: int, length: int, room: int, whole: bool, elements: int | None
) -> None:
    values = {"m": columns, "n": length}
    decided = in_room(COLUMNS, for_device(COLUMNS, values), values, room)
    assert decided.columns == (whole,)
    assert decided.tile_elements == elements
    assert (str(decided) == str(replace(decided, tile_elements=None))) == (elements is None)


@pytest.mark.parametrize(("length", "split"), [(32768, False), (32769, True)])
def test_rows_that_have_no_room_are_split(length: int, split: bool) -> None:
    values = {"m": 3, "n": length}
    assert in_room(ROWS, for_device(ROWS, values), values, 1 << 20).splits == (split,)
    assert in_room(ROWS, for_device(ROWS, values), values, 1 << 25).splits == (False,)
