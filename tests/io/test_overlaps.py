"""Targets that are also read, or written twice: nothing is overwritten before it is read."""

from __future__ import annotations

import mmap
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pytest

import weft as wf
from weft.errors import ArgumentError, MemoryLimitError
from weft.io.hdf5 import sink_of_dataset
from weft.io.held import overlap
from weft.io.mapped import mapped_part
from weft.io.memory import MemorySink
from weft.io.parts import Part
from weft.launch import waiting

N = 100_000
LARGE = 6_000_000  # more than 40 MiB


def turned(x: Any) -> Any:
    return x[::-1] * 2


def test_array_over_itself() -> None:
    data = np.arange(float(N))
    expected = turned(data)
    wf.store(turned(wf.asarray(data)), data)
    np.testing.assert_array_equal(data, expected)


def test_part_of_an_array_over_another() -> None:
    data = np.arange(float(N))
    expected = data.copy()
    expected[1:] = data[:-1] + 1
    wf.store(wf.asarray(data)[:-1] + 1, data[1:])
    np.testing.assert_array_equal(data, expected)


def test_interleaved_parts_need_no_memory() -> None:
    data = np.arange(2.0 * LARGE)
    expected = data.copy()
    expected[1::2] = turned(data[::2])
    with wf.config(memory_limit="40 MiB"):
        wf.store(turned(wf.asarray(data[::2])), data[1::2])
    np.testing.assert_array_equal(data, expected)


def saved(path: Path, kind: str, data: np.ndarray) -> str:
    target = str(path / f"data.{kind}")
    wf.store(wf.asarray(data), target)
    return target


@pytest.mark.parametrize("kind", ["npy", "zarr", "h5"])
def test_file_over_itself(tmp_path: Path, kind: str) -> None:
    pytest.importorskip({"h5": "h5py"}.get(kind, "numpy"))
    data = np.arange(float(N))
    target = saved(tmp_path, kind, data)
    wf.store(turned(wf.open(target)), target, mode="r+")
    np.testing.assert_array_equal(wf.open(target).numpy(), turned(data))


def test_memmap_over_the_file_it_maps(tmp_path: Path) -> None:
    data = np.arange(float(N))
    target = saved(tmp_path, "npy", data)
    wf.store(turned(wf.open(target)), np.load(target, mmap_mode="r+"))
    np.testing.assert_array_equal(np.load(target), turned(data))


def test_dataset_over_itself(tmp_path: Path) -> None:
    h5py = pytest.importorskip("h5py")
    data = np.arange(float(N))
    with h5py.File(tmp_path / "data.h5", "w") as file:
        file["x"] = data
        wf.store(turned(wf.open(file["x"])), file["x"])
        np.testing.assert_array_equal(file["x"][:], turned(data))


ROWS = np.arange(400_000.0).reshape(400, -1)
TURNED = ROWS[::-1] + 1


def mapped(path: Path, mode: str = "r") -> Any:
    return np.load(path, mmap_mode=mode)


@pytest.mark.parametrize("kind", ["file", "map", "view of a map", "copy-on-write map"])
@pytest.mark.parametrize("into", ["file", "map", "view of a map"])
def test_a_file_over_itself_under_another_name(tmp_path: Path, kind: str, into: str) -> None:
    source, target = tmp_path / "source.npy", tmp_path / "target.npy"
    np.save(source, ROWS)
    target.hardlink_to(source)
    x = {
        "file": lambda: wf.open(source),
        "map": lambda: wf.asarray(mapped(source)),
        "view of a map": lambda: wf.asarray(np.asarray(mapped(source))),
        "copy-on-write map": lambda: wf.asarray(mapped(source, "c")),
    }[kind]()
    if into == "file":
        wf.store(x[::-1] + 1, target, mode="r+")
    else:
        array = mapped(target, "r+")
        wf.store(x[::-1] + 1, np.asarray(array) if into == "view of a map" else array)
    np.testing.assert_array_equal(np.load(source), TURNED)


def test_a_map_into_another_of_the_same_file(tmp_path: Path) -> None:
    source = tmp_path / "source.npy"
    np.save(source, ROWS)
    turn = wf.jit(lambda x: x[::-1] + 1)
    turn(np.array(mapped(source)), out=np.empty_like(ROWS))
    turn(mapped(source), out=mapped(source, "r+"))
    np.testing.assert_array_equal(np.load(source), TURNED)


def test_a_kernel_on_two_maps_of_a_file(tmp_path: Path) -> None:
    @wf.kernel
    def shift(x: Any, y: Any) -> None:
        for i in range(1, x.shape[0]):
            y[i] = x[i - 1] + 1

    source = tmp_path / "source.npy"
    for _ in range(2):  # the second call on arrays that are apart would go the short way
        shift(np.zeros(1000), np.zeros(1000))
    np.save(source, np.zeros(1000))
    with pytest.warns(UserWarning, match="overlap"):
        shift(mapped(source), mapped(source, "r+"))
    np.testing.assert_array_equal(np.load(source), np.arange(1000.0))


def test_what_is_written_to_a_private_map_is_in_no_file(tmp_path: Path) -> None:
    source = tmp_path / "source.npy"
    np.save(source, ROWS)
    first, second = mapped(source, "c"), mapped(source, "c")
    x = wf.open(source)
    wf.store([x[::-1] + 1, x[::-1] + 2], [first, second])
    np.testing.assert_array_equal(first, TURNED)
    np.testing.assert_array_equal(second, TURNED + 1)
    np.testing.assert_array_equal(np.load(source), ROWS)


def test_maps_of_no_file_are_memory() -> None:
    anonymous = mmap.mmap(-1, 1 << 16, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    assert mapped_part(np.frombuffer(anonymous, np.uint8)) is None


def test_a_file_over_the_dataset_that_it_holds(tmp_path: Path) -> None:
    h5py = pytest.importorskip("h5py")
    path = tmp_path / "data.h5"
    with h5py.File(path, "w") as file:
        file["x"], file["y"] = ROWS, ROWS
    x, y = wf.open(path, component="x"), wf.open(path, component="y")
    with h5py.File(path, "r+") as file:
        wf.store(x[::-1] + 1, file["x"])
        assert not overlap([sink_of_dataset(file["x"])], [y._node.value])
        np.testing.assert_array_equal(file["x"][:], TURNED)


@pytest.mark.parametrize("kind", ["npy", "zarr", "memmap"])
def test_what_does_not_fit_waits_in_a_scratch_file(kind: str, tmp_path: Path) -> None:
    data = np.arange(600_000.0).reshape(600, -1)  # 4.6 MiB; 24 MiB are for the program
    path = saved(tmp_path, "npy" if kind == "memmap" else kind, data)
    target = np.load(path, mmap_mode="r+") if kind == "memmap" else path
    mode = {} if kind == "memmap" else {"mode": "r+"}
    result = turned(wf.open(path))
    with wf.config(memory_limit="27 MiB"):
        told = str(wf.explain(wf.store, result, target, **mode))
        assert "a scratch file, and then to its place" in told
        wf.store(result, target, **mode)
    np.testing.assert_array_equal(wf.open(path).numpy(), turned(data))


def test_what_does_not_fit_even_so_is_refused_and_nothing_is_written(tmp_path: Path) -> None:
    data = np.arange(float(N)).reshape(10, -1)
    target = saved(tmp_path, "npy", data)
    with wf.config(memory_limit="1 MiB"), pytest.raises(MemoryLimitError):
        wf.store(turned(wf.open(target)), target, mode="r+")
    np.testing.assert_array_equal(np.load(target), data)


@pytest.mark.parametrize("chunks", [None, (3, 2)])
def test_what_has_waited_is_brought_in_whole_chunks(
    chunks: tuple[int, int] | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(waiting, "_SLAB", 100)
    value = np.arange(20.0).reshape(10, 2)
    sink = MemorySink(np.zeros((10, 2)))
    sink.chunks = chunks
    written = []
    with mock.patch.object(sink, "write", lambda box, data: written.append((box[0], data))):
        waiting.bring(sink, value)
    assert np.array_equal(np.concatenate([data for _, data in written]), value)
    assert [box.start for box, _ in written] == [0, 6]
    assert sum(box.stop - box.start for box, _ in written) == 10


def test_replacing_the_file_that_is_read_needs_no_memory(tmp_path: Path) -> None:
    data = np.arange(float(LARGE))
    target = saved(tmp_path, "npy", data)
    with wf.config(memory_limit="40 MiB"):
        wf.store(turned(wf.open(target)), target, mode="w")
    np.testing.assert_array_equal(np.load(target), turned(data))


def test_targets_that_overlap_each_other_are_refused() -> None:
    space = np.zeros(10)
    x = wf.asarray(np.arange(8.0))
    with pytest.raises(ArgumentError, match=r"target 1 .* overlaps"):
        wf.store([x * 1, x + 1], [space[:8], space[1:9]])
    assert not space.any()


def test_parts_of_files() -> None:
    def meet(left: Any, right: Any) -> bool:
        return overlap([_Holder(left)], [_Holder(right)])

    assert meet(Part("a", 0, 10), Part("a", 9, 20))
    assert not meet(Part("a", 0, 10), Part("a", 10, 20))
    assert not meet(Part("a", 0, 10), Part("b", 0, 10))
    assert meet(Part("a"), Part("a", 10, 20))
    assert not meet(Part("a"), np.zeros(3))


class _Holder:
    def __init__(self, part: Any) -> None:
        self.held = (part,)
