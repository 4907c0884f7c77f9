"""Short rows of a known length are straight-line code, with the same bits however they are cut."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import weft as wf
from weft import execute
from weft.fun.check import check
from weft.plan.short_extents import constants, reduced_extents, with_constants

RANDOM = np.random.default_rng(3)
ROWS = 20_000


def dot(x: Any) -> Any:
    return x @ x[0]


def lengths(x: Any) -> Any:
    return x / np.sqrt((x * x).sum(axis=1, keepdims=True))


def logarithms(x: Any) -> Any:
    return np.log(np.exp(x - x.max(axis=1, keepdims=True)).sum(axis=1))


def nearest(x: Any) -> Any:
    return ((x[:, None, :] - x[None, :4, :]) ** 2).sum(axis=2).argmin(axis=1)


def means(x: Any) -> Any:
    return x.T.mean(axis=0)


@pytest.mark.parametrize("columns", [2, 3, 5, 16, 17])
@pytest.mark.parametrize("function", [dot, lengths, logarithms, nearest, means])
def test_results_are_numpys(function: Callable[[Any], Any], columns: int) -> None:
    x = RANDOM.random((ROWS, columns))
    np.testing.assert_allclose(wf.jit(function)(x), function(x), rtol=1e-12)


@pytest.mark.parametrize("function", [dot, lengths, logarithms])
def test_bits_do_not_depend_on_boxes(function: Callable[[Any], Any], tmp_path: Path) -> None:
    x = RANDOM.random((200_000, 3))
    np.save(tmp_path / "x.npy", x)
    whole = wf.jit(function)(x)
    with wf.config(memory_limit="26 MiB"):
        wf.store(function(wf.open(tmp_path / "x.npy")), tmp_path / "y.npy")
    np.testing.assert_array_equal(np.load(tmp_path / "y.npy"), whole)


def written(function: Callable[[Any], Any], *shape: int) -> list[int]:
    """What a launch writes into the program of a function of an array of that shape."""
    computation, walk = execute.computation_of([function(wf.asarray(np.ones(shape)))._node])
    program = computation.program
    found = constants(program, reduced_extents(program), walk.values)
    check(with_constants(program, found))
    return list(found.values())


def test_what_is_worth_code_of_its_own() -> None:
    assert written(dot, ROWS, 3) == [3]
    assert written(dot, ROWS, 10) == [10]
    assert written(dot, ROWS, 17) == []  # too many to write out
    assert written(dot, 100, 3) == []  # too few rows
    assert written(logarithms, ROWS, 3) == []  # vector math would be called for numbers, too
    assert written(lambda x: x.sum(), ROWS, 3) == []  # all is reduced: rows are one sequence
