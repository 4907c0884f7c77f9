"""Random programs: the interpreter agrees with element by element evaluation."""

from __future__ import annotations

from unittest.mock import patch

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from programs.library import EXAMPLES
from programs.naive import evaluate
from programs.random_programs import Case, assert_agree, programs
from slow import examples

from weft.fun import parallel
from weft.fun.check import check
from weft.fun.interpret import interpret
from weft.fun.parse import parse
from weft.fun.show import show
from weft.ops.dtypes import DType

slow = [HealthCheck.too_slow, HealthCheck.data_too_large]


@settings(max_examples=examples(300), deadline=None, derandomize=True, suppress_health_check=slow)
@given(programs())
def test_interpreter_agrees_with_elements_one_by_one(case: Case) -> None:
    check(case.program)
    expected = evaluate(case.program, case.arguments, case.sizes)
    assert_agree(interpret(case.program, case.arguments, case.sizes), expected)


@settings(max_examples=examples(100), deadline=None, derandomize=True, suppress_health_check=slow)
@given(programs(dtypes=(DType.C64, DType.C128, DType.F32, DType.I16)))
def test_complex_numbers_agree(case: Case) -> None:
    check(case.program)
    expected = evaluate(case.program, case.arguments, case.sizes)
    assert_agree(interpret(case.program, case.arguments, case.sizes), expected)


@settings(max_examples=examples(100), deadline=None, derandomize=True, suppress_health_check=slow)
@given(programs(), st.sampled_from([1, 3, 16, 50]))
def test_nests_evaluated_in_parts_agree(case: Case, part: int) -> None:
    expected = evaluate(case.program, case.arguments, case.sizes)
    with patch.object(parallel, "PART", part):
        results = interpret(case.program, case.arguments, case.sizes)
    assert_agree(results, expected)


@pytest.mark.parametrize("name", EXAMPLES)
def test_examples_evaluated_in_parts(name: str) -> None:
    example = EXAMPLES[name]
    arguments = example.arguments()
    with patch.object(parallel, "PART", 4):
        assert_agree(interpret(example.program, arguments), example.results(arguments))


@settings(max_examples=examples(150), deadline=None, derandomize=True, suppress_health_check=slow)
@given(programs())
def test_text_round_trips(case: Case) -> None:
    text = show(case.program)
    again = parse(text)
    assert again == case.program
    assert show(again) == text
