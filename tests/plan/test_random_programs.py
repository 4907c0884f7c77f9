"""Random programs, streamed with random boxes, mean what they mean whole."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from plan.stages import ListedSource, streamed
from programs.random_programs import Case, assert_agree, programs
from slow import examples

from weft.fun import nodes as fun
from weft.fun.interpret import interpret
from weft.passes import split_reductions as split
from weft.passes.fuse import fuse
from weft.passes.simplify import simplify
from weft.plan import draft


@pytest.fixture(autouse=True)
def small_tiles(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tiles of a few elements, so that small programs are cut too."""
    monkeypatch.setattr(draft, "SCAN_TILE", 2)
    monkeypatch.setattr(split, "TILE", 4)
    monkeypatch.setattr(split, "COLUMN_TILE", 4)
    monkeypatch.setattr(split, "COLUMN_ROWS", 2)


@given(
    case=programs(),
    optimised=st.booleans(),
    staged=st.booleans(),
    box_bytes=st.sampled_from([1, 40, 200, 1 << 20]),
    small=st.sampled_from([0, 100]),
)
@settings(
    max_examples=examples(300), deadline=None, derandomize=True,
    suppress_health_check=list(HealthCheck),
)
def test_streamed_equals_whole(
    case: Case, optimised: bool, staged: bool, box_bytes: int, small: int
) -> None:
    program: fun.Program = case.program
    if optimised:
        program = fuse(simplify(program))
    program = split.split_reductions(program, split.always)
    expected = interpret(case.program, case.arguments, case.sizes)
    inputs: dict[str, Any] = {
        param.name: ListedSource(value) if staged and np.ndim(value) else value
        for param, value in zip(program.params, case.arguments, strict=True)
    }
    _, results = streamed(program, case.sizes, inputs, box_bytes=box_bytes, small=small)
    assert_agree(results, expected)
