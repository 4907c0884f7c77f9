"""Files through a device: disk, staging buffers, the device's memory, and back, under limits."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from devices.harness import device

import weft as wf

LENGTH = 1 << 20
CAP = 1 << 20
LIMIT = (24 << 20) + (6 << 20)  # what the program itself is given, and six MiB of buffers


def test_a_file_goes_through_a_device_into_a_file(tmp_path: Path) -> None:
    on = device()
    rng = np.random.default_rng(1)
    a, b = rng.random((2, LENGTH), np.float32)
    wf.store(wf.asarray(a), tmp_path / "a.zarr", chunks=(LENGTH // 16,))
    np.save(tmp_path / "b.npy", b)
    before = on.statistics.bytes_in, on.statistics.bytes_out
    with wf.config(devices=[on.name], memory_limit={"cpu": LIMIT, on.name: CAP}, slots=2):
        total = wf.open(tmp_path / "a.zarr") * 2 + wf.open(tmp_path / "b.npy")
        on.trim()
        on.statistics.peak_bytes = 0
        with wf.profile() as measured:
            wf.store(total, tmp_path / "c.npy")
    np.testing.assert_array_equal(np.load(tmp_path / "c.npy"), a * 2 + b)
    assert 0 < on.statistics.peak_bytes <= CAP
    queues = {event.queue for event in measured.events}
    assert {"read", f"{on.name} in", f"{on.name} compute", f"{on.name} out", "write"} <= queues
    moved = on.statistics.bytes_in - before[0], on.statistics.bytes_out - before[1]
    assert moved[1] == LENGTH * 4
    assert 0 <= moved[0] - 2 * LENGTH * 4 < 4096  # the records of failures besides


def test_files_are_sorted_in_runs_by_the_host(tmp_path: Path) -> None:
    on = device()
    x = np.random.default_rng(2).standard_normal(1_000_003)
    np.save(tmp_path / "x.npy", x)
    with wf.config(devices=[on.name], memory_limit={"cpu": "28 MiB", on.name: CAP}):
        opened = wf.open(tmp_path / "x.npy")
        wf.store(wf.sort(opened * 2), tmp_path / "y.npy")
        wf.store(wf.argsort(opened), tmp_path / "order.npy")
    np.testing.assert_array_equal(np.load(tmp_path / "y.npy"), np.sort(x) * 2)
    np.testing.assert_array_equal(np.load(tmp_path / "order.npy"), np.argsort(x, kind="stable"))
