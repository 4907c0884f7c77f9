"""Programs compiled for a device, and run on it: the first of OpenCL, or the one that is named.

`WEFT_TEST_DEVICE=cuda:0` names another, as `make test-device DEVICE=cuda:0` does.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import nullcontext
from typing import Any
from unittest import mock

import numpy as np
import pytest
from lower.harness import sizes_of

from weft.compiler import compile_segment
from weft.fun import nodes as fun
from weft.launch.device import dialect_of
from weft.plan.launches import Launch
from weft.plan.segment import Segment
from weft.runtime.devices.cuda import CudaDevice, CudaRun
from weft.runtime.devices.opencl import OpenClDevice
from weft.runtime.devices.opencl_runs import OpenClRun
from weft.runtime.devices.others import others
from weft.runtime.devices.runs import KeptLaunches
from weft.runtime.incore import check_bounds, check_collisions, derive

_ASKED = "WEFT_TEST_DEVICE"
NAME = os.environ.get(_ASKED, "opencl:0")
"""The device that tests of devices run on."""

DIALECT = dialect_of(NAME)
"""What programs for it are written in."""

AS_PROCESSOR = (True, False) if DIALECT == "opencl" else (False,)
"""What `is_processor` may be told to be: in OpenCL, forms of kernels are chosen by it at launch."""

COMPOSED = """with (p: DT, q: DT, r: DT, s: DT) {
    let c: DT = multiply(p, r)
    let d: DT = multiply(q, r)
    let e: DT = add(d, s)
    in c, e
  }"""
"""x -> p*x + q, then x -> r*x + s: what scans of recurrences combine by."""

Device = OpenClDevice | CudaDevice

processors_only = pytest.mark.skipif(
    DIALECT != "opencl", reason="forms of kernels that only processors have"
)


def device() -> Any:
    """The device; the test is skipped where it is not here, and fails if it was asked for."""
    found = next((other for other in others() if other.name == NAME), None)
    if found is None:
        (pytest.fail if _ASKED in os.environ else pytest.skip)(f"no {NAME}")
    found.limit = found.default_limit  # which a test before may have lowered
    return found


def opencl_device() -> OpenClDevice:
    """The device, for what is OpenCL's alone."""
    found = device()
    if not isinstance(found, OpenClDevice):
        pytest.skip(f"{found.name} is no device of OpenCL")
    return found


def run_type() -> type[OpenClRun] | type[CudaRun]:
    """What the device's runs are."""
    return OpenClRun if DIALECT == "opencl" else CudaRun


def compiled(program: fun.Program, optimise: str = "") -> Segment:
    """The program as the device's kernels."""
    return compile_segment(program, {}, optimise, DIALECT)


def run(
    on: Device,
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
    on: Device, program: fun.Program, segment: Segment, arguments: Sequence[Any],
    sizes: dict[str, int],
) -> tuple[set[str], list[Any]]:  # fmt: skip
    """The kinds of the kernels that a run launches, and its results."""
    kinds: set[str] = set()
    launch = run_type().launch

    def noted(self: Any, step: Launch, *rest: Any) -> None:
        kinds.add(step.kernel.rstrip("0123456789"))
        launch(self, step, *rest)

    # a GPU's launches are seen only where no list of them is queued by C
    one_by_one = mock.patch.object(KeptLaunches, "of", return_value=None)
    with (
        mock.patch.object(run_type(), "launch", noted),
        one_by_one if DIALECT == "cuda" else nullcontext(),
    ):
        found = run(on, program, segment, arguments, sizes)
    return kinds, found
