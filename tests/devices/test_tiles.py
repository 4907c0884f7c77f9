"""Tiles on a device: nests over several axes of which no box along one axis fits, or moves more.

What is copied is what the plan says and what sets of elements say, results are those of the device
at once, bit for bit, and the limit holds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import product
from pathlib import Path
from time import perf_counter
from typing import Any
from unittest import mock

import numpy as np
import pytest
from agreement.ways import assert_equal_bits, interpreted, streamed
from devices.faults import failing, full, lost
from devices.harness import Device, device
from devices.test_faults import attempt
from slow import every_second

import weft as wf
from weft.errors import DeviceError
from weft.plan.code import Rates
from weft.plan.nodes import PlannedStage, Tiles
from weft.plan.tile_shapes import shapes as quickest
from weft.runtime.devices.opencl import OpenClDevice
from weft.runtime.devices.protocol import FAILURE_BYTES

QUICK = Rates(1e9, 1e9, 1e12, 1e-6, 1e-6, 2, True)
"""Of a device whose copies are what takes time, and go beside its kernels."""


@pytest.fixture
def on() -> Iterator[Device]:
    found = device()
    with mock.patch.object(found, "_rates", QUICK):
        yield found


def products() -> Any:
    return wf.jit(lambda a, b: (a[:, None, :] * b.T[None, :, :]).sum(axis=-1))


def distances() -> Any:
    return wf.jit(lambda x, y: ((x[:, :, None, :] - y[:, None, :, :]) ** 2).sum(axis=-1))


def tables() -> Any:
    return wf.jit(lambda a, b, d: a[:, :, None] * b[None, :, :] + d[:, None, :])


def differences() -> Any:
    return wf.jit(lambda x: x[:, None] - x[None, :])


def scaled_products() -> Any:
    """Two statements: what the first gives a tile, the second scales."""
    return wf.jit(
        lambda a, b, s: (a[:, None, :] * b.T[None, :, :]).sum(axis=-1) * s[:, None] + s[None, :]
    )


def contraction() -> Any:
    """c[i, l, j] = sum_k a[i, l, k] b[j, k]"""
    return wf.jit(lambda a, b: (a[:, :, None, :] * b[None, None, :, :]).sum(axis=-1))


def cubes(reach: int) -> Any:
    """Of a 3-D array the sums of elements so far away on both sides, along all axes."""

    def at(s: Any) -> Any:
        total = s[0, 0, 0]
        for by in (-reach, reach):
            total = total + s[by, 0, 0] + s[0, by, 0] + s[0, 0, by]
        return total

    return wf.jit(lambda x: wf.stencil(at, x, boundary="edge"))


def shapes(*wanted: tuple[int, ...]) -> list[Any]:
    rng = np.random.default_rng(sum(map(sum, wanted)))
    return [rng.random(shape) for shape in wanted]


CASES: dict[str, tuple[Callable[[], Any], list[tuple[int, ...]], int]] = {
    "product": (products, [(97, 61), (61, 113)], 8),
    "one more than lines": (products, [(65, 129), (129, 257)], 12),
    "distances": (distances, [(3, 53, 17), (3, 71, 17)], 12),
    "two batches": (distances, [(2, 53, 17), (2, 71, 17)], 9),
    "tables": (tables, [(31, 23), (23, 37), (31, 37)], 20),
    "differences": (differences, [(211,)], 250),
    "scaled": (scaled_products, [(97, 61), (61, 97), (97,)], 7),
    "contraction": (contraction, [(13, 23, 37), (41, 37)], 15),
    "cubes": (lambda: cubes(3), [(29, 31, 37)], 14),
}


def planned(program: Any, arguments: list[Any]) -> tuple[PlannedStage, Tiles]:
    (stage,) = program.explain(*map(wf.asarray, arguments)).plan.stages
    assert stage.tiles is not None
    return stage, stage.tiles


@pytest.mark.parametrize(("name", "slots"), every_second(
    [(name, slots) for number, name in enumerate(CASES)
     for slots in ([None, 1, 2, 3] if number % 2 else [1, None, 3, 2])], several=True
))  # fmt: skip
def test_tiles_of_awkward_sizes_give_what_the_device_gives_at_once(
    on: Device, name: str, slots: int | None
) -> None:
    make, wanted, part = CASES[name]
    arguments = shapes(*wanted)
    program = make()
    with wf.config(devices=[on.name]):
        whole = program(*arguments)
        cap = (sum(a.nbytes for a in arguments) + whole.nbytes) // part
        with wf.config(memory_limit={on.name: cap}, slots=slots):
            stage, tiles = planned(program, arguments)
            on.trim()
            on.statistics.peak_bytes = 0
            before = on.statistics.bytes_in, on.statistics.bytes_out
            found = program(*arguments)
    assert found.tobytes() == whole.tobytes()
    assert 0 < on.statistics.peak_bytes <= stage.device_bytes + stage.slots * 64 <= cap + 256
    failures = (on.statistics.bytes_in - before[0] - tiles.bytes_in) / FAILURE_BYTES
    assert failures in range(stage.boxes.count + 1)
    assert on.statistics.bytes_out - before[1] == whole.nbytes == stage.bytes_written
    assert stage.slots == slots or slots is None


def enumerated(stage: PlannedStage, reads: Callable[..., dict[str, Any]]) -> int:
    """The elements that go to the device from tile to tile, as sets of them say."""
    output = stage.stage.outputs[0]
    bounds = {axis: [stage.boxes.values[n] for n in names] for axis, *names in output.cuts}
    assert stage.tiles is not None
    before: dict[str, set[Any]] = {}
    total = 0
    for tile in range(stage.boxes.count):
        ranges = [
            range(*(int(ends[tile]) for ends in bounds[axis])) if axis in bounds else range(extent)
            for axis, extent in enumerate(stage.tiles.shape)
        ]
        needs: dict[str, set[Any]] = {}
        for at in product(*ranges):
            for array, elements in reads(*at).items():
                needs.setdefault(array, set()).update(elements)
        total += sum(len(needs[array]) for array in needs if needs[array] != before.get(array))
        before = needs
    return total


READS: dict[str, Callable[..., dict[str, Any]]] = {
    "product": lambda i, j: {
        "a": [(i, k) for k in range(61)], "b": [(k, j) for k in range(61)],
    },
    "distances": lambda b, i, j: {
        "x": [(b, i, k) for k in range(17)], "y": [(b, j, k) for k in range(17)],
    },
    "tables": lambda i, j, k: {"a": [(i, j)], "b": [(j, k)], "d": [(i, k)]},
    "differences": lambda i, j: {"first": [i], "second": [j]},
}  # fmt: skip


@pytest.mark.parametrize("name", list(READS))
def test_bytes_are_those_of_the_elements_that_tiles_need(on: Device, name: str) -> None:
    make, wanted, part = CASES[name]
    arguments, program = shapes(*wanted), make()
    with wf.config(devices=[on.name]):
        size = sum(a.nbytes for a in arguments) + program(*arguments).nbytes
        with wf.config(memory_limit={on.name: size // part}):
            stage, tiles = planned(program, arguments)
    assert tiles.bytes_in == 8 * enumerated(stage, READS[name])


def test_cubes_copy_less_than_slabs(on: Device) -> None:
    """Along one axis each box has wide halos of whole planes; explain says what they would move."""
    (x,) = shapes((64, 64, 64))
    program = cubes(8)
    with wf.config(devices=[on.name]):
        whole = program(x)
        with wf.config(memory_limit={on.name: (2 * x.nbytes) // 4}):
            stage, tiles = planned(program, [x])
            text = str(program.explain(wf.asarray(x)))
            found = program(x)
    assert found.tobytes() == whole.tobytes()
    assert tiles.slabs is not None
    assert tiles.bytes_in + stage.bytes_written <= 0.95 * tiles.slabs
    assert "boxes along one axis " in text
    assert "neighbours follow along axis" in text


def test_what_boxes_along_one_axis_move_once_is_not_tiled(on: Device) -> None:
    """One axis is enough where nothing is copied twice."""
    a, b = shapes((4000, 30), (30, 40))
    program = products()
    with wf.config(devices=[on.name], memory_limit={on.name: a.nbytes // 4}):
        plan = program.explain(wf.asarray(a), wf.asarray(b)).plan
        assert [stage.tiles for stage in plan.stages] == [None] * len(plan.stages)
        np.testing.assert_allclose(program(a, b), a @ b)


@pytest.mark.parametrize(("chunks", "part"), [((7, 10), 4), ((7, 10), 8), ((30, 40), 4)])
def test_tiles_are_whole_chunks_of_where_they_go(
    on: Device, tmp_path: Path, chunks: tuple[int, int], part: int
) -> None:
    """A part of a chunk that is written replaces all of it."""
    make, wanted, _ = CASES["product"]
    arguments = shapes(*wanted)
    program = make()
    with wf.config(devices=[on.name]):
        expected = program(*arguments)
        size = sum(a.nbytes for a in arguments) + expected.nbytes
        with wf.config(memory_limit={on.name: size // part}):
            lazy = program(*map(wf.asarray, arguments))
            target = tmp_path / "tiled.zarr"
            (stage,) = wf.explain(wf.store, lazy, target, chunks=chunks).plan.stages
            wf.store(lazy, target, chunks=chunks)
            found = np.asarray(wf.open(target))
    assert found.tobytes() == expected.tobytes()
    while stage is not None:
        assert stage.tiles is not None
        for extent, chunk, whole in zip(stage.tiles.shape, chunks, (97, 113), strict=True):
            assert extent % chunk == 0 or extent == whole
        stage = stage.smaller


def test_tiles_are_planned_in_milliseconds(on: Device) -> None:
    made: list[float] = []

    def timed(*arguments: Any) -> Any:
        start = perf_counter()
        found = quickest(*arguments)
        made.append(perf_counter() - start)
        return found

    a, b = shapes((900, 700), (700, 800))
    program = products()
    with (
        mock.patch("weft.plan.tiled.shapes", timed),
        wf.config(devices=[on.name], memory_limit={on.name: a.nbytes // 8}),
    ):
        program.explain(wf.asarray(a), wf.asarray(b))
    assert 0 < min(made) < 0.1


@pytest.mark.parametrize("kind", ["memory", "copy", "launch"])
def test_a_device_that_fails(on: Device, kind: str) -> None:
    """Too little memory: all tiles again, smaller ones. A lost device is named."""
    a, b = shapes((65, 129), (129, 257))
    program = products()
    with wf.config(devices=[on.name]):
        whole = program(a, b)
        with wf.config(memory_limit={on.name: 40_000}, slots=2):
            stage, _ = planned(program, [a, b])
            assert stage.smaller is not None
            assert stage.smaller.boxes.count > stage.boxes.count > 3
            assert stage.smaller.device_bytes < stage.device_bytes
            for at in (1, 2, 5, 30):
                on.trim()
                with failing(on, kind, at, full(on)):
                    assert program(a, b).tobytes() == whole.tobytes()
                on.trim()
                with failing(on, kind, at, lost(on)) as faulty:
                    refusal = attempt(lambda: [program(a, b)], [whole])
                if kind == "memory" and isinstance(on, OpenClDevice):
                    assert refusal is None  # its drivers have many words for memory that is full
                else:
                    assert isinstance(refusal, DeviceError) == (faulty.calls >= at)
                on.trim()
                assert program(a, b).tobytes() == whole.tobytes()
    on.trim()
    assert on.used == 0


def test_nests_are_tiled_too(on: Device) -> None:
    """A loop over three parallel indices: c[i, j, k] = f(a[i, j], b[j, k], d[i, k])."""

    @wf.kernel
    def tables(a: wf.f64[:, :], b: wf.f64[:, :], d: wf.f64[:, :], c: wf.f64[:, :, :]) -> None:
        for i in wf.prange(c.shape[0]):
            for j in wf.prange(c.shape[1]):
                for k in wf.prange(c.shape[2]):
                    c[i, j, k] = a[i, j] * b[j, k] + d[i, k]

    a, b, d = shapes((47, 59), (59, 43), (47, 43))
    c = np.zeros((47, 59, 43))
    with wf.config(devices=[on.name], memory_limit={on.name: 40_000}):
        before = on.statistics.bytes_out
        tables(a, b, d, c)
        assert on.statistics.bytes_out - before == c.nbytes
        assert on.statistics.peak_bytes > 0
    np.testing.assert_array_equal(c, a[:, :, None] * b[None] + d[:, None, :])


def test_tiles_whose_reads_along_one_axis_are_all_outside(on: Device, tmp_path: Path) -> None:
    """The rule of that axis answers them; along the other they are checked all the same."""

    def program(x: Any) -> list[Any]:
        return [wf.stencil(lambda s: s[1, 1] + s[-2, -1], x, boundary=[-1.5, "keep"])]

    inputs = [np.arange(121, dtype="f4").reshape(11, 11)]
    with wf.config(devices=[on.name]):
        found = streamed(program, inputs, tmp_path, 900)
    assert_equal_bits(found, interpreted(program, inputs))


def test_rows_without_elements_are_no_work(on: Device, tmp_path: Path) -> None:
    """Boxes that are halved, should the device be full, are planned all the same."""

    def program(x: Any) -> list[Any]:
        return [wf.all(x, axis=0)]

    inputs = [np.zeros((0, 5))]
    with wf.config(devices=[on.name]):
        found = streamed(program, inputs, tmp_path, 4)
    assert_equal_bits(found, interpreted(program, inputs))
