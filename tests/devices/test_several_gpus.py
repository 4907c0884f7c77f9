"""Several GPUs on a stand-in for cuda.core: what is made for one is made while a thread uses it."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any
from unittest import mock

import numpy as np
import pytest
from devices import pretended_cuda

import weft as wf
from weft.errors import DeviceError
from weft.runtime.devices import cuda
from weft.runtime.devices.cuda import CudaDevice
from weft.runtime.devices.cuda_runs import Slot
from weft.runtime.devices.page_locks import LEAST


@pytest.fixture
def both(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[CudaDevice, ...]]:
    """Two pretended GPUs."""
    with pretended_cuda.only_gpus(2, monkeypatch, tmp_path) as found:
        yield found


def test_boxes_are_shared(both: tuple[CudaDevice, ...]) -> None:
    x = np.linspace(0, 9, 400_000)
    function = wf.jit(lambda a: wf.sqrt(wf.sin(a) ** 2 + 6) + wf.exp(-a))
    limits = {device.name: "256 KiB" for device in both}
    together, begun, copied = threading.Barrier(2, timeout=60), set[Any](), Slot.copy_in

    def copy_in(slot: Slot, *arguments: Any) -> Any:
        if slot.device not in begun:  # else one may have done it all before the other begins
            begun.add(slot.device)
            together.wait()
        return copied(slot, *arguments)

    with (
        wf.config(devices=[device.name for device in both], memory_limit=limits),
        mock.patch.object(Slot, "copy_in", copy_in),
    ):
        found = function(x)
    np.testing.assert_allclose(found, np.sqrt(np.sin(x) ** 2 + 6) + np.exp(-x), rtol=1e-12)
    assert all(device.statistics.launches for device in both)


def test_what_one_fails_to_do_the_other_does(both: tuple[CudaDevice, ...]) -> None:
    x = np.linspace(0, 9, 400_000)
    function = wf.jit(lambda a: wf.sqrt(wf.sin(a) ** 2 + 2) + wf.exp(-a))
    failed, copied = threading.Event(), Slot.copy_in

    def fail(*_: Any) -> None:
        failed.set()
        raise pretended_cuda.CUDAError("CUDA_ERROR_ECC_UNCORRECTABLE")

    def copy_in(slot: Slot, *arguments: Any) -> Any:
        assert slot.device is both[1] or failed.wait(60)
        return copied(slot, *arguments)

    with (
        wf.config(devices=[device.name for device in both]),
        mock.patch.object(both[1], "copy", fail),
        mock.patch.object(Slot, "copy_in", copy_in),
        pytest.warns(RuntimeWarning, match="cuda:1 was left out, and others did its part"),
    ):
        found = function(x)
    np.testing.assert_allclose(found, np.sqrt(np.sin(x) ** 2 + 2) + np.exp(-x), rtol=1e-12)


def test_memory_of_another_dies(both: tuple[CudaDevice, ...]) -> None:
    """What it has locked is let go in the middle of a run: the GPU of the thread stays that."""
    other, one = both
    x = np.arange(LEAST / 8)
    address = x.ctypes.data
    double = wf.jit(lambda a: a * 2)
    with wf.config(devices=[other.name]):
        for _ in range(3):
            double(x)
    assert other.driver.is_locked(address)
    dying, copied = [x], Slot.copy_in
    del x

    def copy_in(*arguments: Any) -> Any:
        dying.clear()
        return copied(*arguments)

    y = np.arange(5000.0)
    with (
        wf.config(devices=[one.name]),
        mock.patch.object(Slot, "copy_in", copy_in),
    ):
        np.testing.assert_array_equal(double(y), 2 * y)
    assert not other.driver.is_locked(address)


def test_memory_that_dies_once_a_gpu_is_lost(
    both: tuple[CudaDevice, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody is there to be told."""
    x, (on, _) = np.arange(LEAST / 8), both
    double = wf.jit(lambda a: a * 2)
    with wf.config(devices=[on.name]):
        for _ in range(3):
            double(x)
    monkeypatch.setattr(pretended_cuda.Context, "lost", "CUDA_ERROR_ILLEGAL_ADDRESS")
    with mock.patch("sys.unraisablehook") as told:
        del x
    assert not told.called
    monkeypatch.setattr(pretended_cuda.Context, "lost", "")


def test_memory_is_given_back_by_any_thread(both: tuple[CudaDevice, ...]) -> None:
    x = np.arange(5000.0)
    with wf.config(devices=[both[1].name]):
        np.testing.assert_array_equal(wf.jit(lambda a: a * 2)(x), 2 * x)
    thread = threading.Thread(target=both[1].trim)
    with mock.patch("threading.excepthook") as told:
        thread.start()
        thread.join()
    assert not told.called
    assert both[1].used == 0


def test_one_that_is_broken_hides_no_other() -> None:
    devices = [pretended_cuda.Device(number) for number in range(3)]
    del devices[1].properties
    found = cuda.usable(
        devices, pretended_cuda.core, pretended_cuda.Driver(), 0, pretended_cuda.CUDAError,
        pretended_cuda.handle_return,
    )  # fmt: skip
    assert [device.name for device in found] == ["cuda:0", "cuda:2"]


def test_nothing_is_made_on_one_that_is_not_used(both: tuple[CudaDevice, ...]) -> None:
    one, other = both
    error = pretended_cuda.CUDAError("CUDA_ERROR_DEVICE_UNAVAILABLE")
    double, x = wf.jit(lambda a: a * 2), np.arange(5000.0)
    with mock.patch.object(other.device, "set_current", side_effect=error) as entered:
        assert other.describe().startswith("cuda:1")
        with wf.config(devices=[one.name]):
            np.testing.assert_array_equal(double(x), 2 * x)
        assert not entered.called
        with (
            wf.config(devices=[other.name]),
            pytest.raises(DeviceError, match="cuda:1 failed at the choice of it"),
        ):
            double(x)
