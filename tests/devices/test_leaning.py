"""Boxes that lean on a device: their flanks stay there, and nothing is computed twice."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from typing import Any
from unittest import mock

import numpy as np
import pytest
from devices import pretended_cuda
from devices.faults import failing, full, lost
from devices.harness import NAME, device
from devices.test_faults import attempt
from plan.test_leaning import PROGRAMS, computed, given, leaning
from slow import some_slow

import weft as wf
from weft.config import settings
from weft.errors import DeviceError
from weft.fun import nodes as fun
from weft.fun.interpret import interpret
from weft.fun.parse import parse
from weft.launch.stage import stage_code
from weft.plan import phases
from weft.plan.code import Rates
from weft.plan.explain import explain
from weft.plan.loops import cut_loop
from weft.plan.nodes import Plan
from weft.plan.phases import choose, machine_of
from weft.plan.planner import plan_program
from weft.plan.sharing import HALVED
from weft.runtime.devices.protocol import FAILURE_BYTES
from weft.runtime.executor import execute

__all__ = ["leaning"]


RATES = Rates(5e9, 5e9, 2e10, 2e-5, 2e-4, 2, False, 2e10)
"""Those of a processor, whatever it is found to be while other tests run."""


@pytest.fixture(params=[NAME, "pretended"])
def on(
    request: pytest.FixtureRequest, tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Any]:
    """The device, and a pretended GPU."""
    if request.param == NAME:
        found = device()
        found.trim()
        with mock.patch.object(found, "_rates", RATES):
            yield found
        found.slots = None
        found.trim()
        assert found.used == 0, "memory is accounted for to the end"
    else:
        with pretended_cuda.only_gpu(monkeypatch, tmp_path) as found:
            yield found


def planned(
    on: Any, program: fun.Program, sizes: dict[str, int], arrays: dict[str, np.ndarray],
    box_bytes: int | None, limit: int = 1 << 20,
) -> Plan:  # fmt: skip
    with wf.config(memory_limit={on.name: limit}, slots=on.slots):
        compile = partial(stage_code, current=settings(), where=on.name, threads=2)
        return plan_program(
            program, sizes, arrays, [None] * len(program.body.results), 1 << 30, 2, compile,
            allowance=0, box_bytes=box_bytes, small=0, device_limit=limit, rates=on.rates,
        )  # fmt: skip


def ran(on: Any, plan: Plan) -> list[np.ndarray]:
    on.trim()
    on.statistics.peak_bytes = on.statistics.bytes_in = on.statistics.bytes_out = 0
    return execute(plan)


@pytest.mark.parametrize("name", some_slow(PROGRAMS, ["fields", "wave"]))
def test_every_size_agrees_and_nothing_is_computed_twice(on: Any, name: str, leaning: None) -> None:
    program, kernels = PROGRAMS[name]
    for rows, rounds, slots in ((1, 2, 1), (2, 5, 1), (13, 1, 2), (97, 5, None), (101, 7, 3)):
        on.slots = slots
        extents = (rows, *(3,) * (len(program.sizes) - 2), rounds)
        sizes = dict(zip(program.sizes, extents, strict=True))
        arrays = given(program, sizes)
        expected = interpret(program, list(arrays.values()), sizes)
        for box_bytes in (None, 200):
            plan = planned(on, program, sizes, arrays, box_bytes)
            assert all(stage.stage.flanks for stage in plan.stages)
            for found, value in zip(ran(on, plan), expected, strict=True):
                np.testing.assert_array_equal(found, value)
            assert computed(plan) == kernels * rounds * expected[0].size
            assert on.statistics.peak_bytes <= max(stage.device_bytes for stage in plan.stages)
            records = FAILURE_BYTES * sum(stage.boxes.count for stage in plan.stages)
            out = sum(value.nbytes for value in expected)
            assert out <= on.statistics.bytes_out <= out + records  # no flank comes back
            if "h" not in arrays:  # which is read at neighbours, too
                into = sum(array.nbytes for array in arrays.values())
                assert into <= on.statistics.bytes_in <= into + records
    assert plan.stages[0].boxes.count > 3


@pytest.mark.parametrize(("rule", "shape", "rounds"), [
    ("keep", (61, 7), 5), ("reflect", (23, 4, 5), 4), (-1.0, (97,), 9), ("symmetric", (83,), 6),
    (("edge", "wrap"), (61, 7), 5),
])  # fmt: skip
def test_boundaries(rule: Any, shape: tuple[int, ...], rounds: int, leaning: None) -> None:
    def near(t: Any) -> Any:
        total = t[(0,) * len(shape)]
        for axis in range(len(shape)):
            for offset in (-2, 1):
                total = total - t[tuple(offset * (axis == d) for d in range(len(shape)))] * 0.3
        return total

    on = device()
    x = np.random.default_rng(5).random(shape)
    function = wf.jit(lambda x: wf.iterate(lambda x: wf.stencil(near, x, boundary=rule), x, rounds))
    expected = function(x)
    row = x.nbytes // shape[0]
    limit = 4 * row * (4 * rounds + 40)
    with wf.config(devices=[on.name], memory_limit={on.name: limit}):
        text = str(wf.explain(function, x))
        found = function(x)
    assert "leaning" in text
    np.testing.assert_array_equal(found, expected)


def test_a_longer_first_and_last_box(on: Any, leaning: None) -> None:
    """One row more than whole boxes, and fewer than boxes lean: the last takes them over."""
    program, _ = PROGRAMS["line"]
    counts = set()
    for rows in (256, 257, 263, 509):
        sizes = {"n": rows, "t": 6}
        arrays = given(program, sizes)
        plan = planned(on, program, sizes, arrays, 16 * 32)
        counts.add(plan.stages[0].boxes.count)
        (found,) = ran(on, plan)
        np.testing.assert_array_equal(found, interpret(program, [arrays["x"]], sizes)[0])
    assert min(counts) > 3


@pytest.mark.parametrize("leans", some_slow([True, False], [True]))
def test_a_pass_copies_parts_of_what_the_pass_before_it_gave(
    on: Any, leans: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Which fits the host's memory, and not the device's."""
    on.slots = None
    for name, sizes, limit in (
        ("line", {"n": 5003, "t": 397}, 20 << 10),
        ("wave", {"n": 603, "m": 3, "t": 97}, 24 << 10),
    ):  # fmt: skip
        program, _ = PROGRAMS[name]
        arrays = given(program, sizes)
        with monkeypatch.context() as patch:
            patch.setattr(phases, "_TOGETHER", ())  # where a GPU's boxes that lean are slower
            if not leans:
                patch.setattr(phases._Numbers, "leaning", lambda _: None)
            plan = planned(on, program, sizes, arrays, None, limit)
        assert len(plan.stages) > 1
        assert all(bool(stage.stage.flanks) == leans for stage in plan.stages)
        expected = interpret(program, list(arrays.values()), sizes)
        for found, value in zip(ran(on, plan), expected, strict=True):
            np.testing.assert_array_equal(found, value)
        assert on.statistics.peak_bytes <= limit


ADDED = parse(
    """program added(x: f64[n], y: f64[n]) sizes n {
      let z: f64[n] = kernel (i < n) {
        let a: f64 = x[i]
        let b: f64 = y[i]
        let c: f64 = add(a, b)
        in c }
      in z }"""
)


def test_what_a_stage_leaves_makes_way_for_more_boxes_in_flight(on: Any) -> None:
    """Buffers of few large boxes would do for small ones, of which then too few had room."""
    sizes, limit = {"n": 20_011}, 64 << 10
    arrays = given(ADDED, sizes)
    for on.slots in (2, 4, 3):
        plan = planned(on, ADDED, sizes, arrays, None, limit)
        (stage,) = plan.stages
        assert stage.slots == on.slots
        assert stage.device_bytes > 0.7 * limit
        on.statistics.peak_bytes = 0
        (found,) = execute(replace(plan, stages=(replace(stage, smaller=None),)))
        np.testing.assert_array_equal(found, arrays["x"] + arrays["y"])
        assert on.statistics.peak_bytes <= limit


def test_explain_says_which_boxes_and_why(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of what a device does, margins that are computed again cost the more, the more rounds."""
    on, (program, _) = device(), PROGRAMS["line"]
    on.slots = 1
    monkeypatch.setattr(on, "_rates", RATES)
    for rounds, way in ((700, "leaning: nothing is computed twice"), (1, "overlapped: up to 2")):
        sizes = {"n": 100_003, "t": rounds}
        text = str(explain(planned(on, program, sizes, given(program, sizes), None, 300_000)))
        assert f"{rounds} rounds on each box, {way}" in text
    on.slots = None


def test_gpus_do_several_rounds_at_once_in_boxes_that_overlap() -> None:
    """Boxes that lean do each round by itself, which takes longer than to move what they do."""
    program, _ = PROGRAMS["line"]
    (let,) = (let for let in program.body.statements if isinstance(let.expr, fun.Loop))
    cut = cut_loop(let)
    assert cut is not None
    assert isinstance(let.expr, fun.Loop)
    sizes = {"n": 10_000_000, "t": 400}
    for beside, leans in ((True, False), (False, True)):
        machine = machine_of(1, Rates(5e10, 5e10, 4e12, 5e-6, 2e-5, 2, beside, 3e13))
        assert choose(let.expr, cut, sizes, 10_000_000, machine, True).way.leans == leans


def test_what_ways_are_compared_by() -> None:
    """Rounds go through a GPU's memory; on a processor they stay in its caches."""
    rates = Rates(1e9, 5e8, 1e10, 1e-5, 1e-4, 2, True, 1e11)
    gpu = machine_of(2, rates)
    assert gpu.touched == gpu.copied == 1e-10
    assert gpu.moved == pytest.approx(1.5e-9)
    processor = machine_of(2, Rates(1e9, 1e9, 1e10, 1e-5, 1e-4, 2, False, 1e11))
    assert processor.touched == 0
    assert processor.operation == 1e-11
    assert machine_of(4, None).operation == machine_of(1, None).operation / 4


@pytest.mark.parametrize("kind", ["memory", "copy", "launch"])
def test_a_device_that_fails(kind: str, leaning: None) -> None:
    """Too little memory: all boxes again, smaller ones. A lost device is named; then all is well.

    What a box has left is lost with it, so that none may be done by itself.
    """
    on, (program, _) = device(), PROGRAMS["line"]
    on.slots = None
    sizes = {"n": 2003, "t": 7}
    arrays = given(program, sizes)
    (expected,) = interpret(program, [arrays["x"]], sizes)
    plan = planned(on, program, sizes, arrays, 6000)
    (stage,) = plan.stages
    assert stage.stage.flanks
    assert stage.smaller is not None
    assert stage.smaller.boxes.count > stage.boxes.count > 3
    for at in (1, 2, 4, 9, 20):
        with failing(on, kind, at, full(on)) as faulty:
            (found,) = ran(on, plan)
        np.testing.assert_array_equal(found, expected)
        on.trim()
        with failing(on, kind, at, lost(on)) as faulty:
            refusal = attempt(partial(ran, on, plan), [expected])
        if kind == "memory" and on.is_full(lost(on)):  # no more can be had, whatever the reason
            assert refusal is None
        else:
            assert isinstance(refusal, DeviceError) == (faulty.calls >= at)
            assert refusal is None or on.name in str(refusal)
        on.trim()
        np.testing.assert_array_equal(ran(on, plan)[0], expected)
    on.trim()
    assert on.used == 0


def test_plans_for_less_memory_are_few(on: Any, leaning: None) -> None:
    """Each has twice as many boxes, all of which the plan knows: of large arrays that is much."""
    sizes = {"n": 1 << 21, "t": 400}
    arrays = {"x": np.broadcast_to(np.zeros(()), (sizes["n"],))}
    on.slots = None
    plan = planned(on, PROGRAMS["line"][0], sizes, arrays, None, 8 << 20)
    (first,) = plan.stages
    counts = []
    stage: Any = first
    while stage is not None:
        assert stage.stage.flanks
        counts.append(stage.boxes.count)
        stage = stage.smaller
    assert len(counts) == HALVED + 1
    assert all(3 * a <= 2 * b <= 5 * a for a, b in itertools.pairwise(counts))


def test_beside_the_cpu_boxes_overlap() -> None:
    """What one device leaves, another does not have."""
    on = device()
    x = np.random.default_rng(5).random(200_000)

    def step(x: Any) -> Any:
        return wf.stencil(lambda t: t[-1] + t[1], x, boundary="edge")

    function = wf.jit(lambda x: wf.iterate(step, x, 40))
    with wf.config(devices=[on.name, "cpu"], memory_limit={on.name: "1 MiB"}):
        text = str(wf.explain(function, x))
        found = function(x)
    assert "overlapped: up to 40" in text
    assert "leaning boxes" not in text
    np.testing.assert_array_equal(found, function(x))
