"""Totals of few terms on devices: folded where a reduction of all of them reads each."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from devices import pretended_cuda
from devices.harness import device
from plan.test_short_extents import PAIRS, of_pairs
from printers.nvrtc import compile_text
from slow import some_slow

import weft as wf

POINTS = np.random.default_rng(8).random((301, 3))


def close(found: Any, expected: Any) -> None:
    assert np.asarray(found).dtype == np.asarray(expected).dtype
    np.testing.assert_allclose(found, expected, rtol=1e-12)


@pytest.mark.parametrize("name", PAIRS)
def test_distances_of_pairs(name: str) -> None:
    on, program = device(), wf.jit(of_pairs(name))
    expected = of_pairs(name)(POINTS)
    with wf.config(devices=[on.name]):
        close(program(POINTS), expected)
        with wf.config(memory_limit={on.name: "40 KiB"}):
            close(program(POINTS), expected)


@pytest.mark.parametrize("name", some_slow(["nearest", "least", "mean"], ["least", "mean"]))
def test_distances_of_pairs_are_nowhere_on_a_gpu(
    name: str, tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    program, expected = wf.jit(of_pairs(name)), of_pairs(name)(POINTS)
    with pretended_cuda.only_gpu(monkeypatch, tmp_path) as on, wf.config(devices=[on.name]):
        plan = wf.explain(program, POINTS).plan
        assert not any("product" in kernel for stage in plan.stages for kernel in stage.kernels)
        assert max(stage.device_bytes for stage in plan.stages) < POINTS.nbytes * 30
        close(program(POINTS), expected)
    assert compile_text(plan.stages[0].code.segment.source)


@pytest.mark.parametrize("columns", some_slow([3, 30], [30]))
def test_distances_of_many_terms_are_products_on_a_gpu(
    columns: int, tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So are those that a program gives."""
    points = np.random.default_rng(9).random((201, columns))

    def distances(x: Any) -> Any:
        return ((x[:, None] - x[None]) ** 2).sum(axis=2)

    give = of_pairs("least") if columns > 16 else distances
    with pretended_cuda.only_gpu(monkeypatch, tmp_path) as on, wf.config(devices=[on.name]):
        plan = wf.explain(wf.jit(give), points).plan
        assert any("product" in kernel for stage in plan.stages for kernel in stage.kernels)
        close(wf.jit(give)(points), give(points))
