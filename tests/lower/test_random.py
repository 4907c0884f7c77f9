"""Random programs: compiled code gives what the interpreter gives."""

from __future__ import annotations

from hypothesis import HealthCheck, given, settings
from lower.harness import compiled, run, sizes_of
from programs.random_programs import Case, assert_agree, programs

from weft.fun.interpret import interpret
from weft.passes.pipeline import optimise
from weft.passes.split_reductions import always, split_reductions

SLOW = [HealthCheck.too_slow, HealthCheck.data_too_large]


@settings(max_examples=25, deadline=None, suppress_health_check=SLOW, derandomize=True)
@given(programs())
def test_as_written(case: Case) -> None:
    expected = interpret(case.program, case.arguments, case.sizes)
    values = sizes_of(case.program, case.arguments, case.sizes)
    segment = compiled(case.program)
    assert_agree(run(segment, case.arguments, values), expected)


@settings(max_examples=25, deadline=None, suppress_health_check=SLOW, derandomize=True)
@given(programs())
def test_optimised(case: Case) -> None:
    expected = interpret(case.program, case.arguments, case.sizes)
    program = split_reductions(optimise(case.program), always)
    values = sizes_of(program, case.arguments, case.sizes)
    segment = compiled(program)
    one = run(segment, case.arguments, values)
    two = run(segment, case.arguments, values, threads=2)
    assert_agree(one, expected)
    assert_agree(two, one)
