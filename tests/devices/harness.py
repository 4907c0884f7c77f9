"""Programs compiled for a device, and run on the first OpenCL device there is."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from unittest import mock

import numpy as np
import pytest
from lower.harness import sizes_of

from weft.compiler import compile_segment
from weft.fun import nodes as fun
from weft.plan.launches import Launch
from weft.plan.segment import Segment
from weft.runtime.devices.opencl import OpenClDevice, find
from weft.runtime.devices.opencl_runs import OpenClRun
from weft.runtime.incore import check_bounds, check_collisions, derive


def device() -> OpenClDevice:
    """The first OpenCL device; the test is skipped where there is none."""
    pytest.importorskip("pyopencl")
    if not find():
        pytest.skip("no OpenCL device")
    found = find()[0]
    found.limit = found.default_limit  # which a test before may have lowered
    return found


def compiled(program: fun.Program, optimise: str = "") -> Segment:
    """The program as OpenCL kernels."""
    return compile_segment(program, {}, optimise, "opencl")


def run(
    on: OpenClDevice,
    program: fun.Program,
    segment: Segment,
    arguments: Sequence[Any],
    sizes: dict[str, int],
    items: int | None = None,
) -> list[Any]:
    """The results; `items` is how many work items share the memory of items."""
    values = {**sizes_of(program, arguments, sizes), "threads": items or on.items}
    known = derive(values, segment.derived)
    check_bounds(segment.checks, known)
    check_collisions(segment.collisions, known)
    inputs = [np.asarray(a, s.dtype) for a, s in zip(arguments, segment.params, strict=True)]
    results = [
        np.full([max(0, e.evaluate(known)) for e in slot.shape], 99).astype(slot.dtype)
        for slot in segment.results
    ]
    integers = [known[name] for name in segment.integers]
    on.load(segment).start(integers, inputs, results).wait()
    return results


def launched(
    on: OpenClDevice, program: fun.Program, segment: Segment, arguments: Sequence[Any],
    sizes: dict[str, int],
) -> tuple[set[str], list[Any]]:  # fmt: skip
    """The kinds of the kernels that a run launches, and its results."""
    kinds: set[str] = set()
    launch = OpenClRun.launch

    def noted(self: OpenClRun, step: Launch, *rest: Any) -> None:
        kinds.add(step.kernel.rstrip("0123456789"))
        launch(self, step, *rest)

    with mock.patch.object(OpenClRun, "launch", noted):
        found = run(on, program, segment, arguments, sizes)
    return kinds, found
