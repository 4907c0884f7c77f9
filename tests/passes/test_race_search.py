"""Rounds that access one element are found by trying, with the sizes of a call."""

from __future__ import annotations

import pytest

from weft.fun import nodes as fun
from weft.passes.dependence import Access, Rounds
from weft.passes.knowledge import Knowledge
from weft.passes.races import Race, find_race
from weft.sizes import Poly
from weft.sizes.prove import Prover


@pytest.mark.parametrize("step", [-4, -3, -1, 1, 2, 3])
@pytest.mark.parametrize("other_step", [-3, -2, 1, 4])
@pytest.mark.parametrize("apart", [0, 1, 2, 3, 5, 40])
def test_rounds_meet_where_some_element_is_in_two(step: int, other_step: int, apart: int) -> None:
    index = Poly.var("i")
    write = Access("a", (fun.Span(50 + index * apart, Poly.const(5), step),), (), None)
    read = Access("a", (fun.Span(index * 2 + 51, Poly.const(4), other_step),), (), None)
    written = [{50 + i * apart + k * step for k in range(5)} for i in range(3)]
    seen = [{51 + i * 2 + k * other_step for k in range(4)} for i in range(3)]
    race = find_race(write, write, ROUNDS, Knowledge(Prover()))
    check(race, written, written)
    if race is None:
        check(find_race(write, read, ROUNDS, Knowledge(Prover())), written, seen)


ROUNDS = Rounds("i", Poly.const(0), Poly.const(3), frozenset())


def check(race: Race | None, left: list[set[int]], right: list[set[int]]) -> None:
    """It is one of the meetings of different rounds, if there are any."""
    meetings = {
        (i, j, element)
        for i, elements in enumerate(left) for j, others in enumerate(right) if i != j
        for element in elements & others
    }  # fmt: skip
    if race is None:
        assert not meetings
    else:
        assert (race.first, race.second, *race.element) in meetings
