"""Scans side by side in boxes along what they scan, which hand on an array: the same bits."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from mem.validity import is_valid
from plan.programs import SUM, read
from plan.stages import ListedSink, ListedSource, streamed

import weft as wf
from weft.errors import MemoryLimitError
from weft.fun import nodes as fun
from weft.fun.check import check
from weft.fun.columns import scans_columns
from weft.fun.interpret import interpret
from weft.fun.parse import parse
from weft.launch import have_compiler
from weft.launch.stage import stage_code
from weft.plan.draft import SCAN_TILE
from weft.plan.nodes import Plan
from weft.plan.planner import plan_program
from weft.plan.setting import ALLOWANCE
from weft.runtime.executor import execute

needs_compiler = pytest.mark.skipif(not have_compiler(), reason="no C compiler")

COLUMNS = f"""program columns(x: f32[n, m], c: f32) sizes n, m {{
  let d: f32 = multiply(c, 0.5_f32)
  let y: f32[m, n] = scan KIND (j < m, i < n) from d {{
    let a: f32 = x[i, j] let b: f32 = multiply(a, a) in b }} {SUM.replace("f64", "f32")}
  let z: f32[n, m] = permute y (1, 0)
  let r: f32[n, m] = copy z
  in r }}"""

ROWS = """program rows(x: f32[n, m], c: f32) sizes n, m {
  let y: f32[n, m], z: f32[n, m] = scan KIND (i < n, j < m) from c, BEGIN {
    let a: f32 = x[i, j] in a, a } with (u: f32, v: f32, p: f32, q: f32) {
    let t: f32 = add(u, p)
    let w: f32 = OPERATION(v, q)
    in t, w }
  in y, z }"""


def read_once(text: str, shape: tuple[int, int], limit: int) -> tuple[Plan, list[Any], list[Any]]:
    """The plan in boxes along what is scanned, its results, and those of the whole at once."""
    program = read(text)
    x = np.random.default_rng(3).normal(size=shape).astype(np.float32)
    sizes, results = dict(zip("nm", shape, strict=True)), len(program.body.results)
    found = []
    for room in (1 << 40, limit):
        source = ListedSource(x)
        sinks = [ListedSink(shape, np.float32) for _ in range(results)]
        plan = plan_program(
            program, sizes, {"x": source, "c": np.float32(0.75)}, sinks, room, 2, stage_code,
            allowance=0, small=0, box_bytes=room,
        )  # fmt: skip
        execute(plan)
        assert plan.peak_bytes <= room
        assert source.bytes == x.nbytes  # each element once
        found.append([sink.array for sink in sinks])
    return plan, found[1], found[0]


@needs_compiler
@pytest.mark.parametrize("kind", ["", "exclusive"])
def test_columns_are_scanned_in_boxes_of_whole_rows(kind: str) -> None:
    """Not of parts of all rows; where a column has a tile and more, a column is a left fold."""
    plan, boxes, whole = read_once(COLUMNS.replace("KIND", kind), (SCAN_TILE + 300, 7), 1 << 18)
    _, stage = plan.stages  # what scans begin with comes first
    assert 10 < stage.boxes.count < 100
    assert stage.boxes.total == SCAN_TILE + 300
    assert [array.tobytes() for array in boxes] == [array.tobytes() for array in whole]


@needs_compiler
def test_sums_down_a_file_have_the_bits_of_those_in_core(tmp_path: Path) -> None:
    x = np.random.default_rng(4).random((6000, 96), np.float32)
    np.save(tmp_path / "x.npy", x)
    opened = wf.open(tmp_path / "x.npy")
    with wf.config(memory_limit=ALLOWANCE + (1 << 19)):
        plan = wf.explain(wf.store, wf.cumulative_sum(opened, axis=0), tmp_path / "y.npy")
        wf.store(wf.cumulative_sum(opened, axis=0), tmp_path / "y.npy")
    assert plan.bytes_moved == 2 * x.nbytes
    assert "along t_5 axis 0" in str(plan)
    in_core = np.asarray(wf.cumulative_sum(wf.asarray(x), axis=0))
    assert np.load(tmp_path / "y.npy").tobytes() == in_core.tobytes()


@needs_compiler
@pytest.mark.parametrize("kind", ["", "exclusive"])
@pytest.mark.parametrize(("operation", "begin"), [("add", "0.0_f32"), ("maximum", "-inf_f32")])
def test_rows_that_do_not_fit_are_scanned_tile_by_tile(
    kind: str, operation: str, begin: str
) -> None:
    text = ROWS.replace("KIND", kind).replace("OPERATION", operation).replace("BEGIN", begin)
    shape = 3, 4 * SCAN_TILE + 77
    plan, boxes, whole = read_once(text, shape, 5 << 19)
    (stage,) = plan.stages
    assert (stage.boxes.count, stage.boxes.total) == (5, shape[1])
    assert [array.tobytes() for array in boxes] == [array.tobytes() for array in whole]


def test_rows_that_fit_are_cut_between_rows() -> None:
    plan, _ = streamed(
        read(f"""program rows(x: f64[n, m]) sizes n, m {{
          let y: f64[n, m] = scan (i < n, j < m) from 0.0 {{ let a: f64 = x[i, j] in a }} {SUM}
          in y }}"""),
        {"n": 40, "m": 300}, {"x": ListedSource(np.ones((40, 300)))}, box_bytes=1 << 14,
    )  # fmt: skip
    assert plan.stages[0].boxes.total == 40
    assert not plan.stages[0].stage.in_order


def test_a_row_that_is_no_tile_is_not_cut() -> None:
    program = read(f"""program rows(x: f64[n, m]) sizes n, m {{
      let y: f64[n, m] = scan (i < n, j < m) from 0.0 {{ let a: f64 = x[i, j] in a }} {SUM}
      in y }}""")
    source, sink = ListedSource(np.ones((3, 9000))), ListedSink((3, 9000), float)
    with pytest.raises(MemoryLimitError, match="its smallest boxes"):
        streamed(program, {"n": 3, "m": 9000}, {"x": source}, [sink], limit=1 << 16)


BEGUN = """program begun(x: f64[m, n], c: f64[k, m]) sizes n, m, k {
  let y: f64[k, m, n] = scan KIND (l < k, j < m, i < n) from c {
    let a: f64 = INDEX in a } with (u: f64, v: f64) { let w: f64 = add(u, v) in w }
  in y }"""


@pytest.mark.parametrize("kind", ["", "exclusive"])
@pytest.mark.parametrize("index", ["x[j, i]", "t[i, j]"])
def test_each_scan_may_begin_with_a_number_of_its_own(kind: str, index: str) -> None:
    text = BEGUN.replace("KIND", kind).replace("INDEX", index)
    if index.startswith("t"):
        text = text.replace("x: f64[m, n]", "t: f64[n, m]")
    program = parse(text)
    check(program, "parsing")
    random = np.random.default_rng(5)
    x, c = random.normal(size=(3, 5)), random.normal(size=(2, 3))
    sizes = {"n": 5, "m": 3, "k": 2}
    arguments = [np.ascontiguousarray(x.T) if index.startswith("t") else x, c]
    (found,) = interpret(program, arguments, sizes)
    begun = np.concatenate([c[..., None], np.broadcast_to(x, (2, 3, 5))], axis=2).cumsum(axis=2)
    np.testing.assert_array_equal(found, begun[..., :-1] if kind else begun[..., 1:])
    is_valid(program, arguments, sizes)


def test_what_scans_begin_with_has_their_shape() -> None:
    program = parse(BEGUN.replace("KIND", "").replace("INDEX", "x[j, i]")
                    .replace("c: f64[k, m]", "c: f64[m]"))  # fmt: skip
    with pytest.raises(Exception, match="initial values of type"):
        check(program, "parsing")


def test_what_is_scanned_along_columns_is_known_of_reads() -> None:
    def scan_of(index: str, also: str) -> fun.Scan:
        program = parse(f"""program p(x: f64[n, m], v: f64[n], t: f64[m, n]) sizes n, m {{
          let y: f64[m, n] = scan (j < m, i < n) from 0.0 {{
            let a: f64 = {index} let b: f64 = {also} let c: f64 = add(a, b) in c }} {SUM}
          in y }}""")
        scan = program.body.statements[0].expr
        assert isinstance(scan, fun.Scan)
        return scan

    assert scans_columns(scan_of("x[i, j]", "v[i]"))
    assert not scans_columns(scan_of("t[j, i]", "v[i]"))
