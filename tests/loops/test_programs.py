"""Whole NumPy programs, unmodified: their results, dtypes, and what they write in place."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from loops.agree import agrees
from loops.programs import algebra, science, stencils

import weft as wf

PROGRAMS = {**stencils.INPUTS, **algebra.INPUTS, **science.INPUTS}
UNSUPPORTED: dict[Callable[..., Any], str] = {
    science.sparse_matrix_vector: "one slice of data of two arrays: their lengths may differ",
    science.mandelbrot: "elementwise operations on the elements that a mask selects",
}


def programs() -> list[Any]:
    return [
        pytest.param(
            function, id=function.__name__,
            marks=[pytest.mark.xfail(strict=True, reason=UNSUPPORTED[function])]
            if function in UNSUPPORTED else [],
        )
        for function in PROGRAMS
    ]  # fmt: skip


def check(function: Callable[..., Any], *sizes: int) -> None:
    with wf.config(interpret_below=0):
        for size in sizes:
            agrees(function, *PROGRAMS[function](size))


@pytest.mark.parametrize("function", programs())
def test_program(function: Callable[..., Any]) -> None:
    check(function, 11, 20)


@pytest.mark.slow
@pytest.mark.parametrize("function", programs())
def test_program_of_other_sizes(function: Callable[..., Any]) -> None:
    check(function, 4, 5, 67)
