"""Large parts of files written past the cache of pages: what is written, and which way."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import weft as wf
from weft.io import npy, past_pages
from weft.io.files import Extent, write_box
from weft.io.past_pages import PAGE, PastPages

pytestmark = pytest.mark.skipif(not hasattr(os, "O_DIRECT"), reason="no such writes here")
SIZE = 3 << 20


@pytest.fixture
def written(tmp_path: Path) -> Iterator[tuple[PastPages, int, Path]]:
    path = tmp_path / "data"
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT)
    os.ftruncate(descriptor, 4 * SIZE)
    past = PastPages(str(path))
    yield past, descriptor, path
    past.close()
    os.close(descriptor)


def bytes_at(address: int, count: int = SIZE) -> npt.NDArray[Any]:
    """Random bytes whose address is so much more than a page's."""
    block = np.random.default_rng(address).integers(0, 256, count + 2 * PAGE, np.uint8)
    start = -block.ctypes.data % PAGE + address
    return block[start : start + count]


def put(past: PastPages, descriptor: int, data: npt.NDArray[Any], offset: int) -> None:
    """As `write_box` does: again and again until all of it is written."""
    while data.size:
        moved = past.move(descriptor, [data], offset)
        data, offset = data[moved:], offset + moved


@pytest.mark.parametrize("ahead", [False, True])
@pytest.mark.parametrize(
    ("address", "offset"),
    [(0, 0), (512, PAGE), (128, 128), (512, 512), (0, 128), (64, 0), (7, 5 * PAGE)],
)
def test_what_is_written_is_there(
    written: tuple[PastPages, int, Path], address: int, offset: int, ahead: bool
) -> None:
    past, descriptor, path = written
    past._seconds = {False: 1.0, True: 0.1} if ahead else {False: 0.1, True: 1.0}
    expected = np.zeros(4 * SIZE, np.uint8)
    for count in (SIZE, SIZE - 1, SIZE - PAGE - 511, PAGE, 100):
        data = bytes_at(address, count)
        expected[offset : offset + count] = data
        put(past, descriptor, data, offset)
        np.testing.assert_array_equal(np.fromfile(path, np.uint8), expected)
    fits = (address - offset) % 512 == 0
    assert bool(past.past) == (ahead and fits and not past._refused)


def test_pieces_in_turn_are_one_vectored_call(written: tuple[PastPages, int, Path]) -> None:
    past, descriptor, path = written
    past._seconds = {False: 1.0, True: 0.1}
    pieces = [bytes_at(0), bytes_at(512)]
    assert past.move(descriptor, list(pieces), 0) == 2 * SIZE
    assert past.past == 0
    np.testing.assert_array_equal(np.fromfile(path, np.uint8)[: 2 * SIZE], np.concatenate(pieces))


def test_the_quicker_way_is_taken_and_the_other_tried_again(
    written: tuple[PastPages, int, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    past, descriptor, _ = written
    ways: list[bool] = []
    clock = [0.0]
    speed = {False: 3.0, True: 1.0}
    monkeypatch.setattr(past_pages, "perf_counter", lambda: clock[0])
    monkeypatch.setattr(past, "_opened", lambda: -7)

    def pwrite(to: int, data: Any, offset: int) -> int:
        ways.append(to == -7)
        clock[0] += speed[ways[-1]]
        return len(data)

    monkeypatch.setattr(os, "pwrite", pwrite)
    data = bytes_at(0)
    def moves(count: int) -> list[bool]:
        ways.clear()
        for _ in range(count):
            past.move(descriptor, [data], 0)
        return list(ways)

    # Three times as slow, it is tried once in 3 * 16 writes, so that it takes a 16th of the time.
    assert moves(50) == [False] + [True] * 48 + [False]
    speed[True] = 30.0  # the disk has become slow: (1 + 30) / 2 now, 5.2 times as much as 3
    assert moves(83) == [True] + [False] * 81 + [True]


@pytest.mark.parametrize("number", [errno.EINVAL, errno.EOPNOTSUPP])
def test_where_it_is_refused_all_goes_the_usual_way(
    written: tuple[PastPages, int, Path], monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    past, descriptor, path = written
    past._seconds = {False: 1.0, True: 0.1}

    def refuse() -> int:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(past, "_opened", refuse)
    data = bytes_at(0)
    put(past, descriptor, data, 0)
    assert past._refused
    put(past, descriptor, data, SIZE)
    np.testing.assert_array_equal(np.fromfile(path, np.uint8)[: 2 * SIZE], np.tile(data, 2))


def test_a_full_disk_is_told(
    written: tuple[PastPages, int, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    past, descriptor, _ = written
    past._seconds = {False: 1.0, True: 0.1}

    def full(*_: Any) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "pwrite", full)
    with pytest.raises(OSError, match="No space"):
        past.move(descriptor, [bytes_at(0)], 0)
    assert not past._refused


def test_boxes_of_an_array_between_others(written: tuple[PastPages, int, Path]) -> None:
    """Boxes of whole rows, in any order, of which pages belong to two."""
    past, descriptor, path = written
    past._seconds = {False: 1.0, True: 0.1}
    rows, columns = 3000, 1001
    extent = Extent(PAGE, (rows, columns), np.dtype(np.float32))
    os.ftruncate(descriptor, extent.end)
    block = bytes_at(512, rows * columns * 4).view(np.float32).reshape(rows, columns)
    bounds = [0, 700, 1024, 2048, 2999, 3000]
    for k in (2, 0, 4, 1, 3):
        box = slice(bounds[k], bounds[k + 1]), slice(0, columns)
        write_box(descriptor, extent, box, block[box], past.move)
    found = np.fromfile(path, np.float32, offset=PAGE).reshape(rows, columns)
    np.testing.assert_array_equal(found.view(np.uint32), block.view(np.uint32))


@pytest.mark.parametrize("shape", [(4 << 20,), (2049, 2048), (3, 5)])
def test_headers_of_much_data_are_a_page(tmp_path: Path, shape: tuple[int, ...]) -> None:
    made = npy.header(shape, np.dtype(np.float32))
    large = int(np.prod(shape)) * 4 >= npy._MUCH
    assert (len(made) == PAGE) == large
    assert len(made) % 64 == 0
    data = np.random.default_rng(1).random(shape, np.float32)
    path = tmp_path / "x.npy"
    path.write_bytes(made + data.tobytes())
    np.testing.assert_array_equal(np.load(path), data)
    np.testing.assert_array_equal(np.load(path, mmap_mode="r"), data)
    assert npy.read_header(str(path)) == (shape, False, np.dtype(np.float32), len(made))


def test_streams_to_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Steps of a stencil, whose boxes are written while the next ones are computed."""
    moved: list[PastPages] = []
    init = PastPages.__init__

    def noted(self: PastPages, path: str) -> None:
        init(self, path)
        self._seconds = {False: 1.0, True: 1e-12}
        moved.append(self)

    monkeypatch.setattr(PastPages, "__init__", noted)
    x = np.random.default_rng(2).random((2048, 4096), np.float32)
    np.save(tmp_path / "x.npy", x)

    def step(s: Any) -> Any:
        return (s[-1, 0] + s[1, 0] + s[0, 0]) * np.float32(1 / 3)

    program = wf.jit(lambda a: wf.iterate(lambda v: wf.stencil(step, v, boundary="edge"), a, 8))
    with wf.config(memory_limit="60 MiB"):
        wf.store(program(wf.open(tmp_path / "x.npy")), tmp_path / "y.npy")
    np.testing.assert_array_equal(np.load(tmp_path / "y.npy"), program(x))
    assert moved
    assert all(one._descriptor == -1 for one in moved)  # closed
