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
    reused = merge_blocks(program)
    check(reused, "merge_blocks")
    arguments = example.arguments()
    assert_agree(interpret(reused, arguments, SIZES), example.results(arguments))
