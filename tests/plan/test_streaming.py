"""Programs run box by box equal the programs run whole."""

from __future__ import annotations

from typing import Any
from unittest import mock

import numpy as np
import pytest
from agreement.ways import assert_equal_bits
from plan.programs import CASES, Case
from plan.stages import ListedSink, ListedSource, streamed

from weft.fun import nodes as fun
from weft.fun.interpret import interpret
from weft.plan import draft, sharing
from weft.plan.protocols import Source


def check(case: Case, box_bytes: int, staged: bool, small: int = 64) -> Any:
    program, arguments = case.program, case.arguments()
    largest = max(np.asarray(value).nbytes for value in arguments.values())
    box_bytes = max(box_bytes, largest // 500)
    inputs: dict[str, Any] = {
        name: ListedSource(value) if staged and isinstance(value, np.ndarray) else value
        for name, value in arguments.items()
    }
    expected = interpret(program, [arguments[p.name] for p in program.params], case.sizes)
    plan, results = streamed(program, case.sizes, inputs, box_bytes=box_bytes, small=small)
    for result, value in zip(results, expected, strict=True):
        assert result.dtype == value.dtype
        np.testing.assert_array_equal(result, value)
    sinks = [ListedSink(np.shape(value), value.dtype) for value in expected]
    plan, _ = streamed(program, case.sizes, inputs, sinks, box_bytes=box_bytes, small=small)
    for sink, value in zip(sinks, expected, strict=True):
        np.testing.assert_array_equal(sink.array, value)
        assert sink.state == "finished"
    written = sum(sink.bytes for sink in sinks)  # constants and scalar parameters are not counted
    assert written - 8 * sum(sink.shape == () for sink in sinks) <= plan.bytes_written <= written
    return plan


@pytest.mark.parametrize("staged", [False, True], ids=["direct", "staged"])
@pytest.mark.parametrize("box_bytes", [1, 1009, 1 << 20])
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_streamed_equals_whole(case: Case, box_bytes: int, staged: bool) -> None:
    check(case, box_bytes, staged)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_bytes_read_are_as_predicted(case: Case) -> None:
    arguments = case.arguments()
    inputs: dict[str, Any] = {
        name: ListedSource(value) if isinstance(value, np.ndarray) else value
        for name, value in arguments.items()
    }
    plan, _ = streamed(case.program, case.sizes, inputs, box_bytes=2000)
    read = sum(source.bytes for source in inputs.values() if isinstance(source, ListedSource))
    assert read == plan.bytes_read
    assert isinstance(next(iter(inputs.values())), Source) or case.name == "generated"


@pytest.mark.parametrize("devices", [2, 3])
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_spread_equals_whole(case: Case, devices: int) -> None:
    """Scans too: boxes begin with what totals of tiles tell."""
    program, arguments = case.program, case.arguments()
    expected = interpret(program, [arguments[p.name] for p in program.params], case.sizes)
    with (
        mock.patch.object(draft, "SCAN_TILE", 64),
        mock.patch.object(sharing, "_LEAST_WORK", 1),
        mock.patch.object(sharing, "SMALL_WORK", 1),
        mock.patch("weft.plan.cuts.SMALL_WORK", 1),
        mock.patch("weft.plan.planner.is_worth_sharing", return_value=True),
    ):
        plan, results = streamed(program, case.sizes, arguments, small=64, devices=devices)
    assert_equal_bits(results, expected)
    alone = {name for stage in plan.stages if not stage.shares for name in stage.stage.outputs}
    scans = [let for let in program.body.statements if isinstance(let.expr, fun.Scan)]
    names = {let.pattern[0].name for let in scans if len(let.expr.space) == 1}
    assert not names & {output.array for output in alone}
