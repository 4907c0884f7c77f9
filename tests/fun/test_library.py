"""Every program of the library: checks, round-trips, and means what NumPy says."""

from __future__ import annotations

import numpy as np
import pytest
from programs.agree import assert_agree
from programs.library import EXAMPLES, FOLDER, SIZES
from programs.naive import evaluate

from weft.fun.check import check
from weft.fun.interpret import interpret
from weft.fun.show import show

LARGE = {"n": 13, "m": 7, "k": 2}


def test_every_file_is_an_example() -> None:
    assert {path.stem for path in FOLDER.glob("*.fun")} == set(EXAMPLES)


@pytest.mark.parametrize("name", EXAMPLES)
def test_example(name: str) -> None:
    example = EXAMPLES[name]
    program = example.program
    check(program)
    assert show(program) == example.text
    for sizes in (SIZES, LARGE):
        arguments = example.arguments(sizes)
        before = [np.array(argument) for argument in arguments]
        results = interpret(program, arguments)
        assert_agree(results, example.results(arguments))
        assert_agree(results, evaluate(program, arguments, sizes))
        assert_agree(arguments, before, exact=True)
        for result in results:
            for other in (*arguments, *(r for r in results if r is not result)):
                assert not np.may_share_memory(result, other) or np.ndim(result) == 0
