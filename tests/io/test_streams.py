"""Whole programs from every kind of source to every kind of sink, under a small limit."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
import zarr
from slow import some_slow

import weft as wf
from weft.errors import MemoryLimitError, SinkError, SourceError, WeftError

SHAPE = (8192, 1024)  # 32 MiB of float32
LIMIT = "44 MiB"  # of which Weft keeps 24 for itself


@pytest.fixture(scope="module")
def data() -> np.ndarray:
    return np.random.default_rng(8).normal(size=SHAPE).astype("f4")


SOURCES: dict[str, Callable[[Path, np.ndarray], Any]] = {}


def source(make: Callable[[Path, np.ndarray], Any]) -> Callable[[Path, np.ndarray], Any]:
    SOURCES[make.__name__] = make
    return make


@source
def npy(path: Path, data: np.ndarray) -> Any:
    np.save(path / "in.npy", data)
    return wf.open(path / "in.npy")


@source
def npy_big_endian(path: Path, data: np.ndarray) -> Any:
    np.save(path / "in.npy", data.astype(">f4"))
    return wf.open(path / "in.npy")


@source
def npy_column_major(path: Path, data: np.ndarray) -> Any:
    np.save(path / "in.npy", np.asfortranarray(data))
    return wf.open(path / "in.npy")


@source
def memmap(path: Path, data: np.ndarray) -> Any:
    data.tofile(path / "raw")
    return wf.asarray(np.memmap(path / "raw", "f4", "r", shape=SHAPE))


@source
def zarr_plain(path: Path, data: np.ndarray) -> Any:
    array = zarr.create_array(
        path / "in.zarr", shape=SHAPE, chunks=(256, 300), dtype="f4", compressors=None
    )
    array[:] = data
    return wf.open(path / "in.zarr")


@source
def zarr_compressed(path: Path, data: np.ndarray) -> Any:
    zarr.create_array(path / "in.zarr", shape=SHAPE, chunks=(256, 300), dtype="f4")[:] = data
    return wf.open(path / "in.zarr")


@source
def hdf5(path: Path, data: np.ndarray) -> Any:
    with h5py.File(path / "in.h5", "w") as file:
        file["x"] = data
    return wf.open(path / "in.h5", "x")


@source
def hdf5_chunked(path: Path, data: np.ndarray) -> Any:
    with h5py.File(path / "in.h5", "w") as file:
        file.create_dataset("x", data=data, chunks=(200, 256), compression="lzf")
    return wf.open(path / "in.h5", "x")


@source
def stack(path: Path, data: np.ndarray) -> Any:
    for number in range(16):
        np.save(path / f"part-{number:02}.npy", data[number * 512 : (number + 1) * 512])
    return wf.open(str(path / "part-*.npy"))


@source
def any_object(path: Path, data: np.ndarray) -> Any:
    class Wrapped:
        shape, dtype = data.shape, data.dtype

        def __getitem__(self, key: Any) -> np.ndarray:
            return data[key]

    return wf.open(Wrapped())


TARGETS = {
    "npy": lambda path: path / "out.npy",
    "zarr": lambda path: path / "out.zarr",
    "hdf5": lambda path: f"{path}/out.h5::group/y",
    "memory": lambda path: np.zeros(SHAPE, "f4"),
    "memmap": lambda path: np.memmap(path / "out", "f4", "w+", shape=SHAPE),
}


def read_back(target: Any) -> np.ndarray:
    if isinstance(target, np.ndarray):
        return target
    path, _, component = str(target).partition("::")
    out = np.empty(SHAPE, "f4")
    wf.store(wf.open(path, component or None), out)
    return out


@pytest.mark.parametrize("name", SOURCES)
def test_from(name: str, tmp_path: Path, data: np.ndarray) -> None:
    x = SOURCES[name](tmp_path, data)
    expected = data.reshape(x.shape)  # a stack has one dimension more
    sums = np.empty(expected.shape[1:])
    with wf.config(memory_limit=LIMIT):
        wf.store([x * 2 + 1, wf.sum(x, axis=0, dtype=wf.float64)], [tmp_path / "out.npy", sums])
    np.testing.assert_array_equal(np.load(tmp_path / "out.npy"), expected * 2 + 1)
    np.testing.assert_allclose(sums, expected.sum(0, dtype="f8"), rtol=1e-9, atol=1e-6)


def test_files_end_to_end(tmp_path: Path, data: np.ndarray) -> None:
    stack(tmp_path, data)
    parts = [wf.open(path) for path in sorted(tmp_path.glob("part-*.npy"))]
    with wf.config(memory_limit=LIMIT):
        wf.store(wf.concat(parts) + 1, tmp_path / "out.npy")
    np.testing.assert_array_equal(np.load(tmp_path / "out.npy"), data + 1)


@pytest.mark.parametrize("name", TARGETS)
def test_to(name: str, tmp_path: Path, data: np.ndarray) -> None:
    x = npy(tmp_path, data)
    target = TARGETS[name](tmp_path)
    with wf.config(memory_limit=LIMIT):
        wf.store(x - 3, target)
    np.testing.assert_array_equal(read_back(target), data - 3)


def test_to_chunks_of_any_extent(tmp_path: Path, data: np.ndarray) -> None:
    x = npy(tmp_path, data)
    with wf.config(memory_limit=LIMIT):
        wf.store(x * x, tmp_path / "out.zarr", chunks=(300, 200))
    array = zarr.open_array(tmp_path / "out.zarr", mode="r")
    assert array.chunks == (300, 200)
    np.testing.assert_array_equal(array[:], data * data)


def test_into_a_region(tmp_path: Path, data: np.ndarray) -> None:
    np.save(tmp_path / "out.npy", np.zeros((SHAPE[0] + 8, SHAPE[1]), "f4"))
    region = (slice(5, 5 + SHAPE[0]),)
    wf.store(npy(tmp_path, data) + 1, tmp_path / "out.npy", regions=region, mode="r+")
    found = np.load(tmp_path / "out.npy")
    np.testing.assert_array_equal(found[5:-3], data + 1)
    assert not found[:5].any()
    assert not found[-3:].any()


def test_several_programs_of_one_file_agree(tmp_path: Path, data: np.ndarray) -> None:
    x = npy(tmp_path, data)
    with wf.config(memory_limit=LIMIT):
        wf.store([x + 1, x.T], [tmp_path / "a.zarr", tmp_path / "b.npy"])
    np.testing.assert_array_equal(read_back(tmp_path / "a.zarr"), data + 1)
    np.testing.assert_array_equal(np.load(tmp_path / "b.npy"), data.T)


# What goes wrong in the middle


def names(path: Path) -> set[str]:
    return {p.name for p in path.iterdir()}


def test_source_that_shrinks(tmp_path: Path, data: np.ndarray) -> None:
    x = npy(tmp_path, data)
    os.truncate(tmp_path / "in.npy", 1 << 20)
    with pytest.raises(SourceError, match="truncated"), wf.config(memory_limit=LIMIT):
        wf.store(x + 1, tmp_path / "out.npy")
    assert names(tmp_path) == {"in.npy"}


@pytest.mark.parametrize("suffix", ["npy", "zarr", "h5"])
def test_source_that_fails_in_the_middle(suffix: str, tmp_path: Path, data: np.ndarray) -> None:
    class Failing:
        shape, dtype = data.shape, data.dtype

        def __getitem__(self, key: Any) -> np.ndarray:
            if key[0].stop > 6000:
                raise RuntimeError("the tape is torn")
            return data[key]

    with pytest.raises(SourceError, match="the tape is torn"), wf.config(memory_limit=LIMIT):
        wf.store(wf.open(Failing()) + 1, tmp_path / f"out.{suffix}")
    assert names(tmp_path) == set()


def test_sink_that_fails_in_the_middle(tmp_path: Path, data: np.ndarray) -> None:
    class Failing:
        shape, dtype = data.shape, data.dtype

        def __setitem__(self, key: Any, value: np.ndarray) -> None:
            raise RuntimeError("the tape is full")

    x = npy(tmp_path, data)
    with pytest.raises(SinkError, match="the tape is full"), wf.config(memory_limit=LIMIT):
        wf.store([x + 1, x + 2], [tmp_path / "out.npy", Failing()])
    assert names(tmp_path) == {"in.npy"}


def test_targets_are_checked_before_anything_runs(tmp_path: Path, data: np.ndarray) -> None:
    x = npy(tmp_path, data)
    (tmp_path / "old.npy").write_text("precious")
    with pytest.raises(SinkError, match="already exists"):
        wf.store([x + 1, x + 2], [tmp_path / "out.npy", tmp_path / "old.npy"])
    with pytest.raises(WeftError):
        wf.store([x + 1, x + 2], [tmp_path / "out.npy", np.zeros(3)])
    assert names(tmp_path) == {"in.npy", "old.npy"}


def test_limit_too_small(tmp_path: Path, data: np.ndarray) -> None:
    x = npy(tmp_path, data)
    with pytest.raises(MemoryLimitError), wf.config(memory_limit="1 KiB"):
        wf.store(x + 1, tmp_path / "out.npy")
    assert names(tmp_path) == {"in.npy"}


SLOW = """
import sys, time
import numpy as np
import weft as wf
class Slow:
    shape, dtype = (4096, 1024), np.dtype("f4")
    def __getitem__(self, key):
        print("read", flush=True)
        time.sleep(0.02)
        return np.ones([side.stop - side.start for side in key], "f4")
resume = sys.argv[2] == "True"
options = {"chunks": (64, 1024)} if sys.argv[1].endswith("zarr") else {}
with wf.config(memory_limit="25 MiB"):
    wf.store(wf.open(Slow()) + 1, sys.argv[1], resume=resume, **options)
print("done")
"""


def start(*arguments: str) -> subprocess.Popen[str]:
    """Start the slow program, and wait until it is in the middle."""
    process = subprocess.Popen(
        [sys.executable, "-c", SLOW, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        text=True,
    )  # fmt: skip
    assert process.stdout is not None
    for _ in range(8):
        assert process.stdout.readline() == "read\n", process.communicate()
    return process


@pytest.mark.parametrize("suffix", ["npy", "zarr", "h5"])
def test_interrupted(suffix: str, tmp_path: Path) -> None:
    process = start(f"{tmp_path}/out.{suffix}", "False")
    asked = time.monotonic()
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=20)
    assert time.monotonic() - asked < 3  # a second, were the machine idle
    assert "KeyboardInterrupt" in errors
    assert names(tmp_path) == set()


@pytest.mark.parametrize("suffix", ["npy", "zarr", "h5"])
def test_killed(suffix: str, tmp_path: Path, data: np.ndarray) -> None:
    process = start(f"{tmp_path}/out.{suffix}", "False")
    process.kill()
    process.communicate(timeout=20)
    assert not (tmp_path / f"out.{suffix}").exists()
    wf.store(wf.asarray(data) + 1, tmp_path / f"out.{suffix}")
    assert names(tmp_path) == {f"out.{suffix}"}


@pytest.mark.parametrize("how", some_slow([signal.SIGINT, signal.SIGKILL], [signal.SIGINT]))
def test_resumed(how: signal.Signals, tmp_path: Path) -> None:
    target = f"{tmp_path}/out.zarr"
    process = start(target, "True")
    time.sleep(0.1)
    process.send_signal(how)
    process.communicate(timeout=20)
    assert not os.path.exists(target)
    again = subprocess.run(
        [sys.executable, "-c", SLOW, target, "True"], capture_output=True, text=True, check=True
    )
    assert again.stdout.endswith("done\n")
    fresh = subprocess.run(
        [sys.executable, "-c", SLOW, target + ".zarr", "True"], capture_output=True, text=True,
        check=True,
    )  # fmt: skip
    assert again.stdout.count("read") < fresh.stdout.count("read")
    array = zarr.open_array(target, mode="r")
    assert (array[:] == 2).all()
