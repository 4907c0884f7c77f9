"""Random loop nests and other kernels do what they do in plain Python."""

from __future__ import annotations

import copy
import random
import warnings
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from loops.agree import same
from loops.random_kernels import write_kernel
from loops.random_nests import Nest, nests, write_nest

import weft as wf
from weft.errors import RaceError


def plainly(nest: Nest, arguments: tuple[Any, ...]) -> Any:
    """In plain Python, sums of ints beginning as int64: Python's own have no end."""
    sums = nest.text.replace(" = 0\n", " = np.int64(0)\n")
    with np.errstate(over="ignore"):
        return replace(nest, text=sums).function()(*arguments)


def agrees(nest: Nest, seed: int = 0) -> bool:
    """Whether the nest could be compared; a nest that is proved to race is refused instead."""
    before = nest.arguments(seed)
    wanted, found = copy.deepcopy(before), copy.deepcopy(before)
    expected = plainly(nest, wanted)
    if any(np.abs(of).max() > 2**40 for of in (wanted[2], wanted[3], expected[2])):
        return False  # sums of such floats depend on their order
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            results = wf.kernel(nest.function())(*found)
        except RaceError:
            return False
    for name, of, value in zip(("x", "a", "y", "b"), found, wanted, strict=False):
        np.testing.assert_array_equal(of, value, err_msg=name)
    for of, value in zip(results, expected, strict=True):
        same(of, value, 0.0)
    return True


SLOW = list(HealthCheck)


@settings(max_examples=12, deadline=None, suppress_health_check=SLOW, derandomize=True)
@given(nests())
def test_random_nests(nest: Nest) -> None:
    agrees(nest)


@pytest.mark.slow
@pytest.mark.parametrize("hundred", range(20))
def test_many_random_nests(hundred: int) -> None:
    compared = 0
    for seed in range(100 * hundred, 100 * hundred + 100):
        compared += agrees(write_nest(random.Random(seed).randint))
    assert compared > 50


def test_random_kernels() -> None:
    with wf.config(interpret_below=1 << 60):
        assert sum(agrees(write_kernel(random.Random(seed).randint)) for seed in range(8)) > 4


@pytest.mark.slow
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("hundred", range(20))
def test_many_random_kernels(hundred: int) -> None:
    compared = 0
    for seed in range(100 * hundred, 100 * hundred + 100):
        compared += agrees(write_kernel(random.Random(seed).randint))
    assert compared > 50
