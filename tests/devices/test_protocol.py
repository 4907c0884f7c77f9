"""What is the same for all devices: the CPU, parts of it, and those with memory of their own."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
from devices.harness import NAME
from devices.harness import device as accelerator
from devices.test_spread import small_shares

import weft as wf
from weft.config import settings
from weft.errors import ArgumentError
from weft.launch.device import find
from weft.runtime.devices.cpu import CpuDevice, parts

RNG = np.random.default_rng(47)
EVERY = ["cpu", *parts(), NAME]

two_cores = pytest.mark.skipif(len(parts()) < 2, reason="one core alone")


@pytest.mark.parametrize("name", EVERY)
def test_a_device_is_found_with_its_settings(name: str) -> None:
    if name == NAME:
        accelerator()
    limits = {"cpu": "300 MiB", name: "20 MiB"}
    with wf.config(devices=[name], memory_limit=limits, threads=1, slots=3):
        found = find(name, settings())
        assert found is find(name, settings())
    assert (found.name, found.limit, found.threads) == (name, 20 << 20, 1)
    assert found.describe().startswith(f"{name}: ")
    if not isinstance(found, CpuDevice):
        assert found.slots == 3


def test_the_limit_of_the_host_is_that_of_its_parts() -> None:
    with wf.config(memory_limit={"cpu": "30 MiB", "cpu:0": "40 MiB"}):
        assert find("cpu:0", settings()).limit == 30 << 20
    with wf.config(memory_limit="10 MiB"):
        assert find("cpu:0", settings()).limit == 10 << 20


def test_there_is_no_such_device() -> None:
    with pytest.raises(ArgumentError, match="no device 'cuda:99'"):
        find("cuda:99", settings())


@pytest.mark.parametrize("name", ["cpu", NAME])
def test_launches_are_counted(name: str) -> None:
    if name == NAME:
        accelerator()
    a = RNG.random(1000)
    function = wf.jit(lambda x: wf.sqrt(x) + x)
    with wf.config(devices=[name], interpret_below=0):
        found = find(name, settings())
        function(a)  # compiled
        for calls in range(1, 5):  # later ones are kept, and recorded
            before = found.statistics.launches
            np.testing.assert_allclose(function(a), np.sqrt(a) + a)
            assert found.statistics.launches == before + 1, calls


@pytest.mark.skipif(find_spec("zarr") is None, reason="no zarr")
def test_boxes_are_counted(tmp_path: Path) -> None:
    """One launch for each."""
    a = RNG.random((4000, 1000))
    wf.store(wf.asarray(a), tmp_path / "a.zarr", chunks=(100, 1000))
    with wf.config(memory_limit="30 MiB"):
        y = wf.sum(wf.sqrt(wf.open(tmp_path / "a.zarr")), axis=1)
        (stage,) = wf.explain(y).plan.stages
        assert stage.boxes.count > 2
        before = find("cpu", settings()).statistics.launches
        np.testing.assert_allclose(y, np.sqrt(a).sum(1))
    assert find("cpu", settings()).statistics.launches == before + stage.boxes.count


@two_cores
def test_parts_run_the_same_code_and_count_for_themselves() -> None:
    names = list(parts()[:2])
    found = [find(name, settings()) for name in names]
    assert all(isinstance(each, CpuDevice) for each in found)
    before = [each.statistics.launches for each in found]
    whole = find("cpu", settings()).statistics
    a = RNG.random((3000, 700))
    with small_shares(), wf.config(devices=names, interpret_below=0):
        y = wf.sqrt(wf.asarray(a)) * 2
        (stage,) = wf.explain(y).plan.stages
        loaded = [share.code._loaded for share in stage.shares]
        assert [each.device for each in loaded] == found
        assert loaded[0].code is loaded[1].code
        others = whole.launches
        np.testing.assert_allclose(y, np.sqrt(a) * 2)
    assert whole.launches == others
    done = [each.statistics.launches - count for each, count in zip(found, before, strict=True)]
    assert sum(done) > 0  # which of them takes boxes first may take all
