"""What errors keep, by the frames that they passed, may be looked at: debuggers and pytest do."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from pathlib import Path
from types import FrameType, FunctionType, ModuleType
from typing import Any

import numpy as np
import pytest

import weft as wf
from weft.errors import MemoryLimitError, OutOfBoundsError


def kept(error: BaseException) -> Iterator[np.ndarray]:
    """Every array that can be reached from the frames of an error."""
    left: list[Any] = []
    trace = error.__traceback__
    while trace is not None:
        left += trace.tb_frame.f_locals.values()
        trace = trace.tb_next
    seen = set(map(id, left))
    while left:
        found = left.pop()
        if isinstance(found, np.ndarray):
            yield found
        elif isinstance(found, FunctionType):
            found = found.__closure__
        elif isinstance(found, type | ModuleType | FrameType):
            continue
        for other in gc.get_referents(found):
            if id(other) not in seen:
                seen.add(id(other))
                left.append(other)


def is_within_its_memory(array: np.ndarray) -> bool:
    if not array.size:
        return True
    root: Any = array
    while getattr(root, "base", None) is not None:
        root = root.base
    if not isinstance(root, np.ndarray):
        root = np.frombuffer(root, np.uint8)
    low, high = np.lib.array_utils.byte_bounds(array)
    begin, end = np.lib.array_utils.byte_bounds(root)
    return bool(begin <= low and high <= end)


def check(error: BaseException) -> None:
    arrays = list(kept(error))
    assert arrays
    assert all(map(is_within_its_memory, arrays))


def test_of_a_call_that_is_refused() -> None:
    x = np.random.default_rng(1).random((1000, 1000))
    with wf.config(memory_limit="6 MiB"), pytest.raises(MemoryLimitError) as refused:
        wf.compute(wf.sort(wf.asarray(x).reshape(-1)))
    check(refused.value)


@pytest.mark.parametrize("devices", [["cpu"], ["cpu:0", "cpu:1"]])
def test_of_a_run_that_fails(devices: list[str], tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.random.default_rng(1).random((4000, 500)))
    x = wf.open(tmp_path / "x.npy")
    found = wf.take(x, wf.asarray(np.arange(4000)) * 2, axis=0)
    limits = wf.config(memory_limit="40 MiB", devices=devices)
    with limits, pytest.raises(OutOfBoundsError) as failed:
        wf.store(found + 1, tmp_path / "y.npy")
    check(failed.value)
