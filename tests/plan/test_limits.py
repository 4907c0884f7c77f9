"""Peaks are upper bounds, bytes are as predicted, and what does not fit is refused."""

from __future__ import annotations

import math
import re
import weakref
from typing import Any

import numpy as np
import pytest
from plan.programs import CASES, SUM, Case, read
from plan.stages import InterpretedStage, ListedSink, ListedSource

from weft.errors import MemoryLimitError
from weft.fun.interpret import interpret
from weft.fun.parse import parse
from weft.passes.split_reductions import always, split_reductions
from weft.plan.explain import explain
from weft.plan.maker import Maker
from weft.plan.nodes import Plan
from weft.plan.planner import plan_program
from weft.runtime.executor import execute


class CountingPool:
    """A pool that knows how many bytes of its arrays are alive."""

    def __init__(self) -> None:
        self.now = self.peak = 0

    def empty(self, shape: tuple[int, ...], dtype: Any) -> Any:
        count = math.prod(shape) * np.dtype(dtype).itemsize
        memory = bytearray(count)
        array = np.ndarray(shape, dtype, memory)
        self.now += count
        self.peak = max(self.peak, self.now)
        weakref.finalize(array, self._release, count)
        return array

    def _release(self, count: int) -> None:
        self.now -= count


def plan_of(case: Case, limit: int, sinks: bool = False, box_bytes: int = 1 << 14) -> Any:
    program, arguments = case.program, case.arguments()
    inputs: dict[str, Any] = {
        name: ListedSource(value) if isinstance(value, np.ndarray) else value
        for name, value in arguments.items()
    }
    targets: list[Any] = [None] * len(program.body.results)
    if sinks:
        whole = plan_program(
            program, case.sizes, inputs, targets, 1 << 40, 2, InterpretedStage, allowance=0
        )
        targets = [
            ListedSink(whole.values[name].shape, whole.values[name].dtype)
            if name in whole.values and whole.values[name].shape
            else None
            for name in whole.results
        ]
    return plan_program(
        program, case.sizes, inputs, targets, limit, 2, InterpretedStage, allowance=0,
        box_bytes=box_bytes, small=64,
    )  # fmt: skip


@pytest.mark.parametrize("sinks", [False, True], ids=["memory", "sinks"])
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_the_peak_is_an_upper_bound(case: Case, sinks: bool) -> None:
    plan = plan_of(case, 1 << 40, sinks)
    pool = CountingPool()
    execute(plan, pool=pool)  # type: ignore[arg-type]
    assert 0 < pool.peak <= plan.peak_bytes


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_boxes_shrink_to_the_limit(case: Case) -> None:
    generous = plan_of(case, 1 << 40, sinks=True, box_bytes=1 << 30)
    limit = generous.peak_bytes
    refusal = None
    while refusal is None:
        limit = limit * 2 // 3
        try:
            plan = plan_of(case, limit, sinks=True, box_bytes=1 << 30)
            assert plan.peak_bytes <= limit
        except MemoryLimitError as error:
            refusal = error
    assert re.search(r"at least [1-9]\d* bytes", refusal.advice)
    pool = CountingPool()
    # a limit that is twice that which was the last to do: boxes of an element take minutes
    plan = plan_of(case, limit * 9 // 4 + 2, sinks=True, box_bytes=1 << 30)
    execute(plan, pool=pool)  # type: ignore[arg-type]
    assert pool.peak <= plan.peak_bytes


def test_a_loop_over_an_array_that_does_not_fit_is_refused_at_its_place(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(Maker, "least_spilled", 1 << 20)  # else rounds go one by one
    text = """program steps(x: f64[n]) sizes n {
      let y: f64[n] = loop (a: f64[n] = x) for s from 0 to 3 {
        let b: f64[n] = kernel (i < n) { let c: f64 = a[n - 1 - i] in c }
        in b } @ "model.py":12
      in y }"""
    source = ListedSource(np.zeros(1000))
    with pytest.raises(MemoryLimitError) as caught:
        plan_program(
            parse(text), {"n": 1000}, {"x": source}, [ListedSink((1000,), float)], 20000, 1,
            InterpretedStage, allowance=0, small=0,
        )  # fmt: skip
    assert caught.value.place is not None
    assert caught.value.place.line == 12
    assert "y needs" in caught.value.found
    assert "cannot be cut" in caught.value.found


def test_rows_too_long_for_a_box_are_cut_along_the_other_axis() -> None:
    text = """program twice(x: f64[n, m]) sizes n, m {
      let y: f64[n, m] = kernel (i < n, j < m) {
        let a: f64 = x[i, j]
        let b: f64 = add(a, a)
        in b }
      in y }"""
    array = np.random.default_rng(0).random((4, 5000))
    sink = ListedSink(array.shape, float)
    plan = plan_program(
        parse(text), {"n": 4, "m": 5000}, {"x": ListedSource(array)}, [sink], 60000, 1,
        InterpretedStage, allowance=0, small=0,
    )  # fmt: skip
    assert plan.stages[0].stage.windows[0].axis == 1
    execute(plan)
    np.testing.assert_array_equal(sink.array, array + array)


def test_statistics_read_their_input_once() -> None:
    program = split_reductions(
        read(f"""program stats(x: f64[n, m]) sizes n, m {{
          let r: f64[n] = reduce (i < n; j < m) from 0.0 {{ let a: f64 = x[i, j] in a }} {SUM}
          let s: f64[m] = reduce (j < m; i < n) from 0.0 {{ let a1: f64 = x[i, j] in a1 }} {SUM}
          let t: f64 = reduce (; i < n, j < m) from 0.0 {{ let a2: f64 = x[i, j] in a2 }} {SUM}
          in r, s, t }}"""),
        always,
    )
    source = ListedSource(np.random.default_rng(0).integers(0, 9, (20_000, 60)).astype(float))
    plan = plan_program(
        program, {"n": 20_000, "m": 60}, {"x": source}, [None] * 3, 1 << 27, 2, InterpretedStage,
        allowance=0, box_bytes=1 << 20,
    )  # fmt: skip
    assert explain(plan).passes == {"x": 1.0}
    rows, columns, total = execute(plan)
    assert source.bytes == source.array.nbytes
    np.testing.assert_array_equal(rows, source.array.sum(axis=1))
    np.testing.assert_array_equal(columns, source.array.sum(axis=0))
    assert total == source.array.sum()


def test_an_explanation_says_what_happens() -> None:
    plan = plan_of(CASES[0], 1 << 24, sinks=True)
    explanation = explain(plan)
    text = str(explanation)
    for phrase in ("peak at most", "stage 1", "read ahead into buffers", "along y axis 0", "y:"):
        assert phrase in text
    assert explanation.peak_bytes == plan.peak_bytes
    assert explanation.bytes_moved == plan.bytes_read + plan.bytes_written
    assert explanation.html().count("<ul>") == explanation.html().count("</ul>")


def test_halos_are_read_once_and_chunks_not_split() -> None:
    case = next(case for case in CASES if case.name == "chained_stencils")
    array = case.arguments()["x"]
    expected = interpret(case.program, [array], case.sizes)
    for chunks in (None, (6, 7)):
        source = ListedSource(array, chunks)
        plan = plan_program(
            case.program, case.sizes, {"x": source}, [None, None], 1 << 30, 2, InterpretedStage,
            allowance=0, box_bytes=3000, small=0,
        )  # fmt: skip
        assert plan.stages[0].boxes.count > 2
        results = execute(plan)
        assert source.bytes == array.nbytes == plan.bytes_read
        if chunks is not None:
            assert all(box[0].start % 6 == 0 for box in source.boxes)
        for result, value in zip(results, expected, strict=True):
            np.testing.assert_array_equal(result, value)


def test_what_wraps_around_is_read_in_small_windows() -> None:
    case = next(case for case in CASES if case.name == "wrapped")
    array = case.arguments()["x"]
    source = ListedSource(array)
    plan = plan_program(
        case.program, case.sizes, {"x": source}, [None], 1 << 30, 1, InterpretedStage,
        allowance=0, box_bytes=200, small=0,
    )  # fmt: skip
    assert plan.stages[0].boxes.count > 3
    assert max(plan.stages[0].input_bytes) < array.nbytes // 2
    (result,) = execute(plan)
    np.testing.assert_array_equal(result, np.roll(array, 1) - np.roll(array, -5))


def test_boxes_are_no_more_than_help() -> None:
    """Each of them costs memory and time to plan, of which no limit tells."""
    text = """program counts(x: i64[n], h: i64[m]) sizes n, m {
      let y: i64[m] = scatter h over (i < n) {
        let a: i64 = x[i]
        in a, 1
      } with (p: i64, q: i64) { let r: i64 = add(p, q) in r }
      in y }"""
    count, bins = 1_000_000, 2000
    source = ListedSource(np.zeros(count, np.int64))

    def planned(limit: int) -> Plan:
        given = {"x": source, "h": np.zeros(bins, np.int64)}
        return plan_program(
            parse(text), {"n": count, "m": bins}, given, [ListedSink((bins,), np.int64)],
            limit, 1, InterpretedStage, allowance=0, small=0,
        )  # fmt: skip

    with pytest.raises(MemoryLimitError, match="its smallest boxes, 31 of 1000000 along"):
        planned(20_000)
    counts = [max(s.boxes.count for s in planned(limit).stages) for limit in (40_000, 400_000)]
    assert 1 << 15 >= counts[0] > counts[1]
