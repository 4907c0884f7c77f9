"""Whole NumPy programs, unmodified: their results, dtypes, and what they write in place."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from loops.agree import agrees
from loops.programs import algebra, science, stencils

PROGRAMS = {**stencils.INPUTS, **algebra.INPUTS, **science.INPUTS}
UNSUPPORTED: dict[Callable[..., Any], str] = {
    science.sparse_matrix_vector: "one slice of data of two arrays: their lengths may differ",
    science.mandelbrot: "elementwise operations on the elements that a mask selects",
}


def programs(*, size: int) -> list[Any]:
    return [
        pytest.param(
            function, size, id=function.__name__,
            marks=[pytest.mark.xfail(strict=True, reason=UNSUPPORTED[function])]
            if function in UNSUPPORTED else [],
        )
        for function in PROGRAMS
    ]  # fmt: skip


@pytest.mark.parametrize(("function", "size"), programs(size=11))
def test_program(function: Callable[..., Any], size: int) -> None:
    agrees(function, *PROGRAMS[function](size))
