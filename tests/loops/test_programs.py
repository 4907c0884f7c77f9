"""Whole NumPy programs, unmodified: their results, dtypes, and what they write in place."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from loops.agree import agrees
from loops.programs import algebra, science, stencils

import weft as wf

PROGRAMS = {**stencils.INPUTS, **algebra.INPUTS, **science.INPUTS}


def programs() -> list[Any]:
    return [pytest.param(function, id=function.__name__) for function in PROGRAMS]


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
