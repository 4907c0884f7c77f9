"""The executor: failures, interrupts, resuming, progress, overlap, no copies."""

from __future__ import annotations

import threading
import time
from typing import Any

import numpy as np
import pytest
from plan.stages import InterpretedStage, ListedSink, ListedSource

from weft.errors import SinkError, SourceError
from weft.fun.parse import parse
from weft.plan.planner import plan_program
from weft.progress import tqdm_progress
from weft.runtime.executor import execute
from weft.runtime.profile import profile

DOUBLE = parse("""program double(x: f64[n, m]) sizes n, m {
  let y: f64[n, m] = kernel (i < n, j < m) {
    let a: f64 = x[i, j]
    let b: f64 = add(a, a)
    in b }
  in y }""")


def plan_of(source: Any, sinks: list[Any], rows: int = 5, code: Any = InterpretedStage) -> Any:
    n, m = source.shape
    return plan_program(
        DOUBLE, {"n": n, "m": m}, {"x": source}, sinks, 1 << 30, 2, code,
        allowance=0, box_bytes=rows * m * 16, small=0,
    )  # fmt: skip


class FailingSource(ListedSource):
    def read(self, box: Any, out: Any) -> None:
        if box[0].start >= 50:
            raise SourceError("the source broke")
        super().read(box, out)


class ShrinkingSource(ListedSource):
    checks = 0

    def check(self) -> None:
        self.checks += 1
        if self.checks > 4:
            raise SourceError("the source shrank")


class FailingSink(ListedSink):
    def write(self, box: Any, data: Any) -> None:
        if box[0].start >= 50:
            raise SinkError("the disk is full")
        super().write(box, data)


class SlowSink(ListedSink):
    def write(self, box: Any, data: Any) -> None:
        time.sleep(0.02)
        super().write(box, data)


def _array() -> Any:
    return np.random.default_rng(0).random((100, 7))


@pytest.mark.parametrize("source", [FailingSource, ShrinkingSource])
def test_a_source_that_fails_aborts_the_sinks(source: Any) -> None:
    sinks = [ListedSink((100, 7), float)]
    with pytest.raises(SourceError, match="the source"):
        execute(plan_of(source(_array()), sinks))
    assert sinks[0].state == "aborted"


def test_a_sink_that_fails_is_aborted() -> None:
    sink = FailingSink((100, 7), float)
    with pytest.raises(SinkError, match="the disk is full"):
        execute(plan_of(ListedSource(_array()), [sink]))
    assert sink.state == "aborted"


def test_an_interrupt_leaves_no_threads_and_aborts() -> None:
    class Interrupted(InterpretedStage):
        runs = 0

        def run(self, *arguments: Any) -> None:
            self.runs += 1
            if self.runs == 5:
                raise KeyboardInterrupt
            super().run(*arguments)

    sink = SlowSink((100, 7), float)
    before = threading.active_count()
    start = time.perf_counter()
    with pytest.raises(KeyboardInterrupt):
        execute(plan_of(ListedSource(_array()), [sink], code=Interrupted))
    assert time.perf_counter() - start < 1
    assert sink.state == "aborted"
    assert threading.active_count() == before


def test_boxes_that_are_done_are_skipped() -> None:
    class Resumed(ListedSink):
        def done(self, box: Any) -> bool:
            return bool(box[0].start < 60)

        def finish(self) -> None:
            self.state = "finished"

    array = _array()
    source, sink = ListedSource(array), Resumed((100, 7), float, chunks=(10, 7))
    execute(plan_of(source, [sink], rows=10))
    np.testing.assert_array_equal(sink.array[60:], 2 * array[60:])
    assert not sink.times[:60].any()
    assert source.bytes == array[60:].nbytes


class Bar:
    """What a bar of tqdm's has."""

    n, total = 0, None

    def update(self, more: int) -> None:
        self.n += more


def test_a_bar_of_tqdm() -> None:
    bar = Bar()
    report = tqdm_progress(bar)
    for done in (0, 300, 1000):
        report(done, 1000)
        assert (bar.n, bar.total) == (done, 1000)


def test_progress_grows_to_the_total() -> None:
    seen: list[tuple[int, int]] = []
    plan = plan_of(ListedSource(_array()), [ListedSink((100, 7), float)])
    execute(plan, progress=lambda done, total: seen.append((done, total)))
    assert [done for done, _ in seen] == sorted(done for done, _ in seen)
    assert seen[-1] == (plan.bytes_moved, plan.bytes_moved)


def test_reading_computing_and_writing_overlap() -> None:
    class SlowSource(ListedSource):
        def read(self, box: Any, out: Any) -> None:
            time.sleep(0.02)
            super().read(box, out)

    class SlowStage(InterpretedStage):
        def run(self, *arguments: Any) -> None:
            time.sleep(0.02)
            super().run(*arguments)

    plan = plan_of(SlowSource(_array()), [SlowSink((100, 7), float)], code=SlowStage)
    assert plan.stages[0].boxes.count == 20
    with profile() as measured:
        start = time.perf_counter()
        execute(plan)
        seconds = time.perf_counter() - start
    assert {event.queue for event in measured.events} == {"read", "compute", "write"}
    assert seconds < 0.8 * 3 * 20 * 0.02


def test_addressable_inputs_and_results_are_not_copied() -> None:
    seen: list[tuple[Any, Any]] = []

    class Watching(InterpretedStage):
        def run(self, integers: Any, inputs: Any, outputs: Any, workspace: Any) -> None:
            seen.append((inputs[0], outputs[0]))
            super().run(integers, inputs, outputs, workspace)

    array, target = _array(), np.zeros((100, 7))

    class MemorySink(ListedSink):
        def direct(self) -> Any:
            return target

        def finish(self) -> None:
            self.state = "finished"

    sink = MemorySink((100, 7), float)
    plan = plan_of(array, [sink], code=Watching)
    assert plan.peak_bytes <= plan.stages[0].workspace
    execute(plan)
    assert len(seen) > 5
    assert all(np.shares_memory(i, array) and np.shares_memory(o, target) for i, o in seen)
    np.testing.assert_array_equal(target, 2 * array)
    assert sink.state == "finished"
    assert sink.bytes == 0


def test_a_finish_that_fails_aborts_the_others() -> None:
    class Unfinished(ListedSink):
        def finish(self) -> None:
            raise SinkError("cannot rename")

    program = parse("""program both(x: f64[n]) sizes n {
      let y: f64[n], z: f64[n] = kernel (i < n) {
        let a: f64 = x[i]
        let b: f64 = add(a, a)
        in a, b }
      in y, z }""")
    sinks = [Unfinished((10,), float), ListedSink((10,), float)]
    plan = plan_program(
        program, {"n": 10}, {"x": np.arange(10.0)}, sinks, 1 << 20, 1, InterpretedStage,
        allowance=0, small=0,
    )  # fmt: skip
    with pytest.raises(SinkError, match="cannot rename"):
        execute(plan)
    assert sinks[1].state == "aborted"
