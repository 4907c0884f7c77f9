"""The library of small programs means in memory what NumPy says."""

from __future__ import annotations

import pytest
from programs.library import EXAMPLES, SIZES
from programs.random_programs import assert_agree

from weft.fun import nodes as fun
from weft.fun import walk
from weft.mem.check import check
from weft.mem.interpret import interpret
from weft.mem.introduce import introduce
from weft.mem.merge_blocks import merge_blocks
from weft.mem.short_circuit import short_circuit
from weft.passes.nest import nest
from weft.passes.pipeline import optimise


def calls(program: fun.Program) -> bool:
    return any(isinstance(let.expr, fun.Call) for let in walk.statements(program.body))


NAMES = [name for name in EXAMPLES if not calls(EXAMPLES[name].program)]


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("optimised", [False, True])
def test_example(name: str, optimised: bool) -> None:
    example = EXAMPLES[name]
    source = nest(optimise(example.program)) if optimised else example.program
    program = introduce(source)
    check(program, "introduce")
    made_in_place = short_circuit(program)
    check(made_in_place, "short_circuit")
    merged = merge_blocks(made_in_place)
    check(merged, "merge_blocks")
    arguments = example.arguments()
    wanted = example.results(arguments)
    assert_agree(interpret(made_in_place, arguments, SIZES), wanted)
    assert_agree(interpret(merged, arguments, SIZES), wanted)
