"""Iterated stencils in boxes that lean: the interpreter's bits, and nothing computed twice."""

from __future__ import annotations

import itertools
import time
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from agreement.ways import assert_equal_bits, streamed
from plan.stages import InterpretedStage, ListedSink, ListedSource
from slow import some_slow

import weft as wf
from weft.fun import nodes as fun
from weft.fun import walk
from weft.fun.interpret import interpret
from weft.fun.parse import parse
from weft.launch.stage import stage_code
from weft.plan import phases
from weft.plan.explain import explain
from weft.plan.nodes import Plan
from weft.plan.phases import Way
from weft.plan.planner import plan_program
from weft.plan.stage_arrays import pages
from weft.runtime.executor import execute

RNG = np.random.default_rng(11)
RULES = ["keep", "edge", "reflect", "symmetric", -1.0, ("edge", "wrap")]

LINE = parse(
    """program line(x: f64[n]) sizes n, t {
      let y: f64[n] = loop (a: f64[n] = x) for s from 0 to t {
        let b: f64[n] = kernel (i < n) {
          let c: f64 = a[i - 2: reflect(0, n)]
          let d: f64 = a[i + 1: edge(0, n)]
          let e: f64 = f64(i)
          let f: f64 = subtract(c, d)
          let g: f64 = add(e, f)
          in g }
        in b }
      in y }"""
)
WAVE = parse(
    """program wave(x: f64[n, m], y: f64[n, m], h: f64[n]) sizes n, m, t {
      let p: f64[n, m], q: f64[n, m] = loop (a: f64[n, m] = x, b: f64[n, m] = y) for s from 0 to t {
        let c: f64[n, m] = kernel (i < n, j < m) {
          let e: f64 = a[i - 1: edge(0, n), j - 1: wrap(0, m)]
          let f: f64 = a[i + 1: edge(0, n), j]
          let g: f64 = h[i + 1: edge(0, n)]
          let z: f64 = b[i, j]
          let o: f64 = subtract(e, f)
          let r: f64 = multiply(o, g)
          let v: f64 = subtract(r, z)
          in v }
        in c, a }
      in p, q }"""
)
FIELDS = parse(
    """program fields(x: f64[n, m], y: f32[n, m]) sizes n, m, t {
      let p: f64[n, m], q: f32[n, m] = loop (a: f64[n, m] = x, b: f32[n, m] = y) for s from 0 to t {
        let w: f64[n, m] = kernel (i < n, j < m) {
          let e: f64 = a[i + 2: symmetric(0, n), j]
          let f: f64 = a[i, j]
          let g: f64 = add(e, f)
          in g }
        let c: f64[n, m], d: f32[n, m] = kernel (i2 < n, j2 < m) {
          let e: f64 = w[i2 - 1: symmetric(0, n), j2]
          let f: f32 = b[i2 + 1: constant(0, n, 0.5_f32), j2]
          let g: f64 = f64(f)
          let h: f64 = multiply(e, g)
          let o: f64 = divide(h, 4.0)
          let r: f32 = f32(o)
          in o, r }
        in c, d }
      in p, q }"""
)
SAME = parse(
    """program same(x: f64[n], y: f64[n]) sizes n, t {
      let p: f64[n], q: f64[n] = loop (a: f64[n] = x, b: f64[n] = y) for s from 0 to t {
        let c: f64[n] = kernel (i < n) {
          let e: f64 = a[i + 1: edge(0, n)]
          let f: f64 = b[i - 1: edge(0, n)]
          let g: f64 = add(e, f)
          in g }
        in c, c }
      in p, q }"""
)


@pytest.fixture
def leaning(monkeypatch: pytest.MonkeyPatch) -> None:
    """Boxes lean wherever they can, in one pass."""
    planned = phases._Numbers.leaning

    def way(self: Any) -> Way | None:
        found = planned(self)
        return found and Way(True, 1, 0.0, kept=found.kept)

    monkeypatch.setattr(phases._Numbers, "leaning", way)
    monkeypatch.setattr(phases._Numbers, "_leaning", lambda *_: Way(True, 1, 0.0, kept=1))


def given(program: fun.Program, sizes: dict[str, int]) -> dict[str, np.ndarray]:
    return {
        p.name: RNG.random([int(n.evaluate(sizes)) for n in p.type.shape]).astype(
            p.type.dtype.numpy
        )
        for p in program.params
    }


def planned(
    program: fun.Program, sizes: dict[str, int], sources: Any, sinks: Any, box_bytes: int,
    limit: int = 1 << 22,
) -> Plan:  # fmt: skip
    return plan_program(
        program, sizes, sources, sinks, limit, 2, InterpretedStage,
        allowance=0, box_bytes=box_bytes, small=0,
    )  # fmt: skip


def computed(plan: Plan) -> int:
    """Elements that the kernels of all boxes compute."""
    total = 0
    for stage in plan.stages:
        for box in range(stage.boxes.count):
            numbers = stage.integers[box].tolist()
            sizes = dict(zip(stage.code.integers, numbers, strict=True))
            total += _elements(stage.stage.program.body, sizes)
    return total


def _elements(body: fun.Body, sizes: dict[str, int]) -> int:
    total = 0
    for let in body.statements:
        match let.expr:
            case fun.Kernel(space):
                extents = [int(r.extent.evaluate(sizes)) for r in space]
                assert min(extents) >= 0
                total += int(np.prod(extents))
            case fun.Loop(_, _, fun.For(index, lower, upper), inner):
                ends = int(lower.evaluate(sizes)), int(upper.evaluate(sizes))
                total += sum(_elements(inner, {**sizes, index.name: k}) for k in range(*ends))
    return total


PROGRAMS = {"line": (LINE, 1), "wave": (WAVE, 1), "fields": (FIELDS, 2)}


@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.parametrize("rounds", [1, 2, 5, 7])
@pytest.mark.parametrize("rows", [1, 2, 13, 97, 101])
def test_every_size_agrees_and_nothing_is_computed_twice(
    name: str, rounds: int, rows: int, leaning: None
) -> None:
    program, kernels = PROGRAMS[name]
    sizes = dict(zip(program.sizes, (rows, *(3,) * (len(program.sizes) - 2), rounds), strict=True))
    arrays = given(program, sizes)
    expected = interpret(program, list(arrays.values()), sizes)
    for box_bytes in (1, 1 << 10):
        sources = {key: ListedSource(array) for key, array in arrays.items()}
        sinks = [ListedSink(e.shape, e.dtype) for e in expected]
        plan = planned(program, sizes, sources, sinks, box_bytes)
        assert all(stage.stage.flanks for stage in plan.stages)
        execute(plan)
        for sink, value in zip(sinks, expected, strict=True):
            np.testing.assert_array_equal(sink.array, value)
        assert computed(plan) == kernels * rounds * expected[0].size
        carried = {var.name for var in program.params} - {"h"}
        for key in carried:  # no halo is read
            assert sources[key].bytes == arrays[key].nbytes


def test_boxes_are_many(leaning: None) -> None:
    """What the sizes above are cut into: the first and the last are long enough, one by one."""
    sizes = {"n": 1009, "t": 6}
    arrays = given(LINE, sizes)
    plan = planned(LINE, sizes, {"x": ListedSource(arrays["x"])}, [None], 1)
    (stage,) = plan.stages
    assert "leaning" in str(explain(plan))
    lengths = [stop - start for start, stop in stage.boxes.spans]
    assert stage.boxes.count > 5
    assert lengths[0] >= 2
    assert lengths[-1] >= 12
    (result,) = execute(plan)
    np.testing.assert_array_equal(result, interpret(LINE, [arrays["x"]], sizes)[0])


def test_arrays_that_cannot_take_turns_overlap(leaning: None) -> None:
    """Two parameters that become one array leave no memory for the next round's."""
    sizes = {"n": 301, "t": 3}
    arrays = given(SAME, sizes)
    sources = {key: ListedSource(array) for key, array in arrays.items()}
    plan = planned(SAME, sizes, sources, [None, None], 1 << 9)
    assert "overlapped" in str(explain(plan))
    assert not plan.stages[0].stage.flanks
    for found, value in zip(
        execute(plan), interpret(SAME, list(arrays.values()), sizes), strict=True
    ):
        np.testing.assert_array_equal(found, value)


def test_what_is_read_elsewhere_waits_for_all_rows(leaning: None) -> None:
    """A statement at the same index runs on the same boxes; one with neighbours comes after."""
    text = """program after(x: f64[n]) sizes n, t {
      let w: f64[n] = kernel (i0 < n) { let u: f64 = x[i0] let v: f64 = sqrt(u) in v }
      let y: f64[n] = loop (a: f64[n] = w) for s from 0 to t {
        let b: f64[n] = kernel (i < n) {
          let c: f64 = a[i - 1: edge(0, n)] let d: f64 = a[i + 1: edge(0, n)]
          let e: f64 = add(c, d) in e }
        in b }
      let z: f64[n] = kernel (i1 < n) {
        let o: f64 = y[i1 - AT: edge(0, n)] let p: f64 = negative(o) in p }
      in z }"""
    for at, stages in ((0, 1), (1, 2)):
        program = parse(text.replace("AT", str(at)))
        sizes = {"n": 203, "t": 4}
        arrays = given(program, sizes)
        plan = planned(program, sizes, {"x": ListedSource(arrays["x"])}, [None], 1 << 8)
        assert len(plan.stages) == stages
        assert plan.stages[0].stage.flanks
        (found,) = execute(plan)
        np.testing.assert_array_equal(found, interpret(program, [arrays["x"]], sizes)[0])


BOXES = [((61, 7), 5, 500), ((4, 300), 3, 4000), ((97,), 9, 60), ((23, 4, 5), 4, 300)]
RULED = [(rule, *boxes) for rule in RULES for boxes in BOXES]


@pytest.mark.parametrize(
    ("rule", "shape", "rounds", "box_bytes"),
    some_slow(RULED, [each for each in RULED if each[1:] in BOXES[1:3]], several=True),
)
def test_compiled_boxes(
    rule: Any, shape: tuple[int, ...], rounds: int, box_bytes: int, tmp_path: Path, leaning: None
) -> None:
    if isinstance(rule, tuple):
        rule = (*rule, "edge")[: len(shape)]

    def neighbours(t: Any) -> Any:
        total = t[(0,) * len(shape)]
        for axis, offset in itertools.product(range(len(shape)), (-2, 1)):
            total = total - t[tuple(offset * (axis == d) for d in range(len(shape)))] * 0.3
        return total

    def program(x: Any) -> list[Any]:
        return [wf.iterate(lambda x: wf.stencil(neighbours, x, boundary=rule), x, rounds)]

    inputs = [RNG.random(shape)]
    with wf.config(interpret_below=0, optimise="no-time-tiles"):
        expected = [np.asarray(r) for r in program(*map(wf.asarray, inputs))]
    assert_equal_bits(streamed(program, inputs, tmp_path, box_bytes), expected)


class SlowSink(ListedSink):
    """One that looks at what it was given when boxes after it have been computed."""

    def write(self, box: Any, data: np.ndarray) -> None:
        time.sleep(0.01)
        super().write(box, data)


@pytest.mark.parametrize("rounds", [1, 4, 5, 64])
@pytest.mark.parametrize("limit", [1 << 20, 50_000, 34_000])
def test_boxes_are_written_from_where_rounds_leave_them(
    rounds: int, limit: int, leaning: None
) -> None:
    """Nor are flanks copied out; in as many workspaces as there are boxes in flight, or two."""
    sizes = {"n": 20_011, "t": rounds}
    source = ListedSource(given(LINE, sizes)["x"])
    sink = SlowSink(source.shape, np.float64)
    compile = partial(stage_code, threads=2)
    plan = plan_program(
        LINE, sizes, {"x": source}, [sink], limit, 2, compile, allowance=0, small=0,
        box_bytes=1 << 13,
    )  # fmt: skip
    (stage,) = plan.stages
    assert stage.boxes.count > 5
    assert len(stage.code.within) == len(stage.stage.outputs) == 3
    assert not any("into result" in remark for remark in stage.remarks)
    assert stage.workspaces == max(2, stage.depth)
    inputs = stage.depth * sum(map(pages, stage.input_bytes[:1]))
    assert stage.peak_bytes == inputs + stage.workspaces * stage.workspace <= limit
    execute(plan)
    np.testing.assert_array_equal(sink.array, interpret(LINE, [source.array], sizes)[0])


def test_what_stays_in_memory_is_computed_where_it_belongs(leaning: None) -> None:
    sizes = {"n": 20_011, "t": 5}
    source = ListedSource(given(LINE, sizes)["x"])
    plan = plan_program(
        LINE, sizes, {"x": source}, [None], 1 << 20, 2, partial(stage_code, threads=2),
        allowance=0, small=0, box_bytes=1 << 13,
    )  # fmt: skip
    (stage,) = plan.stages
    assert not stage.code.within
    assert stage.workspaces == 1
    (found,) = execute(plan)
    np.testing.assert_array_equal(found, interpret(LINE, [source.array], sizes)[0])


@pytest.mark.parametrize(("name", "within"), [("wave", True), ("fields", False)])
def test_workspaces_of_many_arrays_are_one(name: str, within: bool, leaning: None) -> None:
    """Those of `wave` have three arrays, of which two are written; `fields` makes more."""
    program, _ = PROGRAMS[name]
    sizes = {"n": 2003, "m": 7, "t": 5}
    sources = {k: ListedSource(array) for k, array in given(program, sizes).items()}
    sinks = [SlowSink(sources["x"].shape, sources[k].dtype) for k in ("x", "y")]
    plan = plan_program(
        program, sizes, sources, sinks, 1 << 20, 2, partial(stage_code, threads=2),
        allowance=0, small=0, box_bytes=1 << 11,
    )  # fmt: skip
    (stage,) = plan.stages
    assert (stage.boxes.count > 5, stage.depth) == (True, 3)
    assert bool(stage.code.within) == within
    assert stage.workspaces == (3 if within else 1)
    execute(plan)
    wanted = interpret(program, [source.array for source in sources.values()], sizes)
    for sink, value in zip(sinks, wanted, strict=True):
        np.testing.assert_array_equal(sink.array, value)


def test_explain_says_which_boxes_and_why() -> None:
    sizes = {"n": 100_003, "t": 700}
    source = {"x": ListedSource(given(LINE, sizes)["x"])}
    sink = ListedSink(source["x"].shape, np.float64)
    text = str(explain(planned(LINE, sizes, source, [sink], 1 << 10, 300_000)))
    assert "700 rounds on each box, leaning: nothing is computed twice; flanks of 21.9" in text
    assert "; overlapped boxes would take 2 passes and compute 9% again" in text
    few = {"n": 100_003, "t": 1}
    text = str(explain(planned(LINE, few, source, [sink], 1 << 10, 300_000)))
    assert "1 rounds on each box, overlapped" in text
    assert "; leaning boxes would take 1 pass and keep 64 B of flanks" in text


def test_no_statement_is_left_that_walks_over_all(leaning: None) -> None:
    """Of a box that leans each kernel is followed by the update that it is made in."""
    sizes = {"n": 301, "t": 4}
    plan = planned(LINE, sizes, {"x": ListedSource(given(LINE, sizes)["x"])}, [None], 1 << 8)
    program = plan.stages[0].stage.program
    kernels = [let for let in walk.statements(program.body) if isinstance(let.expr, fun.Kernel)]
    updated = {
        let.expr.value.name
        for let in walk.statements(program.body)
        if isinstance(let.expr, fun.Update) and isinstance(let.expr.value, fun.Var)
    }
    assert {var.name for let in kernels if len(let.expr.space) == 1 for var in let.pattern} <= (
        updated
    )


def test_ends_that_are_neighbours(leaning: None) -> None:
    """What wraps around leans on longer arrays: only what lies beyond the ends comes twice."""
    text = """program ring(x: f64[n]) sizes n, t {
      let y: f64[n] = loop (a: f64[n] = x) for s from 0 to t {
        let b: f64[n] = kernel (i < n) {
          let c: f64 = a[i - 2: wrap(0, n)] let d: f64 = a[i + 1: wrap(0, n)]
          let e: f64 = subtract(c, d) in e }
        in b }
      in y }"""
    program, sizes = parse(text), {"n": 4001, "t": 5}
    source = ListedSource(given(program, sizes)["x"])
    plan = planned(program, sizes, {"x": source}, [None], 1 << 12, 100_000)
    assert any(stage.stage.flanks for stage in plan.stages)
    (found,) = execute(plan)
    np.testing.assert_array_equal(found, interpret(program, [source.array], sizes)[0])
