"""Files larger than the memory limit: what must stream, streams."""

from __future__ import annotations

import re
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from agreement.ways import Listed, small_boxes
from devices.harness import NAME

import weft as wf
from weft.errors import MemoryLimitError, OutOfBoundsError
from weft.plan import read_once

PROGRAMS: dict[str, tuple[Callable[[wf.Array], wf.Array], Callable[[np.ndarray], np.ndarray]]] = {
    "running sums down columns": (
        lambda x: wf.cumulative_sum(x, axis=0), lambda x: x.cumsum(axis=0),
    ),
    "differences of running sums": (
        lambda x: wf.diff(wf.cumulative_sum(x, axis=0), axis=0),
        lambda x: np.diff(x.cumsum(axis=0), axis=0),
    ),
    "transposition": (lambda x: x.T + 1, lambda x: x.T + 1),
    "less row means": (
        lambda x: x - x.mean(axis=1, keepdims=True), lambda x: x - x.mean(axis=1, keepdims=True),
    ),
    "rows sorted": (lambda x: wf.sort(x, axis=1), lambda x: np.sort(x, axis=1)),
    "columns sorted": (lambda x: wf.sort(x, axis=0), lambda x: np.sort(x, axis=0)),
    "order of columns": (
        lambda x: wf.argsort(x, axis=0, descending=True), lambda x: np.argsort(-x, axis=0),
    ),
    "product with its transpose": (lambda x: wf.einsum("ij,ik->jk", x, x), lambda x: x.T @ x),
}  # fmt: skip


@pytest.mark.parametrize("name", PROGRAMS)
def test_streams_under_a_limit(name: str, tmp_path: Path) -> None:
    run, expected = PROGRAMS[name]
    x = np.random.default_rng(0).random((4000, 1000))  # 31 MiB; 24 MiB are for the program
    np.save(tmp_path / "x.npy", x)
    with wf.config(memory_limit="30 MiB"):
        wf.store(run(wf.open(tmp_path / "x.npy")), tmp_path / "y.npy")
    np.testing.assert_allclose(np.load(tmp_path / "y.npy"), expected(x), rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("first", [1, 5, 3_999_999])
def test_a_part_behind_the_first_elements_is_read_where_it_is(first: int, tmp_path: Path) -> None:
    """Launch checks of a box count on no condition that ranges do not say."""
    x = np.random.default_rng(1).random(4_000_000)
    np.save(tmp_path / "x.npy", x)
    with wf.config(memory_limit="30 MiB"):
        source = wf.open(tmp_path / "x.npy")
        wf.store(source.at[first:].set(source[first:] * 2), tmp_path / "y.npy")
    x[first:] *= 2
    np.testing.assert_array_equal(np.load(tmp_path / "y.npy"), x)


@pytest.mark.parametrize("devices", [["cpu"], ["cpu:0", "cpu:1"], [NAME]])
def test_indices_outside_are_those_of_the_array(devices: list[str], tmp_path: Path) -> None:
    """Not of the part of it that a box reads."""
    if not set(devices) <= set(wf.devices()):
        pytest.skip("no such devices here")
    np.save(tmp_path / "x.npy", np.zeros(2_000_000))
    x = wf.open(tmp_path / "x.npy")
    ahead = wf.generate((2_000_000,), lambda i: x[i + 1])
    with (
        wf.config(devices=devices, memory_limit="40 MiB"),
        pytest.raises(OutOfBoundsError, match=r"to 2000000 leave axis 0 .* 2000000 elements"),
    ):
        wf.store(ahead, tmp_path / "y.npy")


def test_places_that_a_mask_selects_fit_the_limit_or_are_refused() -> None:
    """16 bytes an element, which no plan counts."""
    mask = np.ones((2000, 1000), bool)
    x = wf.asarray(np.ones(mask.shape))
    with wf.config(memory_limit="28 MiB"):
        for call in (lambda: x[mask], lambda: wf.nonzero(mask), lambda: wf.argwhere(mask)):
            with pytest.raises(MemoryLimitError, match=r"2000000 elements .*\(30\.5 MiB"):
                call()
        assert x[mask[:, 0]].shape == mask.shape
    assert x[mask].shape == (mask.size,)


@pytest.mark.parametrize("name", ["x.zarr", "x.h5"])
def test_chunks_that_are_decoded_whole_are_in_the_plan(name: str, tmp_path: Path) -> None:
    """A part of a compressed chunk costs the chunk, as it is stored and decoded."""
    x = np.random.default_rng(2).random((2000, 1000))  # 15.3 MiB, in one chunk
    path = str(tmp_path / name)
    if name.endswith("zarr"):
        zarr = pytest.importorskip("zarr")
        zarr.create_array(store=path, shape=x.shape, chunks=x.shape, dtype=x.dtype)[...] = x
    else:
        h5py = pytest.importorskip("h5py")
        with h5py.File(path, "w") as file:
            file.create_dataset("x", data=x, chunks=x.shape, compression="lzf")
    y = wf.open(path) * 2
    with wf.config(memory_limit="40 MiB"), pytest.raises(MemoryLimitError, match=r"26\.5 MiB to"):
        wf.store(y, tmp_path / "y.npy")
    assert not (tmp_path / "y.npy").exists()
    with wf.config(memory_limit="60 MiB"):
        assert "26.5 MiB to decode chunks" in str(wf.explain(y))
        wf.store(y, tmp_path / "y.npy")
    np.testing.assert_array_equal(np.load(tmp_path / "y.npy"), x * 2)


AROUND: dict[str, Callable[[wf.Array], wf.Array]] = {
    "stencil": lambda x: wf.stencil(lambda s: s[-1, 0] + s[1, 0] * s[0, 1], x, boundary="wrap"),
    "iterated": lambda x: wf.iterate(AROUND["stencil"], x, 2),
    "roll": lambda x: wf.roll(x, (7, 3), axis=(0, 1)),
    "pad": lambda x: wf.pad(x, ((2, 1), (1, 1)), mode="wrap"),
    "roll in one row": lambda x: wf.roll(x, 7),
    "roll far in one row": lambda x: wf.roll(x, -400_001),
    "roll of one row": lambda x: wf.roll(wf.reshape(x, (-1,)), 5),
}  # fmt: skip


@pytest.mark.parametrize("way", ["read in boxes", "in memory", "on a device"])
@pytest.mark.parametrize("name", AROUND)
def test_what_wraps_around_reads_little_besides_its_box(
    name: str, way: str, tmp_path: Path
) -> None:
    """The rows at the other end, but not all that lies between; and each row once."""
    x = np.random.default_rng(3).random((60_000, 11))  # 5 MiB
    (expected,) = [np.asarray(AROUND[name](wf.asarray(x)))]
    limits = {"cpu": 30 << 20}
    if way == "on a device":
        if NAME not in wf.devices():
            pytest.skip("no such device here")
        limits[NAME] = 1 << 20
    devices = [NAME] if way == "on a device" else ["cpu"]
    with wf.config(devices=devices, memory_limit=limits, interpret_below=0):
        y = AROUND[name](wf.open(Listed(x)) if way == "read in boxes" else wf.asarray(x))
        moved = wf.explain(wf.store, y, tmp_path / "y.npy").bytes_moved
        wf.store(y, tmp_path / "y.npy")
    assert moved < 2.2 * x.nbytes
    np.testing.assert_array_equal(np.load(tmp_path / "y.npy"), expected)


def test_chunks_that_no_box_fits_are_named(tmp_path: Path) -> None:
    """They are compressed, and so written as a whole."""
    zarr = pytest.importorskip("zarr")
    x = np.random.default_rng(2).random((4000, 1000))
    y, target = wf.asarray(x)[::-1] * 2, tmp_path / "y.zarr"
    zarr.create_array(target, shape=x.shape, dtype="f8", chunks=(4000, 1000))
    with wf.config(memory_limit="40 MiB"):
        with pytest.raises(MemoryLimitError, match=r"of 4000 along .* \(whole") as caught:
            wf.store(y, target, mode="r+")
        assert "(whole chunks of " in str(caught.value)
        assert "try: smaller chunks=, or a memory_limit" in str(caught.value)
        wf.store(y, target, chunks=(10, 1000), mode="w")
    np.testing.assert_array_equal(np.asarray(wf.open(target)), x[::-1] * 2)


@pytest.mark.parametrize("chunks", [(4000, 1000), (3001, 7), (4000, 333)])
def test_chunks_that_no_box_fits_are_put_together(chunks: tuple[int, ...], tmp_path: Path) -> None:
    x = np.random.default_rng(2).random((4000, 1000))
    target = tmp_path / "y.zarr"
    with wf.config(memory_limit="40 MiB"):
        y = wf.asarray(x)[::-1] * 2
        plan = wf.explain(wf.store, y, target, chunks=chunks).plan
        wf.store(y, target, chunks=chunks)
    assert plan.stages[0].boxes.extent < chunks[0]
    np.testing.assert_array_equal(np.asarray(wf.open(target)), x[::-1] * 2)


@pytest.mark.parametrize("chunk", [4097, 100_000, 1_000_000])
def test_a_scan_to_chunks_that_are_no_tiles_of_it(chunk: int, tmp_path: Path) -> None:
    """Boxes of whole ones of both would be as long as all there is."""
    x = np.random.default_rng(2).random(3_000_017)
    np.save(tmp_path / "x.npy", x)
    target = tmp_path / "y.zarr"
    with wf.config(memory_limit="30 MiB"):
        wf.store(wf.cumulative_sum(wf.open(tmp_path / "x.npy")), target, chunks=(chunk,))
    np.testing.assert_allclose(np.asarray(wf.open(target)), np.cumsum(x), rtol=1e-12)


@pytest.mark.parametrize("slots", [1, 3, 128])
def test_as_many_slots_as_fit_where_fewer_were_no_choice(slots: int, tmp_path: Path) -> None:
    """The tiles of column sums: two of them, of 6.5 MiB each, are more than the device has."""
    if NAME not in wf.devices():
        pytest.skip("no such device here")
    x = np.random.default_rng(4).random((131_072, 13))
    with wf.config(devices=[NAME], memory_limit={NAME: "8 MiB"}, slots=slots):
        wf.store(x - wf.asarray(x).mean(axis=0), tmp_path / "y.npy")
    np.testing.assert_allclose(np.load(tmp_path / "y.npy"), x - x.mean(axis=0), atol=1e-12)


@pytest.mark.parametrize("slots", [None, 3])
def test_what_the_cpu_does_for_a_device_is_what_has_no_room_there(
    slots: int | None, tmp_path: Path
) -> None:
    """The sums of boxes together; `explain` says how much they need."""
    if NAME not in wf.devices():
        pytest.skip("no such device here")
    x = np.random.default_rng(4).random((131_072, 13))
    y = x - wf.asarray(x).mean(axis=0)

    def apart(limit: int | str) -> list[str]:
        with wf.config(devices=[NAME], slots=slots, memory_limit={NAME: limit}):
            text = str(wf.explain(wf.store, y, tmp_path / "y.npy"))
            wf.store(y, tmp_path / "y.npy", mode="w")
        np.testing.assert_allclose(np.load(tmp_path / "y.npy"), x - x.mean(axis=0), atol=1e-12)
        return re.findall(rf"runs on the cpu: \w+ needs ([\d.]+) KiB at once on {NAME}", text)

    (needed,) = apart("64 KiB")
    assert 64 < float(needed) < 256
    assert not apart(f"{float(needed) + 1} KiB")


@pytest.mark.parametrize("name", ["x.zarr", "x.h5"])
def test_chunks_are_decoded_once_where_another_axis_can_be_cut(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A box of columns decodes all chunks: so it is planned, and counted where nothing else is.

    Where that is often, a stage before decodes each once.
    """
    x = np.random.default_rng(5).random((30_000, 100))
    path = str(tmp_path / name)
    if name.endswith("zarr"):
        zarr = pytest.importorskip("zarr")
        zarr.create_array(store=path, shape=x.shape, chunks=(500, 100), dtype=x.dtype)[...] = x
    else:
        h5py = pytest.importorskip("h5py")
        with h5py.File(path, "w") as file:
            file.create_dataset("x", data=x, chunks=(500, 100), compression="lzf")
    with wf.config(memory_limit="36 MiB"):
        given = wf.open(path)
        assert list(wf.explain(wf.store, given.T + 1, "y.npy").passes.values()) == [1]
        plan = wf.explain(wf.store, wf.sort(given, axis=0), "y.npy")
        assert plan.plan.stages[-1].boxes.count > 3
        assert list(plan.passes.values()) == [1]
        assert "read once, to a scratch file" in str(plan)
        wf.store(given.T + 1, tmp_path / "y.npy")
    np.testing.assert_array_equal(np.load(tmp_path / "y.npy"), x.T + 1)
    monkeypatch.setattr(read_once, "_OFTEN", 100)
    with wf.config(memory_limit="37 MiB"):  # for which there is no plan yet
        plan = wf.explain(wf.store, wf.sort(given, axis=0), "z.npy")
        boxes = plan.plan.stages[0].boxes.count
        assert boxes > 1
        assert list(plan.passes.values()) == [boxes]
        assert f"read {boxes} times" in str(plan)


ROUNDS: dict[str, Callable[[wf.Array, wf.Array], wf.Array]] = {
    "a stencil that wraps around": lambda i, s: AROUND["stencil"](s),
    "a stencil": lambda i, s: wf.stencil(lambda a: a[-1, 0] + a[0, 1], s, boundary="edge"),
    "an elimination": lambda i, s: s - s[i] * 0.5,
}


@pytest.mark.parametrize("devices", [["cpu"], [NAME]])
@pytest.mark.parametrize("name", ROUNDS)
def test_rounds_that_data_count_are_done_at_once_or_one_by_one(
    name: str, devices: list[str], tmp_path: Path
) -> None:
    if not set(devices) <= set(wf.devices()):
        pytest.skip("no such device here")
    x = np.random.default_rng(7).random((60_000, 11))  # 5 MiB
    given = wf.asarray(x)
    y = wf.fori_loop(0, wf.max(wf.astype(given[:9, 0], wf.int64)) + 3, ROUNDS[name], given)
    expected = np.asarray(wf.fori_loop(0, 3, ROUNDS[name], given))
    for limit, alone in (("28 MiB", True), ("50 MiB", False)):
        with wf.config(devices=devices, memory_limit=limit), small_boxes(1 << 20):
            told = str(wf.explain(wf.store, y, tmp_path / "z.npy"))
            assert ("one by one: how many there are depends on data" in told) is alone
            wf.store(y, tmp_path / "y.npy", mode="w")
        np.testing.assert_array_equal(np.load(tmp_path / "y.npy"), expected)


def test_results_that_do_not_fit_are_refused_before_any_cut_is_tried(
    monkeypatch: pytest.MonkeyPatch
) -> None:
    x = wf.asarray(Listed(np.random.default_rng(1).random((1000, 1000))))
    planned: list[object] = []
    monkeypatch.setattr("weft.plan.cuts.partition", lambda *given: planned.append(given))
    with wf.config(memory_limit="30 MiB"), pytest.raises(MemoryLimitError) as refused:
        np.asarray(wf.cumulative_sum(x * 2, axis=0))
    assert not planned
    assert "the results need 31.6 MiB at once" in refused.value.found
    assert "wf.store" in refused.value.advice


@pytest.mark.parametrize("kind", [wf.asarray, lambda x: wf.asarray(Listed(x))])
def test_a_result_that_is_given_twice_is_counted_twice(
    kind: Callable[[np.ndarray], wf.Array]
) -> None:
    x = np.random.default_rng(1).random((1000, 1000))  # 7.6 MiB; 24 MiB are for the program
    twice = kind(x) * 2
    needed = 15.3 if kind is wf.asarray else 39.3
    for limit in (0.95 * needed, 1.05 * needed):
        with wf.config(memory_limit=int(limit * 2**20)):
            if limit < needed:
                with pytest.raises(MemoryLimitError, match=r"results need 39\.3 MiB"):
                    wf.compute(twice, twice)
                continue
            first, second = wf.compute(twice, twice)
            assert not np.shares_memory(first, second)
            np.testing.assert_array_equal(second, x * 2)


@pytest.mark.parametrize(
    ("unique", "needed"),
    [
        (wf.unique_values, "17.2"), (wf.unique_counts, "17.2"), (wf.unique_inverse, "78.2"),
        (wf.unique_all, "78.2"), (wf.unique, "17.2"),
    ],
)  # fmt: skip
def test_what_numpy_makes_of_distinct_values_is_refused_by_name(unique: Any, needed: str) -> None:
    x = np.arange(2_000_000) % 1000
    with (
        wf.config(memory_limit="16 MiB"),
        pytest.raises(MemoryLimitError, match=rf"of 2000000 elements.*: {needed} MiB"),
    ):
        unique(wf.asarray(x))
    with wf.config(memory_limit="96 MiB"):
        unique(wf.asarray(x))


@pytest.mark.parametrize(
    ("call", "shape", "times"),
    [
        (wf.sort, (1_000_000,), 2), (wf.argsort, (1_000_000,), 3),
        (lambda x: wf.argsort(x, descending=True), (1_000_000,), 3),
        (wf.linalg.inv, (1000, 1000), 4), (lambda x: x @ x, (1000, 1000), 1),
    ],
)  # fmt: skip
def test_what_library_calls_make_besides_their_results_is_in_the_plan(
    call: Callable[[wf.Array], wf.Array], shape: tuple[int, ...], times: int
) -> None:
    x = np.random.default_rng(5).random(shape)
    given = wf.asarray(x)
    with wf.config(memory_limit=int(0.97 * times * x.nbytes)), pytest.raises(MemoryLimitError):
        np.asarray(call(given))
    with wf.config(memory_limit=int(1.03 * times * x.nbytes)):
        tracemalloc.start()
        found = np.asarray(call(given))
        made = tracemalloc.get_traced_memory()[1]  # but for what lies in Weft's pool
        tracemalloc.stop()
    assert made <= (times - 1) * x.nbytes + (1 << 20)
    assert found.shape == shape


@pytest.mark.parametrize("chunked", [False, True])
def test_chunks_that_nobody_chose_are_as_small_as_the_limit_asks(
    chunked: bool, tmp_path: Path
) -> None:
    """A slab of the 4 MiB that chunks have by default did not fit, and was refused."""
    x = np.random.default_rng(0).random((2000, 700))
    if chunked:
        wf.store(x, tmp_path / "x.zarr", chunks=(101, 97))
    source = wf.open(tmp_path / "x.zarr") if chunked else wf.asarray(x)
    with wf.config(memory_limit="30 MiB"):
        planned = wf.explain(wf.store, source * 2, tmp_path / "y.zarr")
        wf.store(source * 2, tmp_path / "y.zarr")
    assert planned.peak_bytes <= 30 << 20
    stored = wf.open(tmp_path / "y.zarr")
    np.testing.assert_array_equal(np.asarray(stored), x * 2)


def test_what_is_resumed_under_another_limit_keeps_its_chunks(tmp_path: Path) -> None:
    class Broken(Listed):
        def __getitem__(self, box: Any) -> Any:
            if box[0].start > 900:
                raise OSError("gone")
            return super().__getitem__(box)

    x = np.random.default_rng(0).random((2000, 700))
    with wf.config(memory_limit="30 MiB"), pytest.raises(OSError, match="gone"):
        wf.store(wf.open(Broken(x)) * 2, tmp_path / "y.zarr", resume=True)
    wf.store(wf.open(Listed(x)) * 2, tmp_path / "y.zarr", resume=True)
    stored = wf.open(tmp_path / "y.zarr")
    np.testing.assert_array_equal(np.asarray(stored), x * 2)


def test_a_refusal_names_the_cut_that_needs_least(tmp_path: Path) -> None:
    """It named the one that was tried last."""
    zarr = pytest.importorskip("zarr")
    x = np.random.default_rng(0).random((4000, 700))
    target = tmp_path / "y.zarr"
    zarr.create_array(target, shape=x.shape, dtype="f8", chunks=(400, 700))
    with (
        wf.config(memory_limit="25 MiB"),
        pytest.raises(MemoryLimitError, match=r"400 of 4000 along \S+ axis 0") as caught,
    ):
        wf.store(wf.asarray(x) * 2, target, mode="r+")
    needed = re.search(r"at least (\d+) bytes", caught.value.advice)
    assert needed is not None
    with wf.config(memory_limit=int(needed[1])):
        wf.store(wf.asarray(x) * 2, target, mode="r+")
    np.testing.assert_array_equal(np.asarray(wf.open(target)), x * 2)


ACROSS: dict[str, tuple[Callable[[Any], Any], Callable[[np.ndarray], np.ndarray]]] = {
    "sums of sorted columns": (
        lambda x: wf.sort(x, axis=0).sum(axis=1), lambda x: np.sort(x, axis=0).sum(axis=1),
    ),
    "sorted columns rolled": (
        lambda x: wf.roll(wf.sort(x, axis=0) * 2, 303, axis=0),
        lambda x: np.roll(np.sort(x, axis=0) * 2, 303, axis=0),
    ),
    "shifted transform": (
        lambda x: np.fft.fftshift(np.fft.fft2(x)), lambda x: np.fft.fftshift(np.fft.fft2(x)),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", ACROSS)
def test_what_crosses_the_axis_that_a_call_is_cut_along_waits_in_a_file(
    name: str, tmp_path: Path
) -> None:
    """Boxes of both had all that the call gives, or what lies between both ends of a seam."""
    run, expected = ACROSS[name]
    x = np.random.default_rng(0).random((512, 4000))
    with wf.config(memory_limit="29 MiB"):
        wf.store(run(wf.asarray(x)), tmp_path / "y.zarr")
    result = np.asarray(wf.open(tmp_path / "y.zarr"))
    np.testing.assert_allclose(result, expected(x), rtol=1e-9, atol=1e-9)


def test_the_transpose_in_one_row_is_read_once() -> None:
    """Long boxes are whole columns of it; what few indices read is the least of every column."""
    x = Listed(np.random.default_rng(0).random((900, 400)))
    with wf.config(memory_limit=(24 << 20) + x.array.nbytes // 2, interpret_below=0):
        plan = wf.explain(wf.store, wf.reshape(wf.open(x).T, (-1,)) * 2, "row.npy")
    assert sum(plan.passes.values()) < 1.1
