"""Each copy and each block that remains has a remark with the condition that failed."""

from __future__ import annotations

import random

import pytest
from mem.programs import CASES
from mem.validity import forms
from programs.library import EXAMPLES
from programs.random_memory import generate

from weft.compiler import with_memory
from weft.fun import nodes as fun
from weft.fun import walk
from weft.mem import layout
from weft.mem.points import copies
from weft.mem.project import Arrays

CONDITIONS = {"creation", "layout", "scope", "overlap", "no point"}


def explained(program: fun.Program) -> int:
    """How many copies remain; each of them has a remark, and so has each block."""
    made = with_memory(program, {}, "no-merge")
    arrays = Arrays.of(made)
    named = {remark.what for remark in made.remarks}
    chosen = {choice.name for choice in made.choices}
    left = [
        point.what
        for let in walk.statements(made.program.body)
        for point in copies(let, arrays)
        if not layout.same(arrays.memory[point.source], point.target)
        and not {arrays.memory[point.source].block, point.target.block} & chosen  # none at run time
    ]
    assert set(left) <= named
    blocks = [remark.what for remark in made.remarks if " bytes " in remark.what]
    assert len(blocks) >= len(made.blocks) - len(chosen)
    assert {remark.condition for remark in made.remarks} <= CONDITIONS
    assert all(remark.found for remark in made.remarks)
    return len(left)


@pytest.mark.parametrize("name", CASES)
def test_hand_built(name: str) -> None:
    for form in forms(CASES[name]()[0]):
        explained(form)


@pytest.mark.parametrize("name", [name for name in EXAMPLES if not name.startswith("call_")])
def test_library(name: str) -> None:
    for form in forms(EXAMPLES[name].program):
        explained(form)


def test_random_programs() -> None:
    left = [explained(generate(random.Random(seed)).program) for seed in range(30)]
    assert sum(map(bool, left)) > 7
