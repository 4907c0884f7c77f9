"""Reductions of many rows by an item for each part of one, and elements computed in batches."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from unittest import mock

import numpy as np
import pytest
from agreement.ways import assert_equal_bits
from devices import pretended_cuda
from devices.harness import compiled, device, launched
from slow import every_second, some_slow

import weft as wf
from weft.lower.gpu import batched, row_parts
from weft.lower.gpu import groups as gpu_groups
from weft.passes import split_reductions
from weft.runtime.devices.cuda import CudaDevice


def tree(x: Any) -> Any:
    """Sums along the first axis: 32 elements from left to right, folds by neighbours."""
    folds = []
    for start in range(0, len(x), 32):
        total = x[start].copy()
        for row in x[start + 1 : start + 32]:
            total += row
        folds.append(total)
    while len(folds) > 1:
        pairs = [folds[n : n + 2] for n in range(0, len(folds), 2)]
        folds = [sum(pair[1:], pair[0]) for pair in pairs]
    return folds[0]


def compose(p: Any, q: Any) -> Any:
    return p[0] * q[0], p[1] * q[0] + q[1]


def records(x: Any) -> Any:
    """Of each row more is read than of those that it meets, once."""
    apart = sum((x[:, k][:, None] - x[:, k][None, :]) ** 2 for k in range(2))
    return ((apart * x[:, 2:3] + x[:, 3:4]).sum(axis=1),)


PROGRAMS: dict[str, Any] = {
    "sum": lambda x: (x.sum(axis=0),),
    "place": lambda x: (wf.argmin(x, axis=0),),
    "of planes": lambda x: (wf.mean(wf.stack([x, x * 2, x - 1]), axis=1),),
    "composed": lambda x: wf.reduce(compose, (1.0, 0.0), wf.tanh(x.T), x.T),
    "records": records,
    "distances": lambda x: (((x[0][:, None] - x[0][None, :]) ** 2).sum(axis=1),),
}


@pytest.mark.parametrize("name", every_second(PROGRAMS))
def test_parts_and_whole_rows_give_the_same_bits(name: str) -> None:
    on = device()
    rng = np.random.default_rng(3)
    program = wf.jit(PROGRAMS[name]).lower(rng.normal(size=(8, 9))).program
    with mock.patch.object(gpu_groups, "_MANY", 4):
        with mock.patch.multiple(row_parts, _ITEMS=1024, _LEAST=64):
            in_parts = compiled(program)
        with mock.patch.object(row_parts, "_ITEMS", 2):
            whole = compiled(program)
    seen = set()
    for columns in (7, 131, 500) if name == "distances" else (7, 65):
        for extent in (1, 64, 65, 128, 1000, *((2081,) if name != "records" else ())):
            x = rng.normal(size=(extent, columns))
            with mock.patch.object(on, "is_processor", False):
                kinds, expected = launched(on, program, whole, [x], {})
                assert not kinds & {"share", "total"}
                kinds, found = launched(on, program, in_parts, [x], {})
            seen |= kinds
            assert_equal_bits(found, expected)
            if name == "sum":
                np.testing.assert_array_equal(found[0], tree(x))
            if name == "distances":
                assert {"share", "total"} <= kinds or columns < 131
            if name == "records":
                assert not kinds & {"group", "several"}
    assert {"share", "total"} <= seen


@pytest.fixture
def gpu(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[CudaDevice]:
    """A pretended GPU, on which elements are computed in batches."""
    with pretended_cuda.only_gpu(monkeypatch, tmp_path) as made:
        yield made


def on_gpu(function: Any, x: Any) -> tuple[set[str], Any]:
    """The kinds of kernels that a call launches, and its result."""
    with wf.config(devices=["cuda:0"]), wf.profile() as profile:
        found = np.asarray(function(x))
    return {event.name.rstrip("0123456789") for event in profile.events}, found


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_whole_tiles_are_loaded_in_batches(gpu: CudaDevice, dtype: Any) -> None:
    total = wf.jit(lambda x: x.sum(axis=1))
    place = wf.jit(lambda x: wf.argmax(x, axis=1))
    rng = np.random.default_rng(7)
    for extent in (2047, 2048, 2049, 4096 + 33):
        x = rng.normal(size=(3, extent)).astype(dtype)
        kinds, found = on_gpu(total, x)
        assert "group" in kinds
        np.testing.assert_array_equal(found, tree(x.T))
        np.testing.assert_array_equal(on_gpu(place, x)[1], x.argmax(axis=1))


@pytest.mark.parametrize("columns", some_slow([1, 33, 5003], [5003]))
def test_columns_are_loaded_in_batches(gpu: CudaDevice, columns: int) -> None:
    total = wf.jit(lambda x: x.sum(axis=0))
    rng = np.random.default_rng(7)
    for extent in (1, 31, 32, 33, 300):
        x = rng.normal(size=(extent, columns)).astype(np.float32)
        np.testing.assert_array_equal(on_gpu(total, x)[1], tree(x))


def test_results_of_tiles_are_combined_in_batches(gpu: CudaDevice) -> None:
    total = wf.jit(lambda x: x.sum())
    for tiles in (1, 2, 3, 31, 127, 128, 129, 200):
        x = np.random.default_rng(7).normal(size=tiles * 64 - 5)
        with (
            mock.patch.object(split_reductions, "TILE", 64),
            mock.patch.object(batched, "RESULTS", 2),
        ):
            kinds, found = on_gpu(total, x)
        assert "count" in kinds
        assert found == tree(x)
