"""Tiles spread over several devices, of which boxes along one axis do not fit two."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from agreement.ways import assert_equal_bits
from devices.harness import opencl_device
from devices.test_faults import failing, lost
from devices.test_spread import small_shares
from devices.test_tiles import QUICK, products, scaled_products, shapes

import weft as wf
from weft.config import settings
from weft.launch.device import find
from weft.plan.code import Rates

PAIR = ["opencl:0.0", "opencl:0.1"]

SLOW = replace(QUICK, operations=1e8)
"""Of devices that compute for longer than copies take."""


def pair(monkeypatch: pytest.MonkeyPatch, rates: Rates = SLOW) -> list[Any]:
    """Two devices, the parts of one."""
    if opencl_device().name != "opencl:0" or not {*PAIR} <= {*wf.devices()}:
        pytest.skip("no parts of a device of OpenCL")
    found = [find(name, settings()) for name in PAIR]
    for device in found:
        monkeypatch.setattr(device, "_rates", rates)
    return found


def planned(program: Any, arguments: list[Any], names: list[str]) -> Any:
    (stage,) = program.explain(*map(wf.asarray, arguments)).plan.stages
    assert {share.device for share in stage.shares} <= {*names}
    return stage


def limits(arguments: list[Any], part: int = 8) -> dict[str, int]:
    return dict.fromkeys(PAIR, sum(a.nbytes for a in arguments) // part)


@pytest.mark.parametrize(
    ("make", "wanted"),
    [
        (products, [(197, 161), (161, 213)]),
        (scaled_products, [(197, 161), (161, 197), (197,)]),
    ],
)
def test_several_devices_take_tiles(
    make: Any, wanted: list[tuple[int, ...]], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    devices, program, arguments = pair(monkeypatch), make(), shapes(*wanted)
    with wf.config(devices=["opencl:0"]):
        whole = program(*arguments)
    given = limits(arguments)
    with small_shares(), wf.config(devices=PAIR, memory_limit=given):
        stage = planned(program, arguments, PAIR)
        assert [share.device for share in stage.shares] == PAIR
        assert stage.tiles is not None
        assert all(np.less(stage.tiles.shape, whole.shape))
        text = str(program.explain(*map(wf.asarray, arguments)))
        assert f"{stage.boxes.count} tiles of " in text
        assert "spread over 2 devices" in text
        assert "along axis 0 and 1: a box is a part" in text
        for device in devices:
            device.trim()
            device.statistics.peak_bytes = 0
        found = program(*arguments)
        wf.store(program(*map(wf.asarray, arguments)), tmp_path / "out.npy")
    assert_equal_bits([found, np.load(tmp_path / "out.npy")], [whole, whole])
    for device in devices:
        assert device.statistics.peak_bytes <= given[device.name]


def test_the_processor_takes_tiles_beside_a_device(monkeypatch: pytest.MonkeyPatch) -> None:
    pair(monkeypatch)
    program, arguments = products(), shapes((197, 161), (161, 213))
    names = ["cpu:0", PAIR[1]]
    with small_shares(), wf.config(devices=names, memory_limit=limits(arguments)):
        stage = planned(program, arguments, names)
        assert [share.device for share in stage.shares] == names
        found = program(*arguments)
    np.testing.assert_allclose(found, arguments[0] @ arguments[1], rtol=1e-12)


def test_tiles_are_smaller_where_a_processor_needs_more(monkeypatch: pytest.MonkeyPatch) -> None:
    """What it packs takes memory of it that a device does without."""
    pair(monkeypatch)
    program, arguments = products(), shapes((400, 400), (400, 400))
    names, cap = ["cpu:0", PAIR[1]], arguments[0].nbytes * 3 // 8
    areas = []
    for given in ({PAIR[1]: cap}, dict.fromkeys(names, cap)):
        with small_shares(), wf.config(devices=names, memory_limit=given):
            stage = planned(program, arguments, names)
            assert [share.device for share in stage.shares] == names
            areas.append(np.prod(stage.tiles.shape))
            found = program(*arguments)
        np.testing.assert_allclose(found, arguments[0] @ arguments[1], rtol=1e-12)
    assert areas[1] < areas[0]
    assert stage.shares[0].slots * stage.shares[0].host_bytes <= cap


def test_what_is_copied_for_longer_stays_on_one(monkeypatch: pytest.MonkeyPatch) -> None:
    pair(monkeypatch, QUICK)
    program, arguments = products(), shapes((193, 161), (161, 211))  # of which no plan is kept
    with small_shares(), wf.config(devices=PAIR, memory_limit=limits(arguments)):
        assert not planned(program, arguments, PAIR).shares


def test_boxes_along_one_axis_that_fit_are_no_tiles(monkeypatch: pytest.MonkeyPatch) -> None:
    pair(monkeypatch)
    program, arguments = products(), shapes((197, 161), (161, 213))
    with small_shares(), wf.config(devices=PAIR, memory_limit=limits(arguments, 1)):
        stage = planned(program, arguments, PAIR)
    assert len(stage.shares) == 2
    assert stage.tiles is None


def test_tiles_of_a_device_that_fails_are_done_by_another(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    first, _ = pair(monkeypatch)
    program, arguments = products(), shapes((197, 161), (161, 213))
    with wf.config(devices=["opencl:0"]):
        whole = program(*arguments)
    with (
        small_shares(), wf.config(devices=PAIR, memory_limit=limits(arguments)),
        failing(first, "launch", 3, lost(first)), pytest.warns(RuntimeWarning, match="left out"),
    ):  # fmt: skip
        found = program(*arguments)
    assert_equal_bits([found], [whole])


def bytes_of_tiles(stage: Any) -> int:
    """What all tiles read, each by itself, of arrays that are cut along one axis."""
    total = 0
    for window, largest in zip(stage.stage.windows, stage.input_bytes, strict=True):
        ((_, lower, upper),) = window.cuts
        extents = stage.boxes.values[upper] - stage.boxes.values[lower]
        total += largest // extents.max() * extents.sum()
    return int(total)


@pytest.mark.parametrize("names", [PAIR, ["cpu:0", PAIR[1]]])
def test_devices_keep_what_the_next_tile_reads_again(
    names: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A row of tiles reads the same rows of the first matrix, or columns of the second."""
    devices, program = pair(monkeypatch), products()
    arguments = shapes((497, 161), (161, 513))
    given = limits(arguments, 12)
    with small_shares(), wf.config(devices=names, memory_limit=given):
        stage = planned(program, arguments, names)
        assert stage.boxes.count > 16
        anew = bytes_of_tiles(stage)
        assert any(parts is not None for parts in stage.tiles.parts)
        assert sum(a.nbytes for a in arguments) < stage.tiles.bytes_in < anew / 3
        assert stage.bytes_read == stage.tiles.bytes_in
        text = str(program.explain(*map(wf.asarray, arguments)))
        assert "each of which keeps its part of " in text
        for device in devices:
            device.statistics.bytes_in = 0
        found = program(*arguments)
    moved = sum(device.statistics.bytes_in for device in devices)
    np.testing.assert_allclose(found, arguments[0] @ arguments[1], rtol=1e-12)
    assert moved < anew / 2
