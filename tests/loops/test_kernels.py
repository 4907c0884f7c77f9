"""Loop kernels of the literature: each gives what the plain Python function gives."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from loops.agree import agrees
from loops.programs import dense, elements, grids, irregular

import weft as wf

KERNELS = {**dense.INPUTS, **grids.INPUTS, **elements.INPUTS, **irregular.INPUTS}


def kernels() -> list[Any]:
    return [pytest.param(function, id=function.__name__) for function in KERNELS]


def check(function: Callable[..., Any], *sizes: int) -> None:
    with np.errstate(over="ignore"), wf.config(interpret_below=0):
        for size in sizes:
            agrees(function, *KERNELS[function](size))


@pytest.mark.parametrize("function", kernels())
def test_kernel(function: Callable[..., Any]) -> None:
    check(function, 13, 20)


@pytest.mark.parametrize(
    "function", [f for f in KERNELS if "dtype" in inspect.signature(KERNELS[f]).parameters]
)
def test_kernel_in_single_precision(function: Callable[..., Any]) -> None:
    with wf.config(interpret_below=0):
        agrees(function, *KERNELS[function](20, np.float32), rtol=1e-4)


@pytest.mark.slow
@pytest.mark.parametrize("function", kernels())
def test_kernel_of_other_sizes(function: Callable[..., Any]) -> None:
    check(function, 4, 5, 67)
