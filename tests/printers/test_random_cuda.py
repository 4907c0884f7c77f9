"""Random programs as CUDA C++: NVRTC compiles every kernel of theirs for a GPU."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from printers.nvrtc import compile_text
from programs.random_memory import memory_programs
from programs.random_products import product_texts
from programs.random_programs import ALL_FORMS, Case, programs

from weft.compiler import compile_segment
from weft.fun import nodes as fun
from weft.fun.parse import parse
from weft.passes.pipeline import optimise
from weft.passes.split_reductions import always, split_reductions

COMMON = settings(
    deadline=None, derandomize=True, suppress_health_check=list(HealthCheck),
    phases=(Phase.explicit, Phase.generate),
)  # fmt: skip
QUICK, MANY = 4, 400
LONG = ("elementwise", "reduce", "scan", "scatter", "argument", "rows", "loop")


def compiles(program: fun.Program) -> None:
    """Each version of the program's kernels becomes a cubin."""
    segment = compile_segment(program, {}, "", "cuda")
    assert segment.dialect == "cuda", segment.remarks
    better = [segment.better.segment] if segment.better is not None else []
    for version in (segment, *better):
        assert compile_text(version.source).startswith(b"\x7fELF")


def as_written_and_optimised(case: Case) -> None:
    compiles(case.program)
    compiles(split_reductions(optimise(case.program), always))


@settings(COMMON, max_examples=QUICK)
@given(programs(ALL_FORMS))
def test_every_form(case: Case) -> None:
    as_written_and_optimised(case)


@settings(COMMON, max_examples=QUICK)
@given(programs(LONG, rank=2, statements=4))
def test_what_groups_do(case: Case) -> None:
    as_written_and_optimised(case)


@settings(COMMON, max_examples=QUICK)
@given(memory_programs())
def test_parts_of_memory(case: Case) -> None:
    compiles(case.program)


@settings(COMMON, max_examples=QUICK)
@given(product_texts())
def test_products(text: str) -> None:
    compiles(parse(text))


@pytest.mark.slow
@settings(COMMON, max_examples=MANY)
@given(st.one_of(programs(ALL_FORMS), programs(LONG, rank=2), memory_programs()))
def test_many(case: Case) -> None:
    as_written_and_optimised(case)


@pytest.mark.slow
@settings(COMMON, max_examples=MANY // 4)
@given(product_texts())
def test_many_products(text: str) -> None:
    compiles(parse(text))
