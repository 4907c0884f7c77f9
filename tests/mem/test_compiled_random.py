"""Random memory programs, compiled after all memory passes, give what the interpreter gives."""

from __future__ import annotations

import random

import numpy as np
import pytest
from lower.harness import QUICK, agree, run, sizes_of
from mem.validity import donatable, forms
from programs.agree import assert_agree
from programs.random_data import Case
from programs.random_memory import generate
from programs.random_sweeps import generate_sweeps

from weft.compiler import compile_segment, with_memory
from weft.fun.interpret import interpret
from weft.fun.parse import parse


def compiled_agree(seed: int, case: Case | None = None) -> None:
    """With one thread and with two; the seed also chooses the form of the program."""
    case = case or generate(random.Random(seed), 1 + seed % 4)
    known = forms(case.program)
    program = known[seed % len(known)]
    wanted = interpret(program, case.arguments, case.sizes)
    values = sizes_of(program, case.arguments, case.sizes)
    segment = compile_segment(program, {}, donated=donatable(program) if seed % 2 else {})
    versions = [segment]
    if segment.better is not None and segment.better.suits(values):
        versions.append(segment.better.segment)
    for version in versions:
        one, two = (run(version, case.arguments, values, threads, QUICK) for threads in (1, 2))
        try:
            assert_agree(one, wanted)
            assert_agree(two, one)
        except AssertionError as error:
            error.add_note(f"seed {seed}: {case}")
            raise


@pytest.mark.parametrize("chunk", range(3))
def test_a_few(chunk: int) -> None:
    for seed in range(8 * chunk, 8 * (chunk + 1)):
        compiled_agree(seed)


def test_a_few_sweeps() -> None:
    for seed in range(16):
        compiled_agree(seed, generate_sweeps(random.Random(seed)))


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_many_sweeps() -> None:
    for seed in range(500):
        compiled_agree(seed, generate_sweeps(random.Random(seed)))


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("chunk", range(20))
def test_many(chunk: int) -> None:
    for seed in range(250 * chunk, 250 * (chunk + 1)):
        compiled_agree(seed)


@pytest.mark.parametrize("extent", [1, 2, 63, 64, 65, 130, 1000])
@pytest.mark.parametrize("operation", ["exp", "sqrt", "negative"])
def test_a_map_over_what_it_reads(operation: str, extent: int) -> None:
    """Tails of rows are computed once, too, where a result overwrites what it is made from."""
    text = (
        "program test(a: f64[n])\n sizes n\n{\n"
        " let x: f64[n] = kernel (i < n) { let e: f64 = a[i] let f: f64 = add(e, 1_f64) in f }\n"
        " let z: f64[n] = kernel (j < n) { let g: f64 = x[j]"
        f" let h: f64 = {operation}(g) in h }}\n"
        " in z }"
    )
    program = parse(text)
    assert not with_memory(program, {}).blocks
    segment = compile_segment(program, {})
    agree(program, [np.linspace(0.0, 2.0, extent)], rtol=1e-14, segment=segment, n=extent)
