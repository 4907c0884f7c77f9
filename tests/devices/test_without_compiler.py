"""Without a C compiler: another device if there is one, else the interpreter; one warning."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pytest
from devices.harness import device

import weft as wf
from weft.launch import device as launching
from weft.runtime.devices import others


@pytest.fixture
def no_compiler(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(launching, "_found", False)
    monkeypatch.setattr(launching, "_warned", False)
    monkeypatch.setattr(launching.CpuDevice, "available", staticmethod(lambda: False))


def twice(x: Any) -> Any:
    return wf.jit(lambda a: a * 2 + 1)(x)


@pytest.mark.usefixtures("no_compiler")
def test_a_device_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    on = device()
    monkeypatch.setattr(others, "others", lambda: (on,))  # the first of those that are here
    x = np.arange(7000.0)
    before = on.statistics.launches
    with pytest.warns(RuntimeWarning, match=f"no C compiler and runs programs on {on.name}"):
        found = twice(x)
    np.testing.assert_array_equal(found, 2 * x + 1)
    assert on.statistics.launches > before
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # once is enough
        np.testing.assert_array_equal(np.asarray(wf.asarray(x) * 3), 3 * x)
        complex_ = x * (1 + 1j)  # which devices have not
        np.testing.assert_array_equal(twice(complex_), complex_ * 2 + 1)
        out = np.empty_like(complex_)
        wf.jit(lambda a: a - 1)(complex_, out=out)
        np.testing.assert_array_equal(out, complex_ - 1)


@pytest.mark.usefixtures("no_compiler")
def test_else_programs_are_interpreted() -> None:
    x = np.arange(7000.0)
    with (
        mock.patch.object(others, "others", return_value=()),
        pytest.warns(RuntimeWarning, match="no C compiler and interprets programs"),
    ):
        np.testing.assert_array_equal(twice(x), 2 * x + 1)


@pytest.mark.usefixtures("no_compiler")
def test_lengths_that_programs_compute_are_interpreted_too(tmp_path: Path) -> None:
    x = np.arange(7000.0)
    np.save(tmp_path / "x.npy", x)
    moved = wf.jit(lambda a: wf.fori_loop(0, 1, lambda k, b: b + wf.roll(b, k + 3, axis=0), a))
    with (
        mock.patch.object(others, "others", return_value=()),
        pytest.warns(RuntimeWarning, match="no C compiler and interprets programs"),
    ):
        wf.store(moved(wf.open(tmp_path / "x.npy")), tmp_path / "y.npy")
    np.testing.assert_array_equal(np.load(tmp_path / "y.npy"), x + np.roll(x, 3))
