"""Every kernel that the tests generate as CUDA C++: NVRTC compiles it for a GPU."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import pytest
from applications.case import Case
from applications.test_applications import every_case, lazily
from loops.test_devices import EVERY
from printers.nvrtc import compile_text
from programs.library import EXAMPLES

import weft as wf
from weft import execute
from weft.compiler import compile_segment
from weft.fun import nodes as fun
from weft.fun import walk
from weft.launch.artifacts import SegmentPiece
from weft.launch.computation import Computation
from weft.plan.decisions import nothing
from weft.plan.launch_counts import launched
from weft.runtime.devices import kernel_texts

COMPILED = [
    name
    for name, example in EXAMPLES.items()
    if not any(isinstance(let.expr, fun.Call) for let in walk.statements(example.program.body))
]
COMPLEX = {"constants", "complex_multiply", "while_mandelbrot"}


def test_nvrtc_refuses_what_is_wrong() -> None:
    assert compile_text('extern "C" __global__ void f(float *x) { x[threadIdx.x] = 1; }')
    with pytest.raises(AssertionError, match="NVRTC refuses"):
        compile_text("no C++")


@pytest.mark.parametrize("name", COMPILED)
def test_library(name: str) -> None:
    segment = compile_segment(EXAMPLES[name].program, {}, "", "cuda")
    if name in COMPLEX:
        assert segment.dialect == "c"
        return
    assert segment.dialect == "cuda"
    assert compile_text(segment.source).startswith(b"\x7fELF")


@every_case
def test_application(case: Case) -> None:
    results = lazily(case, case.arguments)
    computation, _ = execute.computation_of([array._node for array in results])
    assert_compiled(computation)


def assert_compiled(computation: Computation) -> None:
    """NVRTC compiles all that a program has for a GPU."""
    artifacts = computation.artifacts_for("cuda:0")
    artifact = artifacts.artifact(nothing(artifacts.choices), {}, "", "cuda")
    for piece in artifact.pieces:
        if isinstance(piece, SegmentPiece) and piece.segment.dialect == "cuda":
            assert compile_text(piece.segment.source).startswith(b"\x7fELF")


@pytest.mark.parametrize(
    "function", [pytest.param(f, id=f"{f.__module__}.{f.__name__}") for f in EVERY]
)
def test_loops(function: Callable[..., Any]) -> None:
    """Those that no GPU runs (a few whose loops leave early, or that are BLAS's) are in C."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        lowered = wf.kernel(function).lower(*EVERY[function](13))
        assert_compiled(Computation(lowered.program))


@pytest.mark.parametrize("name", COMPILED)
def test_kernels_are_those_that_steps_launch(name: str) -> None:
    """Each is found in the text, by itself; none is there for nothing."""
    segment = compile_segment(EXAMPLES[name].program, {}, "", "cuda")
    if segment.dialect == "cuda":
        programs = kernel_texts.apart(segment.source)
        assert all(text.count("__global__") == 1 for text in programs.values())
        assert launched(segment.steps, {}) == set(programs)
