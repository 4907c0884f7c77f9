"""Programs spread over several devices: what one alone computes, whatever fails."""

from __future__ import annotations

import re
import tempfile
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pytest
from agreement.random_users import UserProgram, programs
from agreement.ways import assert_equal_bits, compiled, streamed
from devices.harness import device
from devices.pretended import PretendedCode, PretendedDevice, spread_over
from hypothesis import HealthCheck, Phase, given, settings

import weft as wf
from weft.errors import CompileError, DeviceError, MemoryLimitError
from weft.launch import several
from weft.launch.stage import CallStage, SegmentStage
from weft.plan import sharing
from weft.plan.schedule import Scheduler
from weft.runtime import workers
from weft.runtime.devices.cpu import cores_of, parts
from weft.runtime.shares import Left

TWO = ["cpu:0", "cpu:1"]
KINDS = ("compile", "allocate", "copy in", "launch", "wait", "copy out")

pytestmark = pytest.mark.skipif(len(parts()) < 2, reason="one core alone")


@contextmanager
def small_shares() -> Iterator[None]:
    """Small programs are spread too, in many boxes."""
    with (
        mock.patch.object(sharing, "_LEAST_WORK", 256),
        mock.patch("weft.plan.cuts.SMALL_WORK", 1024),
        mock.patch.object(sharing, "SMALL_WORK", 1024),
        mock.patch("weft.plan.decisions._MANY_COLUMNS", 64),
    ):
        yield


@pytest.fixture(autouse=True)
def small_work() -> Iterator[None]:
    with small_shares():
        yield


def accelerations(x: Any, y: Any, m: Any) -> Any:
    """All pairs: what every box needs whole, and a reduction in each element."""
    dx, dy = x[None, :] - x[:, None], y[None, :] - y[:, None]
    w = m[None, :] / (dx * dx + dy * dy + 0.5) ** 1.5
    return (w * dx).sum(axis=1), (w * dy).sum(axis=1)


def stencil(a: Any) -> Any:
    """Boxes with halos, and then what needs the whole of that."""
    b = wf.stencil(lambda s: s[-1, 0] + s[1, 0] - 2 * s[0, 1], a, boundary="edge")
    return b / wf.max(wf.abs(b)), wf.sum(b, axis=1)


def products(a: Any) -> Any:
    return a @ a.T, wf.sum(a, axis=0)


def rounds_of_columns(a: Any) -> Any:
    """Boxes of columns: rows wrap."""
    return wf.iterate(
        lambda u: wf.stencil(lambda s: 0.5 * (s[-1, 0] + s[1, 0]), u, boundary="wrap"), a, 3
    )


RNG = np.random.default_rng(7)
PROGRAMS: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
    "pairs": (accelerations, tuple(RNG.normal(size=(3, 700)))),
    "stencil": (stencil, (RNG.normal(size=(300, 90)),)),
    "rounds of columns": (rounds_of_columns, (RNG.normal(size=(60, 2000)),)),
    "products": (products, (RNG.integers(-9, 9, size=(160, 90)).astype(np.float64),)),
    "elements": (lambda a: (wf.sqrt(a) + 1, a.sum()), (np.arange(300_000.0),)),
    "sum": (lambda a: (wf.sum(wf.exp(-a * a)),), (RNG.normal(size=1_000_000),)),
}


def computed(name: str) -> list[Any]:
    function, arguments = PROGRAMS[name]
    return [np.asarray(value) for value in wf.jit(function)(*arguments)]


def assert_same(found: list[Any], expected: list[Any], exact: bool = True) -> None:
    for a, b in zip(found, expected, strict=True):
        if exact:
            np.testing.assert_array_equal(a, b)
        else:
            np.testing.assert_allclose(a, b, rtol=1e-12, atol=1e-12)


# ---------------------------------------------------------------- on the CPU


@pytest.mark.parametrize("name", PROGRAMS)
def test_parts_of_the_cpu_give_the_same_bits(name: str) -> None:
    with wf.config(devices=["cpu:0"]):
        expected = computed(name)
    for devices in (TWO, ["cpu:1", "cpu:0"]):
        with wf.config(devices=devices), all_begin(2), wf.profile() as measured:
            found = computed(name)
        assert_same(found, expected)
        assert {f"{device} compute" for device in devices} <= {e.queue for e in measured.events}


@contextmanager
def all_begin(count: int) -> Iterator[None]:
    """No device computes its second box before all have begun their first."""
    begun: set[str] = set()
    everyone = threading.Barrier(count)
    run = SegmentStage.run

    def patient(self: Any, *arguments: Any) -> None:
        name = threading.current_thread().name
        if name.startswith("weft-worker") and name not in begun:
            begun.add(name)
            everyone.wait(20)
        run(self, *arguments)

    with mock.patch.object(SegmentStage, "run", patient):
        yield


def test_tiny_data_has_the_bits_that_one_device_gives() -> None:
    """Jitted code is compiled, however small its data: an interpreter adds in another order."""
    x = np.random.default_rng(5).normal(size=(40, 8))
    sums = wf.jit(lambda a: (a * a).sum(axis=0))
    with wf.config(devices=["cpu:0"]):
        expected = sums(x)
    with wf.config(devices=TWO):
        np.testing.assert_array_equal(sums(x), expected)
        lazy = wf.sum(wf.asarray(x) ** 2, axis=0).numpy()  # may be interpreted
    np.testing.assert_allclose(lazy, expected)


def test_arguments_are_not_copied() -> None:
    name = "elements"
    seen: list[Any] = []
    run = SegmentStage.run

    def noted(self: Any, integers: Any, inputs: Any, *others: Any) -> None:
        if threading.current_thread().name.startswith("weft-worker"):
            seen.extend(inputs)
        run(self, integers, inputs, *others)

    with wf.config(devices=TWO), mock.patch.object(SegmentStage, "run", noted):
        computed(name)
    arguments = PROGRAMS[name][1]
    shared = [any(np.shares_memory(s, a) for a in arguments) for s in seen if s.size > 1]
    assert shared
    assert all(shared)


@pytest.mark.parametrize(("rows", "extent", "once"), [(512, 512, True), (60_000, 64, False)])
def test_products_pack_what_is_whole_once_for_each_device(
    rows: int, extent: int, once: bool
) -> None:
    """Where that takes long beside the rest; else there are boxes to balance with."""
    a, b = RNG.integers(-9, 9, (rows, extent)) * 1.0, RNG.integers(-9, 9, (extent, extent)) * 1.0
    with wf.config(devices=TWO), wf.profile() as measured:
        found = wf.jit(lambda a, b: a @ b)(a, b)
    np.testing.assert_array_equal(found, a @ b)
    boxes = [event for event in measured.events if event.queue.endswith("compute")]
    assert len(boxes) == 2 if once else len(boxes) > 2


def test_a_part_computes_with_as_many_threads_as_it_has_cores() -> None:
    counts: set[int | None] = set()
    run = SegmentStage.run

    def noted(self: Any, *arguments: Any) -> None:
        if threading.current_thread().name.startswith("weft-worker"):
            counts.add(self._threads)
        run(self, *arguments)

    with wf.config(devices=TWO), mock.patch.object(SegmentStage, "run", noted):
        computed("pairs")
    assert counts == {1}


@pytest.mark.skipif(find_spec("zarr") is None, reason="no zarr")
def test_files_larger_than_the_limits(tmp_path: Path) -> None:
    a = RNG.normal(size=(4000, 256))
    wf.store(wf.asarray(a), tmp_path / "a.zarr", chunks=(100, 256))
    limits = {"cpu": "48 MiB", "cpu:0": "1 MiB", "cpu:1": "2 MiB"}
    x = wf.open(tmp_path / "a.zarr")
    with wf.config(devices=TWO, memory_limit=limits):
        y = wf.sqrt(wf.abs(x)) * 3 + x
        plan = wf.explain(y)
        assert plan.peak_bytes <= 48 << 20
        shares = plan.plan.stages[0].shares
        assert [s.device for s in shares] == TWO
        for share, most in zip(shares, (1 << 20, 2 << 20), strict=True):
            assert share.slots * share.host_bytes <= most
        wf.store(y, tmp_path / "y.npy")
    np.testing.assert_array_equal(np.load(tmp_path / "y.npy"), np.sqrt(np.abs(a)) * 3 + a)


def test_devices_that_share_cores_are_refused() -> None:
    for devices in (["cpu", "cpu:0"], ["cpu:0", "cpu:0"], ["cpu:0-1", "cpu:1"]):
        with pytest.raises(ValueError, match="have processors in common"):
            wf.config(devices=devices)
    for devices in (["cpu:4096"], ["cpu:1-0"], ["cpu:x"]):
        with pytest.raises(ValueError, match="a list out of cpu"):
            wf.config(devices=devices)
    assert len(cores_of("cpu:0-1")) == 2
    assert wf.devices()[:3] == ["cpu", *TWO]


# ---------------------------------------------------------------- beside another device


@pytest.mark.parametrize("name", ["pairs", "stencil", "elements", "rounds of columns"])
def test_beside_a_device_with_memory_of_its_own(name: str) -> None:
    with wf.config(devices=["cpu:0"]):
        expected = computed(name)
    other = PretendedDevice()
    with wf.config(devices=TWO), spread_over("cpu:0", other):
        assert_same(computed(name), expected, exact=False)
    assert other.boxes


@pytest.mark.parametrize("order", [1, -1])
@pytest.mark.parametrize("limit", [None, "28 MiB"])
def test_beside_one_from_files_to_files(tmp_path: Path, limit: str | None, order: int) -> None:
    """What boxes leave goes where it belongs, whichever device comes first."""
    units = [name for name in wf.devices() if re.fullmatch(r"opencl:\d+\.\d+", name)]
    if not units:
        pytest.skip("no OpenCL device that can be divided")
    data = np.random.default_rng(4).random((701, 503))
    np.save(tmp_path / "x.npy", data)
    names = [str(tmp_path / f"{k}.npy") for k in range(4)]
    expected = data
    for _ in range(5):
        padded = np.pad(expected, 1, mode="edge")
        expected = 0.25 * (
            padded[:-2, 1:-1] + padded[2:, 1:-1] + padded[1:-1, :-2] + padded[1:-1, 2:]
        )

    def step(u: Any) -> Any:
        return wf.stencil(
            lambda s: 0.25 * (s[-1, 0] + s[1, 0] + s[0, -1] + s[0, 1]), u, boundary="edge"
        )

    with wf.config(devices=["cpu:0", units[-1]][::order], memory_limit=limit):
        x = wf.open(tmp_path / "x.npy")
        u = wf.iterate(step, x, 5)
        horner = wf.fori_loop(0, 9, lambda k, y: y * x + k, wf.zeros_like(x))
        wf.store([u, u.sum(axis=0), u.sum(axis=1), horner], names)
    polynomial = np.polynomial.polynomial.polyval(data, np.arange(8, -1, -1.0))
    wanted = expected, expected.sum(axis=0), expected.sum(axis=1), polynomial
    for name, one in zip(names, wanted, strict=True):
        np.testing.assert_allclose(np.load(name), one, rtol=1e-12)


def beside_faults(
    kind: str, run: Callable[[], Any]
) -> Iterator[tuple[bool, Exception, Any, bool]]:
    """Runs beside a device that fails at a call of a kind, with each error at several calls.

    Gives whether the call was made, the error, what `run` gives, and whether a warning says that
    the device was left out.
    """
    for error in (DeviceError("pretended:0 is lost"), MemoryLimitError("pretended:0 is full")):
        for at in (1, 2, 5):
            other = PretendedDevice()
            other.fault = kind, at, error
            if kind == "compile":
                other.fault = kind, at, CompileError("pretended:0 refuses this")
            with (
                wf.config(devices=TWO), spread_over("cpu:0", other),
                warnings.catch_warnings(record=True) as caught,
            ):  # fmt: skip
                warnings.simplefilter("always")
                found = run()
            told = any("was left out" in str(w.message) for w in caught)
            yield other.calls.get(kind, 0) >= at, error, found, told


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", ["pairs", "elements"])
def test_what_a_device_fails_at_another_does(name: str, kind: str) -> None:
    with wf.config(devices=["cpu:0"]):
        expected = computed(name)
    for met, error, found, told in beside_faults(kind, lambda: computed(name)):
        assert_same(found, expected, exact=False)
        if not met or kind == "compile":
            assert not told
        elif isinstance(error, DeviceError):
            assert told  # one that is full may go on with smaller boxes


def test_boxes_are_halved_until_they_fit() -> None:
    other = PretendedDevice()
    most, sizes = 100, []
    start = PretendedCode.start

    def narrow(self: Any, integers: Any, inputs: Any, outputs: Any, held: Any) -> Any:
        other.asked.set()
        sizes.append(outputs[0].size)
        if outputs[0].size > most:
            raise MemoryLimitError(f"{other.name} has no memory left for it")
        return start(self, integers, inputs, outputs, held)

    x = np.arange(300_000.0)
    with (
        wf.config(devices=TWO), spread_over("cpu:0", other), warnings.catch_warnings(),
        mock.patch.object(PretendedCode, "start", narrow),
    ):  # fmt: skip
        warnings.simplefilter("error")  # it is not left out
        np.testing.assert_array_equal(wf.jit(lambda a: wf.sqrt(a) + 1)(x), np.sqrt(x) + 1)
    assert sizes[0] > most


def test_where_all_fail_the_error_is_named() -> None:
    one, other = PretendedDevice(), PretendedDevice()
    one.fault = other.fault = "launch", 1, DeviceError("the last one is lost")
    with (
        wf.config(devices=TWO), spread_over(one, other),
        mock.patch.object(several, "orders", lambda current: [current.devices]),
        pytest.raises(DeviceError, match="the last one is lost"),
    ):  # fmt: skip
        computed("pairs")
    with wf.config(devices=TWO), spread_over("cpu:0", "cpu:1"):
        computed("pairs")  # nothing is left behind


def test_a_program_error_ends_all_devices() -> None:
    table, at = np.arange(5.0), np.zeros(90_000, np.int64)
    at[71_000] = 5
    with wf.config(devices=TWO), pytest.raises(IndexError, match="index 5 is outside axis 0"):
        wf.jit(lambda t, i: wf.take(t, i) * 2)(table, at)


def test_interrupted_devices_stop_soon() -> None:
    """The thread that waits is interrupted while boxes run."""

    def long(x: Any) -> Any:
        return wf.fori_loop(0, 30_000, lambda k, y: y * 0.999999 + k, x)

    x = np.linspace(0, 1, 400_000)
    wait = Left.wait

    def interrupted(self: Any) -> bool:
        if wait(self):
            return True
        raise KeyboardInterrupt

    with (
        wf.config(devices=TWO),
        mock.patch.object(Left, "wait", interrupted),
        pytest.raises(KeyboardInterrupt),
    ):
        wf.jit(lambda a: wf.map(long, a))(x)

    def all_idle() -> bool:
        working = [t for t in threading.enumerate() if t.name.startswith("weft-worker")]
        return len(working) == sum(map(len, workers._idle.values()))

    until = time.monotonic() + 10  # earlier tests' workers may be on their way, too
    while not all_idle() and time.monotonic() < until:
        time.sleep(0.01)
    assert all_idle()


@pytest.mark.parametrize("rows", [400, 401])
def test_a_product_is_one_call_of_each_device(rows: int) -> None:
    """A box packs all of the other matrix, however few rows it has: none is left for a third."""
    rng = np.random.default_rng(3)
    a, b = rng.random((rows, 300), np.float32), rng.random((300, 350), np.float32)
    function = wf.jit(lambda x, y: x @ y)
    with wf.config(devices=TWO), mock.patch.object(sharing, "_PACKED", 1e6):
        plan = wf.explain(function, a, b)
        with wf.profile() as measured:
            found = function(a, b)
    assert sum(event.queue.endswith(" compute") for event in measured.events) == 2
    assert re.search(rf"2 boxes of up to {-(-rows // 2)} along [^,]*, spread over 2", str(plan))
    np.testing.assert_allclose(found, a @ b, rtol=1e-5)


def test_of_a_long_product_a_little_is_left_for_whoever_is_first() -> None:
    """Cores are not equally quick: the rest of each part is a box that either of them takes."""
    rng = np.random.default_rng(3)
    a, b = rng.random((600, 300), np.float32), rng.random((300, 350), np.float32)
    function, taken = wf.jit(lambda x, y: x @ y), []
    take = Left.take

    def noted(left: Left, number: int) -> Any:
        """Device 1 is slow: its first box lasts until 0 has taken all that is left."""

        def waits() -> bool:
            if all(who == 0 for who, _ in taken):
                return number == 0
            return number == 1 and left.devices[1].waiting > 0

        while waits():
            time.sleep(1e-3)
        box = take(left, number)
        taken.append((number, box))
        return box

    with wf.config(devices=TWO), mock.patch.object(sharing, "_PACKED", 4e10):
        plan = wf.explain(function, a, b)
        with mock.patch.object(Left, "take", noted):
            found = function(a, b)
    assert re.search("4 boxes of up to 270 along [^,]*, smaller towards the end, spread", str(plan))
    boxes = sorted(box for _, box in taken if box is not None)
    assert boxes == [(0, 270), (270, 300), (300, 570), (570, 600)]
    assert sum(number == 0 for number, box in taken if box is not None) > 2
    np.testing.assert_allclose(found, a @ b, rtol=1e-5)


@pytest.mark.parametrize("devices", [TWO, ["cpu:0"]])
def test_columns_of_a_product_are_computed_where_they_belong(
    devices: list[str], tmp_path: Path
) -> None:
    """Of a result with few rows, whose boxes are pieces of each of them: none has a buffer."""
    a, b = RNG.integers(-9, 9, (20, 50)) * 1.0, RNG.integers(-9, 9, (50, 9000)) * 1.0
    wf.store(wf.asarray(b), tmp_path / "b.zarr", chunks=(50, 1000))
    given = b if len(devices) > 1 else wf.open(tmp_path / "b.zarr")  # else it is done at once
    seen: list[Any] = []
    run = CallStage.run

    def noted(stage: CallStage, integers: Any, inputs: Any, outputs: Any, *others: Any) -> None:
        seen.extend(outputs)
        run(stage, integers, inputs, outputs, *others)

    function = wf.jit(lambda x, y: x @ y)
    with wf.config(devices=devices, memory_limit="28 MiB"):
        text = str(wf.explain(function, a, given))
        with mock.patch.object(CallStage, "run", noted):
            found = np.asarray(function(a, given))
    assert "along axis 1" in text
    assert len(seen) > 1
    assert all(np.shares_memory(output, found) for output in seen)
    assert not any(output.flags.c_contiguous for output in seen)
    np.testing.assert_array_equal(found, a @ b)


def test_columns_for_a_file_have_buffers(tmp_path: Path) -> None:
    a, b = RNG.integers(-9, 9, (20, 100)) * 1.0, RNG.integers(-9, 9, (100, 900)) * 1.0
    with wf.config(devices=TWO):
        wf.store(wf.asarray(a) @ wf.asarray(b), tmp_path / "c.zarr")
    np.testing.assert_array_equal(np.asarray(wf.open(tmp_path / "c.zarr")), a @ b)


def test_devices_share_no_sums_of_what_is_in_memory(tmp_path: Path) -> None:
    """Parts of sums are added one after another: they are for what should be read but once."""
    a, b = RNG.integers(-9, 9, (20, 300)) * 1.0, RNG.integers(-9, 9, (300, 400)) * 1.0
    wf.store(wf.asarray(b), tmp_path / "b.zarr", chunks=(30, 40))
    product = wf.jit(lambda x, y: x @ y)
    with wf.config(devices=TWO):
        for other, cut in ((b, "along axis 1"), (wf.open(tmp_path / "b.zarr"), "the sums of")):
            assert f"cut {cut}" in re.sub("t_[0-9]+ ", "", str(wf.explain(product, a, other)))
            np.testing.assert_array_equal(np.asarray(product(a, other)), a @ b)
        tall = RNG.random((40_000, 20))  # of which each box would read all
        assert "the sums of" in str(wf.explain(wf.jit(lambda z: z.T @ z), tall))


def test_the_plan_says_who_does_what() -> None:
    function, arguments = PROGRAMS["pairs"]
    with wf.config(devices=TWO):
        text = str(wf.explain(lambda: function(*map(wf.asarray, arguments))))
    assert "smaller towards the end, spread over 2 devices" in text
    for name in TWO:
        assert f"on {name}: boxes of at most 175, one at a time; each has up to" in text
    assert text.count("; does about 50% of it") == 2
    assert re.search(r"takes roughly .*; .* on cpu:0 alone", text)


def test_a_profile_has_a_row_for_each_device(tmp_path: Path) -> None:
    with wf.config(devices=TWO), all_begin(2), wf.profile() as measured:
        computed("pairs")
    measured.save(tmp_path / "trace.json")
    measured.save(tmp_path / "timeline.svg")
    for name in ("trace.json", "timeline.svg"):
        text = (tmp_path / name).read_text()
        assert all(f"{device} compute" in text for device in TWO)


# ---------------------------------------------------------------- random programs


@given(case=programs(large=True))
@settings(
    max_examples=8, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck),
    phases=(Phase.explicit, Phase.generate),
)  # fmt: skip
def test_random_programs_have_the_same_bits(case: UserProgram) -> None:
    """In memory, and from files to files, on one core and on two."""
    with small_shares(), np.errstate(all="ignore"):
        with wf.config(devices=["cpu:0"]):
            expected = compiled(case, case.inputs)
        with wf.config(devices=TWO):
            assert_equal_bits(compiled(case, case.inputs), expected)
            with tempfile.TemporaryDirectory() as folder:
                boxed = streamed(case, case.inputs, Path(folder), 1 << 20)
        assert_equal_bits(boxed, expected)


@pytest.mark.parametrize("extent", [10, 3000, 300_000])
def test_data_of_another_byte_order(extent: int) -> None:
    x = np.arange(float(extent))
    with wf.config(devices=TWO):
        add_one = wf.jit(lambda x: x + 1)
        for _ in range(2):
            np.testing.assert_array_equal(add_one(x.astype(">f8")), x + 1)


def test_boxes_in_memory_know_of_how_many_they_are_parts() -> None:
    """As many times as a box is smaller than the result."""
    x = RNG.random((40_000, 100))
    seen: list[Any] = []
    parts = Scheduler._parts

    def watched(scheduler: Scheduler, boxes: Any) -> Any:
        seen.append(parts(scheduler, boxes))
        return seen[-1]

    with wf.config(devices=TWO), mock.patch.object(Scheduler, "_parts", watched):
        np.testing.assert_array_equal(wf.jit(lambda x: x * 2)(x), x * 2)
    assert seen
    assert all(np.min(found) >= 1 for found in seen)
    assert max(int(np.max(found)) for found in seen) > 2


def test_a_device_for_which_no_box_is_small_enough_is_left_out_at_once() -> None:
    """A table that is larger than its memory: smaller boxes, of which there are many, help not."""
    on = device()
    table, where = RNG.random(100_000), RNG.integers(0, 100_000, 60_000)
    shrunk: list[int] = []
    shrink = sharing._Member.shrink

    def noted(member: Any, unit: int) -> bool:
        shrunk.append(member.extent)
        return shrink(member, unit)

    function = wf.jit(lambda t, i: t[i] * 2)
    with (
        wf.config(devices=["cpu:0", on.name], memory_limit={on.name: "200 KiB"}),
        mock.patch.object(sharing._Member, "shrink", noted),
    ):
        np.testing.assert_array_equal(function(table, where), table[where] * 2)
    assert not shrunk
