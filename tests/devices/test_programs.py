"""Users' programs on a device: in core, and streamed through it in small boxes."""

from __future__ import annotations

import gc
import itertools
import re
import tempfile
import weakref
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pytest
from agreement.random_users import UserProgram, programs
from agreement.ways import assert_equal_bits, compiled, interpreted, small_boxes, streamed
from devices.harness import device
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from programs.agree import assert_agree

import weft as wf
from weft.errors import MemoryLimitError
from weft.launch import boxes
from weft.lower.gpu import batches, transposes, vectors
from weft.plan.code import Rates
from weft.runtime import executor
from weft.runtime.devices.opencl_rates import measure
from weft.runtime.devices.protocol import FAILURE_BYTES

COMMON: dict[str, Any] = {
    "deadline": None, "derandomize": True, "suppress_health_check": list(HealthCheck),
    "phases": (Phase.explicit, Phase.generate),
}  # fmt: skip


@given(case=programs(), box=st.sampled_from([1, 200, 1 << 20]), is_processor=st.booleans())
@settings(max_examples=8, **COMMON)
def test_small_arrays(case: UserProgram, box: int, is_processor: bool) -> None:
    """With the forms of kernels for processors, and with those for GPUs, few items or many."""
    with (
        mock.patch.object(device(), "is_processor", is_processor),
        mock.patch.object(vectors, "_BUSY", 1),
        mock.patch.multiple(batches, _BUSY=1, _LONG=1),
        mock.patch.multiple(transposes, _BUSY=1, _LONG=1),
    ):
        _agree(case, box, 100)


@given(case=programs(large=True), box=st.sampled_from([20_000, 1 << 20]))
@settings(max_examples=5, **COMMON)
def test_larger_arrays(case: UserProgram, box: int) -> None:
    _agree(case, box, 2000)


def _agree(case: UserProgram, box: int, scale: float) -> None:
    on = device()
    with np.errstate(all="ignore"):
        expected = interpreted(case, case.inputs)
        with wf.config(devices=[on.name]):
            found = compiled(case, case.inputs)
            assert_agree(found, expected, scale=scale)
            with tempfile.TemporaryDirectory() as folder:
                boxed = streamed(case, case.inputs, Path(folder), box)
    assert_equal_bits(boxed, found)


# ---------------------------------------------------------------- the user's side


def test_devices_are_listed() -> None:
    on = device()
    assert wf.devices()[0] == "cpu"
    assert on.name in wf.devices()
    assert on.describe().startswith(f"{on.name}: ")


def test_parts_of_a_device_are_devices() -> None:
    on = device()
    parts = [name for name in wf.devices() if name.startswith(f"{on.name}.")]
    if not parts:
        pytest.skip(f"{on.name} cannot be partitioned")
    assert len(parts) == on.device.max_compute_units
    x = np.arange(5000.0)
    square = wf.jit(lambda a: a * a - 1)
    for name in parts:
        with wf.config(devices=[name], memory_limit={name: "1 MiB"}):
            np.testing.assert_array_equal(square(x), x * x - 1)


def test_jitted_and_lazy_programs_run_there() -> None:
    on = device()
    a = np.linspace(-1, 1, 5000).reshape(50, 100).astype(np.float32)

    @wf.jit
    def normalise(x: Any) -> Any:
        return (x - x.mean(axis=0)) / x.std(axis=0)

    before = on.statistics.launches
    with wf.config(devices=[on.name], interpret_below=0):
        jitted = normalise(a)
        lazy = np.asarray(normalise(wf.asarray(a)))
    assert on.statistics.launches >= before + 2
    expected = (a - a.mean(axis=0)) / a.std(axis=0)
    np.testing.assert_allclose(jitted, expected, rtol=1e-4, atol=1e-5)
    np.testing.assert_array_equal(lazy, jitted)


def test_views_into_strided_and_foreign_memory() -> None:
    on = device()
    a = np.arange(60.0).reshape(6, 10)
    odd = np.frombuffer(b"x" + a.tobytes(), np.uint8)[1:].view(np.float64).reshape(6, 10)
    views = [a.T, a[::2, ::-3], np.asfortranarray(a), a.astype(">f8"), odd]
    double = wf.jit(lambda x: x * 2 + 1)
    with wf.config(devices=[on.name]):
        for view in views:
            np.testing.assert_array_equal(double(view), view * 2 + 1)
        out = np.zeros((12, 10))[::2]
        double(a, out=out)
    np.testing.assert_array_equal(out, a * 2 + 1)


def test_an_index_outside_names_the_line() -> None:
    on = device()
    table, at = np.arange(5.0), np.array([0, 4, 5, 1])
    with wf.config(devices=[on.name]), pytest.raises(wf.WeftError) as caught:
        wf.jit(lambda t, i: wf.take(t, i))(table, at)
    assert isinstance(caught.value, IndexError)
    assert "index 5 is outside axis 0 of" in str(caught.value)
    assert "test_programs.py" in str(caught.value)


def test_loops_that_the_host_drives() -> None:
    """A while loop around kernels: the host reads its condition from the device."""
    on = device()

    @wf.jit
    def halve(x: Any) -> Any:
        def shrink(state: Any) -> Any:
            count, y = state
            return count + 1, y / 2

        return wf.while_loop(lambda state: (state[1] ** 2).sum() > 1, shrink, (0, x))

    a = np.full(300, 9.0)
    with wf.config(devices=[on.name]):
        count, found = halve(a)
    expected, times = a, 0
    while (expected**2).sum() > 1:
        expected, times = expected / 2, times + 1
    assert count == times
    np.testing.assert_allclose(found, expected)


def test_what_a_device_lacks_runs_on_the_cpu() -> None:
    on = device()
    a = np.arange(2000) * (1 + 2j)
    with wf.config(devices=[on.name], interpret_below=0):
        np.testing.assert_allclose(np.asarray(wf.asarray(a) * 2), a * 2)
        text = str(wf.explain(wf.asarray(a) * 2))
    assert "runs on the cpu: complex128 on a GPU" in text


def test_devices_that_are_not_there() -> None:
    with pytest.raises(ValueError, match="a list out of cpu"):
        wf.config(devices=["opencl:99"])
    with pytest.raises(ValueError, match="devices that are not here"):
        wf.config(memory_limit={"opencl:99": "1 MiB"})
    with pytest.raises(ValueError, match="have processors in common"):
        wf.config(devices=["cpu", "cpu"])
    for slots in (0, 129, "many"):
        with pytest.raises(ValueError, match="1 to 128, or None"):
            wf.config(slots=slots)


# ---------------------------------------------------------------- through little memory


def test_bits_do_not_depend_on_boxes() -> None:
    """Scans and reductions of several tiles, in core and in boxes."""
    on = device()
    rng = np.random.default_rng(3)
    a, b = rng.normal(size=(2, 5 * 65536 + 5000)).astype(np.float32)

    def recurrence(x: Any, y: Any) -> Any:
        """r[i] = y[i] * r[i - 1] + x[i]: an operator without a neutral element that is known."""
        pairs = wf.associative_scan(
            lambda p, q: (p[0] * q[0], p[1] * q[0] + q[1]), wf.tanh(y), x
        )
        return pairs[1]

    @wf.jit
    def program(x: Any, y: Any) -> Any:
        return wf.cumulative_sum(x), recurrence(x, y), (x * y).sum(), wf.argmax(y)

    with wf.config(devices=[on.name]):
        whole = program(a, b)
        with wf.config(memory_limit={on.name: "3 MiB"}):
            boxed = program(a, b)
    assert_equal_bits(boxed, whole)
    scan = np.empty_like(a, np.float64)
    last = 0.0
    for k, (x, y) in enumerate(zip(a.astype(float), np.tanh(b.astype(float)), strict=True)):
        last = scan[k] = y * last + x
    np.testing.assert_allclose(whole[0], np.cumsum(a, dtype=float), atol=2e-2)
    np.testing.assert_allclose(whole[1], scan, rtol=1e-3, atol=1e-3)
    np.testing.assert_allclose(whole[2], np.dot(a.astype(float), b), rtol=1e-4, atol=1e-2)
    assert whole[3] == np.argmax(b)


def test_a_cap_on_the_device_is_kept() -> None:
    on = device()
    x = np.random.default_rng(1).normal(size=1 << 21).astype(np.float32)
    smooth = wf.jit(lambda a: wf.stencil(lambda s: (s[-1] + s[0] + s[1]) / 3, a, boundary="edge"))
    padded = np.concatenate([x[:1], x, x[-1:]])
    expected = (padded[:-2] + padded[1:-1] + padded[2:]) / np.float32(3)
    cap = 2 << 20  # of 16 MiB
    with wf.config(devices=[on.name], memory_limit={on.name: cap}):
        on.trim()
        on.statistics.peak_bytes = 0
        before = on.statistics.bytes_in
        with wf.profile() as measured:
            found = smooth(x)
        plan = smooth.explain(wf.asarray(x))
    text = str(plan)
    np.testing.assert_allclose(found, expected, rtol=1e-6)
    assert 0 < on.statistics.peak_bytes <= cap
    moved = on.statistics.bytes_in - before
    ((into, out),) = (stage.copied for stage in plan.plan.stages)
    assert into <= moved <= into + 128 * FAILURE_BYTES
    assert out == x.nbytes
    assert "copying 8.0 MiB there and 8.0 MiB back" in text
    assert x.nbytes <= moved <= 1.01 * x.nbytes  # each element once, but for halos
    assert f"at once on {on.name}" in text
    queues = {event.queue for event in measured.events}
    assert {f"{on.name} in", f"{on.name} compute", f"{on.name} out"} <= queues


@pytest.mark.parametrize("shape", [(1000, 700), (61, 90, 70)])
def test_columns_are_scanned_in_boxes_of_the_result(shape: tuple[int, ...]) -> None:
    """One stage: what rows are of, which are scanned, does not go to the host and back."""
    on, x = device(), np.random.default_rng(2).random(shape, np.float32)
    program = wf.jit(lambda a: wf.cumulative_sum(a, axis=0) * 2)
    with wf.config(devices=[on.name]):
        whole = program(x)
        with wf.config(memory_limit={on.name: x.nbytes // 4}):
            (stage,) = program.explain(wf.asarray(x)).plan.stages
            assert "along axis 1" in stage.stage.reason
            before = on.statistics.bytes_in, on.statistics.bytes_out
            found = program(x)
    assert_equal_bits([found], [whole])
    moved = on.statistics.bytes_in - before[0]
    assert x.nbytes <= moved <= x.nbytes + stage.boxes.count * FAILURE_BYTES
    assert on.statistics.bytes_out - before[1] == x.nbytes


def test_a_scan_that_is_a_result_too_is_computed_once(tmp_path: Path) -> None:
    """Its stage has to be, so that what reads it costs no more; on the host, one has whole rows."""
    on, x = device(), np.random.default_rng(2).random((1000, 700), np.float32)

    def both(a: Any) -> Any:
        scanned = wf.cumulative_sum(a.T, axis=1)
        return scanned, scanned.T * 2

    program = wf.jit(both)
    with wf.config(devices=[on.name]):
        whole = program(x)
        with wf.config(memory_limit={on.name: x.nbytes // 4}):
            assert len(program.explain(wf.asarray(x)).plan.stages) == 2
            assert_equal_bits(program(x), whole)
    np.save(tmp_path / "x.npy", x)
    with small_boxes(1 << 18, 0):
        lazy = wf.cumulative_sum(wf.open(tmp_path / "x.npy"), axis=0) * 2
        assert len(wf.explain(lazy).plan.stages) == 1


@pytest.mark.parametrize("slots", [1, 2, 5, 128])
def test_as_many_boxes_are_in_flight_as_are_asked_for(slots: int) -> None:
    on = device()
    x = np.random.default_rng(4).normal(size=1 << 20).astype(np.float32)
    shift = wf.jit(lambda a: wf.stencil(lambda s: s[-1] - 2 * s[1], a, boundary="edge"))
    cap = 2 << 20
    with wf.config(devices=[on.name], memory_limit={on.name: cap}, slots=slots):
        on.trim()
        on.statistics.peak_bytes = 0
        found = shift(x)
        text = str(shift.explain(wf.asarray(x)))
    padded = np.concatenate([x[:1], x, x[-1:]])
    np.testing.assert_array_equal(found, padded[:-2] - 2 * padded[2:])
    assert f"{slots} at once on {on.name}" in text
    assert 0 < on.statistics.peak_bytes <= cap


def test_data_that_fits_goes_in_boxes_where_that_is_predicted_quicker() -> None:
    on = device()
    x = np.random.default_rng(5).normal(size=1 << 21).astype(np.float32)
    quick = Rates(1e9, 1e9, 100e9, 1e-6, 1e-6, 2, True)
    slow = replace(quick, box=1.0)
    double = wf.jit(lambda a: a + a)
    launched = []
    for rates, slots in ((quick, None), (slow, None), (quick, 1)):
        with (
            mock.patch.object(on, "_rates", rates),
            wf.config(devices=[on.name], slots=slots, threads=len(launched) + 1),
        ):
            before = on.statistics.launches
            np.testing.assert_array_equal(double(x), x + x)
            launched.append(on.statistics.launches - before)
    assert launched[0] > 1
    assert launched[1:] == [1, 1]


def added(a: Any, b: Any, c: Any) -> None:
    for i in range(a.shape[0]):
        c[i] = a[i] + b[i]


X = np.random.default_rng(6).normal(size=1 << 21).astype(np.float32)
FIXED = X.copy()
FIXED.flags.writeable = False
ADDED = wf.kernel(added)
SUM = wf.jit(lambda a, b: a + b)


@pytest.mark.parametrize(
    ("call", "in_boxes"),
    [
        (lambda c: SUM(X, X, out=c), True),
        (lambda c: ADDED(X, X, c), True),
        (lambda c: ADDED(FIXED, X, c), True),
        (lambda c: SUM(X[::2], X[1::2], out=c[: X.size // 2]), True),
        (lambda c: ADDED(X[: X.size // 2], X[X.size // 2 :], c[::2]), True),
        (lambda c: ADDED(X, c, c), False),  # a device that fails would leave half of c
        (lambda c: SUM(c[1:], c[:-1], out=c[1:]), True),  # of a copy, as they share memory
    ],
    ids=["out", "kernel", "read-only", "strided", "strided target", "in place", "overlapping"],
)  # fmt: skip
def test_what_goes_in_boxes_where_that_is_predicted_quicker(
    call: Callable[[Any], Any], in_boxes: bool
) -> None:
    """Whatever arrays it is given, unless it writes what it reads."""
    on = device()
    rates = Rates(1e9, 1e9, 100e9, 1e-6, 1e-6, 2, True)
    expected = np.ones_like(X)
    with wf.config(devices="cpu"):
        call(expected)
    with mock.patch.object(on, "_rates", rates), wf.config(devices=[on.name]):
        for again in range(2):
            found = np.ones_like(X)
            before = on.statistics.launches
            with mock.patch("weft.launch.boxes._planned", wraps=boxes._planned) as planned:
                call(found)
            assert not (again and planned.called)
            np.testing.assert_array_equal(found, expected)
            assert (on.statistics.launches - before > 1) == in_boxes


@pytest.mark.parametrize("failures", [1, 2, 3, 5])
def test_results_of_boxes_that_lack_memory_are_not_read(failures: int) -> None:
    """They may be in their places, where another try would take them for arguments."""
    on, run, calls = device(), executor.execute, itertools.count(1)
    rates = Rates(1e9, 1e9, 100e9, 1e-6, 1e-6, 2, True)

    def executed(plan: Any, **more: Any) -> Any:
        number = next(calls)
        values = run(plan, **more) if number in (1, failures + 1) else None
        if number <= failures:
            raise MemoryLimitError("there is no memory")
        return values

    found = X.copy()
    with (
        mock.patch.object(on, "_rates", rates), wf.config(devices=[on.name]),
        mock.patch.object(executor, "execute", executed), suppress(MemoryLimitError),
    ):  # fmt: skip
        SUM(found[1:], found[:-1], out=found[1:])
        np.testing.assert_array_equal(found[1:], X[1:] + X[:-1])
    assert next(calls) > 1


def test_targets_in_files_are_not_flushed(tmp_path: Path) -> None:
    on = device()
    rates = Rates(1e9, 1e9, 100e9, 1e-6, 1e-6, 2, True)
    target = np.memmap(tmp_path / "c", X.dtype, "w+", shape=X.shape)
    with mock.patch.object(on, "_rates", rates), wf.config(devices=[on.name]):
        before = on.statistics.launches
        with mock.patch.object(np.memmap, "flush") as flush:
            assert SUM(X, X, out=target) is target
        assert on.statistics.launches - before > 1
    assert not flush.called
    np.testing.assert_array_equal(target, X + X)


def test_kept_plans_keep_no_memory_of_results() -> None:
    on = device()
    rates = Rates(1e9, 1e9, 100e9, 1e-6, 1e-6, 2, True)
    target = np.empty_like(X)
    alive = weakref.ref(target)
    with mock.patch.object(on, "_rates", rates), wf.config(devices=[on.name]):
        SUM(X, X, out=target)
    del target
    gc.collect()
    assert alive() is None


def test_long_computation_is_predicted_to_take_long() -> None:
    """What is moved says nothing of a time tile, two launches with many rounds on a processor."""
    on = device()
    if on.is_processor:  # others do not measure it
        assert 1e8 < measure(on).operations < 1e15
    x = np.zeros(1 << 20, np.float32)
    step = wf.jit(
        lambda a, n: wf.fori_loop(0, n, lambda k, y: (y + 1) * np.float32(0.5), a),
        static_argnames=("n",),
    )
    predicted = []
    for rounds in (1000, 100_000):
        with (
            mock.patch.object(on, "_rates", replace(on.rates, operations=1e9)),
            wf.config(devices=[on.name], memory_limit={on.name: "2 MiB"}),
        ):
            plan = step.explain(wf.asarray(x), n=rounds).plan
        predicted.append(sum(stage.seconds for stage in plan.stages))
    assert predicted[0] > 2 * x.size * 1000 / 1e9  # an addition and a multiplication each
    assert 50 * predicted[0] < predicted[1] < 200 * predicted[0]


def test_copies_overlap_however_long_computing_is_predicted() -> None:
    """What copies take is predicted well, and computing often as longer than it is."""
    on = device()
    x = np.zeros(1 << 20, np.float32)
    step = wf.jit(lambda a: wf.fori_loop(0, 999, lambda k, y: (y + 2) * np.float32(0.5), a))
    with (
        mock.patch.object(on, "_rates", Rates(1e9, 1e9, 100e9, 1e-5, 1e-4, 2, False, 1e9)),
        wf.config(devices=[on.name], memory_limit={on.name: "2 MiB"}),
    ):
        (stage,) = step.explain(wf.asarray(x)).plan.stages
    assert 2 * x.nbytes / 1e9 < stage.seconds / 100
    assert stage.slots > 1


def test_plans_that_are_kept_run_under_their_own_limit() -> None:
    on = device()
    x = np.random.default_rng(11).normal(size=1 << 20).astype(np.float32)
    double = wf.jit(lambda a: a + a)
    for cap in (1 << 20, None, 1 << 20, None):
        on.trim()
        on.statistics.peak_bytes = 0
        limit = {} if cap is None else {"memory_limit": {on.name: cap}}
        with wf.config(devices=[on.name], **limit):
            np.testing.assert_array_equal(double(x), x + x)
        assert on.limit == (cap or on.default_limit)
        assert 0 < on.statistics.peak_bytes <= on.limit


def test_what_all_boxes_need_is_copied_once() -> None:
    on = device()
    rng = np.random.default_rng(2)
    table, at = rng.normal(size=1000), rng.integers(0, 1000, 400_000)
    with wf.config(devices=[on.name], memory_limit={on.name: "1 MiB"}):
        before = on.statistics.bytes_in
        found = wf.jit(lambda t, i: wf.take(t, i) * 2)(table, at)
    np.testing.assert_array_equal(found, table[at] * 2)
    assert on.statistics.bytes_in - before < at.nbytes + 2 * table.nbytes


def test_what_cannot_fit_the_cpu_does() -> None:
    on = device()
    x, at = np.ones(100_000), np.arange(100_000)[::-1].copy()
    gather = wf.jit(lambda a, i: wf.take(a, i))
    with wf.config(devices=[on.name], memory_limit={on.name: "64 KiB"}):
        np.testing.assert_array_equal(gather(x, at), x[at])
        explained = str(wf.explain(gather, x, at))
    assert re.search(rf"runs on the cpu: \w+ needs .* at once on {on.name}", explained)


def test_what_a_box_takes_from_the_one_before_it_counts() -> None:
    """A scatter's destination, which goes through all boxes, is there twice: before and after."""
    on = device()
    x = np.random.default_rng(8).normal(size=100_003)
    at = (np.arange(x.size) * 7919) % x.size
    expected = x.copy()
    expected[at] = x * 2
    with wf.config(devices=[on.name], memory_limit={on.name: 4 * x.nbytes}):
        array = wf.asarray(x)
        results = wf.scatter(array, at, array * 2), wf.cumulative_sum(array), array[::2] * 3
        explained = str(wf.explain(*results))
        assert "boxes of" in explained
        assert "runs on the cpu" not in explained
        on.trim()
        on.statistics.peak_bytes = 0
        found = wf.compute(*results)
    assert on.statistics.peak_bytes <= 4 * x.nbytes
    np.testing.assert_array_equal(found[0], expected)
    with wf.config(devices=[on.name], memory_limit={on.name: int(2.5 * x.nbytes)}):
        assert re.search(r"runs on the cpu: \w+ needs .* at once", str(wf.explain(*results)))
        np.testing.assert_array_equal(wf.compute(*results)[0], expected)


def test_the_host_alternates_buffers() -> None:
    """A round of an iterated stencil is one launch: which buffer is which is no kernel's work."""
    on = device()
    x = np.random.default_rng(6).normal(size=5000)

    def step(k: Any, a: Any) -> Any:
        return wf.stencil(lambda s: (s[-1] + s[1]) / 2, a, boundary="edge")

    for rounds in (4, 7):
        smooth = wf.jit(lambda a, rounds=rounds: wf.fori_loop(0, rounds, step, a))
        expected = x
        for _ in range(rounds):
            padded = np.concatenate([expected[:1], expected, expected[-1:]])
            expected = (padded[:-2] + padded[2:]) / 2
        with wf.config(devices=[on.name]):
            before = on.statistics.launches
            found = smooth(x)
        np.testing.assert_allclose(found, expected, rtol=1e-12)
        assert on.statistics.launches - before <= rounds + 2


def test_a_product_of_matrices_goes_in_tiles_of_rows_and_columns() -> None:
    """No operand fits the device whole: some rows stay while columns stream by."""
    on = device()
    rng = np.random.default_rng(7)
    a, b = rng.normal(size=(90, 70)), rng.normal(size=(70, 110))
    product = wf.jit(lambda a, b: (a[:, None, :] * b.T[None, :, :]).sum(axis=-1))
    total = a.nbytes + b.nbytes + 90 * 110 * 8
    cap = total // 8
    with wf.config(devices=[on.name]):
        whole = product(a, b)
        with wf.config(memory_limit={on.name: cap}):
            on.trim()
            on.statistics.peak_bytes = 0
            before = on.statistics.bytes_in
            found = product(a, b)
            text = str(product.explain(wf.asarray(a), wf.asarray(b)))
            with mock.patch("weft.plan.planner.plan_program") as planning:
                again = product(a.copy(), 2 * b)
            assert not planning.called
    assert_equal_bits([again], [2 * whole])
    np.testing.assert_allclose(whole, a @ b, rtol=1e-12, atol=1e-12)
    assert_equal_bits([found], [whole])
    assert 0 < on.statistics.peak_bytes <= cap
    assert "tiles of" in text
    assert on.statistics.bytes_in - before < 20 * (a.nbytes + b.nbytes)


def test_a_stage_that_is_not_cut_says_what_it_does_on_a_device() -> None:
    on, x = device(), np.random.default_rng(3).random(10_007)
    total = wf.jit(lambda x: (x * 2).sum())
    with wf.config(devices=[on.name]):
        told = wf.explain(total, x)
        (stage,) = told.plan.stages
        before = replace(on.statistics)
        np.testing.assert_allclose(total(x), 2 * x.sum())
    assert stage.boxes.count == 1
    assert stage.copied == (x.nbytes, 8)
    assert 0 <= on.statistics.bytes_in - before.bytes_in - x.nbytes <= FAILURE_BYTES
    assert on.statistics.launches - before.launches == stage.launches
    assert f"one box on {on.name} (" in str(told)
    assert "copying 78.2 KiB there and 8 B back" in str(told)
    assert f"a box launches {stage.launches} of these kernels" in str(told)
    assert "takes roughly" in str(told)


def test_boxes_say_what_they_give() -> None:
    on, x = device(), np.random.default_rng(3).random((100, 70))
    with wf.config(devices=[on.name], memory_limit={on.name: 16 << 10}):
        told = wf.explain(wf.jit(lambda x: x * 2), x)
    (stage,) = told.plan.stages
    most = stage.boxes.extent * 70 * 8
    assert re.search(rf"part of t_\d+: up to {stage.boxes.extent} along axis 0 \(", str(told))
    assert stage.output_bytes == (most,)


def test_what_a_library_does_is_said_to_run_on_the_cpu() -> None:
    on, x = device(), np.random.default_rng(3).random((90, 90))
    with wf.config(devices=[on.name]):
        assert "runs on the cpu: it is a call of the host's library" in str(
            wf.explain(wf.jit(lambda x: wf.sort(x, axis=0)), x)
        )
    assert "runs on the cpu" not in str(wf.explain(wf.jit(lambda x: wf.sort(x, axis=0)), x))


def test_why_no_boxes_fit_is_said_where_the_cpu_runs_the_whole() -> None:
    """Not that it cannot be cut, which it can."""
    on, x = device(), np.random.default_rng(3).random(100_003)
    with wf.config(devices=[on.name], memory_limit={on.name: 600 << 10}):
        told = str(wf.explain(wf.jit(wf.cumulative_sum), x))
    assert "its smallest boxes, 65536 of 100003 along" in told
    assert "cannot be cut" not in told
