"""Every program of the library on a device: what NumPy says it is."""

from __future__ import annotations

import pytest
from devices.harness import DIALECT, compiled, device, run
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
COMPLEX = {"constants", "complex_multiply", "while_mandelbrot"}


@pytest.mark.parametrize("name", COMPILED)
def test_example(name: str) -> None:
    on = device()
    example = EXAMPLES[name]
    program = split_reductions(optimise(example.program))
    segment = compiled(program)
    if name in COMPLEX:
        assert segment.dialect == "c"
        assert segment.remarks[0].startswith("runs on the cpu: complex")
        return
    assert segment.dialect == DIALECT
    for sizes in (SIZES, LARGE):
        arguments = example.arguments(sizes)
        found = run(on, program, segment, arguments, sizes)
        assert_agree(found, example.results(arguments), scale=10)
        # Bits do not depend on how many work items share memory.
        assert_agree(run(on, program, segment, arguments, sizes, items=3), found, exact=True)


@pytest.mark.parametrize("name", ["triangle", "nested_softmax", "while_collatz", "loop_newton"])
def test_every_memory_pass_may_be_left_out(name: str) -> None:
    on = device()
    example = EXAMPLES[name]
    segment = compiled(example.program, "no-short-circuit no-merge")
    arguments = example.arguments(LARGE)
    found = run(on, example.program, segment, arguments, LARGE)
    assert_agree(found, example.results(arguments), scale=10)
