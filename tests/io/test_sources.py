"""Every kind of source gives the elements of its array, in any box, also after pickling."""

from __future__ import annotations

import json
import os
import pickle
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import h5py
import numcodecs
import numpy as np
import pytest
import zarr
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from weft.errors import ArgumentError, ArgumentTypeError, DTypeError, ShapeError, SourceError
from weft.io.chunk_codecs import decoded_bytes
from weft.io.files import whole
from weft.io.open import open_source
from weft.plan.protocols import Box, Source

SHAPE = (7, 5, 300)
DATA = np.random.default_rng(3).normal(size=SHAPE).astype("float32")


def npy(path: Path) -> Source:
    np.save(path / "a.npy", DATA)
    return open_source(path / "a.npy")


def npy_column_major(path: Path) -> Source:
    np.save(path / "a.npy", np.asfortranarray(DATA))
    return open_source(path / "a.npy")


def npy_big_endian(path: Path) -> Source:
    np.save(path / "a.npy", DATA.astype(">f4"))
    return open_source(path / "a.npy")


def memory(path: Path) -> Source:
    return open_source(DATA)


def memory_swapped(path: Path) -> Source:
    return open_source(DATA.astype(">f4"))


def memmap(path: Path) -> Source:
    DATA.tofile(path / "raw")
    return open_source(np.memmap(path / "raw", "f4", "r", shape=SHAPE))


def memmap_view(path: Path) -> Source:
    bigger = np.zeros((9, 7, 301), "f4")
    bigger[1:8, 5:0:-1, 1:] = DATA
    with open(path / "raw", "wb") as file:
        file.write(b"four" * 3)
        bigger.tofile(file)
    mapped = np.memmap(path / "raw", "f4", "r", offset=12, shape=bigger.shape)
    return open_source(mapped[1:8, 5:0:-1, 1:])


def stack(path: Path) -> Source:
    for number, part in enumerate(DATA):
        np.save(path / f"part-{number}.npy", part)
    return open_source([path / f"part-{number}.npy" for number in range(len(DATA))])


def pattern(path: Path) -> Source:
    stack(path)
    return open_source(path / "part-*.npy")


def zarr_array(path: Path, **options: Any) -> Source:
    array = zarr.create_array(
        path / "a.zarr", shape=SHAPE, dtype="f4", **{"chunks": (2, 5, 130), **options}
    )
    array[:] = DATA
    return open_source(path / "a.zarr")


def zarr_plain(path: Path) -> Source:
    return zarr_array(path, compressors=None)


def zarr_zstd(path: Path) -> Source:
    return zarr_array(path)


def zarr_sharded(path: Path) -> Source:
    return zarr_array(path, shards=(4, 5, 260))


def zarr_2_plain(path: Path) -> Source:
    return zarr_array(path, zarr_format=2, compressors=None)


def zarr_2_column_major(path: Path) -> Source:
    return zarr_array(path, zarr_format=2, compressors=None, order="F")


def zarr_2_compressed(path: Path) -> Source:
    return zarr_array(path, zarr_format=2, order="F")


def zarr_big_endian(path: Path) -> Source:
    from zarr.codecs import BytesCodec

    return zarr_array(path, compressors=None, serializer=BytesCodec(endian="big"))


def zarr_object(path: Path) -> Source:
    zarr_array(path)
    return open_source(zarr.open_array(path / "a.zarr", mode="r"))


def zarr_zip(path: Path) -> Source:
    with zarr.storage.ZipStore(path / "a.zip", mode="w") as store:
        zarr.create_array(store, shape=SHAPE, dtype="f4", chunks=(3, 4, 100))[:] = DATA
    return open_source(path / "a.zip")


def hdf5(path: Path, **options: Any) -> Source:
    with h5py.File(path / "a.h5", "w") as file:
        file.create_dataset("group/data", data=DATA, **options)
    return open_source(path / "a.h5", component="group/data")


def hdf5_chunked(path: Path) -> Source:
    return hdf5(path, chunks=(2, 3, 100), compression="gzip", shuffle=True)


def hdf5_object(path: Path) -> Source:
    hdf5_chunked(path)
    return open_source(h5py.File(path / "a.h5")["group/data"])


class Wrapped:
    def __init__(self, data: np.ndarray) -> None:
        self.data, self.shape, self.dtype = data, data.shape, data.dtype

    def __getitem__(self, key: Any) -> np.ndarray:
        return self.data[key]


def any_object(path: Path) -> Source:
    return open_source(Wrapped(DATA))


PICKLED: list[Callable[[Path], Source]] = [
    npy, npy_column_major, npy_big_endian, memory, memory_swapped, memmap, memmap_view, stack,
    pattern, zarr_plain, zarr_zstd, zarr_sharded, zarr_2_plain, zarr_2_column_major,
    zarr_2_compressed, zarr_big_endian, zarr_object, hdf5, hdf5_chunked, any_object,
]  # fmt: skip
EVERY = [*PICKLED, zarr_zip, hdf5_object]

BOXES: list[Box] = [
    whole(SHAPE),
    (slice(2, 4), slice(0, 5), slice(0, 300)),
    (slice(1, 6), slice(1, 4), slice(129, 131)),
    (slice(6, 7), slice(4, 5), slice(299, 300)),
    (slice(0, 7), slice(2, 3), slice(0, 300)),
    (slice(3, 3), slice(0, 5), slice(0, 300)),
]


def check_boxes(source: Source) -> None:
    assert source.shape == SHAPE
    assert source.dtype == np.dtype("float32")
    assert source.dtype.isnative
    source.check()
    for box in BOXES:
        expected = DATA[box]
        out = np.full(expected.shape, np.nan, "f4")
        source.read(box, out)
        np.testing.assert_array_equal(out, expected)
        padded = np.full([n + 3 for n in expected.shape], np.nan, "f4")
        window = padded[1:-2, 1:-2, 1:-2]
        source.read(box, window)
        np.testing.assert_array_equal(window, expected)
        window[...] = np.nan
        assert np.isnan(padded).all(), "wrote outside the window"
    direct = source.direct()
    if direct is not None:
        np.testing.assert_array_equal(direct, DATA)


@pytest.mark.parametrize("make", EVERY, ids=lambda make: make.__name__)
def test_boxes(make: Callable[[Path], Source], tmp_path: Path) -> None:
    check_boxes(make(tmp_path))


@pytest.mark.parametrize("make", PICKLED, ids=lambda make: make.__name__)
def test_pickled(
    make: Callable[[Path], Source], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = make(tmp_path)
    monkeypatch.chdir("/")
    data = pickle.dumps(source)
    if make not in (memory, memory_swapped, any_object):
        assert len(data) < 5000, "the data travels instead of the path"
    check_boxes(pickle.loads(data))


@pytest.mark.parametrize("make", EVERY, ids=lambda make: make.__name__)
def test_threads(make: Callable[[Path], Source], tmp_path: Path) -> None:
    source = make(tmp_path)
    out = np.empty(SHAPE, "f4")

    def read(number: int) -> None:
        row = number % SHAPE[0]
        source.read((slice(row, row + 1), *whole(SHAPE)[1:]), out[row : row + 1])

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(read, range(4 * SHAPE[0])))
    np.testing.assert_array_equal(out, DATA)


@pytest.mark.parametrize("make", [npy, npy_column_major, memmap, memmap_view, hdf5, memory])
def test_plain_bytes_are_addressed_in_place(make: Callable[[Path], Source], tmp_path: Path) -> None:
    direct = make(tmp_path).direct()
    assert direct is not None
    assert make is memory or not direct.flags.writeable
    assert make is memory or not direct.flags.owndata


@pytest.mark.parametrize("make", [npy_big_endian, memory_swapped, zarr_plain, hdf5_chunked])
def test_other_bytes_are_read(make: Callable[[Path], Source], tmp_path: Path) -> None:
    assert make(tmp_path).direct() is None


def test_plain_zarr_needs_no_library(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    zarr_plain(tmp_path)
    monkeypatch.setitem(os.sys.modules, "zarr", None)
    check_boxes(open_source(tmp_path / "a.zarr"))


@pytest.mark.parametrize("version", [2, 3])
@pytest.mark.parametrize(
    ("dtype", "fill"), [("f4", np.nan), ("f8", np.inf), ("i2", -7), ("c8", 1 - 2j), ("?", True)]
)
def test_missing_chunks(tmp_path: Path, version: int, dtype: str, fill: Any) -> None:
    array = zarr.create_array(
        tmp_path / "a.zarr", shape=(10, 9), chunks=(4, 4), dtype=dtype, fill_value=fill,
        compressors=None, zarr_format=version,
    )  # fmt: skip
    array[5:, 5:] = 0
    source = open_source(tmp_path / "a.zarr")
    source.check()
    assert type(source).__name__ == "ChunkFilesSource"
    out = np.empty((10, 9), dtype)
    source.read(whole((10, 9)), out)
    np.testing.assert_array_equal(out, array[:])


@pytest.mark.parametrize("shape", [(), (0,), (3, 0, 2), (1,), (1, 1)])
def test_small_shapes(tmp_path: Path, shape: tuple[int, ...]) -> None:
    data = np.full(shape, 3, "i8")
    np.save(tmp_path / "a.npy", data)
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["x"] = data
    zarr.create_array(tmp_path / "a.zarr", shape=shape, dtype="i8", compressors=None)[...] = data
    for name in ("a.npy", "a.h5", "a.zarr"):
        source = open_source(tmp_path / name)
        source.check()
        out = np.zeros(shape, "i8")
        source.read(whole(shape), out)
        np.testing.assert_array_equal(out, data)
        direct = source.direct()
        assert direct is None or (direct.shape == shape and direct.dtype == data.dtype)


@settings(max_examples=60, deadline=None, derandomize=True)
@given(data=st.data())
def test_any_box_of_any_layout(tmp_path_factory: pytest.TempPathFactory, data: Any) -> None:
    path = tmp_path_factory.mktemp("layout")
    shape = tuple(data.draw(st.lists(st.sampled_from([1, 2, 5, 17, 130]), min_size=1, max_size=3)))
    chunks = tuple(data.draw(st.integers(n // 4 + 1, n + 2)) for n in shape)
    values = np.arange(np.prod(shape), dtype="f8").reshape(shape)
    np.save(path / "a.npy", values)
    zarr.create_array(
        path / "a.zarr", shape=shape, chunks=chunks, dtype="f8", compressors=None
    )[...] = values  # fmt: skip
    box = []
    for n in shape:
        start = data.draw(st.integers(0, n))
        box.append(slice(start, data.draw(st.integers(start, n))))
    for name in ("a.npy", "a.zarr"):
        out = np.zeros(values[tuple(box)].shape)
        open_source(path / name).read(tuple(box), out)
        np.testing.assert_array_equal(out, values[tuple(box)])


@pytest.mark.parametrize("order", ["<", ">"])
@pytest.mark.parametrize("compression", [None, "tiff_lzw"])
@pytest.mark.parametrize("dtype", ["u1", "u2", "i4", "f4", "rgb", "bits"])
def test_tiff(tmp_path: Path, order: str, compression: str | None, dtype: str) -> None:
    rng = np.random.default_rng(0)
    if dtype == "rgb":
        values = rng.integers(0, 255, (11, 13, 3), "u1")
    elif dtype == "bits":
        values = rng.integers(0, 2, (11, 13)) > 0
    else:
        values = rng.integers(0, 100, (11, 13)).astype(dtype)
    Image.fromarray(values).save(tmp_path / "a.tif", compression=compression, big_tiff=order == ">")
    source = pickle.loads(pickle.dumps(open_source(tmp_path / "a.tif")))
    assert (source.shape, source.dtype) == (values.shape, values.dtype)
    box = (slice(2, 7), slice(3, 13), *whole(values.shape[2:]))
    out = np.empty(values[box].shape, values.dtype)
    source.read(box, out)
    np.testing.assert_array_equal(out, values[box])


def test_dlpack() -> None:
    class Exporter:
        shape, dtype = (3,), "not NumPy's"

        def __getitem__(self, key: Any) -> Any:
            raise AssertionError

        def __dlpack__(self, **options: Any) -> Any:
            return np.arange(3.0).__dlpack__(**options)

        def __dlpack_device__(self) -> tuple[int, int]:
            return 1, 0

    direct = open_source(Exporter()).direct()
    assert direct is not None
    np.testing.assert_array_equal(direct, [0, 1, 2])


# Refusals


def refused(*arguments: Any, **options: Any) -> str:
    with pytest.raises(SourceError) as caught:
        open_source(*arguments, **options)
    return str(caught.value)


def test_not_npy(tmp_path: Path) -> None:
    (tmp_path / "a.npy").write_bytes(b"hello there")
    message = refused(tmp_path / "a.npy")
    assert "b'hello '" in message
    assert "NUMPY" in message


def test_damaged_header(tmp_path: Path) -> None:
    (tmp_path / "a.npy").write_bytes(b"\x93NUMPY\x01\x00\x10\x00{'descr': '<f4'")
    assert "damaged" in refused(tmp_path / "a.npy")


def test_empty_file(tmp_path: Path) -> None:
    (tmp_path / "a.npy").touch()
    assert "starts with b''" in refused(tmp_path / "a.npy")


def test_truncated(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", DATA)
    size = (tmp_path / "a.npy").stat().st_size
    os.truncate(tmp_path / "a.npy", size - 1)
    message = refused(tmp_path / "a.npy")
    assert f"truncated: {size - 1} bytes" in message
    assert f"{size} bytes" in message


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("columns", [slice(0, 300), slice(103, 109)])  # long pieces and short ones
def test_shrunk_after_it_was_mapped(order: Any, columns: slice, tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", np.asarray(DATA, order=order))
    source = open_source(tmp_path / "a.npy")
    assert source.direct() is not None
    os.truncate(tmp_path / "a.npy", 4096)
    box = (slice(0, 7), slice(0, 5), columns)
    with pytest.raises(SourceError, match="truncated: 4096 bytes"):
        source.read(box, np.empty((7, 5, columns.stop - columns.start), "f4"))


def test_a_strided_box_longer_than_one_span(tmp_path: Path) -> None:
    data = np.arange(40_000 * 11, dtype="i4").reshape(40_000, 11)
    np.save(tmp_path / "a.npy", data)
    source = open_source(np.load(tmp_path / "a.npy", mmap_mode="r")[::-3, 2::4])
    out = np.empty((13_000, 2), "i4")
    source.read((slice(300, 13_300), slice(1, 3)), out)
    np.testing.assert_array_equal(out, data[::-3, 2::4][300:13_300, 1:3])


def test_python_objects(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", np.array([{}], object), allow_pickle=True)
    assert "pickle" in refused(tmp_path / "a.npy")


def test_missing_and_unknown(tmp_path: Path) -> None:
    assert "No such file" in refused(tmp_path / "missing.npy")
    (tmp_path / "a.bin").write_bytes(b"12345678")
    assert "unknown format" in refused(tmp_path / "a.bin")
    assert "no file matches" in refused(tmp_path / "*.npy")
    assert "empty list" in refused([])
    assert "no array" in refused(tmp_path)
    with pytest.raises(ArgumentTypeError):
        open_source(3.0)


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads every file")
def test_unreadable(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", DATA)
    (tmp_path / "a.npy").chmod(0)
    assert "Permission" in refused(tmp_path / "a.npy")


def test_missing_dataset(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["group/first"] = np.zeros(3)
        file["second"] = np.zeros((2, 2), "i4")
    for component in ("third", "group", None):
        message = refused(tmp_path / "a.h5", component)
        assert "group/first (3,) float64" in message
        assert "second (2, 2) int32" in message


def test_not_hdf5(tmp_path: Path) -> None:
    (tmp_path / "a.h5").write_bytes(b"x" * 100)
    assert "a.h5" in refused(tmp_path / "a.h5")


def test_missing_zarr_component(tmp_path: Path) -> None:
    group = zarr.create_group(tmp_path / "a.zarr")
    group.create_array("inner/x", shape=(3,), dtype="i2")
    for component in (None, "inner", "y"):
        assert "inner/x (3,) int16" in refused(tmp_path / "a.zarr", component)
    assert open_source(tmp_path / "a.zarr", "inner/x").shape == (3,)


@pytest.mark.parametrize("version", [2, 3])
@pytest.mark.parametrize(
    ("shape", "chunks"), [([-3, 4], [2, 2]), ([3, 4], [0, 2]), ([3], [2, 2]), ("abc", [2])]
)
def test_impossible_extents(version: int, shape: Any, chunks: Any, tmp_path: Path) -> None:
    path = tmp_path / "a.zarr"
    zarr.create_array(path, shape=(3, 4), chunks=(2, 2), dtype="f4", zarr_format=version)
    file = path / ("zarr.json" if version == 3 else ".zarray")
    metadata = json.loads(file.read_text())
    grid = metadata["chunk_grid"]["configuration"] if version == 3 else metadata
    grid["chunk_shape" if version == 3 else "chunks"] = chunks
    file.write_text(json.dumps({**metadata, "shape": shape}))
    message = refused(path)
    assert str(file) in message
    assert f"shape {shape} in chunks {chunks}" in message


@pytest.mark.parametrize("change", [{"zarr_format": 7}, {"order": "X"}, {"dtype": None}])
def test_metadata_of_no_version(change: dict[str, Any], tmp_path: Path) -> None:
    path = tmp_path / "a.zarr"
    zarr.create_array(path, shape=(3, 4), chunks=(2, 2), dtype="f4", zarr_format=2)
    metadata = json.loads((path / ".zarray").read_text())
    (path / ".zarray").write_text(json.dumps({**metadata, **change}))
    assert "cannot open" in refused(path)


def test_directories_of_much_else_are_not_searched_for_long(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def endless(path: str) -> Any:
        for number in range(1_000_000):
            yield f"{path}/{number}", [], []
        raise AssertionError

    monkeypatch.setattr(os, "walk", endless)
    assert "holds no array" in refused(tmp_path)


@pytest.mark.parametrize("component", ["../b", "a/./b", 5])
@pytest.mark.parametrize("name", ["a.zarr", "a.h5"])
def test_components_are_names(name: str, component: Any, tmp_path: Path) -> None:
    with pytest.raises((ArgumentError, ArgumentTypeError), match="component"):
        open_source(tmp_path / name, component)


@pytest.mark.parametrize("chunks", [None, (2, 5, 100)])
def test_a_link_to_another_file(chunks: Any, tmp_path: Path) -> None:
    """Its bytes are there, at other places than in the file that was named."""
    with h5py.File(tmp_path / "other.h5", "w") as file:
        file["before"] = np.arange(100_000)
        file.create_dataset("data", data=DATA, chunks=chunks)
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["link"] = h5py.ExternalLink("other.h5", "/data")
        file["much"] = np.zeros(1_000_000)
    source = open_source(tmp_path / "a.h5", "link")
    found = np.empty(SHAPE, "f4")
    source.read(whole(SHAPE), found)
    np.testing.assert_array_equal(found, DATA)
    assert source.held[0].name.startswith(str(tmp_path / "other.h5"))


def test_a_dataset_without_shape(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["nothing"] = h5py.Empty("f4")
    assert "no shape" in refused(tmp_path / "a.h5")


@pytest.mark.filterwarnings("ignore:Corrupt")
def test_damaged_tiff(tmp_path: Path) -> None:
    (tmp_path / "a.tif").write_bytes(b"II*\0\x08\0\0\0")
    assert "TIFF" in refused(tmp_path / "a.tif")


def test_unequal_stack(tmp_path: Path) -> None:
    for name, value in (("a", np.zeros(3)), ("b", np.zeros(4)), ("c", np.zeros(3, "i4"))):
        np.save(tmp_path / f"{name}.npy", value)
    with pytest.raises(ShapeError, match=r"b\.npy has shape \(4,\)"):
        open_source([tmp_path / "a.npy", tmp_path / "b.npy"])
    with pytest.raises(DTypeError, match=r"c\.npy holds int32"):
        open_source([tmp_path / "a.npy", tmp_path / "c.npy"])


def test_stack_of_scalars(tmp_path: Path) -> None:
    """An element of an array is no view of it."""
    for number in range(4):
        np.save(tmp_path / f"{number}.npy", np.float32(number))
    source = open_source([tmp_path / f"{number}.npy" for number in range(4)])
    out = np.full(2, -1, "f4")
    source.read((slice(1, 3),), out)
    assert out.tolist() == [1, 2]


@pytest.mark.parametrize("make", [npy, npy_column_major, npy_big_endian, memmap, hdf5])
def test_shrunk_while_open(make: Callable[[Path], Source], tmp_path: Path) -> None:
    source = make(tmp_path)
    source.direct()
    path = next(tmp_path.iterdir())
    os.truncate(path, path.stat().st_size - 5000)
    with pytest.raises(SourceError, match="truncated"):
        source.check()
    with pytest.raises(SourceError, match="truncated"):
        source.read(whole(SHAPE), np.empty(SHAPE, "f4"))
    os.unlink(path)
    with pytest.raises(SourceError, match="No such file"):
        source.check()


def test_another_file_in_its_place(tmp_path: Path) -> None:
    source = npy(tmp_path)
    source.direct()
    np.save(tmp_path / "b.npy", DATA + 1)
    os.replace(tmp_path / "b.npy", tmp_path / "a.npy")
    source.check()
    np.testing.assert_array_equal(source.direct(), DATA + 1)
    np.save(tmp_path / "b.npy", DATA.astype("i4"))
    os.replace(tmp_path / "b.npy", tmp_path / "a.npy")
    with pytest.raises(SourceError, match="changed since it was opened"):
        source.check()


def test_truncated_chunk(tmp_path: Path) -> None:
    source = zarr_plain(tmp_path)
    os.truncate(tmp_path / "a.zarr/c/0/0/0", 100)
    with pytest.raises(SourceError, match="truncated"):
        source.read(whole(SHAPE), np.empty(SHAPE, "f4"))
    zarr_zstd(tmp_path / "z")
    os.truncate(tmp_path / "z/a.zarr/c/0/0/0", 100)
    with pytest.raises(SourceError, match="damaged"):
        open_source(tmp_path / "z/a.zarr").read(whole(SHAPE), np.empty(SHAPE, "f4"))


def test_a_chunk_that_is_too_long(tmp_path: Path) -> None:
    source = zarr_plain(tmp_path)
    os.truncate(tmp_path / "a.zarr/c/0/0/0", 100_000)
    with pytest.raises(SourceError, match="too long: 100000 bytes"):
        source.read(whole(SHAPE), np.empty(SHAPE, "f4"))


@pytest.mark.parametrize("compressor", ["zstd", "blosc", "lz4", "gzip", "zlib"])
@pytest.mark.parametrize("count", [1, 600, 639, 641, 5000])
def test_a_chunk_of_another_array(compressor: str, count: int, tmp_path: Path) -> None:
    """What a codec decodes is as much as there should be: it says nothing of the rest."""
    codec = numcodecs.get_codec({"id": compressor})
    path = tmp_path / "a.zarr"
    array = zarr.create_array(
        path, shape=(640,), chunks=(640,), dtype="f4", zarr_format=2, compressors=codec
    )
    array[:] = np.arange(640)
    source, out = open_source(path), np.empty(640, "f4")
    source.read(whole((640,)), out)
    np.testing.assert_array_equal(out, np.arange(640))
    (path / "0").write_bytes(codec.encode(np.arange(count, dtype="f4")))
    with pytest.raises(SourceError, match=rf"the {compressor} chunk {path}/0 is damaged") as caught:
        source.read(whole((640,)), out)
    assert "expected: a whole chunk of (640,) float32" in str(caught.value)
    assert "readable" not in str(caught.value)


@pytest.mark.parametrize("size", [0, 1, 255, 256, 257, 65_791, 65_792, 70_000])
def test_how_long_chunks_say_they_are(size: int) -> None:
    data = np.random.default_rng(size).integers(0, 4, size).astype(np.uint8)
    for compressor in ("zstd", "blosc", "lz4"):
        encoded = bytes(numcodecs.get_codec({"id": compressor}).encode(data))
        assert decoded_bytes(compressor, encoded) == size


@given(st.data())
@settings(deadline=None, max_examples=50)
def test_objects_are_asked_for_little_at_a_time(data: Any) -> None:
    """What an object gives is an array of its own, which no plan counts."""
    shape = tuple(data.draw(st.lists(st.integers(1, 9), min_size=1, max_size=3), label="shape"))
    lower = [data.draw(st.integers(0, n)) for n in shape]
    box = tuple(
        slice(a, data.draw(st.integers(a, n))) for a, n in zip(lower, shape, strict=True)
    )  # fmt: skip
    chunks = tuple(data.draw(st.integers(1, 5)) for _ in shape)
    most = data.draw(st.integers(1, 100), label="bytes")
    asked: list[Box] = []

    class Watched(Wrapped):
        def __getitem__(self, key: Any) -> np.ndarray:
            asked.append(key)
            return super().__getitem__(key)

    array = np.arange(np.prod(shape), dtype="i4").reshape(shape)
    watched = Watched(array)
    if data.draw(st.booleans(), label="chunked"):
        watched.chunks = chunks  # type: ignore[attr-defined]
    else:
        chunks = (1,) * len(shape)
    out = np.full([s.stop - s.start for s in box], -1, "i4")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("weft.io.memory._PIECE", most)
        open_source(watched).read(box, out)
    np.testing.assert_array_equal(out, array[box])
    for part in asked:
        extents = [s.stop - s.start for s in part]
        assert 4 * np.prod(extents) <= most or all(np.less_equal(extents, chunks))
        for side, given_, chunk in zip(part, box, chunks, strict=True):
            assert side.start % chunk == 0 or side.start == given_.start
            assert side.stop % chunk == 0 or side.stop == given_.stop


def test_object_that_fails() -> None:
    class Failing(Wrapped):
        def __getitem__(self, key: Any) -> np.ndarray:
            raise RuntimeError("out of order")

    with pytest.raises(SourceError, match="out of order"):
        open_source(Failing(DATA)).read(whole(SHAPE), np.empty(SHAPE, "f4"))


def test_object_that_lies() -> None:
    wrong = Wrapped(DATA)
    wrong.shape = (8, 5, 300)
    with pytest.raises(SourceError, match="gave shape"):
        open_source(wrong).read(whole(wrong.shape), np.empty(wrong.shape, "f4"))


def test_a_component_of_a_file_of_one_array_is_refused(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.ones(3))
    with pytest.raises(ArgumentError, match="component 'a'"):
        open_source(tmp_path / "x.npy", "a")
