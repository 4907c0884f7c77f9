"""Loop kernels of the literature: each gives what the plain Python function gives."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from loops.agree import agrees
from loops.programs import dense, elements, grids, irregular

KERNELS = {**dense.INPUTS, **grids.INPUTS, **elements.INPUTS, **irregular.INPUTS}
UNSUPPORTED: dict[Callable[..., Any], str] = {
    elements.mandelbrot: "a return inside of a loop",
    irregular.breadth_first: "a loop in a branch in a loop in a while loop",
}


def kernels(*, size: int) -> list[Any]:
    return [
        pytest.param(
            function, size, id=function.__name__,
            marks=[pytest.mark.xfail(strict=True, reason=UNSUPPORTED[function])]
            if function in UNSUPPORTED else [],
        )
        for function in KERNELS
    ]  # fmt: skip


@pytest.mark.parametrize(("function", "size"), kernels(size=13))
def test_kernel(function: Callable[..., Any], size: int) -> None:
    with np.errstate(over="ignore"):
        agrees(function, *KERNELS[function](size))
