"""Stages with a second version, which copies less: each box takes the one that suits its sizes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from devices.harness import NAME

import weft as wf
from weft.launch import stage


@wf.jit
def mirrored(a: Any) -> Any:
    """Running sums of rows, of which the second becomes the last but one backwards."""

    def one(table: Any) -> Any:
        y = wf.cumulative_sum(table, axis=1)
        return y.at[1].set(2.0 * y[-2][::-1])

    return wf.map(one, a)


@pytest.mark.parametrize("device", ["cpu", NAME])
@pytest.mark.parametrize("rows", [3, 4, 6])
def test_boxes_take_the_version_that_suits(
    tmp_path: Path, rows: int, device: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of three rows both are the same one, which is read crosswise as it is written."""
    if device not in wf.devices():
        pytest.skip(f"there is no {device}")
    a = np.arange(3000.0 * rows * 40).reshape(3000, rows, 40) % 17
    np.save(tmp_path / "a.npy", a)
    suited = []
    integers = stage._Better.integers

    def noted(*arguments: Any) -> Any:
        found = integers(*arguments)
        suited.append(found is not None)
        return found

    monkeypatch.setattr(stage._Better, "integers", noted)
    with wf.config(memory_limit="26 MiB", devices=[device], threads=2):
        wf.store(mirrored(wf.open(tmp_path / "a.npy")), tmp_path / "b.npy")
    wanted = np.cumsum(a, axis=2)
    wanted[:, 1] = 2.0 * wanted[:, -2][:, ::-1]
    np.testing.assert_array_equal(np.load(tmp_path / "b.npy"), wanted)
    assert len(suited) > 1
    assert set(suited) == {rows > 3}
