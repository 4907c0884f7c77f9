"""Loop kernels and NumPy programs on an OpenCL device, and in boxes under a limit: the same."""

from __future__ import annotations

import math
import re
import warnings
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
from devices.harness import device
from loops.agree import agrees
from loops.programs import algebra, dense, elements, grids, irregular, science, stencils

import weft as wf
from weft.errors import MemoryLimitError
from weft.plan import planner

EVERY = {
    **dense.INPUTS, **grids.INPUTS, **elements.INPUTS, **irregular.INPUTS, **stencils.INPUTS,
    **algebra.INPUTS, **science.INPUTS,
}  # fmt: skip
FEW = [
    dense.matrix_product, grids.five_point, elements.mandelbrot, irregular.breadth_first,
    stencils.jacobi_2d, algebra.lu, science.mandelbrot, science.sparse_matrix_vector,
]  # fmt: skip


UNITS = {"bytes": 1, "KiB": 1 << 10, "MiB": 1 << 20}


def check(function: Callable[..., Any], size: int, rtol: float = 1e-9) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        agrees(function, *EVERY[function](size), rtol=rtol)


def few_and_all() -> list[Any]:
    return [
        pytest.param(f, id=f.__module__.split(".")[-1] + "." + f.__name__,
                     marks=[] if f in FEW else [pytest.mark.slow])
        for f in EVERY
    ]  # fmt: skip


@pytest.mark.parametrize("function", few_and_all())
def test_on_a_device(function: Callable[..., Any]) -> None:
    with wf.config(devices=device().name):
        check(function, 13)


def advised(error: MemoryLimitError) -> int:
    found = re.search(r"a memory_limit of at least ([\d.]+) (\w+)", str(error))
    assert found, error
    return math.ceil(float(found[1]) * UNITS[found[2]])


@pytest.mark.parametrize("function", few_and_all())
def test_in_boxes(function: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """Under a limit that the arrays do not fit, or what the refusal names where boxes do not."""
    without_allowance = partial(planner.plan_program, allowance=0)
    monkeypatch.setattr(planner, "plan_program", without_allowance)
    limit = 24 << 10
    for _ in range(10):  # stages are refused one after another
        try:
            with wf.config(memory_limit=limit):
                return check(function, 40)
        except MemoryLimitError as error:
            limit = advised(error)
    raise AssertionError(f"even {limit} bytes are refused")
