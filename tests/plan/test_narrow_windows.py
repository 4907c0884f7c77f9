"""Windows have of axes that are not cut no more than all boxes together read."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from devices.harness import device
from hypothesis import given, settings
from hypothesis import strategies as st
from plan.stages import ListedSource, streamed

import weft as wf
from weft.fun.interpret import interpret
from weft.fun.parse import parse

RNG = np.random.default_rng(4)
TABLE = RNG.random((40, 101))


def two_rows(first: str, second: str) -> str:
    """A row times the sum of ten others, of a table that is cut along its columns."""
    return f"""program rows(x: f64[n, m]) sizes n, m, k {{
      let s: f64[m] = reduce (l < m; i < 10) from -0.0 {{
        let a: f64 = x[{first}, l] in a
      }} with (p: f64, q: f64) {{ let r: f64 = add(p, q) in r }}
      let y: f64[m] = kernel (j < m) {{
        let b: f64 = x[{second}, j]
        let c: f64 = s[j]
        let d: f64 = multiply(b, c)
        in d }}
      in y }}"""


def planned(text: str, source: Any, k: int, devices: int = 1) -> Any:
    """The plan; its results are compared with those of the whole program."""
    program = parse(text)
    sizes = {"n": source.shape[0], "m": source.shape[1], "k": k}
    plan, found = streamed(program, sizes, {"x": source}, devices=devices)
    expected = interpret(program, [source.array], sizes)
    for result, value in zip(found, expected, strict=True):
        np.testing.assert_array_equal(result, value)
    return plan


def axes_of(plan: Any) -> set[int]:
    """The axes along which windows of x have parts."""
    windows = [w for stage in plan.stages for w in stage.stage.windows if w.array == "x"]
    return {axis for window in windows for axis, _, _ in window.cuts}


@pytest.mark.parametrize("devices", [1, 2])
def test_rows_that_no_box_reads_are_not_read(devices: int) -> None:
    source = ListedSource(TABLE)
    plan = planned(two_rows("i + k", "k + 12"), source, 5, devices)
    assert axes_of(plan) == {0, 1}
    assert {(box[0].start, box[0].stop) for box in source.boxes} == {(5, 18)}
    assert source.bytes == plan.bytes_read == 13 * 101 * 8


def test_rows_far_apart_are_read_with_those_between() -> None:
    source = ListedSource(TABLE)
    plan = planned(two_rows("i", "k"), source, 39)
    assert axes_of(plan) == {1}
    assert source.bytes == plan.bytes_read == TABLE.nbytes


@pytest.mark.parametrize(("turned", "axes"), [(False, {0, 1}), (True, {0})])
def test_of_what_lies_in_memory_rows_stay_whole(turned: bool, axes: set[int]) -> None:
    """A part of each row would no longer be in one piece."""
    text, table = two_rows("i + k", "k"), TABLE
    if turned:
        text = text.replace("x: f64[n, m]", "x: f64[m, n]").replace("x[i + k, l]", "x[l, i + k]")
        text, table = text.replace("x[k, j]", "x[j, k]"), np.ascontiguousarray(TABLE.T)
    program, sizes = parse(text), {"n": 40, "m": 101, "k": 5}
    plan, (found,) = streamed(program, sizes, {"x": table})
    assert axes_of(plan) == axes
    np.testing.assert_array_equal(found, interpret(program, [table], sizes)[0])
    assert plan.bytes_read == (10 if not turned else 40) * 101 * 8


def test_rows_that_data_choose_may_be_any() -> None:
    text = """program chosen(x: f64[n, m], at: i64[m]) sizes n, m {
      let y: f64[m] = kernel (j < m) {
        let i: i64 = at[j]
        let a: f64 = x[i, j]
        in a }
      in y }"""
    at = RNG.integers(3, 6, 101)
    source = ListedSource(TABLE)
    plan, (found,) = streamed(parse(text), {"n": 40, "m": 101}, {"x": source, "at": at})
    assert axes_of(plan) == {1}
    np.testing.assert_array_equal(found, TABLE[at, np.arange(101)])


@settings(deadline=None, max_examples=30)
@given(
    rows=st.integers(2, 60), columns=st.integers(2, 300), data=st.data(),
    rule=st.sampled_from(["edge", "wrap"]),
)  # fmt: skip
def test_any_rows_and_neighbours(rows: int, columns: int, data: Any, rule: str) -> None:
    """Rows near k of an array, beyond its ends by a boundary rule."""
    k = data.draw(st.integers(0, rows - 1))
    text = f"""program near(x: f64[n, m]) sizes n, m, k {{
      let y: f64[m] = kernel (j < m) {{
        let a: f64 = x[k, j]
        let b: f64 = x[k - 2: {rule}(0, n), j + 1: {rule}(0, m)]
        let c: f64 = x[k + 1: {rule}(0, n), j]
        let d: f64 = add(a, b)
        let e: f64 = subtract(d, c)
        in e }}
      in y }}"""
    source = ListedSource(RNG.random((rows, columns)))
    plan = planned(text, source, k)
    assert source.bytes == plan.bytes_read


WAYS = {
    "few": {"memory_limit": "24.3 MiB"},
    "device": {"devices": ["opencl:0"], "memory_limit": {"opencl:0": "64 KiB"}},
    "both": {"devices": ["cpu", "opencl:0"], "memory_limit": {"opencl:0": "64 KiB"}},
}


@pytest.mark.parametrize("way", WAYS)
def test_a_file_of_chunks(way: str, tmp_path: Path) -> None:
    if way != "few":
        device()
    table = RNG.random((1000, 997)).astype(np.float32)
    wf.store(wf.asarray(table), tmp_path / "x.zarr", chunks=(10, 100))
    function = wf.jit(lambda x: x[510:520].sum(axis=0) * x[507])
    x = wf.open(tmp_path / "x.zarr")
    with wf.config(**WAYS[way]):
        found, plan = function(x), wf.explain(function, x)
    np.testing.assert_array_equal(found, function(table))
    assert plan.bytes_moved < 24 * 1000 * 4  # whole chunks are decoded


def test_a_round_copies_its_own_row() -> None:
    device()

    def step(carry: Any, row: Any) -> Any:
        return carry * np.float32(0.5) + row, (carry * row).sum()

    function = wf.jit(lambda x: wf.scan(step, x[0], x))
    x = RNG.random((20, 1021)).astype(np.float32)
    with wf.config(devices=["opencl:0"], memory_limit={"opencl:0": "24 KiB"}):
        plan, (carry, sums) = wf.explain(function, x), function(x)
    expected, every = x[0], []
    for row in x:
        every.append((expected * row).sum())
        expected = expected * np.float32(0.5) + row
    np.testing.assert_array_equal(carry, expected)
    np.testing.assert_allclose(sums, every, rtol=1e-5)
    assert plan.bytes_moved < 6 * x.nbytes
