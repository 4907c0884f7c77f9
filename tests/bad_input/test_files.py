"""Files that are not what they should be, targets that cannot be written, limits too small."""

from __future__ import annotations

import contextlib
import os
import re
import resource
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
import zarr
from bad_input.refusals import finished, leftovers, refused, script

import weft as wf
from weft.errors import (
    ArgumentError,
    ArgumentTypeError,
    DTypeError,
    MemoryLimitError,
    ShapeError,
    SinkError,
    SourceError,
)  # fmt: skip


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """A file of 40,000 numbers."""
    path = tmp_path / "data.npy"
    np.save(path, np.arange(40_000.0))
    return path


class Chunked:
    """An object that gives rows, until it fails."""

    def __init__(self, fails_at: int, error: BaseException, rows: int = 64) -> None:
        self.shape, self.dtype = (rows, 1 << 18), np.dtype("f4")
        self.fails_at, self.error, self.times = fails_at, error, 0

    def __getitem__(self, box: tuple[slice, ...]) -> Any:
        if box[0].stop > self.fails_at:
            raise self.error
        self.times += 1
        return np.ones([s.stop - s.start for s in box], "f4")

    def __setitem__(self, box: tuple[slice, ...], value: Any) -> None:
        self[box]


# ---------------------------------------------------------------- sources


def test_a_missing_file(tmp_path: Path) -> None:
    path = tmp_path / "missing.npy"
    refused(lambda: wf.open(path), SourceError, OSError, found="missing.npy")


def test_a_truncated_file(data: Path) -> None:
    os.truncate(data, 1000)
    refused(lambda: wf.open(data).sum().numpy(), SourceError, OSError, found="data.npy")


def test_no_npy_at_all(tmp_path: Path) -> None:
    path = tmp_path / "text.npy"
    path.write_text("not an array " * 100)
    refused(lambda: wf.open(path), SourceError, OSError, found="text.npy")


def test_an_unknown_format(tmp_path: Path) -> None:
    path = tmp_path / "table.csv"
    path.write_text("1,2,3")
    error = refused(lambda: wf.open(path), SourceError, OSError, found="table.csv")
    assert ".npy" in str(error)


def test_missing_datasets(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["there"] = np.arange(5)
    zarr.open_group(tmp_path / "a.zarr", mode="w").create_array("there", shape=3, dtype="f4")
    for name in ("a.h5", "a.zarr"):
        error = refused(lambda: wf.open(tmp_path / name, "gone"), SourceError, OSError)  # noqa: B023
        assert "gone" in str(error)
        assert "there" in str(error)


@pytest.mark.parametrize("below", [0, 1 << 40], ids=["compiled", "interpreted"])
def test_a_file_that_shrank_before_the_run(data: Path, below: int) -> None:
    x = wf.open(data)
    total = x.sum()
    os.truncate(data, 4096)
    with wf.config(interpret_below=below):
        refused(total.numpy, SourceError, OSError, found="data.npy")


def test_a_file_that_vanished(data: Path, tmp_path: Path) -> None:
    total = (wf.open(data) * 2).sum()
    data.unlink()
    target = tmp_path / "out.npy"
    with contextlib.suppress(SourceError):
        assert float(total) == 2 * sum(range(40_000))  # the file that was opened is still there
    assert not target.exists()


SHRINKS = """
    import os, sys, threading, time
    import numpy as np
    import weft as wf

    folder, way = sys.argv[1:]
    path = f"{folder}/big.npy"
    rows = 1 << 12
    np.lib.format.open_memmap(path, "w+", "f4", (rows, 1 << 14))[:] = 1
    x = wf.open(path)
    y = x
    for _ in range(20):
        y = wf.sin(y) + x

    def shrink():
        time.sleep(0.4)
        os.truncate(path, 1 << 20)

    with wf.config(threads=1):
        wf.open(path)[:8].sum().numpy()
        small = wf.asarray(np.ones((8, 1 << 14), "f4"))
        for _ in range(20):
            small = wf.sin(small) + 1
        threading.Thread(target=shrink).start()
        try:
            if way == "store":
                wf.store(y, f"{folder}/out.npy")
            else:
                y.sum().numpy()
        except wf.WeftError as error:
            print(type(error).__name__, isinstance(error, OSError), error.found)
        else:
            print("no error")
"""


@pytest.mark.parametrize("way", ["store", "numpy"])
def test_a_file_that_shrinks_during_the_run(way: str, tmp_path: Path) -> None:
    done = finished(script(tmp_path, SHRINKS, str(tmp_path), way))
    assert done.returncode == 0, (done.returncode, done.stderr)
    assert done.stdout.startswith("SourceError True"), done.stdout
    assert "big.npy" in done.stdout
    assert leftovers(tmp_path, "program.py", "big.npy") == []


LIBRARY = """
    import os, sys
    import numpy as np
    import weft as wf
    from weft.ops.routines import ROUTINES

    folder, name, below = sys.argv[1:]
    path = f"{folder}/big.npy"
    whole = np.random.default_rng(1).random((1 << 10, 1 << 11))
    np.save(path, whole)
    original = ROUTINES[name].execute
    shrinks = True

    def execute(*arrays, **options):
        if shrinks:
            os.truncate(path, 1 << 13)
        original(*arrays, **options)

    object.__setattr__(ROUTINES[name], "execute", execute)

    def call():
        x = wf.open(path)
        y = wf.sort(x, axis=1) if name == "sort" else x @ wf.asarray(whole.T)
        return y.numpy()

    with wf.config(interpret_below=int(below)):
        try:
            call()
        except wf.WeftError as error:
            print(type(error).__name__, isinstance(error, OSError), error.found)
        shrinks = False
        np.save(path, whole)
        expected = np.sort(whole, axis=1) if name == "sort" else whole @ whole.T
        print("right" if np.array_equal(call(), expected) else "wrong")
"""


@pytest.mark.parametrize("name", ["matmul", "sort"])
@pytest.mark.parametrize("below", ["0", str(1 << 40)], ids=["compiled", "interpreted"])
def test_a_file_that_shrinks_during_a_library_call(name: str, below: str, tmp_path: Path) -> None:
    done = finished(script(tmp_path, LIBRARY, str(tmp_path), name, below))
    assert done.returncode == 0, (done.returncode, done.stderr)
    first, second = done.stdout.splitlines()
    assert first.startswith("SourceError True"), done.stdout
    assert "big.npy" in first
    assert second == "right"


@pytest.mark.parametrize("fails_at", [1, 33, 64])
def test_a_source_that_fails_in_the_middle(fails_at: int, tmp_path: Path) -> None:
    broken = ValueError("the tape is torn")
    source = Chunked(fails_at, broken)
    target = tmp_path / "out.npy"
    source.fails_at -= 1
    error = refused(
        lambda: wf.store(wf.open(source) + 1, target), SourceError, OSError, found="tape is torn"
    )
    assert error.__cause__ is broken
    assert leftovers(tmp_path) == []


def test_a_sink_that_fails_in_the_middle(tmp_path: Path) -> None:
    broken = RuntimeError("no ink")
    sink = Chunked(40, broken)
    good = tmp_path / "good.npy"
    x = wf.open(Chunked(64, broken))
    error = refused(
        lambda: wf.store([x + 1, x * 2], [sink, good]), SinkError, OSError, found="no ink"
    )
    assert error.__cause__ is broken
    assert leftovers(tmp_path) == []
    assert sink.times < 64


# ---------------------------------------------------------------- targets


def test_a_target_that_exists(data: Path) -> None:
    before = data.read_bytes()
    refused(lambda: wf.store(wf.zeros(3), data), SinkError, OSError, found="data.npy", advice="w")
    assert data.read_bytes() == before
    wf.store(wf.zeros(3), data, mode="w")
    assert np.load(data).shape == (3,)


@pytest.mark.parametrize(("suffix", "found"), [(".npy", "directory"), (".zarr", "precious")])
def test_a_target_that_is_a_folder_of_other_things(suffix: str, found: str, tmp_path: Path) -> None:
    """Replacing it would remove what is in it."""
    folder = tmp_path / f"results{suffix}"
    folder.mkdir()
    (folder / "precious.txt").write_text("kept")
    refused(
        lambda: wf.store(wf.zeros(3), folder, mode="w"), SinkError, OSError, 'mode="w"',
        found=found,
    )  # fmt: skip
    assert (folder / "precious.txt").read_text() == "kept"
    assert leftovers(tmp_path) == [folder.name]


def test_a_folder_for_a_file(tmp_path: Path) -> None:
    (tmp_path / "a.zarr").write_text("kept")
    refused(
        lambda: wf.store(wf.zeros(3), tmp_path / "a.zarr", mode="w"), SinkError, OSError,
        found="no directory",
    )  # fmt: skip
    assert (tmp_path / "a.zarr").read_text() == "kept"


@pytest.mark.parametrize("mode", ["x", "w"])
@pytest.mark.parametrize("names", [
    ("a.npy", "./a.npy"), ("a.zarr", "a.zarr"), ("a.zarr::b", "a.zarr::b/c"), ("a.h5", "a.h5"),
    ("a.h5::b", "a.h5::c"),
])  # fmt: skip
def test_targets_in_one_place(
    names: tuple[str, str], mode: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only the last of them would be left."""
    monkeypatch.chdir(tmp_path)
    given = [wf.zeros(3), wf.ones(3)]
    refused(
        lambda: wf.store(given, names, mode=mode), ArgumentError, ValueError, "wf.store",
        found=names[1], advice="one after another",
    )  # fmt: skip
    assert not [path for path in tmp_path.rglob("*") if path.is_file() and path.suffix != ".json"]


def test_components_beside_each_other(tmp_path: Path) -> None:
    wf.store(wf.zeros(2), f"{tmp_path}/a.h5::z")
    for store in ("a.h5", "a.zarr"):
        names = [f"{tmp_path}/{store}::{name}" for name in ("b", "c")]
        wf.store([wf.zeros(3), wf.ones(3)], names)
        assert [np.asarray(wf.open(name))[0] for name in names] == [0, 1]
        wf.store(wf.full(3, 2.0), names[0], mode="r+")
        assert "::b" in str(wf.explain(wf.store, wf.zeros(3), names[0], mode="r+"))
    found = [np.asarray(wf.open(tmp_path / "a.h5", name))[0] for name in ("z", "b", "c")]
    assert found == [0, 2, 1]


def test_names_of_targets(tmp_path: Path) -> None:
    for name in ("a::b.npy", "n" * 251 + ".npy", "[*?].npy"):
        wf.store(wf.ones(3), tmp_path / name)
        wf.store(wf.ones(3), tmp_path / name, mode="w")
        assert np.asarray(wf.open(tmp_path / name)).tolist() == [1, 1, 1]
        assert leftovers(tmp_path) == [name]
        (tmp_path / name).unlink()


def test_what_is_no_place_chunk_or_region(tmp_path: Path) -> None:
    refused(lambda: wf.store(wf.ones(3), "a\0.npy"), SinkError, OSError, "store", found="null")
    refused(lambda: wf.open("a\0.npy"), SourceError, OSError, "wf.open", found="null")
    refused(
        lambda: wf.store(wf.ones(3), tmp_path / "a.zarr", chunks=(3, 3)),
        ArgumentError, ValueError, "chunks", found="2 extents", expected="1",
    )  # fmt: skip
    for chunks in (3, "ab", (1.5,)):
        refused(
            lambda chunks=chunks: wf.store(wf.ones(3), tmp_path / "a.zarr", chunks=chunks),
            ArgumentTypeError, TypeError, "chunks", found="chunks",
        )  # fmt: skip
    for region in (1, (1,), [slice(0, 3)], slice(0.0, 3.0)):
        refused(
            lambda region=region: wf.store(wf.ones(3), np.zeros(3), regions=region),
            ArgumentTypeError, TypeError, "region", found="region", expected="slices",
        )  # fmt: skip


class Odd:
    """An object that says it is an array."""

    def __init__(self, shape: Any, dtype: Any, gives: Any = None) -> None:
        self.shape, self.dtype, self.gives = shape, dtype, gives

    def __getitem__(self, box: Any) -> Any:
        return self.gives


def test_objects_that_are_no_arrays() -> None:
    for shape, dtype in ((5, "f8"), ((3, "a"), "f8"), ((-3,), "f8"), ((3,), "nonsense")):
        odd = Odd(shape, dtype)
        refused(lambda odd=odd: wf.open(odd), ArgumentTypeError, TypeError, "wf.open", found="Odd")
    lazy = wf.open(Odd((2,), "i8", np.array([0.5, 1])))
    refused(lambda: np.asarray(lazy), SourceError, OSError, "lazy", found="float64")


def test_a_target_that_is_also_the_source(data: Path) -> None:
    expected = np.load(data) * 2
    wf.store(wf.open(data) * 2, data, mode="w")
    np.testing.assert_array_equal(np.load(data), expected)


@pytest.mark.parametrize("suffix", [".npy", ".zarr", ".h5"])
def test_a_missing_folder(suffix: str, tmp_path: Path) -> None:
    target = tmp_path / "gone" / f"out{suffix}"
    refused(lambda: wf.store(wf.zeros(3), target), SinkError, OSError, found="gone")
    assert leftovers(tmp_path) == []


def test_a_read_only_target(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever runs the tests may be root: what the system says to others is said here."""
    real = os.open

    def refuse(path: Any, flags: int, *more: Any, **named: Any) -> int:
        if flags & (os.O_WRONLY | os.O_RDWR):
            raise PermissionError(13, "Permission denied", path)
        return real(path, flags, *more, **named)

    monkeypatch.setattr(os, "open", refuse)
    target = tmp_path / "out.npy"
    refused(lambda: wf.store(wf.zeros(3), target), SinkError, OSError, found="out.npy")
    monkeypatch.undo()
    assert leftovers(tmp_path) == []


def test_a_read_only_array() -> None:
    target = np.zeros(3)
    target.flags.writeable = False
    refused(lambda: wf.store(wf.zeros(3), target), SinkError, OSError, found="read-only")


FULL = """
    import sys, signal
    import numpy as np
    import weft as wf

    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    try:
        wf.store(wf.ones((1 << 10, 1 << 13)) * 2, sys.argv[1])
    except wf.WeftError as error:
        print(type(error).__name__, isinstance(error, OSError), error.found)
"""


@pytest.mark.parametrize("suffix", [".npy", ".zarr", ".h5"])
def test_a_full_target(suffix: str, tmp_path: Path) -> None:
    def limited() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 19, 1 << 19))

    command = script(tmp_path, FULL, str(tmp_path / f"out{suffix}"))
    done = finished(command, preexec_fn=limited)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("SinkError True"), (done.stdout, done.stderr)
    assert leftovers(tmp_path, "program.py") == []


TARGETS: list[tuple[Callable[[], Any], type, type]] = [
    (lambda: wf.store([wf.zeros(3), wf.zeros(4)], ["a.npy"]), ArgumentError, ValueError),
    (lambda: wf.store([wf.zeros(3)], "a.npy"), ArgumentTypeError, TypeError),
    (lambda: wf.store(wf.zeros(3), "a.npy", mode="a"), ArgumentError, ValueError),
    (lambda: wf.store(wf.zeros(3), np.zeros(4)), ShapeError, ValueError),
    (lambda: wf.store(wf.zeros(3), np.zeros(3, "i4")), DTypeError, TypeError),
    (lambda: wf.store(wf.zeros(3), 3), ArgumentTypeError, TypeError),
    (lambda: wf.store(wf.zeros(3), "a.txt"), SinkError, OSError),
]  # fmt: skip


@pytest.mark.parametrize(("run", "named", "builtin"), TARGETS)
def test_targets_that_do_not_fit(
    run: Callable[[], Any], named: Any, builtin: Any, tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.chdir(tmp_path)
    refused(run, named, builtin)
    assert leftovers(tmp_path) == []


# ---------------------------------------------------------------- limits


@pytest.fixture
def large() -> Any:
    return wf.open(Chunked(64, ValueError()))  # 64 MiB


def test_a_result_larger_than_the_limit(large: Any) -> None:
    with wf.config(memory_limit="48 MiB"):
        error = refused((large + 1).numpy, MemoryLimitError, MemoryError)
    assert re.search(r"\d[\d,]* bytes|\d+ [KMG]iB", str(error)), error
    assert error.advice


def test_what_cannot_be_cut(large: Any, tmp_path: Path) -> None:
    y = wf.linalg.qr(large)[0]
    with wf.config(memory_limit="48 MiB"):
        error = refused(
            lambda: wf.store(y, tmp_path / "out.npy"), MemoryLimitError, MemoryError, "qr"
        )
    assert "MiB" in str(error) or "bytes" in str(error)
    assert leftovers(tmp_path) == []


def test_a_limit_that_leaves_no_room(data: Path, tmp_path: Path) -> None:
    with wf.config(memory_limit="1 MiB"):
        refused(
            lambda: wf.store(wf.open(data) + 1, tmp_path / "out.npy"), MemoryLimitError,
            MemoryError,
        )  # fmt: skip
    assert leftovers(tmp_path, "data.npy") == []


def test_a_loop_that_has_room_for_few_rounds_is_refused_at_once(tmp_path: Path) -> None:
    """Each block of rounds is a stage: thousands of them would be planned for minutes."""
    np.save(tmp_path / "x.npy", np.zeros((20480, 100)))
    x = wf.open(tmp_path / "x.npy")
    _, sums = wf.scan(lambda most, row: (wf.maximum(most, row), most + row), x[0], x)
    before = time.perf_counter()
    with wf.config(memory_limit="10 MiB"):
        refused(
            lambda: wf.store(sums, tmp_path / "y.npy"), MemoryLimitError, MemoryError,
            found="the program itself",
        )  # fmt: skip
    assert time.perf_counter() - before < 30
    assert leftovers(tmp_path) == ["x.npy"]
