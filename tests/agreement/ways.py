"""Three ways to run one user program: interpreted, compiled in core, streamed in small boxes."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np

import weft as wf
from weft.plan import planner

Program = Callable[..., Sequence[Any]]
"""Arrays to arrays, through the public functions."""


class Listed:
    """An object that indexes like an array, and so is read box by box."""

    def __init__(self, array: Any) -> None:
        self.array = array
        self.shape = array.shape
        self.dtype = array.dtype

    def __getitem__(self, box: Any) -> Any:
        return self.array[box]


def interpreted(program: Program, inputs: Sequence[Any]) -> list[Any]:
    """The results of the interpreter."""
    with wf.config(interpret_below=1 << 60):
        return _computed(program(*map(wf.asarray, inputs)))


def compiled(program: Program, inputs: Sequence[Any], threads: int = 2) -> list[Any]:
    """The results of compiled code, in core."""
    with wf.config(interpret_below=0, threads=threads):
        return _computed(program(*map(wf.asarray, inputs)))


def saved(folder: Path, *arrays: np.ndarray) -> list[Path]:
    """Files of arrays."""
    paths = [folder / f"in{number}.npy" for number in range(len(arrays))]
    for path, array in zip(paths, arrays, strict=True):
        np.save(path, array)
    return paths


def streamed(
    program: Program,
    inputs: Sequence[Any],
    folder: Path,
    box_bytes: int,
    small: int = 0,
    threads: int = 2,
) -> list[Any]:
    """The results of compiled code on small boxes, from files and objects to files."""
    arrays = []
    for number, value in enumerate(inputs):
        path = folder / f"in{number}.npy"
        if number % 2:
            arrays.append(wf.open(Listed(value)))
        else:
            np.save(path, value)
            arrays.append(wf.open(path))
    targets = []
    with small_boxes(box_bytes, small), wf.config(threads=threads):
        results = list(program(*arrays))
        targets = [folder / f"out{number}.npy" for number in range(len(results))]
        wf.store(results, targets, mode="w")
    return [np.load(target) for target in targets]


@contextmanager
def small_boxes(box_bytes: int, small: int = 0) -> Iterator[None]:
    """Plans made inside have boxes of about so many bytes."""
    plan = functools.partial(planner.plan_program, box_bytes=box_bytes, small=small)
    with mock.patch.object(planner, "plan_program", plan):
        yield


def _computed(results: Sequence[Any]) -> list[Any]:
    values = wf.compute(*results)
    return [values] if len(results) == 1 else list(values)


def assert_equal_bits(found: Sequence[Any], expected: Sequence[Any]) -> None:
    """Assert that arrays are equal bit by bit (any NaN is equal to any other)."""
    for a, b in zip(found, expected, strict=True):
        a, b = np.asarray(a), np.asarray(b)
        assert a.dtype == b.dtype
        assert a.shape == b.shape
        np.testing.assert_array_equal(a, b)
        if a.dtype.kind == "f":
            there = ~np.isnan(a)
            np.testing.assert_array_equal(np.signbit(a)[there], np.signbit(b)[there])
