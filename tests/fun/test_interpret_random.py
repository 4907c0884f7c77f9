"""Random programs: the interpreter agrees with element by element evaluation."""

from __future__ import annotations

from hypothesis import HealthCheck, given, settings
from programs.naive import evaluate
from programs.random_programs import Case, assert_agree, programs

from weft.fun.check import check
from weft.fun.interpret import interpret
from weft.fun.parse import parse
from weft.fun.show import show

slow = [HealthCheck.too_slow, HealthCheck.data_too_large]


@settings(max_examples=300, deadline=None, suppress_health_check=slow)
@given(programs())
def test_interpreter_agrees_with_elements_one_by_one(case: Case) -> None:
    check(case.program)
    expected = evaluate(case.program, case.arguments, case.sizes)
    assert_agree(interpret(case.program, case.arguments, case.sizes), expected)


@settings(max_examples=150, deadline=None, suppress_health_check=slow)
@given(programs())
def test_text_round_trips(case: Case) -> None:
    text = show(case.program)
    again = parse(text)
    assert again == case.program
    assert show(again) == text
