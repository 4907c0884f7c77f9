"""Elimination of matrices that are larger than a device's memory, or than the limit."""

from __future__ import annotations

from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from devices.faults import failing, full
from devices.harness import device
from slow import some_slow

import weft as wf
from weft.errors import MemoryLimitError

N, M = 401, 409
CAP = 1 << 20


def eliminate(a: Any) -> Any:
    def step(k: Any, a: Any) -> Any:
        row = a[k] / a[k, k]
        factors = a[:, k].at[k].set(0.0)
        return a.at[k].set(row) - factors[:, None] * row

    return wf.fori_loop(0, a.shape[0], step, a)


def exchange(a: Any) -> Any:
    def step(k: Any, a: Any) -> Any:
        most = k + wf.argmax(wf.abs(a[k:, k]))
        top, row = a[k], a[most] / a[most, k]
        a = a.at[most].set(top).at[k].set(row)
        factors = a[:, k].at[k].set(0.0)
        return a - factors[:, None] * row

    return wf.fori_loop(0, a.shape[0], step, a)


def in_numpy(a: np.ndarray, pivoting: bool) -> np.ndarray:
    a = a.copy()
    for k in range(len(a)):
        most = k + np.argmax(np.abs(a[k:, k])) if pivoting else k
        top, row = a[k].copy(), a[most] / a[most, k]
        a[most], a[k] = top, row
        factors = a[:, k].copy()
        factors[k] = 0.0
        a -= factors[:, None] * row
    return a


@pytest.mark.parametrize("pivoting", [False, True])
def test_under_a_limit_of_the_host(tmp_path: Path, pivoting: bool) -> None:
    a = np.random.default_rng(2).standard_normal((N, M)) + N * np.eye(N, M)
    np.save(tmp_path / "a.npy", a)
    function = wf.jit(exchange if pivoting else eliminate)
    with wf.config(memory_limit=(24 << 20) + CAP):
        lazy = function(wf.open(tmp_path / "a.npy"))
        plan = wf.explain(lazy)
        wf.store(lazy, tmp_path / "b.npy")
    assert plan.peak_bytes <= (24 << 20) + CAP
    np.testing.assert_array_equal(np.load(tmp_path / "b.npy"), in_numpy(a, pivoting))


@pytest.mark.parametrize(("pivoting", "multiprocessors"), some_slow(
    product([False, True], [1, 132]), [(False, 1), (True, 132)], several=True
))  # fmt: skip
def test_under_the_cap_of_a_device(
    pivoting: bool, multiprocessors: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However many work items it keeps busy: with memory of their own for each, none would fit."""
    on = device()
    monkeypatch.setattr(on, "items", 1024 * multiprocessors)
    a = np.random.default_rng(2).standard_normal((N, M)) + N * np.eye(N, M)
    function = wf.jit(exchange if pivoting else eliminate)
    with wf.config(devices=[on.name], memory_limit={on.name: CAP}):
        plan = wf.explain(function, a)
        on.trim()
        on.statistics.peak_bytes = 0
        result = function(a)
    stages = plan.plan.stages
    assert any(stage.code.device is not None and stage.boxes.count > 1 for stage in stages)
    assert 0 < on.statistics.peak_bytes <= CAP < a.nbytes
    np.testing.assert_allclose(result, in_numpy(a, pivoting), rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("kind", some_slow(["memory", "copy", "launch"], ["copy", "launch"]))
def test_pivots_for_which_memory_is_too_small_are_fewer(kind: str, tmp_path: Path) -> None:
    """They are in no boxes: another plan has blocks of fewer rounds."""
    on = device()
    a = np.random.default_rng(2).standard_normal((N, M)) + N * np.eye(N, M)
    np.save(tmp_path / "a.npy", a)
    function = wf.jit(eliminate)
    with wf.config(devices=[on.name], memory_limit={on.name: CAP}):
        function(a)
        for at in (2, 4, 17):
            on.trim()
            with failing(on, kind, at, full(on)) as faulty:
                result = function(a)
            np.testing.assert_allclose(result, in_numpy(a, False), rtol=1e-9, atol=1e-12)
            assert faulty.calls > at
        on.trim()
        with failing(on, kind, 4, full(on)):
            wf.store(function(wf.open(tmp_path / "a.npy")), tmp_path / "b.npy")
    np.testing.assert_allclose(
        np.load(tmp_path / "b.npy"), in_numpy(a, False), rtol=1e-9, atol=1e-12
    )


def test_a_device_without_memory_is_named() -> None:
    """However little a plan takes: a call is made again a few times, not for ever."""
    on = device()
    a = np.random.default_rng(2).standard_normal((N, M)) + N * np.eye(N, M)
    function = wf.jit(eliminate)
    with wf.config(devices=[on.name], memory_limit={on.name: CAP}):
        function(a)
        on.trim()
        with failing(on, "launch", 1, full(on)) as faulty:
            faulty.every = True
            with pytest.raises(MemoryLimitError, match=on.name):
                function(a)
        np.testing.assert_allclose(function(a), in_numpy(a, False), rtol=1e-9, atol=1e-12)
