"""Inputs that boxes would decode many times are read once, into a scratch file."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import weft as wf

RNG = np.random.default_rng(8)
CUBE = RNG.normal(size=(12, 256, 256))  # 6 MiB
WIDE = RNG.normal(size=(40, 40_000))  # 12 MiB; 32 rows are one tile of what is summed


ONCE = "read once, to a scratch file"


def of_file(tmp_path: Path, array: Any, chunks: tuple[int, ...]) -> wf.Array:
    """An array of chunks that are decoded whole."""
    h5py = pytest.importorskip("h5py")
    path = tmp_path / "x.h5"
    with h5py.File(path, "w") as file:
        file.create_dataset("x", data=array, chunks=chunks, shuffle=True)
    return wf.open(f"{path}::x")


def mean(x: Any) -> Any:
    return wf.mean(x, axis=0)


def ordered(x: Any) -> Any:
    return wf.sort(x, axis=0)


@pytest.mark.parametrize("function", [mean, ordered])
def test_layers_are_decoded_once(function: Callable[[Any], Any], tmp_path: Path) -> None:
    result = function(of_file(tmp_path, CUBE, (1, 256, 256)))
    with wf.config(memory_limit="27 MiB"):
        plan = wf.explain(wf.store, result, tmp_path / "y.npy")
        wf.store(result, tmp_path / "y.npy")
    assert ONCE in str(plan)
    assert plan.bytes_moved < 2.1 * CUBE.nbytes
    found = np.load(tmp_path / "y.npy")
    np.testing.assert_array_equal(found, function(wf.asarray(CUBE)).numpy())


def test_what_boxes_suit_is_not_copied(tmp_path: Path) -> None:
    result = mean(of_file(tmp_path, CUBE, (12, 8, 256)))
    with wf.config(memory_limit="27 MiB"):
        plan = wf.explain(wf.store, result, tmp_path / "y.npy")
    assert ONCE not in str(plan)
    assert plan.bytes_moved < 1.2 * CUBE.nbytes


def test_what_is_decoded_often_even_so_is_not_copied(tmp_path: Path) -> None:
    """No box of whole chunks fits."""
    square = CUBE[0].repeat(4, axis=0).repeat(4, axis=1)
    result = of_file(tmp_path, square, (256, 256)).T + 1
    with wf.config(memory_limit="25 MiB"):
        plan = wf.explain(wf.store, result, tmp_path / "y.npy")
    assert ONCE not in str(plan)
    assert plan.bytes_moved > 4 * square.nbytes


def test_tiles_that_do_not_fit_into_buffers(tmp_path: Path) -> None:
    wf.store(wf.asarray(WIDE), tmp_path / "x.zarr", chunks=(10, 40_000))
    result = wf.sum(wf.open(tmp_path / "x.zarr"), axis=0)
    with wf.config(memory_limit="32 MiB"):
        assert ONCE in str(wf.explain(wf.store, result, tmp_path / "y.npy"))
        wf.store(result, tmp_path / "y.npy")
    expected = wf.sum(wf.asarray(WIDE), axis=0).numpy()
    np.testing.assert_array_equal(np.load(tmp_path / "y.npy"), expected)
