"""Iterated stencils that wrap around are streamed as others are, on longer arrays."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from plan.stages import InterpretedStage, ListedSink, ListedSource

from weft.fun.check import check
from weft.fun.interpret import interpret
from weft.fun.parse import parse
from weft.plan.explain import explain
from weft.plan.lengthen import lengthen
from weft.plan.planner import plan_program
from weft.runtime.executor import execute

LINE = parse(
    """program line(x: f64[n]) sizes n, t {
      let y: f64[n] = loop (a: f64[n] = x) for s from 0 to t {
        let b: f64[n] = kernel (i < n) {
          let c: f64 = a[i - 2: wrap(0, n)]
          let d: f64 = a[i + 1: wrap(0, n)]
          let e: f64 = a[i]
          let f: f64 = subtract(c, d)
          let g: f64 = add(e, f)
          in g }
        in b }
      in y }"""
)
TWO = parse(
    """program two(x: f64[n, m], y: f64[n, m], h: f64[n]) sizes n, m, t {
      let p: f64[n, m], q: f64[n, m] = loop (a: f64[n, m] = x, b: f64[n, m] = y) for s from 0 to t {
        let c: f64[n, m], d: f64[n, m] = kernel (i < n, j < m) {
          let e: f64 = a[i - 1: wrap(0, n), j - 1: wrap(0, m)]
          let f: f64 = b[i + 1: wrap(0, n), j + 1: edge(0, m)]
          let g: f64 = h[i + 1: wrap(0, n)]
          let o: f64 = add(e, f)
          let r: f64 = subtract(f, g)
          in o, r }
        in c, d }
      in p, q }"""
)
ROW_NUMBERS = parse(
    """program numbers(x: f64[n]) sizes n, t {
      let y: f64[n] = loop (a: f64[n] = x) for s from 0 to t {
        let b: f64[n] = kernel (i < n) {
          let c: f64 = a[i - 2: wrap(0, n)]
          let d: f64 = f64(i)
          let e: f64 = add(c, d)
          in e }
        in b }
      in y }"""
)


def given(program: Any, sizes: dict[str, int]) -> dict[str, np.ndarray]:
    random = np.random.default_rng(5)
    return {
        param.name: random.random(tuple(int(n.evaluate(sizes)) for n in param.type.shape))
        for param in program.params
    }


@pytest.mark.parametrize(
    ("program", "sizes"),
    [
        (LINE, {"n": 1001, "t": 3}),
        (LINE, {"n": 12, "t": 6}),  # its rounds reach just once around,
        (LINE, {"n": 11, "t": 31}),  # and several times
        (TWO, {"n": 301, "m": 7, "t": 4}),
    ],
)
def test_what_wraps_around_streams_and_agrees(program: Any, sizes: dict[str, int]) -> None:
    arrays = given(program, sizes)
    expected = interpret(program, list(arrays.values()), sizes)
    longer = lengthen(program, sizes, 64)
    check(longer)
    assert longer != program
    found = interpret(longer, list(arrays.values()), sizes)
    for value, result in zip(expected, found, strict=True):
        np.testing.assert_array_equal(result, value)
    sources = {name: ListedSource(array) for name, array in arrays.items()}
    plan = plan_program(
        longer, sizes, sources, [None] * len(expected), 1 << 20, 1, InterpretedStage,
        allowance=0, box_bytes=1 << 12, small=0,
    )  # fmt: skip
    assert plan.stages[0].boxes.count > 1 or sizes["n"] < 100
    assert len(plan.stages) == 1 or sizes["n"] < 100  # all arrays in one pass
    for value, result in zip(expected, execute(plan), strict=True):
        np.testing.assert_array_equal(result, value)


def test_boxes_are_small_and_said_to_overlap() -> None:
    sizes = {"n": 4001, "t": 3}
    arrays = given(LINE, sizes)
    source = ListedSource(arrays["x"])
    plan = plan_program(
        LINE, sizes, {"x": source}, [None], 100_000, 1, InterpretedStage,
        allowance=0, box_bytes=4000, small=0,
    )  # fmt: skip
    assert plan.stages[0].boxes.count > 8
    assert max(plan.stages[0].input_bytes) < source.bytes + arrays["x"].nbytes // 4
    assert "3 rounds on each box" in str(explain(plan))
    (result,) = execute(plan)
    np.testing.assert_array_equal(result, interpret(LINE, [arrays["x"]], sizes)[0])
    assert source.bytes <= arrays["x"].nbytes * 1.1  # the ends twice, halos once


def test_loops_stay_that_fit_or_use_their_index() -> None:
    sizes = {"n": 101, "t": 3}
    assert lengthen(LINE, sizes, 1 << 20) == LINE
    assert lengthen(ROW_NUMBERS, sizes, 64) == ROW_NUMBERS


SHEET = """program sheet(x: f64[n, m]) sizes n, m, t {
  let y: f64[n, m] = loop (a: f64[n, m] = x) for s from 0 to t {
    let b: f64[n, m] = kernel (i < n, j < m) {
      let c: f64 = a[i - 2: first(0, n), j - 1: second(0, m)]
      let d: f64 = a[i + 1: first(0, n), j]
      let e: f64 = a[i, j + 1: second(0, m)]
      let f: f64 = subtract(c, d)
      let g: f64 = add(e, f)
      in g }
    in b }
  in y }"""


@pytest.mark.parametrize("second", ["wrap", "edge"])
@pytest.mark.parametrize("first", ["wrap", "edge"])
@pytest.mark.parametrize(("n", "m"), [(5, 8001), (8001, 5)])
def test_boxes_are_cut_along_the_axis_that_is_long(n: int, m: int, first: str, second: str) -> None:
    """All rounds in one pass, whichever ends are neighbours."""
    program = parse(SHEET.replace("first", first).replace("second", second))
    sizes = {"n": n, "m": m, "t": 6}
    arrays = given(program, sizes)
    source, sink = ListedSource(arrays["x"]), ListedSink((n, m), np.float64)
    plan = plan_program(
        program, sizes, {"x": source}, [sink], 150_000, 1, InterpretedStage,
        allowance=0, small=0,
    )  # fmt: skip
    assert plan.stages[0].boxes.count > 1
    assert source.bytes == 0
    assert sum("rounds on each box" in stage.stage.reason for stage in plan.stages) == 1
    execute(plan)
    np.testing.assert_array_equal(sink.array, interpret(program, [arrays["x"]], sizes)[0])
    assert source.bytes < 1.01 * arrays["x"].nbytes
