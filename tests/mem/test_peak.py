"""The predicted peak is what the allocator sees, and merging never makes it larger.

The pool counts what a call takes: workspace and results. In core the prediction is exact.
"""

from __future__ import annotations

import math
import weakref
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest
from applications.case import Case
from applications.test_applications import computed, first_cases
from mem.programs import CASES
from mem.test_introduce import sizes_of
from programs.library import EXAMPLES, SIZES
from slow import every_second

from weft.compiler import compile_segment, with_memory
from weft.fun import nodes as fun
from weft.fun import walk
from weft.launch.device import device
from weft.mem.place_blocks import peak_bytes, place_blocks
from weft.passes.pipeline import optimise
from weft.runtime import incore
from weft.runtime.incore import HostStep, InCore, SegmentStep

THREADS = 2


class CountingPool:
    """A pool that knows how many bytes are taken from it, workspace and arrays alike."""

    def __init__(self) -> None:
        self.now = self.peak = 0

    def empty(self, shape: tuple[int, ...], dtype: Any) -> Any:
        count = math.prod(shape) * np.dtype(dtype).itemsize
        array = np.ndarray(shape, dtype, bytearray(count))
        self._take(count)
        weakref.finalize(array, self._take, -count)
        return array

    @contextmanager
    def workspace(self, count: int, beside: Any = ()) -> Iterator[int]:
        memory = np.empty(count + 64, np.uint8)
        address = memory.ctypes.data
        self._take(count)
        yield address + -address % 64
        self._take(-count)

    def _take(self, count: int) -> None:
        self.now += count
        self.peak = max(self.peak, self.now)


def seen(
    program: fun.Program, arguments: Sequence[Any], sizes: Mapping[str, int], without: str
) -> int:
    """The bytes that a call takes; they are as predicted from the segment and its memory."""
    segment = compile_segment(program, {}, without)
    names = tuple(param.name for param in program.params)
    results = tuple(slot.name for slot in segment.results)
    step = SegmentStep(segment, lambda: device.load(segment), names, results)
    values = {**sizes, "threads": THREADS}
    steps = InCore([step], values, results)
    inputs = {
        param.name: np.ascontiguousarray(argument, param.type.dtype.numpy).reshape(
            np.shape(argument)
        )
        for param, argument in zip(program.params, arguments, strict=True)
    }
    pool = CountingPool()
    steps.call(inputs, pool, THREADS)  # type: ignore[arg-type]
    assert pool.peak == steps.peak_bytes
    memory = with_memory(program, {}, without)
    for derived in memory.program.derived:
        values[derived.name] = derived.evaluate(values)
    # Lowering adds a line, and one for each number that threads share, after whole ones.
    lines, rest = divmod(pool.peak - peak_bytes(memory).evaluate(values), 64)
    assert rest in (0, -place_blocks(memory).workspace.evaluate(values) % 64)
    assert 1 <= lines <= 1 + len(list(walk.statements(program.body))) * 2
    return pool.peak


def known_sizes(
    program: fun.Program, arguments: Sequence[Any], given: Mapping[str, int]
) -> dict[str, int]:
    sizes = {name: given[name] for name in program.sizes if name in given}
    for param, argument in zip(program.params, arguments, strict=True):
        for size, extent in zip(walk.type_sizes(param.type), np.shape(argument), strict=True):
            if size.variable is not None:
                sizes[size.variable] = extent
    return sizes


@pytest.fixture(autouse=True)
def _all_from_the_pool(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(incore, "SMALL", 0)


@pytest.mark.parametrize(
    "name", every_second(name for name in EXAMPLES if not name.startswith("call_"))
)
def test_library(name: str) -> None:
    example = EXAMPLES[name]
    program, arguments = optimise(example.program), example.arguments()
    sizes = known_sizes(program, arguments, SIZES)
    merged, apart = (seen(program, arguments, sizes, w) for w in ("", "no-merge"))
    assert merged <= apart


@pytest.mark.parametrize("name", CASES)
def test_hand_built(name: str) -> None:
    program, arguments = CASES[name]()
    sizes = known_sizes(program, arguments, sizes_of(name))
    merged, apart = (seen(program, arguments, sizes, w) for w in ("", "no-merge"))
    assert merged <= apart
    assert merged < apart or name != "chain"


@first_cases
def test_applications(case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    peaks: list[tuple[int, int]] = []  # predicted, seen
    call = InCore.call

    def watched(steps: InCore, inputs: Any, pool: Any, threads: int, out: Any = None) -> Any:
        counting = CountingPool()
        values = call(steps, inputs, counting, threads, out)  # type: ignore[arg-type]
        peaks.append((steps.peak_bytes, counting.peak))
        return values

    monkeypatch.setattr(InCore, "call", watched)
    totals = []
    for without in ("", "no-merge"):
        peaks.clear()
        computed(case, interpret_below=0, threads=THREADS, optimise=without)
        assert peaks
        assert all(predicted == found for predicted, found in peaks)
        totals.append(max(found for _, found in peaks))
    assert totals[0] <= totals[1]


def test_each_result_of_a_library_call_counts_until_its_own_last_use() -> None:
    """Not as long as the first of them."""
    factors = HostStep(("x",), ("left", "right"), lambda sizes: _unused, lambda sizes: (10, 1000))
    product = HostStep(("right",), ("y",), lambda sizes: _unused, lambda sizes: (500,))
    assert InCore([factors, product], {}, ["y"]).peak_bytes == 1500


def _unused(values: Any, out: Any) -> Any:
    raise AssertionError("nothing is run")
