"""Programs move the bytes that C written by hand moves: `bench/c` has it, counted here by cell."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from applications.costs import costs_of
from applications.test_applications import CASES, lazily

WORD = 4  # bytes of an element, in all of these

Moved = tuple[int, int]  # bytes read, bytes written


def hotspot(temperature: Any, power: Any, steps: int) -> Moved:
    """A cell reads itself, its four neighbours and its power."""
    cells = temperature.size * steps * WORD
    return 6 * cells, cells


def pathfinder(wall: Any) -> Moved:
    """A cell reads itself and the three above it."""
    cells = wall[1:].size * WORD
    return 4 * cells, cells


def srad(image: Any, rounds: int) -> Moved:
    """A round is the sums of all, coefficients (of five), and values (of five, and of three)."""
    cells = image.size * WORD
    return (1 + rounds * (1 + 5 + 8) + 1) * cells, (1 + rounds * 2 + 1) * cells


def lattice_boltzmann(f: Any, obstacle: Any, lid: Any, steps: int) -> Moved:
    """Each step reads two flags of a cell; the last populations are moved once more."""
    populations = f.size * WORD * (steps + 1)
    return populations + steps * (obstacle.size + lid.size), populations


COUNTED: dict[str, tuple[Callable[..., Moved], int]] = {
    "hotspot-stencil": (hotspot, 0),
    "hotspot-stencil_of_one_row": (hotspot, 0),
    "pathfinder-walls": (pathfinder, 0),
    "srad-image": (srad, 2 * WORD),  # a round's sums, of which C has registers
    "lattice_boltzmann-three_steps": (lattice_boltzmann, 0),
    "lattice_boltzmann-one_step": (lattice_boltzmann, 0),
}


@pytest.mark.parametrize("name", COUNTED)
def test_bytes_are_those_of_c(name: str) -> None:
    case, (count, of_a_round) = CASES[name], COUNTED[name]
    costs = costs_of(lazily(case, case.arguments))
    read, written = count(*case.arguments)
    rounds = case.arguments[-1] if of_a_round else 0
    assert costs.read_bytes == read + rounds * of_a_round
    assert costs.written_bytes == written + rounds * of_a_round
    assert costs.copied_bytes == 0
