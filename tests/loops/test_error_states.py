"""`with np.errstate(...)` in kernels, whose divisions by zero never warn."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from loops.agree import agrees
from numpy import errstate

import weft as wf
from weft.errors import UnsupportedError

RANDOM = np.random.default_rng(33)


def test_what_errstate_holds_is_done() -> None:
    def ratios(x: Any, y: Any) -> Any:
        with np.errstate(divide="ignore", invalid="ignore"):
            z = x / y
            z[np.isnan(z)] = 0
        for k in range(y.size):
            with errstate(all="ignore"):
                if y[k] > 0.9:
                    break
                x[k] /= y[k]
                if y[k] == 0:
                    with np.errstate(over="warn"):
                        continue
            y[k] += 1
        with np.errstate(all="ignore"):
            return z, k

    for last in (0.0, 0.95):
        agrees(ratios, np.array([0.0, 1.0, 2.0]), np.array([0.0, 0.5, last]))


def test_errors_that_divisions_would_raise_are_refused() -> None:
    @wf.kernel
    def checked(x: Any) -> Any:
        with np.errstate(divide="raise"):
            return 1 / x

    with pytest.raises(UnsupportedError, match="with in a kernel"):
        checked(np.zeros(2))
