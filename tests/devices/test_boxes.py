"""Copies of parts of larger arrays: as they lie there, where the driver can do that."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import astuple
from typing import Any
from unittest import mock

import numpy as np
import pytest
from devices.harness import Device, compiled, opencl_device
from hypothesis import given, settings
from hypothesis import strategies as st

import weft as wf
from weft.fun.parse import parse
from weft.runtime.devices.protocol import FAILURE_BYTES, Statistics, rows_of
from weft.runtime.incore import derive


@pytest.fixture
def on() -> Iterator[Device]:
    found = opencl_device()
    with mock.patch.object(found, "statistics", Statistics()):
        found.copies_boxes = True
        yield found
        found.copies_boxes = True


@given(
    shape=st.lists(st.integers(1, 5), min_size=1, max_size=4),
    data=st.data(),
)
@settings(max_examples=300, deadline=None)
def test_rows_are_the_bytes_of_the_array(shape: list[int], data: Any) -> None:
    """Row by row and plane by plane, in order, as an oracle reads them."""
    whole = np.arange(np.prod(shape), dtype=np.int32).reshape(shape)
    cuts = [data.draw(st.slices(extent)) for extent in shape]
    part = whole[tuple(cuts)].transpose(data.draw(st.permutations(range(len(shape)))))
    rows = rows_of(part)
    if rows is None:
        assert not part.size or not part.flags.c_contiguous
        return
    memory = whole.reshape(-1).view(np.uint8)
    begin = part.ctypes.data - whole.ctypes.data
    found = b"".join(
        memory[at : at + rows.bytes].tobytes()
        for plane in range(rows.planes)
        for row in range(rows.count)
        for at in [begin + plane * rows.plane_pitch + row * rows.pitch]
    )
    assert found == part.tobytes()


def test_which_arrays_are_rows() -> None:
    x = np.zeros((6, 8, 10), np.float64)
    assert astuple(rows_of(x) or ()) == (3840, 1, 3840, 1, 3840)
    assert astuple(rows_of(x[:, 2:5]) or ()) == (240, 6, 640, 1, 3840)
    assert astuple(rows_of(x[1:4, :, 3:6]) or ()) == (24, 24, 80, 1, 1920)
    assert astuple(rows_of(x[1:4, 2:5, 3:6]) or ()) == (24, 3, 80, 3, 640)
    for other in (x[::-1, :5], x.T, x[:, :, ::2].transpose(1, 0, 2), x.astype(">f8"), x[:0],
                  np.zeros((3, 4, 5, 6))[:, :3, :4, :5], np.broadcast_to(x[0, 0], (3, 10))):
        assert rows_of(other) is None


def doubled(on: Device, x: Any, out: Any) -> None:
    """out = 2 x, by a segment that is given both as they lie."""
    shape = ", ".join("nmk"[: x.ndim])
    indices = ", ".join(f"{i} < {n}" for i, n in zip("ijl", "nmk"[: x.ndim], strict=False))
    at = ", ".join("ijl"[: x.ndim])
    program = parse(f"""program doubled(x: f64[{shape}]) sizes {shape} {{
      let y: f64[{shape}] = kernel ({indices}) {{
        let a: f64 = x[{at}]
        let b: f64 = add(a, a)
        in b
      }}
      in y
    }}""")
    segment = compiled(program)
    sizes = dict(zip("nmk", x.shape, strict=False))
    known = derive({**sizes, "threads": on.items}, segment.derived)
    integers = [known[name] for name in segment.integers]
    on.load(segment).start(integers, [x], [out]).wait()


CUTS: dict[str, tuple[tuple[int, ...], Any]] = {
    "columns": ((40, 300), np.s_[:, 7:207]),
    "planes": ((5, 9, 200), np.s_[1:4, 2:7, 10:110]),
    "one row": ((9, 100), np.s_[4:5, 1:99]),
}


@pytest.mark.parametrize("name", list(CUTS))
def test_boxes_are_copied_as_they_lie(on: Device, name: str) -> None:
    shape, cut = CUTS[name]
    x, out = np.random.default_rng(1).normal(size=shape), np.zeros(shape)
    expected = out.copy()
    expected[cut] = x[cut] * 2
    doubled(on, x[cut], out[cut])
    np.testing.assert_array_equal(out, expected)
    assert on.statistics.boxes == (0 if name == "one row" else 2)
    assert on.statistics.bytes_packed == 0
    assert on.statistics.bytes_in - FAILURE_BYTES <= x[cut].nbytes
    assert on.statistics.bytes_out == x[cut].nbytes


def test_short_rows_are_packed(on: Device) -> None:
    x, out = np.random.default_rng(1).normal(size=(400, 30)), np.zeros((400, 30))
    doubled(on, x[:, 3:10], out[:, 3:10])
    np.testing.assert_array_equal(out[:, 3:10], x[:, 3:10] * 2)
    assert not out[:, 10:].any()
    assert on.statistics.boxes == 0
    assert on.statistics.bytes_packed == 2 * 400 * 7 * 8


def test_what_the_driver_refuses_is_packed(on: Device) -> None:
    copy = on.cl.enqueue_copy

    def refuses(*arguments: Any, **options: Any) -> Any:
        if "region" in options:
            raise on.cl.LogicError("no rectangles")
        return copy(*arguments, **options)

    x, out = np.random.default_rng(1).normal(size=(40, 300)), np.zeros((40, 300))
    with mock.patch.object(on.cl, "enqueue_copy", refuses):
        doubled(on, x[:, 7:207], out[:, 100:])
        assert not on.copies_boxes
        doubled(on, x[:, 7:207], out[:, 100:])
    np.testing.assert_array_equal(out[:, 100:], x[:, 7:207] * 2)
    assert not out[:, :100].any()
    assert on.statistics.boxes == 0
    assert on.statistics.bytes_packed == 4 * 40 * 200 * 8


def test_streamed_columns_are_boxes(on: Device) -> None:
    """Sums of rows streamed along columns: each box is a part of every row."""
    x = np.random.default_rng(1).normal(size=(64, 4000))
    spread = wf.jit(lambda a: wf.cumulative_sum(a, axis=0))
    with wf.config(devices=[on.name], memory_limit={on.name: "1 MiB"}):
        found = spread(x)
    np.testing.assert_allclose(found, np.cumsum(x, axis=0), rtol=1e-9, atol=1e-9)
    assert on.statistics.boxes >= 2
    assert on.statistics.bytes_packed == 0


def test_a_profile_has_the_copies_of_what_all_boxes_need(on: Device) -> None:
    """A table stays on the device while boxes look up in it: one copy, before all others."""
    table, where = np.arange(100_000.0), np.arange(200_000) % 77_777
    function = wf.jit(lambda t, i: t[i] * 2)
    with wf.config(devices=[on.name], memory_limit={on.name: "2 MiB"}), wf.profile() as measured:
        np.testing.assert_array_equal(function(table, where), table[where] * 2)
    copies = [event for event in measured.events if event.queue == f"{on.name} in"]
    assert len(copies) > 2
    assert [event.bytes for event in copies].count(table.nbytes) == 1
    into = on.statistics.bytes_in - sum(event.bytes for event in copies)
    assert 0 <= into <= len(copies) * FAILURE_BYTES
