"""`wf.empty` is filled by nobody, and all ways to run a program give what was written to it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import weft as wf


@wf.jit
def in_two_parts(x: Any) -> Any:
    """All of it is written, but not by one update."""
    y = wf.empty_like(x)
    return y.at[:5].set(x[:5]).at[5:].set(x[5:] * 2)


@wf.jit
def by_a_loop(x: Any) -> Any:
    """Cells by a round each, of which the later ones read the earlier."""
    y = wf.empty(x.shape, dtype=x.dtype).at[0].set(x[0])
    return wf.fori_loop(1, x.shape[0], lambda k, y: y.at[k].set(y[k - 1] + x[k]), y)


@wf.jit
def in_rows(x: Any) -> Any:
    """Each row has one, which is written in two halves."""
    half = x.shape[1] // 2
    empty = wf.empty(x.shape[1], dtype=x.dtype)
    return wf.map(lambda r: empty.at[:half].set(r[:half]).at[half:].set(r[half:] * 3), x)


@wf.jit
def in_two_columns(x: Any) -> Any:
    half = x.shape[1] // 2
    y = wf.empty_like(x)
    return y.at[:, :half].set(x[:, :half]).at[:, half:].set(x[:, half:] * 3)


def doubled(x: Any) -> Any:
    return np.concatenate([x[:5], x[5:] * 2])


def tripled(x: Any) -> Any:
    half = x.shape[1] // 2
    return np.concatenate([x[:, :half], x[:, half:] * 3], axis=1)


@pytest.mark.parametrize("rows", [7, 20000])  # interpreted, and compiled
def test_what_is_written_is_there(rows: int) -> None:
    x = np.arange(rows, dtype=np.float64)
    assert np.array_equal(in_two_parts(x), doubled(x))
    assert np.array_equal(by_a_loop(x), np.cumsum(x))
    table = np.arange(rows * 6, dtype=np.int32).reshape(rows, 6)
    assert np.array_equal(in_rows(table), tripled(table))


def test_nothing_is_filled() -> None:
    """Where `zeros` stand, and it is not proved that all are overwritten, they are written."""
    x = np.arange(20000.0)
    assert "empty f64" in in_two_parts.lower(x).fun
    assert "broadcast" not in in_two_parts.lower(x).fun


def test_streamed_it_is_made_box_by_box(tmp_path: Path) -> None:
    x = np.arange(4e6).reshape(-1, 8)
    with wf.config(memory_limit="40 MiB"):  # and the array is of 32, the program of 24
        wf.store(in_two_columns(wf.asarray(x)), tmp_path / "y.npy")
    assert np.array_equal(np.load(tmp_path / "y.npy"), tripled(x))


def test_two_are_two() -> None:
    """Each changes its own, also where one was made of the other."""
    y = wf.empty(30000)
    first, second = y.at[:].set(1.0), y.at[:].set(2.0)
    one, two = wf.compute(first, second)
    assert (one == 1).all()
    assert (two == 2).all()


def test_shape_and_dtype() -> None:
    """A dtype is part of the program: one of the same shape is another."""
    for dtype in (np.float32, np.int8, np.complex128, np.bool_):
        found = np.asarray(wf.empty((3, 0, 2), dtype=dtype))
        assert (found.shape, found.dtype) == ((3, 0, 2), dtype)
        assert np.asarray(wf.empty(9, dtype=dtype).at[:].set(dtype(1))).dtype == dtype
    assert np.asarray(wf.empty(())).shape == ()
    assert wf.empty(2).dtype == np.float64
    assert wf.empty_like(np.ones((2, 3), np.int16), dtype=np.uint8).dtype == np.uint8
