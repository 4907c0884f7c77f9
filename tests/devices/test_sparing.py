"""Boxes that would copy all there is to a device again and again, and what is done instead."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from devices.harness import device

import weft as wf
from weft.plan import device_boxes


def flattened(a: Any) -> Any:
    """Elements of one row come from two, of which each is longer than boxes of elements."""
    b = wf.concat([a, a + 1], axis=1)
    return wf.reshape(b, (-1,))[::2] * 3


def stored(columns: int, limits: dict[str, Any], folder: Path) -> float:
    """What is copied to the device, as a multiple of what is read; the result is checked."""
    on = device()
    a = np.random.default_rng(1).random((5, columns))
    expected = np.concatenate([a, a + 1], axis=1).reshape(-1)[::2] * 3
    np.save(folder / "a.npy", a)
    before = on.statistics.bytes_in
    with wf.config(devices=[on.name], memory_limit=limits):
        wf.store(wf.jit(flattened)(wf.open(folder / "a.npy")), folder / "y.npy")
    np.testing.assert_array_equal(np.load(folder / "y.npy"), expected)
    return (on.statistics.bytes_in - before) / a.nbytes


def test_rows_are_not_copied_again_for_each_of_their_elements(tmp_path: Path) -> None:
    """What boxes of elements would copy is copied once: by other boxes, or by the host."""
    assert stored(5003, {device().name: 150_000}, tmp_path) < 8


def test_nothing_is_refused_for_what_it_copies(tmp_path: Path) -> None:
    limits = {device().name: 30_000, "cpu": (24 << 20) + 60_000}  # less than all of any array
    assert stored(1003, limits, tmp_path) > 64


def test_copies_that_computing_hides_may_be_many(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(device_boxes, "_LITTLE", 1e9)  # as if each element took long
    assert stored(1003, {device().name: 30_000}, tmp_path) > 64
    monkeypatch.undo()
    (tmp_path / "y.npy").unlink()
    assert stored(1004, {device().name: 30_000}, tmp_path) < 8
