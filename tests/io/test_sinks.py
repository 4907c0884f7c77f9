"""Every kind of sink takes an array box by box, and publishes it whole or not at all."""

from __future__ import annotations

import errno
import fcntl
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
import zarr
from hypothesis import given, settings
from hypothesis import strategies as st

from weft.errors import (
    ArgumentError,
    ArgumentTypeError,
    DTypeError,
    InternalError,
    ShapeError,
    SinkError,
)
from weft.io.files import whole
from weft.io.open import open_source
from weft.io.sinks import open_sink
from weft.plan.protocols import Box, Sink

SHAPE = (9, 6, 250)
DATA = np.random.default_rng(5).normal(size=SHAPE).astype("float32")
CHUNKS = (4, 6, 125)


class Wrapped:
    def __init__(self) -> None:
        self.data, self.shape, self.dtype = np.zeros(SHAPE, "f4"), SHAPE, np.dtype("f4")

    def __setitem__(self, key: Any, value: np.ndarray) -> None:
        self.data[key] = value

    def __getitem__(self, key: Any) -> np.ndarray:
        return self.data[key]


def existing_npy(path: Path, order: str = "C", dtype: str = "<f4") -> Path:
    np.save(path / "a.npy", np.zeros(SHAPE, dtype, order=order))
    return path / "a.npy"


def existing_hdf5(path: Path, **options: Any) -> str:
    with h5py.File(path / "a.h5", "w") as file:
        file["other"] = np.arange(5)
        file.create_dataset("data", SHAPE, "f4", **options)
    return f"{path}/a.h5::data"


def existing_zarr(path: Path, **options: Any) -> zarr.Array:
    return zarr.create_array(
        path / "a.zarr", shape=SHAPE, dtype="f4", **{"chunks": CHUNKS, **options}
    )


def hdf5_beside_others(path: Path) -> str:
    with h5py.File(path / "a.h5", "w") as file:
        file["other"] = np.arange(5)
    return f"{path}/a.h5::group/data"


MAKERS: dict[str, Callable[[Path], tuple[Any, dict[str, Any]]]] = {
    "npy": lambda path: (path / "a.npy", {}),
    "npy in place": lambda path: (existing_npy(path), {"mode": "r+"}),
    "npy column-major": lambda path: (existing_npy(path, "F"), {"mode": "r+"}),
    "npy big-endian": lambda path: (existing_npy(path, "C", ">f4"), {"mode": "r+"}),
    "npy replaced": lambda path: (existing_npy(path), {"mode": "w"}),
    "memory": lambda path: (np.zeros(SHAPE, "f4"), {}),
    "memory swapped": lambda path: (np.zeros(SHAPE, ">f4"), {}),
    "memmap": lambda path: (np.memmap(path / "raw", "f4", "w+", shape=SHAPE), {}),
    "zarr": lambda path: (path / "a.zarr", {"chunks": CHUNKS}),
    "zarr default": lambda path: (path / "a.zarr", {}),
    "zarr resumable": lambda path: (path / "a.zarr", {"chunks": CHUNKS, "resume": True}),
    "zarr component": lambda path: (f"{path}/a.zarr::group/x", {"chunks": CHUNKS}),
    "zarr in place": lambda path: (existing_zarr(path, compressors=None).store.root,
                                   {"mode": "r+"}),
    "zarr compressed": lambda path: (existing_zarr(path).store.root, {"mode": "r+"}),
    "zarr replaced": lambda path: (existing_zarr(path).store.root, {"mode": "w"}),
    "zarr object": lambda path: (existing_zarr(path), {}),
    "zarr sharded": lambda path: (existing_zarr(path, chunks=(2, 6, 25), shards=CHUNKS), {}),
    "zarr column-major": lambda path: (existing_zarr(path, zarr_format=2, order="F",
                                                     compressors=None), {}),
    "hdf5": lambda path: (path / "a.h5", {"component": "data"}),
    "hdf5 chunked": lambda path: (path / "a.h5", {"chunks": CHUNKS}),
    "hdf5 beside others": lambda path: (hdf5_beside_others(path), {}),
    "hdf5 chunked beside others": lambda path: (hdf5_beside_others(path), {"chunks": CHUNKS}),
    "hdf5 in place": lambda path: (existing_hdf5(path), {"mode": "r+"}),
    "hdf5 replaced": lambda path: (existing_hdf5(path), {"mode": "w"}),
    "hdf5 chunked in place": lambda path: (existing_hdf5(path, chunks=CHUNKS), {"mode": "r+"}),
    "hdf5 object": lambda path: (h5py.File(existing_hdf5(path).split("::")[0], "r+")["data"], {}),
    "object": lambda path: (Wrapped(), {}),
}  # fmt: skip


def boxes(sink: Sink) -> Iterator[Box]:
    """Boxes aligned to the sink's chunks (or awkward ones) that cover it."""
    steps = sink.chunks or (4, 5, 249)
    for row in range(0, SHAPE[0], steps[0]):
        for middle in range(0, SHAPE[1], steps[1]):
            for column in range(0, SHAPE[2], steps[2]):
                corner = zip((row, middle, column), steps, SHAPE, strict=True)
                yield tuple(slice(low, min(low + step, n)) for low, step, n in corner)


def read_back(target: Any, component: str | None = None) -> np.ndarray:
    if isinstance(target, (str, Path)) and "::" in str(target):
        target, component = str(target).split("::")
    out = np.empty(SHAPE, "f4")
    open_source(target, component).read(whole(SHAPE), out)
    return out


@pytest.mark.parametrize("style", ["contiguous", "strided", "transposed", "threads"])
@pytest.mark.parametrize("name", MAKERS)
def test_written(name: str, style: str, tmp_path: Path) -> None:
    target, options = MAKERS[name](tmp_path)
    sink = open_sink(target, SHAPE, "f4", **options)
    assert sink.shape == SHAPE
    assert sink.dtype == np.dtype("f4")
    if style == "strided":
        data = np.repeat(np.repeat(DATA, 2, axis=2), 2, axis=1)[:, ::2, ::2]
    elif style == "transposed":
        data = np.asfortranarray(DATA)
    else:
        data = DATA
    pieces = list(boxes(sink))
    assert not any(map(sink.done, pieces))
    if style == "threads":
        with ThreadPoolExecutor(4) as pool:
            list(pool.map(lambda box: sink.write(box, DATA[box]), pieces))
    else:
        for box in pieces:
            sink.write(box, data[box])
    sink.finish()
    np.testing.assert_array_equal(read_back(target, options.get("component")), DATA)
    assert not [p for p in tmp_path.rglob("*") if "weft" in p.name or "unfinished" in p.name]
    if name.startswith("hdf5"):
        check_neighbours(name, tmp_path)


def check_neighbours(name: str, path: Path) -> None:
    with h5py.File(path / "a.h5", "r") as file:
        if name not in ("hdf5", "hdf5 chunked"):
            np.testing.assert_array_equal(file["other"], np.arange(5))
        found: list[str] = []
        file.visit(found.append)
        assert not [n for n in found if "weft" in n]


@pytest.mark.parametrize("name", ["npy", "zarr", "zarr component", "hdf5", "hdf5 chunked"])
def test_other_libraries_read_it(name: str, tmp_path: Path) -> None:
    target, options = MAKERS[name](tmp_path)
    for dtype in ("?", "u1", "i8", "f8", "c8", "c16"):
        values = (DATA * 100).astype(dtype)
        sink = open_sink(target, SHAPE, dtype, **{**options, "mode": "w"})
        for box in boxes(sink):
            sink.write(box, values[box])
        sink.finish()
        if name == "npy":
            found = np.load(target)
        elif name.startswith("zarr"):
            path, _, component = str(target).partition("::")
            found = zarr.open(path, path=component, mode="r")[...]
        else:
            with h5py.File(target, "r") as file:
                found = file["data"][...]
        assert found.dtype == np.dtype(dtype)
        np.testing.assert_array_equal(found, values)


@pytest.mark.parametrize("shape", [(), (0,), (2, 0), (1,)])
@pytest.mark.parametrize("suffix", ["npy", "zarr", "h5"])
def test_small_shapes(suffix: str, shape: tuple[int, ...], tmp_path: Path) -> None:
    path = tmp_path / f"a.{suffix}"
    sink = open_sink(path, shape, "i8")
    sink.write(whole(shape), np.full(shape, 7))
    sink.finish()
    out = np.zeros(shape, "i8")
    open_source(path).read(whole(shape), out)
    np.testing.assert_array_equal(out, np.full(shape, 7))


@settings(max_examples=40, deadline=None, derandomize=True)
@given(data=st.data())
def test_any_chunks(tmp_path_factory: pytest.TempPathFactory, data: Any) -> None:
    path = tmp_path_factory.mktemp("chunks") / "a.zarr"
    shape = tuple(data.draw(st.lists(st.sampled_from([1, 2, 5, 17, 130]), min_size=1, max_size=3)))
    chunks = tuple(data.draw(st.integers(n // 4 + 1, n + 2)) for n in shape)
    values = np.arange(1, 1 + np.prod(shape), dtype="f8").reshape(shape)
    sink = open_sink(path, shape, "f8", chunks=chunks)
    cut = -(-shape[0] // chunks[0]) // 2 * chunks[0]
    rest = whole(shape)[1:]
    for side in (slice(0, cut), slice(cut, shape[0])):
        sink.write((side, *rest), values[side])
    sink.finish()
    np.testing.assert_array_equal(zarr.open_array(path, mode="r")[...], values)


NEW = ["npy", "zarr", "zarr component", "hdf5", "hdf5 chunked", "hdf5 beside others"]


@pytest.mark.parametrize("name", NEW)
def test_nothing_under_the_final_name_before_the_end(name: str, tmp_path: Path) -> None:
    target, options = MAKERS[name](tmp_path)
    sink = open_sink(target, SHAPE, "f4", **options)
    sink.write(next(boxes(sink)), DATA[next(boxes(sink))])
    path, _, component = str(target).partition("::")
    if component and path.endswith(".h5"):
        with h5py.File(path, "r") as file:
            assert component not in file
    else:
        assert not os.path.exists(os.path.join(path, component))
    sink.abort()
    left = {p.name for p in tmp_path.rglob("*")}
    assert left <= {"a.h5", "a.zarr", "zarr.json", "group"}
    if path.endswith(".h5") and os.path.exists(path):
        with h5py.File(path, "r") as file:
            assert set(file) <= {"other", "group"}
            assert not list(file.get("group", {}))


@pytest.mark.parametrize("name", ["npy", "zarr", "hdf5"])
def test_existing_target(name: str, tmp_path: Path) -> None:
    for number in (1, 2):
        target, options = MAKERS[name](tmp_path)
        mode = "w" if number == 2 else "x"
        sink = open_sink(target, SHAPE, "f4", **{**options, "mode": mode})
        for box in boxes(sink):
            sink.write(box, DATA[box] * number)
        sink.finish()
        np.testing.assert_array_equal(read_back(target), DATA * number)
        with pytest.raises(SinkError, match="already exists"):
            open_sink(target, SHAPE, "f4", **options)


@pytest.mark.parametrize("name", ["npy", "zarr", "hdf5", "hdf5 beside others"])
def test_target_that_appears_meanwhile(name: str, tmp_path: Path) -> None:
    target, options = MAKERS[name](tmp_path)
    first = open_sink(target, SHAPE, "f4", **options)
    if name == "hdf5 beside others":
        with h5py.File(tmp_path / "a.h5", "r+") as file:
            file["group/data"] = 3
    else:
        Path(target).write_text("precious")
    with pytest.raises(SinkError, match="already exists"):
        first.finish()
    if name != "hdf5 beside others":
        assert Path(target).read_text() == "precious"


@pytest.mark.parametrize("name", ["npy", "zarr", "hdf5"])
def test_what_is_published_is_locked_by_nobody(name: str, tmp_path: Path) -> None:
    """Nor by a process that was forked while it was written, as compilers are."""
    target, options = MAKERS[name](tmp_path)
    sink = open_sink(target, SHAPE, "f4", **options)
    end, begin = os.pipe()
    child = os.fork()
    if not child:
        os.close(begin)
        os.read(end, 1)
        os._exit(0)
    try:
        sink.finish()
        descriptor = os.open(str(target).partition("::")[0], os.O_RDONLY)
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)  # as HDF5's library does
        os.close(descriptor)
    finally:
        os.close(begin)
        os.close(end)
        os.waitpid(child, 0)


@pytest.mark.parametrize("name", ["npy", "zarr"])
def test_replaced_target_stays_until_the_end(name: str, tmp_path: Path) -> None:
    target, options = MAKERS[name](tmp_path)
    for round_ in ("finish", "abort"):
        sink = open_sink(target, SHAPE, "f4", **{**options, "mode": "w"})
        if round_ == "abort":
            np.testing.assert_array_equal(read_back(target), DATA)
        for box in boxes(sink):
            sink.write(box, DATA[box])
        getattr(sink, round_)()
    np.testing.assert_array_equal(read_back(target), DATA)


@pytest.mark.parametrize(
    "name", ["npy in place", "memory", "zarr in place", "hdf5 in place", "object"]
)
def test_region(name: str, tmp_path: Path) -> None:
    target, options = MAKERS[name](tmp_path)
    region = (slice(4, 8), slice(None), slice(0, 125))
    sink = open_sink(target, (4, 6, 125), "f4", region=region, **{**options, "mode": "r+"})
    for low in (0, 4) if sink.chunks is None else (0,):
        high = min(low + 4, 4)
        box = (slice(low, high), slice(0, 6), slice(0, 125))
        sink.write(box, DATA[4 + low : 4 + high, :, :125])
    sink.finish()
    expected = np.zeros(SHAPE, "f4")
    expected[region] = DATA[region]
    np.testing.assert_array_equal(read_back(target), expected)


def test_region_refusals(tmp_path: Path) -> None:
    target = existing_zarr(tmp_path, compressors=None)
    with pytest.raises(ShapeError, match="cuts chunks"):
        open_sink(target, (3, 6, 250), "f4", region=(slice(1, 4),))
    with pytest.raises(ShapeError, match="the region"):
        open_sink(target, (3, 6, 250), "f4", region=(slice(0, 4),))
    with pytest.raises(ArgumentError, match="step"):
        open_sink(target, (2, 6, 250), "f4", region=(slice(0, 4, 2),))


# Resuming


def test_resume(tmp_path: Path) -> None:
    path = tmp_path / "a.zarr"
    sink = open_sink(path, SHAPE, "f4", chunks=CHUNKS, resume=True)
    every = list(boxes(sink))
    for box in every[:3]:
        sink.write(box, DATA[box])
    sink.abort()
    assert not path.exists()

    sink = open_sink(path, SHAPE, "f4", chunks=CHUNKS, resume=True)
    assert [sink.done(box) for box in every] == [True] * 3 + [False] * (len(every) - 3)
    both = (slice(0, 4), slice(0, 6), slice(0, 250))
    assert sink.done(both)
    assert not sink.done(whole(SHAPE))
    with pytest.raises(SinkError, match="another process"):
        open_sink(path, SHAPE, "f4", chunks=CHUNKS, resume=True)
    for box in every[3:]:
        sink.write(box, DATA[box])
    sink.finish()
    np.testing.assert_array_equal(zarr.open_array(path, mode="r")[...], DATA)

    sink = open_sink(path, SHAPE, "f4", chunks=CHUNKS, resume=True)
    assert sink.done(whole(SHAPE))
    sink.finish()


# ------------------------------------------------------------ parts of chunks


@st.composite
def cuts(draw: st.DrawFn) -> tuple[int, tuple[int, ...], tuple[int, ...], list[int]]:
    """An axis, the shape of chunks, bounds of boxes along the axis, and the order of these."""
    axis = draw(st.integers(0, 2))
    chunks = tuple(draw(st.integers(-(-extent // 5), extent)) for extent in SHAPE)  # few files
    inner = draw(st.sets(st.integers(1, SHAPE[axis] - 1), max_size=6))
    bounds = (0, *sorted(inner), SHAPE[axis])
    order = draw(st.permutations(range(len(bounds) - 1)))
    return axis, chunks, bounds, list(order)


@given(cuts(), st.integers(0, 3))
@settings(max_examples=60, deadline=None, derandomize=True)
def test_parts_of_chunks_are_put_together(
    cut: tuple[int, tuple[int, ...], tuple[int, ...], list[int]], again: int
) -> None:
    """In any order; some come again, as where a device fails; files appear whole alone."""
    axis, chunks, bounds, order = cut
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "a.zarr"
        sink = open_sink(path, SHAPE, "f4", chunks=chunks, resume=True)
        for number in [*order[:again], *order]:
            box = list(whole(SHAPE))
            box[axis] = slice(bounds[number], bounds[number + 1])
            sink.write(tuple(box), DATA[tuple(box)])
            for file in Path(sink._directory).rglob("c/*"):  # type: ignore[attr-defined]
                assert file.is_dir() or file.suffix == ".unfinished" or _is_right(file, chunks)
        sink.finish()
        np.testing.assert_array_equal(read_back(path), DATA)
        assert not list(path.rglob("*.unfinished"))


def _is_right(file: Path, chunks: tuple[int, ...]) -> bool:
    """Whether the file of a chunk has what the array has there."""
    *_, first, second, third = map(str, file.parts)
    corner = [int(n) * c for n, c in zip((first, second, third), chunks, strict=True)]
    part = DATA[tuple(slice(low, low + c) for low, c in zip(corner, chunks, strict=True))]
    found = np.fromfile(file, "f4").reshape(chunks)
    return np.array_equal(found[tuple(map(slice, part.shape))], part)


def test_parts_along_another_axis_begin_anew(tmp_path: Path) -> None:
    """As where a device failed, and another one cuts otherwise."""
    sink = open_sink(tmp_path / "a.zarr", SHAPE, "f4", chunks=SHAPE)
    rows = (slice(0, 5), *whole(SHAPE)[1:])
    sink.write(rows, DATA[rows])
    for columns in (slice(0, 100), slice(100, 250)):
        box = (*whole(SHAPE)[:2], columns)
        sink.write(box, DATA[box])
    sink.finish()
    np.testing.assert_array_equal(read_back(tmp_path / "a.zarr"), DATA)


def test_parts_that_are_missing_are_not_published(tmp_path: Path) -> None:
    sink = open_sink(tmp_path / "a.zarr", SHAPE, "f4", chunks=SHAPE)
    rows = (slice(0, 5), *whole(SHAPE)[1:])
    sink.write(rows, DATA[rows])
    with pytest.raises(InternalError, match="parts were not written"):
        sink.finish()
    sink.abort()
    assert not list(tmp_path.iterdir())


def test_chunks_in_place_are_replaced_when_they_are_whole(tmp_path: Path) -> None:
    path = existing_zarr(tmp_path, compressors=None).store.root
    sink = open_sink(path, SHAPE, "f4", mode="r+")
    first, second = ((slice(*rows), *whole(SHAPE)[1:]) for rows in ((0, 6), (6, 9)))
    sink.write(first, DATA[first])
    assert (read_back(path)[:4] == DATA[:4]).all()
    assert not read_back(path)[4:].any()
    sink.abort()
    assert not list(Path(path).rglob("*.unfinished"))
    sink = open_sink(path, SHAPE, "f4", mode="r+")
    for box in (first, second):
        sink.write(box, DATA[box])
    sink.finish()
    np.testing.assert_array_equal(read_back(path), DATA)


def test_a_resumed_run_leaves_whole_chunks_alone(tmp_path: Path) -> None:
    """A box with parts of one that is there, and of one that is not, is computed again."""
    path = tmp_path / "a.zarr"
    steps = [(slice(*rows), *whole(SHAPE)[1:]) for rows in ((0, 3), (3, 6), (6, 9))]
    sink = open_sink(path, SHAPE, "f4", chunks=CHUNKS, resume=True)
    for box in steps[:2]:
        sink.write(box, DATA[box])
    sink.abort()
    sink = open_sink(path, SHAPE, "f4", chunks=CHUNKS, resume=True)
    assert list(map(sink.done, steps)) == [True, False, False]
    for box in steps[1:]:
        sink.write(box, DATA[box])
    sink.finish()
    np.testing.assert_array_equal(read_back(path), DATA)


def test_resume_of_another_array(tmp_path: Path) -> None:
    path = tmp_path / "a.zarr"
    open_sink(path, SHAPE, "f4", chunks=CHUNKS, resume=True).abort()
    with pytest.raises(SinkError, match="another shape, dtype or chunks"):
        open_sink(path, SHAPE, "f8", chunks=CHUNKS, resume=True)
    open_sink(path, SHAPE, "f4", chunks=CHUNKS, resume=True).abort()


def test_half_a_chunk_is_not_done(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a.zarr"
    sink = open_sink(path, SHAPE, "f4", chunks=CHUNKS, resume=True)
    first = next(boxes(sink))

    def full(*arguments: Any) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "pwritev", full)
        patch.setattr(os, "posix_fallocate", full)
        with pytest.raises(SinkError, match="full"):
            sink.write(first, DATA[first])
    sink.abort()
    sink = open_sink(path, SHAPE, "f4", chunks=CHUNKS, resume=True)
    assert not sink.done(first)
    sink.abort()


@pytest.mark.parametrize("target", ["a.npy", "a.h5", np.zeros(SHAPE, "f4")], ids=str)
def test_what_cannot_be_resumed(target: Any, tmp_path: Path) -> None:
    if isinstance(target, str):
        target = tmp_path / target
    with pytest.raises(SinkError, match="cannot be resumed"):
        open_sink(target, SHAPE, "f4", resume=True)


# Killed in the middle

KILLED = """
import os, signal, sys
import numpy as np
from weft.io.sinks import open_sink
chunks, resume = eval(sys.argv[2]), eval(sys.argv[3])
sink = open_sink(sys.argv[1], (1000, 1000), "f8", chunks=chunks, resume=resume)
for row in range(0, 500, 100):
    sink.write((slice(row, row + 100), slice(0, 1000)), np.full((100, 1000), row, "f8"))
os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.parametrize("name", ["a.npy", "a.zarr", "a.h5", "b.h5::x"])
def test_killed(name: str, tmp_path: Path) -> None:
    with h5py.File(tmp_path / "b.h5", "w") as file:
        file["other"] = np.arange(5)
    target = f"{tmp_path}/{name}"
    chunks = "(100, 1000)" if "zarr" in name else "None"
    run = subprocess.run([sys.executable, "-c", KILLED, target, chunks, "False"], check=False)
    assert run.returncode == -signal.SIGKILL
    if "::" in name:
        with h5py.File(tmp_path / "b.h5") as file:
            assert "x" not in file
            np.testing.assert_array_equal(file["other"], np.arange(5))
    else:
        assert not os.path.exists(target)
    sink = open_sink(target, (1000, 1000), "f8")
    sink.write(whole((1000, 1000)), np.ones((1000, 1000)))
    sink.finish()
    assert {p.name for p in tmp_path.iterdir()} == {"b.h5", name.split("::")[0]}
    if "::" in name:
        with h5py.File(tmp_path / "b.h5") as file:
            assert set(file) == {"other", "x"}


def test_killed_and_resumed(tmp_path: Path) -> None:
    target = tmp_path / "a.zarr"
    arguments = [sys.executable, "-c", KILLED, str(target), "(100, 1000)", "True"]
    assert subprocess.run(arguments, check=False).returncode == -signal.SIGKILL
    assert not target.exists()
    sink = open_sink(target, (1000, 1000), "f8", chunks=(100, 1000), resume=True)
    for row in range(0, 1000, 100):
        box = (slice(row, row + 100), slice(0, 1000))
        assert sink.done(box) == (row < 500)
        if not sink.done(box):
            sink.write(box, np.full((100, 1000), row, "f8"))
    sink.finish()
    expected = np.repeat(np.arange(0, 1000, 100.0), 100)[:, None] + np.zeros(1000)
    np.testing.assert_array_equal(zarr.open_array(target, mode="r")[...], expected)


# Refusals


def test_file_that_may_not_grow(tmp_path: Path) -> None:
    script = """
import resource, sys
import numpy as np
from weft.errors import SinkError
from weft.io.sinks import open_sink
resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, 1 << 20))
for name, chunks in (("a.npy", None), ("a.h5", None), ("a.h5", (1000, 1000))):
    try:
        open_sink(sys.argv[1] + "/" + name, (1000, 1000), "f8", chunks)
    except SinkError as error:
        print(error)
"""
    run = subprocess.run(
        [sys.executable, "-c", script, str(tmp_path)], check=True, capture_output=True, text=True
    )
    assert run.stdout.count("files may not grow so large") == 3
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("name", ["npy", "zarr", "hdf5"])
def test_full_file_system(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    target, options = MAKERS[name](tmp_path)

    def full(*arguments: Any) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    sink = open_sink(target, SHAPE, "f4", **options)
    first = next(boxes(sink))
    with monkeypatch.context() as patch:
        patch.setattr(os, "pwritev", full)
        patch.setattr(os, "posix_fallocate", full)
        with pytest.raises(SinkError, match="full"):
            sink.write(first, DATA[first])
    sink.abort()
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("suffix", ["npy", "zarr", "h5"])
def test_no_room(suffix: str, tmp_path: Path) -> None:
    with pytest.raises(SinkError, match="bytes free"):
        open_sink(tmp_path / f"a.{suffix}", (1 << 30, 1 << 20), "f8")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("suffix", ["npy", "zarr", "h5"])
def test_missing_directory(suffix: str, tmp_path: Path) -> None:
    with pytest.raises(SinkError, match="directory does not exist"):
        open_sink(tmp_path / f"missing/a.{suffix}", SHAPE, "f4")


@pytest.mark.parametrize("suffix", ["npy", "zarr", "h5"])
def test_read_only_directory(suffix: str) -> None:
    # /proc takes no new files, not even root's.
    with pytest.raises(SinkError, match=r"cannot write|bytes free"):
        open_sink(f"/proc/a.{suffix}", SHAPE, "f4")


def test_read_only_objects(tmp_path: Path) -> None:
    array = np.zeros(SHAPE, "f4")
    array.flags.writeable = False
    existing_zarr(tmp_path)
    path = existing_hdf5(tmp_path).split("::")[0]
    for target in (
        array,
        zarr.open_array(tmp_path / "a.zarr", mode="r"),
        h5py.File(path, "r")["data"],
    ):
        with pytest.raises(SinkError, match="read"):
            open_sink(target, SHAPE, "f4")


@pytest.mark.parametrize(
    "name", ["npy in place", "memory", "zarr in place", "zarr object", "hdf5 in place", "object"]
)
def test_mismatch(name: str, tmp_path: Path) -> None:
    target, options = MAKERS[name](tmp_path)
    with pytest.raises(ShapeError):
        open_sink(target, (9, 6, 251), "f4", **options)
    with pytest.raises(DTypeError):
        open_sink(target, SHAPE, "f8", **options)


@pytest.mark.parametrize("name", ["a.zarr", "a.h5"])
def test_what_leads_to_a_component(name: str, tmp_path: Path) -> None:
    """Groups of the store: nothing is written elsewhere."""
    store = tmp_path / "inner" / name
    store.parent.mkdir()
    open_sink(f"{store}::/group//data/", (3,), "f4").finish()
    assert open_source(store, "group/data").shape == (3,)
    with pytest.raises(ArgumentError, match="component"):
        open_sink(f"{store}::../data", (3,), "f4")
    with pytest.raises(SinkError, match="group/data is a"):
        open_sink(f"{store}::group/data/more", (3,), "f4")
    assert {path.name for path in tmp_path.iterdir()} == {"inner"}
    assert {path.name for path in store.parent.iterdir()} == {name}


def test_a_group_in_another_file(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "other.h5", "w") as file:
        file["group/data"] = np.zeros(3, "f4")
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["group"] = h5py.ExternalLink("other.h5", "/group")
        file["much"] = np.ones(10_000)
    with pytest.raises(SinkError, match=r"would be in another file, .*other\.h5"):
        open_sink(f"{tmp_path}/a.h5::group/more", (3,), "f4")
    sink = open_sink(f"{tmp_path}/a.h5::group/data", (3,), "f4", mode="r+")
    sink.write((slice(0, 3),), np.arange(3, dtype="f4"))
    sink.finish()
    with h5py.File(tmp_path / "a.h5") as file:
        np.testing.assert_array_equal(file["group/data"], [0, 1, 2])
        np.testing.assert_array_equal(file["much"], 1)


def test_not_a_target(tmp_path: Path) -> None:
    with pytest.raises(ArgumentTypeError):
        open_sink(3, SHAPE, "f4")
    with pytest.raises(SinkError, match="suffix"):
        open_sink(tmp_path / "a.txt", SHAPE, "f4")
    with pytest.raises(ArgumentError, match="mode"):
        open_sink(tmp_path / "a.npy", SHAPE, "f4", mode="a")  # type: ignore[arg-type]
    with pytest.raises(ArgumentError, match="chunks"):
        open_sink(tmp_path / "a.zarr", SHAPE, "f4", chunks=(4, 4))
