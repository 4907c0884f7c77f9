"""Reductions by groups of work items: the bits of one item alone."""

from __future__ import annotations

from typing import Any
from unittest import mock

import numpy as np
import pytest
from agreement.ways import assert_equal_bits
from devices.harness import AS_PROCESSOR, compiled, device, launched, run
from printers.nvrtc import compile_text
from slow import some_slow

import weft as wf
from weft.fun.parse import parse
from weft.lower.gpu import chunks, lanes, row_parts, whole_rows
from weft.lower.gpu import groups as gpu_groups
from weft.passes import split_reductions
from weft.plan.launch_counts import count
from weft.plan.launches import PROCESSOR
from weft.runtime.incore import derive
from weft.sizes import ONE

EXTENTS = [1, 31, 32, 33, 255, 256, 2047, 2048, 2049, 6177, 65536 + 40]


def programs() -> dict[str, Any]:
    """Reductions of rows, with operators that commute and one that does not."""

    def compose(p: Any, q: Any) -> Any:
        return p[0] * q[0], p[1] * q[0] + q[1]

    return {
        "sum": lambda x: (x.sum(axis=1),),
        "mean of squares": lambda x: (wf.mean(x * x + 1, axis=1),),
        "argmax": lambda x: (wf.argmax(x, axis=1), wf.max(x, axis=1)),
        "all": lambda x: (wf.all(x > -4, axis=1),),
        "composed": lambda x: wf.reduce(compose, (1.0, 0.0), wf.tanh(x), x),
    }


def by_items(on: Any, program: Any, x: Any) -> list[Any]:
    """The results of one item for each row."""
    with (
        mock.patch.object(whole_rows, "find", return_value=None),
        mock.patch.object(gpu_groups, "grouped", return_value=ONE),
        mock.patch.object(lanes, "LANES", 1 << 20),
        mock.patch.object(chunks, "_ENOUGH", 1 << 40),
        mock.patch.object(row_parts, "_ITEMS", 2),
    ):
        segment = compiled(program)
    kinds, found = launched(on, program, segment, [x], {})
    assert kinds <= {"map", "rows", "task"}
    return found


@pytest.mark.parametrize(
    "name", some_slow(programs(), ["all", "composed", "mean of squares"])
)
def test_groups_and_items_give_the_same_bits(name: str) -> None:
    """Several rows a group, a row a group, and several groups a row."""
    on = device()
    function = wf.jit(programs()[name])
    rng = np.random.default_rng(8)
    program = function.lower(rng.normal(size=(3, 50))).program
    with mock.patch.object(whole_rows, "find", return_value=None):  # two reductions at once
        segment = compiled(program)
        with mock.patch.multiple(gpu_groups, _PART=4096, _LONG=6177):
            in_parts = compiled(program)
    seen = set()
    for extent in EXTENTS:
        x = rng.normal(size=(67 if extent < 300 else 3, extent))
        expected = by_items(on, program, x)
        with mock.patch.object(on, "is_processor", False):
            for made in (segment, in_parts):
                kinds, found = launched(on, program, made, [x], {})
                seen |= kinds
                assert_equal_bits(found, expected)
                long = extent >= (6177 if made is in_parts else 65536)
                form = "several" if extent <= 1024 else "part" if long else "group"
                assert kinds & {"several", "group", "part"} == {form}
    assert seen >= {"several", "group", "part", "join"}


@pytest.mark.parametrize("rows", [0, 1, 7, 64, 65, 4097])
def test_rows_without_elements(rows: int) -> None:
    on = device()
    program = wf.jit(lambda x: x.sum(axis=1)).lower(np.zeros((3, 5))).program
    segment = compiled(program)
    with mock.patch.object(on, "is_processor", False):
        for extent in (0, 1, 2):
            (found,) = run(on, program, segment, [np.ones((rows, extent))], {})
            np.testing.assert_array_equal(found, np.full(rows, extent))


COLUMNS: dict[str, Any] = {
    "sum": lambda x: (x.sum(axis=0),),
    "argmin": lambda x: (wf.argmin(x, axis=0),),
    "of planes": lambda x: (wf.mean(wf.stack([x, x * 2, x - 1]), axis=1),),
    "composed": lambda x: wf.reduce(
        lambda p, q: (p[0] * q[0], p[1] * q[0] + q[1]), (1.0, 0.0), wf.tanh(x.T), x.T
    ),
}


@pytest.mark.parametrize("name", list(COLUMNS))
def test_columns_and_items_give_the_same_bits(name: str) -> None:
    on = device()
    rng = np.random.default_rng(3)
    function = wf.jit(COLUMNS[name])
    program = function.lower(rng.normal(size=(8, 9))).program
    segment = compiled(program)
    seen = set()
    for columns in (3, 33, 96):
        for extent in (1, 255, 256, 257, 2049):
            x = rng.normal(size=(extent, columns))
            expected = by_items(on, program, x)
            with mock.patch.object(on, "is_processor", False):
                kinds, found = launched(on, program, segment, [x], {})
            seen |= kinds
            assert_equal_bits(found, expected)
    assert "columns" in seen


def test_tiles_of_columns_are_launched_beside_each_other() -> None:
    """A tile of many columns is no work item's alone: its columns are items or groups."""
    on = device()
    total = wf.jit(lambda x: x.sum(axis=0))
    x = np.random.default_rng(5).normal(size=(300, 1000))
    text = total.lower(x).source("cuda")
    assert "columns" in text
    with wf.config(devices=[on.name]):
        for gpu in (False, True):
            with mock.patch.object(on, "is_processor", not gpu):
                found = total(x)
            np.testing.assert_allclose(found, x.sum(axis=0), rtol=1e-12)


def test_the_planner_counts_what_is_launched() -> None:
    """Of the forms of a kernel, those that the sizes choose."""
    on = device()
    program = wf.jit(lambda x: wf.sqrt(x.sum(axis=1))).lower(np.zeros((3, 50))).program
    segment = compiled(program)
    for rows, extent in ((3, 5), (3, 2000), (3, 70_000), (5000, 40)):
        known = derive({"n0": rows, "n1": extent, "threads": on.items}, segment.derived)
        for is_processor in AS_PROCESSOR:
            with mock.patch.object(on, "is_processor", is_processor):
                before = on.statistics.launches
                run(on, program, segment, [np.zeros((rows, extent))], {})
                made = on.statistics.launches - before
            assert count(segment.steps, {**known, PROCESSOR: is_processor}) == made


@pytest.mark.parametrize("name", ["sum", "composed", "place"])
def test_results_of_tiles_are_combined_by_a_group(name: str) -> None:
    """Where the counter is one item's on a processor, with the same bits."""
    on = device()
    function = wf.jit({
        "sum": lambda x: (wf.sum(x), wf.mean(x) * 2),
        "composed": lambda x: wf.reduce(
            lambda p, q: (p[0] * q[0], p[1] * q[0] + q[1]), (1.0, 0.0), wf.tanh(x), x
        ),
        "place": lambda x: (wf.argmax(x),),
    }[name])  # fmt: skip
    rng = np.random.default_rng(8)
    with mock.patch.object(split_reductions, "TILE", 2048):
        (program,) = function.lower(rng.normal(size=10))._pieces()
        segment = compiled(program)
        text = function.lower(rng.normal(size=10)).source("cuda")
        alone = segment
        if not on.is_processor:
            with mock.patch.object(gpu_groups, "counted", return_value=False):
                alone = compiled(program)
    assert compile_text(text).startswith(b"\x7fELF")
    for extent in (0, 1, 2048, 2049, 63 * 2048, 64 * 2048 + 1, 131 * 2048):
        if name == "place" and not extent:
            continue
        x = rng.normal(size=extent)
        kinds, by_item = launched(on, program, alone, [x], {})
        assert "count" not in kinds
        with mock.patch.object(on, "is_processor", False):
            kinds, by_group = launched(on, program, segment, [x], {})
        assert "count" in kinds
        assert_equal_bits(by_group, by_item)
        if name == "sum":
            np.testing.assert_allclose(by_group[0], x.sum(), rtol=1e-9, atol=1e-9)


def test_a_row_that_depends_on_its_number() -> None:
    """Triangles: columns of a group would not be as long, rows of a group are one."""
    on = device()
    text = """program triangle(x: f64[n, n]) sizes n {
      let y: f64[n] = kernel (i < n) {
        let s: f64 = reduce (; j < i) from -0.0_f64 { let v: f64 = x[j, i] in v }
          with (l: f64, r: f64) { let t: f64 = add(l, r) in t }
        in s
      }
      in y
    }"""
    program = parse(text)
    segment = compiled(program)
    assert "columns" not in segment.source
    assert "lanes" not in segment.source
    x = np.random.default_rng(6).normal(size=(300, 300))
    with mock.patch.object(on, "is_processor", False):
        (found,) = run(on, program, segment, [x], {"n": 300})
    np.testing.assert_allclose(found, np.triu(x, 1).sum(axis=0), rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("name", [*programs(), *COLUMNS])
def test_kernels_as_cuda(name: str) -> None:
    x = np.zeros((40, 50))
    text = wf.jit((programs() | COLUMNS)[name]).lower(x).source("cuda")
    assert compile_text(text).startswith(b"\x7fELF")


def test_long_rows_are_launched_by_groups() -> None:
    on = device()
    total = wf.jit(lambda x: x.sum(axis=1))
    x = np.random.default_rng(9).normal(size=(5, 3000))
    text = total.lower(x).source("opencl")
    assert "barrier(CLK_LOCAL_MEM_FENCE)" in text
    assert "__syncthreads()" in total.lower(x).source("cuda")
    with wf.config(devices=[on.name]):
        np.testing.assert_allclose(total(x), x.sum(axis=1), rtol=1e-12)
        np.testing.assert_allclose(total(x[:, :20]), x[:, :20].sum(axis=1), rtol=1e-12)


def test_what_may_fail_is_left_to_items() -> None:
    """An item that leaves its group early would be waited for."""
    on = device()
    gather = wf.jit(lambda t, i: wf.take(t, i.reshape(-1)).reshape(i.shape).sum(axis=1))
    table, at = np.arange(50.0), np.random.default_rng(1).integers(0, 50, (4, 700))
    assert "barrier" not in gather.lower(table, at).source("opencl")
    with wf.config(devices=[on.name]):
        np.testing.assert_allclose(gather(table, at), table[at].sum(axis=1))
        at[2, 650] = 50
        with pytest.raises(IndexError, match="index 50 is outside"):
            gather(table, at)
