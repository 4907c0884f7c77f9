"""Boxes over the seam of an array that is rolled, or turned, are cut: all others stay long."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pytest
from devices.harness import NAME, device

import weft as wf
from weft.launch import stage
from weft.plan import device_boxes
from weft.plan.halve import halve
from weft.plan.nodes import Boxes
from weft.plan.schedule import Scheduler

LENGTH = 50_111
U = np.random.default_rng(47).random(LENGTH)
PLATE = np.random.default_rng(48).random((997, 48))

LIMITS = itertools.count(60_000)
"""One for each plan, so that none is one that was kept."""

PROGRAMS: dict[str, tuple[Callable[..., Any], Callable[..., Any], Any]] = {
    "rolled twice": (
        lambda u: wf.roll(wf.sqrt(wf.roll(u, 25_000)) * 2, 100) + u,
        lambda u: np.roll(np.sqrt(np.roll(u, 25_000)) * 2, 100) + u,
        U,
    ),
    "rolled and turned": (
        lambda u: wf.flip(wf.roll(u * 2, 1001)) + u,
        lambda u: np.flip(np.roll(u * 2, 1001)) + u,
        U,
    ),
    "rows": (
        lambda u: wf.roll(wf.sqrt(wf.roll(u, 500, axis=0)), 21, axis=0) * u,
        lambda u: np.roll(np.sqrt(np.roll(u, 500, axis=0)), 21, axis=0) * u,
        PLATE,
    ),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_on_a_device(name: str) -> None:
    device()
    function, expected, data = PROGRAMS[name]
    compiled = wf.jit(function)
    with wf.config(devices=[NAME], interpret_below=0, memory_limit={NAME: "64 KiB"}):
        told = wf.explain(compiled, data)
        np.testing.assert_allclose(compiled(data), expected(data), rtol=1e-14)
    (stage,) = told.plan.stages
    boxes = stage.boxes
    assert f"{boxes.count} boxes of up to {boxes.extent} along" in str(told)
    assert not boxes.are_alike
    assert boxes.count < 120  # there were 25056 of two, and 50111 of one
    assert sum(stage.copied) <= 3.2 * data.nbytes
    lengths = [stop - start for start, stop in boxes.spans]
    assert boxes.spans == tuple(zip(np.cumsum([0, *lengths[:-1]]), np.cumsum(lengths), strict=True))
    assert sum(lengths) == boxes.total


@pytest.mark.parametrize("name", ["rolled twice", "rolled and turned"])
def test_from_files_to_files(name: str, tmp_path: Path) -> None:
    """In one pass, and without the memory of what is rolled: it was computed in stages before."""
    function, expected, _ = PROGRAMS[name]
    data = np.random.default_rng(49).random(2_000_003)
    np.save(tmp_path / "u.npy", data)
    with wf.config(memory_limit="28 MiB"):
        made = wf.jit(function)(wf.open(tmp_path / "u.npy"))
        plan = wf.explain(made).plan
        wf.store(made, tmp_path / "r.npy")
    (stage,) = plan.stages
    assert not stage.boxes.are_alike
    assert plan.peak_bytes <= 28 << 20
    np.testing.assert_allclose(np.load(tmp_path / "r.npy"), expected(data), rtol=1e-14)


def halved(function: Callable[..., Any], data: Any, room: int, boxes: int = 16) -> Any:
    """What `halve` makes of so many boxes of a program, on the device."""
    device()
    found: list[Any] = []

    def tried(self: Scheduler, *_: Any) -> Any:
        extent = -(-self.draft.total // boxes) if self.draft is not None else 0
        if extent:
            regular = self.boxes(extent)
            found.append((regular, halve(self, regular, room)))
        return schedule(self)

    schedule = Scheduler.schedule
    with (
        mock.patch.object(Scheduler, "schedule", tried),
        wf.config(devices=[NAME], interpret_below=0, memory_limit={NAME: next(LIMITS)}),
    ):
        wf.explain(wf.jit(function), data)
    return found[0]


def test_what_fits_stays_as_it_is() -> None:
    boxes, found = halved(lambda u: wf.sqrt(u) + u, U, 1 << 20)
    assert found.boxes is boxes
    assert found.all_fit


def test_where_all_need_more_none_is_cut() -> None:
    """All should be shorter then."""
    _, found = halved(lambda u: wf.sqrt(u) + u, U, 0)
    assert found is None


def test_only_boxes_over_seams_are_cut() -> None:
    """There are two: at 100, of the outer roll, and at 25 100, of the inner one, shifted."""
    function, _, data = PROGRAMS["rolled twice"]
    boxes, found = halved(function, data, 64 << 10, boxes=64)
    assert found.all_fit
    starts = {start for start, _ in boxes.spans}
    more = [start for start, _ in found.boxes.spans if start not in starts]
    near = [abs(start - seam) <= boxes.extent for start in more for seam in (100, 25_100)]
    assert sum(near) == len(more)
    assert 1 <= len(more) <= 2 * np.log2(boxes.extent) + 2


def test_an_index_that_needs_both_ends_is_found_at_once() -> None:
    """No boxes fit then, and not all numbers of boxes are tried."""
    device()
    tries = 0
    attempt = device_boxes._Search.tries

    def counted(self: Any, count: int) -> float:
        nonlocal tries
        tries += 1
        return attempt(self, count)

    def both_ends(u: Any) -> Any:
        rolled = wf.roll(wf.sqrt(wf.roll(u, 25_000)), 100)
        return wf.stencil(lambda s: s[-1] + s[1], rolled, boundary="edge") + u

    v = np.pad(np.roll(np.sqrt(np.roll(U, 25_000)), 100), 1, mode="edge")
    with (
        wf.config(devices=[NAME], interpret_below=0, memory_limit={NAME: "64 KiB"}),
        mock.patch.object(device_boxes._Search, "tries", counted),
    ):
        compiled = wf.jit(both_ends)
        np.testing.assert_allclose(compiled(U), v[:-2] + v[2:] + U, rtol=1e-14)
    assert tries < 40


def test_boxes_are_alike() -> None:
    def boxes(*spans: tuple[int, int]) -> Boxes:
        return Boxes(len(spans), {}, (), extent=4, spans=spans)

    assert boxes().are_alike
    assert boxes((0, 4), (4, 8), (8, 9)).are_alike
    assert not boxes((0, 4), (4, 6), (6, 10)).are_alike


def test_what_does_not_fit_is_not_compiled() -> None:
    """Of the stages that are tried, and refused, those alone that the plan has in the end."""
    device()
    tried: list[Any] = []
    loaded: list[Any] = []
    code, load = stage.stage_code, stage.load

    def counted(*arguments: Any, **named: Any) -> Any:
        tried.append(code(*arguments, **named))
        return tried[-1]

    def also_counted(*arguments: Any) -> Any:
        loaded.append(load(*arguments))
        return loaded[-1]

    def several(u: Any) -> Any:
        rolled = wf.roll(wf.sqrt(wf.roll(u, 25_000)) * 3, 100) + u
        near = rolled[1:-1] + rolled[:-2] + rolled[2:]
        return wf.roll(near * 0.5, -3000) + wf.flip(near)

    with (
        wf.config(devices=[NAME], interpret_below=0, memory_limit={NAME: "64 KiB"}),
        mock.patch.object(stage, "stage_code", counted),
        mock.patch.object(stage, "load", also_counted),
    ):
        compiled = wf.jit(several)
        stages = compiled.explain(U).plan.stages
        of_stages = {id(one) for each in stages for one in each.codes}
        assert len(loaded) == len(of_stages) < len({id(each) for each in tried})
        found = compiled(U)
        assert len(loaded) == len(of_stages)
    rolled = np.roll(np.sqrt(np.roll(U, 25_000)) * 3, 100) + U
    near = rolled[1:-1] + rolled[:-2] + rolled[2:]
    np.testing.assert_allclose(found, np.roll(near * 0.5, -3000) + near[::-1], rtol=1e-13)
