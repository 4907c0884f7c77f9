"""Every program of the library, compiled: what NumPy says it is, plain and optimised."""

from __future__ import annotations

import pytest
from lower.harness import compiled, run, sizes_of
from programs.agree import assert_agree
from programs.library import EXAMPLES, SIZES

from weft.fun import nodes as fun
from weft.fun import walk
from weft.passes.pipeline import optimise
from weft.passes.split_reductions import split_reductions

LARGE = {"n": 13, "m": 130, "k": 67}
COMPILED = [
    name
    for name, example in EXAMPLES.items()
    if not any(isinstance(let.expr, fun.Call) for let in walk.statements(example.program.body))
]


@pytest.mark.parametrize("name", COMPILED)
def test_example(name: str) -> None:
    example = EXAMPLES[name]
    plain = example.program
    for program in (plain, split_reductions(optimise(plain))):
        segment = compiled(program)
        for sizes in (SIZES, LARGE):
            arguments = example.arguments(sizes)
            values = sizes_of(program, arguments, sizes)
            one = run(segment, arguments, values)
            two = run(segment, arguments, values, threads=2)
            assert_agree(one, example.results(arguments), scale=10)
            assert_agree(two, one, exact=True)
