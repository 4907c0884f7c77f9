"""Every call of a device fails once: the answer is right, or an error is named. No hang."""

from __future__ import annotations

import os
import signal
import warnings
from time import sleep
from typing import Any
from unittest import mock

import numpy as np
import pytest
from devices.faults import failing, full, lost
from devices.harness import Device, device, processors_only

import weft as wf
from weft.errors import CompileError, DeviceError, MemoryLimitError


def program(on: Device, limit: str) -> tuple[Any, Any, Any]:
    x = np.arange(150_000.0)
    function = wf.jit(lambda a: (wf.sqrt(a) + 1, a.sum()))
    expected = np.sqrt(x) + 1, x.sum()

    def run() -> Any:
        with wf.config(devices=[on.name], memory_limit={on.name: limit}):
            return function(x)

    return run, expected, x


def check(found: Any, expected: Any) -> None:
    for a, b in zip(found, expected, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-12)


def attempt(run: Any, expected: Any) -> wf.WeftError | None:
    """The right answer, or the error that is named instead."""
    try:
        check(run(), expected)
    except (DeviceError, MemoryLimitError) as refusal:
        return refusal
    return None


@pytest.mark.parametrize("limit", ["1 GiB", "1 MiB"], ids=["in core", "in boxes"])
@pytest.mark.parametrize(
    "kind",
    ["memory", "queue", "copy", "launch"],
)
def test_a_call_that_fails(kind: str, limit: str) -> None:
    on = device()
    run, expected, _ = program(on, limit)
    check(run(), expected)
    for error in (lost(on), full(on)):
        for at in (1, 2, 3, 5, 9, 17):
            on.trim()
            on._free_slots.clear()
            with failing(on, kind, at, error) as faulty:
                refusal = attempt(run, expected)
            assert refusal is None or on.name in str(refusal)
            if faulty.calls < at:
                assert at > 1, "nothing has failed"
                break
            check(run(), expected)  # the device goes on
    on.trim()
    assert on.used == 0, "memory is accounted for to the end"


@pytest.mark.parametrize("kind", ["memory", "copy", "launch"])
def test_boxes_for_which_memory_is_too_small_are_halved(kind: str) -> None:
    on = device()
    x = np.arange(150_000.0)
    double = wf.jit(lambda a: wf.sqrt(a) + 1)
    with wf.config(devices=[on.name], memory_limit={on.name: "1 MiB"}):
        double(x)
        for at in (1, 2, 3, 6):
            on.trim()
            with failing(on, kind, at, full(on)) as faulty:
                np.testing.assert_array_equal(double(x), np.sqrt(x) + 1)
            assert faulty.calls >= min(at, 3)
    on.trim()
    assert on.used == 0


def test_scans_for_which_memory_is_too_small_begin_anew() -> None:
    """In smaller boxes: what a box has carried to the next one is lost."""
    on = device()
    x = np.random.default_rng(1).normal(size=600_000)
    running, make = wf.jit(lambda a: wf.cumulative_sum(a)), on.make_buffer

    def made(count: int) -> Any:
        if count > 2 << 20:
            raise full(on)
        return make(count)

    on.trim()
    with wf.config(devices=[on.name]), mock.patch.object(on, "make_buffer", made):
        found = running(x)
    np.testing.assert_allclose(found, np.cumsum(x), rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("kind", ["source", "code"])
def test_code_that_the_device_refuses(kind: str) -> None:
    on = device()
    x = np.arange(5000.0)
    factor = 12345.678 + len(kind)  # code that no other test has compiled
    with (
        wf.config(devices=[on.name]),
        failing(on, kind, 1, lost(on)),
        pytest.raises(CompileError, match=f"{on.name} refuses generated code"),
    ):
        wf.jit(lambda a: a * factor - 9)(x)


def test_a_failure_in_a_kernel_leaves_the_device_well() -> None:
    on = device()
    take = wf.jit(lambda t, i: wf.take(t, i))
    table = np.arange(10.0)
    with wf.config(devices=[on.name]):
        for _ in range(3):
            with pytest.raises(IndexError, match="index 11 is outside"):
                take(table, np.array([3, 11]))
            np.testing.assert_array_equal(take(table, np.array([3, 9])), [3, 9])


def test_interrupted_while_boxes_are_in_flight() -> None:
    on = device()
    run, expected, _ = program(on, "1 MiB")
    check(run(), expected)
    with (
        mock.patch("weft.runtime.devices.runs.Run._check", side_effect=KeyboardInterrupt),
        pytest.raises(KeyboardInterrupt),
    ):
        run()
    check(run(), expected)
    on.trim()
    assert on.used == 0


@pytest.mark.parametrize(
    "kind",
    ["memory", "queue", "copy", "launch", "code"],
)
def test_beside_the_cpu_nothing_is_lost(kind: str) -> None:
    """Boxes that the device fails at, the CPU does."""
    on = device()
    x = np.linspace(0, 9, 400_000)

    def function_of(text: str) -> Any:
        scale = float(len(text)) + hash(kind) % 1000  # code that no other test has compiled
        return wf.jit(lambda a: wf.sqrt(wf.sin(a) ** 2 + scale) + wf.exp(-a))

    for number, error in enumerate((lost(on), full(on))):
        for at in (1, 2, 4):
            run = function_of("x" * (3 * number + at if kind == "code" else 1))
            on.trim()
            on._free_slots.clear()
            with wf.config(devices=["cpu"]):
                expected = run(x)
            with (
                wf.config(devices=["cpu:0", on.name]),
                failing(on, kind, at, error) as faulty,
                warnings.catch_warnings(record=True) as told,
            ):
                warnings.simplefilter("always")
                np.testing.assert_allclose(run(x), expected, rtol=1e-12)
            if faulty.calls < at and told:
                raise AssertionError(f"left out for no reason: {told[0].message}")
    on.trim()
    assert on.used == 0


@processors_only
@pytest.mark.parametrize(("attribute", "most", "said"), [
    ("most_of_group", 128, "no larger ones than of 128"), ("shared_bytes", 8192, "with 8 KiB"),
])  # fmt: skip
def test_groups_that_the_device_has_no_room_for(attribute: str, most: int, said: str) -> None:
    """Items of a group wait for each other: fewer of them would compute something else."""
    on = device()
    x = np.random.default_rng(1).integers(0, 9, 70_000)
    running = wf.jit(lambda a: wf.cumulative_sum(a))
    more = wf.jit(lambda a: a + 1)
    on.trim()
    with (
        wf.config(devices=[on.name]),
        mock.patch.object(on, "is_processor", False),
        mock.patch.object(on, attribute, most),
        mock.patch.object(on, "_free_slots", []),
    ):
        with pytest.raises(CompileError, match=f"groups of 256 items that share .* {said}"):
            running(x)
        np.testing.assert_array_equal(more(x), x + 1)
        on.trim()
    assert on.used == 0


@pytest.mark.parametrize("cpu", [None, 0, 1], ids=["alone", "after the CPU", "before the CPU"])
def test_a_process_that_is_forked_uses_no_device_of_before(cpu: int | None) -> None:
    """Drivers' threads are not there any more, and their answers never come."""
    on, x = device(), np.arange(300_000.0)
    more, less = wf.jit(lambda a: a + 1), wf.jit(lambda a: a - 1)  # the second is not compiled yet
    with wf.config(devices=[on.name]):
        more(x)
    process = os.fork()
    if process == 0:
        told = "other values"
        try:
            devices = [on.name]
            if cpu is not None:
                devices.insert(cpu, "cpu")
            with wf.config(devices=devices):
                found = more(x), less(x), wf.jit(wf.cumulative_sum)(x)
            if all(map(np.array_equal, found, (x + 1, x - 1, np.cumsum(x)))):
                told = "right"
        except BaseException as error:
            told = f"{type(error).__name__}: {error}"
        finally:  # it is not to go on with the tests
            forked = told.startswith("DeviceError") and "was forked" in told
            os._exit(1 if told == "right" else 2 if forked else 3)
    status = _ended(process)
    assert status == (2 if cpu is None else 1)


def _ended(process: int) -> int | None:
    """What a process ends with; None if it does not."""
    for _ in range(1000):
        ended, status = os.waitpid(process, os.WNOHANG)
        if ended:
            return os.waitstatus_to_exitcode(status)
        sleep(0.02)
    os.kill(process, signal.SIGKILL)
    os.waitpid(process, 0)
    return None
