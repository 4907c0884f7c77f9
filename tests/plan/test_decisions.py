"""What a launch decides of columns: one tile of them is reduced by all threads."""

from __future__ import annotations

import numpy as np
import pytest

import weft as wf
from weft.plan import decisions
from weft.plan.decisions import Choices, decide, every_decision
from weft.sizes import Poly

COLUMNS = Choices(derived=(), nests=(), splits=(), columns=((Poly.var("m"), Poly.var("n")),))


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
