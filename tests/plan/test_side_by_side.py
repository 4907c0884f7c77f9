"""Boxes side by side: which stages have them, and that they give what all others give."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pytest
from agreement.ways import small_boxes
from plan.programs import CASES, Case, read
from plan.stages import InterpretedStage, ListedSink, ListedSource

import weft as wf
from weft.errors import MemoryLimitError, OutOfBoundsError, SinkError, SourceError
from weft.fun.interpret import interpret
from weft.io.npy import NpySink, NpySource
from weft.launch import have_compiler
from weft.launch.stage import stage_code
from weft.plan.explain import explain
from weft.plan.planner import plan_program
from weft.runtime.boxes import SideBySide
from weft.runtime.executor import execute
from weft.runtime.profile import profile
from weft.runtime.threads import CancelFlag, Cancelled

pytestmark = pytest.mark.skipif(not have_compiler(), reason="no C compiler")

ROWS, COLUMNS = 600, 48

MAP = """program map(x: f64[n, m], v: f64[m]) sizes n, m {
  let y: f64[n, m] = kernel (i < n, j < m) {
    let a: f64 = x[i, j]
    let b: f64 = v[j]
    let c: f64 = multiply(a, b)
    in c }
  in y }"""


def stencil(reach: int, results: str = "y") -> str:
    """The sum of a cell and that `reach` rows below, and their difference."""
    return f"""program stencil(x: f64[n, m], v: f64[m]) sizes n, m {{
  let y: f64[n, m], z: f64[n, m] = kernel (i < n, j < m) {{
    let a: f64 = x[i, j]
    let b: f64 = x[i + {reach}: edge(0, n), j]
    let c: f64 = add(a, b)
    let d: f64 = subtract(a, b)
    in c, d }}
  in {results} }}"""


def values() -> dict[str, Any]:
    random = np.random.default_rng(3)
    return {"x": random.random((ROWS, COLUMNS)), "v": random.random(COLUMNS)}


def planned(
    text: str, folder: Path, *, make: Callable[..., Any] = NpySink, inputs: Any = None,
    threads: int = 3, code: Any = stage_code, limit: int = 1 << 30, box_bytes: int = 1 << 13,
    sinks: Any = None,
) -> Any:  # fmt: skip
    """The plan of a program whose results go to files, and those."""
    program = read(text)
    given = values() if inputs is None else inputs
    sizes = {"n": ROWS, "m": COLUMNS}
    if sinks is None:
        sinks = [
            make(str(folder / f"out{k}.npy"), (ROWS, COLUMNS), np.dtype(float), replace=True)
            for k in range(len(program.body.results))
        ]
    return plan_program(
        program, sizes, given, sinks, limit, threads, code, allowance=0, box_bytes=box_bytes,
        small=0,
    )  # fmt: skip


def abreast(plan: Any) -> list[int]:
    return [stage.abreast for stage in plan.stages]


@pytest.mark.parametrize("threads", [1, 2, 3])
@pytest.mark.parametrize("text", [MAP, stencil(1, "y, z"), stencil(2, "z")])
def test_files_hold_what_the_interpreter_gives(text: str, threads: int, tmp_path: Path) -> None:
    given = values()
    np.save(tmp_path / "x.npy", given["x"])
    inputs = {"x": NpySource(str(tmp_path / "x.npy")), "v": given["v"]}
    plan = planned(text, tmp_path, inputs=inputs, threads=threads)
    assert abreast(plan) == [threads]
    assert f"{threads} at once, each computed and written by one thread" in str(explain(plan))
    assert plan.stages[0].boxes.count > 4 * threads
    execute(plan)
    program = read(text)
    expected = interpret(program, [given["x"], given["v"]], {"n": ROWS, "m": COLUMNS})
    for number, value in enumerate(expected):
        np.testing.assert_array_equal(np.load(tmp_path / f"out{number}.npy"), value)


@pytest.mark.parametrize(("rows", "side"), [(2000, True), (60, False)])
def test_threads_have_a_box_each_for_all_rounds(rows: int, side: bool, tmp_path: Path) -> None:
    """Where boxes are many: each needs memory of its own."""
    x = np.random.default_rng(2).random((rows, 16), np.float32)
    np.save(tmp_path / "x.npy", x)

    def program(x: Any) -> Any:
        return wf.iterate(
            lambda x: wf.stencil(lambda s: s[-1, 0] + s[1, 0] - s[0, 1], x, boundary="edge"), x, 3
        )

    with mock.patch.object(SideBySide, "run", autospec=True, side_effect=SideBySide.run) as run:
        with small_boxes(1 << 12), wf.config(threads=2, interpret_below=0):
            wf.store(program(wf.open(tmp_path / "x.npy")), tmp_path / "y.npy")
        assert run.call_count == side
    np.testing.assert_array_equal(np.load(tmp_path / "y.npy"), np.asarray(program(wf.asarray(x))))


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_every_program_gives_the_same(case: Case, tmp_path: Path) -> None:
    arguments = case.arguments()
    expected = interpret(case.program, [arguments[p.name] for p in case.program.params], case.sizes)
    sinks = [
        NpySink(str(tmp_path / f"{k}.npy"), np.shape(value), value.dtype, replace=False)
        for k, value in enumerate(expected)
    ]
    plan = plan_program(
        case.program, case.sizes, arguments, sinks, 1 << 40, 2, stage_code,
        allowance=0, box_bytes=1 << 10, small=64,
    )  # fmt: skip
    execute(plan)
    for number, value in enumerate(expected):
        np.testing.assert_array_equal(np.load(tmp_path / f"{number}.npy"), value)


def test_another_result_may_stay_in_memory(tmp_path: Path) -> None:
    sink = NpySink(str(tmp_path / "out0.npy"), (ROWS, COLUMNS), np.dtype(float), replace=True)
    plan = planned(stencil(1, "y, z"), tmp_path, sinks=[sink, None])
    assert abreast(plan) == [3]  # z is computed where it stays
    _, z = execute(plan)
    y = np.load(tmp_path / "out0.npy")
    x = values()["x"]
    below = np.concatenate([x[1:], x[-1:]])
    np.testing.assert_array_equal(y, x + below)
    np.testing.assert_array_equal(z, x - below)


def _staged() -> dict[str, Any]:
    return {**values(), "x": ListedSource(values()["x"])}


@pytest.mark.parametrize(
    ("text", "changes"),
    [
        (MAP, {"make": lambda path, *to, replace: ListedSink(*to)}),
        (MAP, {"inputs": _staged()}),
        (MAP, {"code": InterpretedStage}),
        (MAP, {"box_bytes": 1 << 20}),
        (stencil(40), {}),
    ],
    ids=["no file", "no address", "not compiled", "few boxes", "wide halos"],
)
def test_other_stages_have_boxes_in_turn(text: str, changes: Any, tmp_path: Path) -> None:
    assert abreast(planned(text, tmp_path)) == ([3] if text is MAP else [0])
    assert abreast(planned(text, tmp_path, **changes)) == [0]


def test_boxes_are_large_beside_what_each_reads_whole(tmp_path: Path) -> None:
    small, large = (planned(MAP, tmp_path, box_bytes=size) for size in (COLUMNS * 8, 1 << 14))
    whole = COLUMNS * 8
    for plan in (small, large):
        extent = plan.stages[0].boxes.extent
        assert extent * COLUMNS * 8 >= 4 * whole
    assert small.stages[0].boxes.extent < large.stages[0].boxes.extent


def test_the_peak_is_that_of_the_boxes_under_way(tmp_path: Path) -> None:
    plan = planned(MAP, tmp_path, threads=3)
    (stage,) = plan.stages
    pages = -(-stage.boxes.extent * COLUMNS * 8 // 4096) * 4096
    assert stage.peak_bytes == 3 * (pages + stage.workspace)
    exact = planned(MAP, tmp_path, limit=stage.peak_bytes)
    assert abreast(exact) == [3]
    execute(exact)
    assert abreast(planned(MAP, tmp_path, limit=stage.peak_bytes - 1)) == [0]
    with pytest.raises(MemoryLimitError):
        planned(MAP, tmp_path, limit=1)


def test_progress_and_profile(tmp_path: Path) -> None:
    plan, seen = planned(MAP, tmp_path, box_bytes=1 << 10), []
    with profile() as measured:
        execute(plan, progress=lambda done, total: seen.append((done, total)))
    assert [done for done, _ in seen] == sorted(done for done, _ in seen)
    assert seen[-1] == (plan.bytes_moved, plan.bytes_moved)
    assert {event.queue for event in measured.events} == {"compute", "write"}
    written = sum(event.bytes for event in measured.events if event.queue == "write")
    assert abs(written - plan.bytes_written) < len(measured.events)


# ---------------------------------------------------------------- what ends a stage early


class FullSink(NpySink):
    """A file on a device that is full."""

    def file(self) -> tuple[int, int] | None:
        self.full = os.open("/dev/full", os.O_WRONLY)
        return self.full, 0


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="no device that is full")
def test_a_full_target(tmp_path: Path) -> None:
    plan = planned(MAP, tmp_path, make=FullSink)
    assert abreast(plan) == [3]
    with pytest.raises(SinkError, match=r"cannot write .*out0.npy: the file system is full"):
        execute(plan)
    assert os.listdir(tmp_path) == []


def test_an_index_outside(tmp_path: Path) -> None:
    text = """program pick(x: f64[n, m], k: i64[n]) sizes n, m {
      let y: f64[n, m] = kernel (i < n, j < m) {
        let row: i64 = k[i]
        let a: f64 = x[row, j]
        in a }
      in y }"""
    at = np.arange(ROWS) // 8
    x = np.random.default_rng(1).random((ROWS // 8, COLUMNS))
    text = text.replace("x: f64[n, m]", "x: f64[q, m]").replace("sizes n, m", "sizes n, m, q")

    def plan(rows: Any) -> Any:
        sink = NpySink(str(tmp_path / "out.npy"), (ROWS, COLUMNS), np.dtype(float), replace=True)
        return plan_program(
            read(text), {"n": ROWS, "m": COLUMNS, "q": len(x)}, {"x": x, "k": rows}, [sink],
            1 << 30, 2, stage_code, allowance=0, box_bytes=1 << 18, small=0,
        )  # fmt: skip

    with pytest.raises(OutOfBoundsError):
        execute(plan(at + (at == 40) * 1000))
    assert os.listdir(tmp_path) == []
    execute(plan(at))
    np.testing.assert_array_equal(np.load(tmp_path / "out.npy"), x[at])


def test_a_source_that_fails_aborts(tmp_path: Path) -> None:
    given = values()
    np.save(tmp_path / "x.npy", given["x"])
    plan = planned(MAP, tmp_path, inputs={"x": NpySource(str(tmp_path / "x.npy")), "v": given["v"]})
    assert abreast(plan) == [3]
    os.truncate(tmp_path / "x.npy", 4096)
    with pytest.raises(SourceError, match="truncated"):
        execute(plan)
    assert os.listdir(tmp_path) == ["x.npy"]


def test_a_call_that_is_cancelled_writes_no_more(tmp_path: Path) -> None:
    flag = CancelFlag()
    flag.set()

    class Stopped:
        """Compiled code whose calls are cancelled from the beginning."""

        device = None

        def __init__(self, *arguments: Any) -> None:
            self.code: Any = stage_code(*arguments)

        def __getattr__(self, name: str) -> Any:
            return getattr(self.code, name)

        def run_boxes(self, table: Any, cancel: Any) -> None:
            self.code._loaded.call_boxes(table, flag)

    plan = planned(MAP, tmp_path, code=Stopped)
    assert abreast(plan) == [3]
    with pytest.raises(Cancelled):
        execute(plan)
    assert os.listdir(tmp_path) == []
