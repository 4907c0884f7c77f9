"""What one of several devices does alone: where it fails, or has no room, another does it."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from itertools import product
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pytest
from devices.faults import failing, full, lost
from devices.harness import Device, device
from slow import every_second

import weft as wf
from weft.config import settings, within
from weft.errors import CompileError, DeviceError, MemoryLimitError
from weft.launch.several import by_any, by_one, orders
from weft.runtime.devices.cpu import parts
from weft.runtime.devices.others import others

RNG = np.random.default_rng(11)
X = RNG.random(300_000)
MATRIX = RNG.random((40, 43)) + 40 * np.eye(40, 43)


def scaled(a: Any) -> Any:
    """A loop whose rounds need the greatest of all elements."""
    return wf.fori_loop(0, 4, lambda k, y: y / wf.max(wf.abs(y)) + 0.1, a)


def eliminate(a: Any) -> None:
    """Gauss-Jordan elimination, in place."""
    for k in range(a.shape[0]):
        pivot = 1 / a[k, k]
        for j in range(a.shape[1]):
            a[k, j] = a[k, j] * pivot
        for i in range(a.shape[0]):
            if i != k:
                factor = a[i, k]
                for j in range(a.shape[1]):
                    a[i, j] = a[i, j] - factor * a[k, j]


def double(a: Any) -> None:
    for i in range(a.shape[0]):
        a[i] = a[i] * 2 + 1


eliminated, doubled = wf.kernel(eliminate), wf.kernel(double)


def in_place(kernel: Callable[[Any], None], argument: Any) -> Any:
    """What a kernel makes of a copy."""
    found = argument.copy()
    kernel(found)
    return found


PROGRAMS: dict[str, Callable[[], Any]] = {
    "running sum": lambda: wf.jit(wf.cumulative_sum)(X),
    "sum": lambda: wf.jit(wf.sum)(X),
    "loop with a maximum": lambda: wf.jit(scaled)(X),
    "small map": lambda: wf.jit(lambda a: wf.sqrt(a) + 1)(X[:5000]),
    "elimination": lambda: in_place(eliminated, MATRIX),
    "in place": lambda: in_place(doubled, X[:5000]),
    "shared, and alone": lambda: wf.jit(lambda a: wf.cumulative_sum(wf.exp(wf.sin(a)) * a))(X),
}


def expected(name: str) -> Any:
    with wf.config(devices=["cpu"]):
        return PROGRAMS[name]()


def ready(on: Device) -> None:
    """Its rates are measured, and it has nothing to begin with."""
    assert on.rates
    on.trim()
    on._free_slots.clear()


@pytest.mark.parametrize(
    ("kind", "name"),
    every_second(product(["memory", "queue", "copy", "launch"], PROGRAMS), several=True),
)
def test_what_it_fails_at_another_does(name: str, kind: str) -> None:
    on, right = device(), expected(name)
    for error in (lost(on), full(on)):
        for at in (1, 2, 3):
            ready(on)
            with (
                wf.config(devices=[on.name, "cpu"]),
                failing(on, kind, at, error) as faulty,
                warnings.catch_warnings(record=True) as told,
            ):
                warnings.simplefilter("always")
                np.testing.assert_allclose(PROGRAMS[name](), right, rtol=1e-9)
            if faulty.calls < at:
                assert not told
                break
            if error.args == lost(on).args and kind != "memory":  # it has memory, when asked again
                assert f"{on.name} was left out, and others did its part" in str(told[0].message)
    on.trim()
    assert on.used == 0


@pytest.mark.parametrize("kind", ["source", "code"])
def test_code_that_it_refuses(kind: str) -> None:
    on, factor = device(), 4321.0625 + len(kind)  # code that no other test has compiled
    run = wf.jit(lambda a: wf.cumulative_sum(a * factor))
    with wf.config(devices=[on.name, "cpu"]), failing(on, kind, 0, lost(on)) as faulty:
        faulty.every = True
        with pytest.warns(RuntimeWarning, match=f"{on.name} was left out"):
            found = run(X)
    np.testing.assert_allclose(found, np.cumsum(X * factor))


@pytest.mark.parametrize("suffix", [".npy", ".zarr"])
def test_files_are_written_anew(suffix: str, tmp_path: Path) -> None:
    """Some boxes were written before the device was lost."""
    if suffix == ".zarr":
        pytest.importorskip("zarr")
    on = device()
    np.save(tmp_path / "x.npy", X)
    ready(on)
    chunks = (1 << 16,) if suffix == ".zarr" else None
    with (
        wf.config(devices=[on.name, "cpu"], memory_limit={on.name: "1536 KiB"}),
        failing(on, "launch", 7, lost(on)) as faulty,
    ):
        sums = wf.cumulative_sum(wf.open(tmp_path / "x.npy"))
        with pytest.warns(RuntimeWarning, match=f"{on.name} was left out"):
            wf.store(sums, tmp_path / f"y{suffix}", chunks=chunks)
    assert faulty.calls >= 7
    found = np.asarray(wf.open(tmp_path / f"y{suffix}"))
    np.testing.assert_allclose(found, np.cumsum(X))
    assert {path.name for path in tmp_path.iterdir()} == {"x.npy", f"y{suffix}"}


def test_where_all_fail_no_file_is_left(tmp_path: Path) -> None:
    with two() as both, both.all_lost(), pytest.raises(DeviceError, match="was lost"):
        wf.store(wf.cumulative_sum(wf.asarray(X)), tmp_path / "y.npy")
    assert not list(tmp_path.iterdir())


class two(ExitStack):  # noqa: N801 - read as a block: `with two() as both:`
    """Two devices with memory of their own: parts of the first of OpenCL, or GPUs."""

    def __enter__(self) -> Any:
        super().__enter__()
        name = device().name
        found = [other for other in others() if other.name.startswith(f"{name}.")]
        found = found or [other for other in others() if other.name.startswith("cuda:")]
        if len(found) < 2:
            pytest.skip("no two devices")
        self.devices = found[:2]
        self.names = [other.name for other in self.devices]
        self.enter_context(wf.config(devices=self.names))
        return self

    def all_lost(self) -> ExitStack:
        """Neither launches any more."""
        stack = ExitStack()
        for on in self.devices:
            ready(on)
            stack.enter_context(failing(on, "launch", 0, lost(on))).every = True
        return stack


def test_the_other_of_two_does_it() -> None:
    right = expected("running sum")
    with two() as both:
        for on in both.devices:
            ready(on)
        with (
            failing(both.devices[0], "launch", 1, lost(both.devices[0])),
            pytest.warns(RuntimeWarning, match=f"{both.names[0]} was left out"),
        ):
            np.testing.assert_allclose(PROGRAMS["running sum"](), right)


def test_where_all_fail_the_first_error_is_raised() -> None:
    with two() as both:
        argument = MATRIX.copy()
        with both.all_lost(), pytest.raises(DeviceError, match=f"{both.names[0]} failed at"):
            eliminated(argument)
        np.testing.assert_array_equal(argument, MATRIX)  # as it was
        PROGRAMS["elimination"]()  # nothing is left behind


def test_errors_of_the_program_are_raised_at_once() -> None:
    on, runs = device(), []
    with wf.config(devices=[on.name, "cpu"]):
        run = wf.execute._run
        with (
            mock.patch("weft.execute._run", lambda *given: runs.append(given) or run(*given)),
            pytest.raises(IndexError, match="is outside axis 0"),
        ):
            wf.jit(lambda t, i: wf.take(t, i))(X, np.full(5000, X.size))
    assert len(runs) == 1


# ---------------------------------------------------------------- room


def cases() -> Iterator[tuple[Any, tuple[Any, ...], Any, bool]]:
    """Functions, arguments, what they give, and whether a device has no room for them."""
    table, at = X[:200_000], RNG.integers(0, 200_000, 200_000)
    yield wf.jit(wf.cumulative_sum), (table,), np.cumsum(table), True
    yield wf.jit(lambda t, i: wf.take(t, i)), (table, at), table[at], True
    with wf.config(devices=["cpu"]):
        right = wf.jit(scaled)(table)
    yield wf.jit(scaled), (table,), right, False  # round by round


def test_what_does_not_fit_one_device_another_does() -> None:
    """The CPU, where there is no other, and `explain` says why."""
    on = device()
    for function, arguments, right, by_cpu in cases():
        with wf.config(memory_limit={on.name: "128 KiB"}):
            for devices in ([on.name], ["cpu", on.name], [on.name, "cpu"]):
                with wf.config(devices=devices), warnings.catch_warnings():
                    warnings.simplefilter("error")  # nothing has failed
                    np.testing.assert_allclose(function(*arguments), right, rtol=1e-9)
            with wf.config(devices=[on.name]):
                explained = str(wf.explain(function, *arguments))
            assert ("runs on the cpu: " in explained) == by_cpu


def test_what_does_not_fit_one_device_is_done_from_files_too(tmp_path: Path) -> None:
    """Such parts under the limit of the host's memory."""
    on = device()
    np.save(tmp_path / "table.npy", X[:200_000])
    with wf.config(devices=[on.name], memory_limit={on.name: "128 KiB", "cpu": "26 MiB"}):
        table = wf.open(tmp_path / "table.npy")
        wf.store(wf.jit(lambda t: 2 * wf.cumulative_sum(t))(table), tmp_path / "sums.npy")
    np.testing.assert_allclose(
        np.load(tmp_path / "sums.npy"), 2 * np.cumsum(X[:200_000]), rtol=1e-9
    )


def test_rounds_one_after_another_on_one_of_two() -> None:
    a = RNG.random((61, 67)) + 100 * np.eye(61, 67)
    with wf.config(devices=["cpu"]):
        right = in_place(eliminated, a)
    with two() as both, wf.config(memory_limit=dict.fromkeys(both.names, "24 KiB")):
        with wf.config(devices=both.names[:1]):
            np.testing.assert_array_equal(in_place(eliminated, a), right)
        for _ in range(2):  # the second time it is known that they cannot share it
            np.testing.assert_array_equal(in_place(eliminated, a), right)
        assert any("rounds" in line for line in str(wf.explain(eliminated, a)).splitlines())
    on = device()
    with wf.config(devices=[on.name, "cpu"], memory_limit={on.name: "24 KiB"}):
        np.testing.assert_array_equal(in_place(eliminated, a), right)


@pytest.mark.skipif(len(parts()) < 2, reason="one core alone")
def test_what_fits_in_place_alone() -> None:
    """Devices that share boxes need the results besides the arguments."""
    a = np.arange(5_000_000.0)
    with wf.config(memory_limit="30 MiB"):
        for devices in (["cpu:0"], ["cpu:0", "cpu:1"]):
            with wf.config(devices=devices):
                np.testing.assert_array_equal(in_place(doubled, a), a * 2 + 1)


def test_what_fits_no_device_is_refused_as_on_the_first() -> None:
    on = device()
    limits = {on.name: "128 KiB", "cpu": "1 MiB"}
    with wf.config(devices=[on.name, "cpu"], memory_limit=limits):
        for _ in range(2):
            with pytest.raises(MemoryLimitError, match=r"need .* at once"):
                wf.jit(scaled)(X)


# ---------------------------------------------------------------- orders


@pytest.mark.skipif(len(parts()) < 2, reason="one core alone")
def test_the_orders_of_devices() -> None:
    with within(devices=("a", "cpu:0", "cpu:1", "b"), device_limits=(("cpu:1", 5),)) as current:
        assert list(orders(current)) == [
            ("a", "cpu:0", "cpu:1", "b"),
            ("cpu:0", "a", "cpu:1", "b"),
            ("b", "a", "cpu:0", "cpu:1"),
            *(("a",), ("cpu:0",), ("cpu:1",), ("b",)),
        ]
    with within(devices=("cpu:0", "cpu:1")) as current:
        assert list(orders(current)) == [("cpu:0", "cpu:1"), ("cpu:0",)]


def test_settings_within_hold_for_the_block() -> None:
    before = settings()
    with within(threads=3), within(slots=2) as current:
        assert (current.threads, current.slots) == (3, 2)
    assert settings() == before


@pytest.mark.parametrize(("error", "orders"), [
    (CompileError, [("a", "b", "c"), ("b", "a", "c"), ("c", "a", "b")]),
    (DeviceError, [("a", "b", "c"), ("b", "c"), ("c",)]),
])  # fmt: skip
def test_the_first_order_that_can(error: type[wf.WeftError], orders: list[Any]) -> None:
    """What is lost takes no part any more."""
    tried: list[Any] = []

    def attempt() -> str:
        tried.append(settings().devices)
        if tried[-1][0] != "c":
            raise error(f"{tried[-1][0]} fails")
        return "c"

    with within(devices=("a", "b", "c")), pytest.warns(RuntimeWarning, match=r"[ab] was left out"):
        assert by_any(attempt) == "c"
    assert tried == orders
    for devices in (("a",), ("a", "b")):
        with within(devices=devices), pytest.raises(error, match="a fails"):
            by_any(attempt)


def test_what_runs_in_place_runs_once() -> None:
    tried: list[str] = []

    def attempt() -> None:
        tried.append(settings().devices[0])
        if tried[-1] == "b":
            raise MemoryLimitError("none left") from OSError("of the system")
        raise MemoryLimitError(f"{tried[-1]} is too small")

    with within(devices=("a", "b", "c")), pytest.raises(MemoryLimitError, match="none left"):
        by_one(attempt, MemoryLimitError("shared"))
    assert tried == ["a", "b"]
    with within(devices=("a", "c")), pytest.raises(MemoryLimitError, match="shared"):
        by_one(attempt, MemoryLimitError("shared"))
