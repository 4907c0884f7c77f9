"""What the memory passes are worth: Weft with and without short-circuiting, beside C by hand."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any
from unittest import mock

import applications
import measure
import native
import numpy as np

import weft as wf
from weft.frontend.containers import flatten
from weft.launch import Direct
from weft.runtime.incore import InCore
from weft.runtime.memory import host_pool

GOLDEN = Path(__file__).parents[1] / "tests/golden/applications/test_applications"
WEFT, PLAIN, C = "Weft", "without", "C"
CONTRACTED, GCC = "Weft, contracted", "C, contracted"
HEADER = [
    "program", "Weft ms", "without / with", "thesis, on GPUs", "C / Weft: same rounding",
    "contracted", "allocations", "copies", "bytes moved", "peak predicted", "seen", "unmerged",
]  # fmt: skip
NOTES = """
without: Weft with wf.config(optimise="no-short-circuit"). C: by hand, with OpenMP.
same rounding: C compiled with -ffp-contract=off, beside Weft as it is: each product is rounded.
contracted: C as gcc compiles it, beside Weft with wf.config(optimise="contract"): products that are
added are rounded with the sum, by fma.
allocations, copies, bytes moved: with, of without, as counted for the test's small case.
peak: MiB allocated in one call, as predicted and as the allocator saw; unmerged: as it saw with
wf.config(optimise="no-merge")."""


def contenders(
    program: ModuleType, inputs: Mapping[str, Any]
) -> dict[str, Callable[[], list[np.ndarray]]]:
    """Weft, Weft without short-circuiting, and C, each giving the results as arrays.

    Where there is C, both also contracted.
    """

    def weft(optimise: str) -> list[np.ndarray]:
        with wf.config(optimise=optimise):
            return results_of(program, inputs)

    def uncontracted() -> list[np.ndarray]:
        with native.uncontracted():
            return arrays(program.c(inputs))

    found = {WEFT: lambda: weft(""), PLAIN: lambda: weft("no-short-circuit")}
    if hasattr(program, "c"):
        found[C] = uncontracted
        found[CONTRACTED] = lambda: weft("contract")
        found[GCC] = lambda: arrays(program.c(inputs))
    return found


def results_of(program: ModuleType, inputs: Mapping[str, Any]) -> list[np.ndarray]:
    """Weft's results."""
    if hasattr(program, "weft"):
        return arrays(program.weft(inputs))
    function, arguments = program.program(inputs)
    return arrays(function(*arguments))


def arrays(result: Any) -> list[np.ndarray]:
    leaves: list[Any] = []
    flatten(result, leaves)
    return [np.asarray(leaf) for leaf in leaves]


def agree(found: Sequence[np.ndarray], expected: Sequence[np.ndarray], tolerance: float) -> bool:
    """Same shapes; integers equal, floats close relative to the largest value."""
    for a, b in zip(found, expected, strict=True):
        if a.shape != b.shape:
            return False
        if a.dtype.kind in "biu" and b.dtype.kind in "biu":
            if not np.array_equal(a, b):
                return False
        elif b.size:
            size = max(float(np.abs(b).max()), 1e-30)
            if not float(np.abs(a.astype(np.float64) - b).max()) <= tolerance * size:
                return False
    return True


# ---------------------------------------------------------------- memory


@dataclass
class Peak:
    """Bytes that were promised to be the most allocated, and those that were."""

    predicted: int
    seen: int


def peak(run: Callable[[], object]) -> Peak:
    """The peak of one call, by the plan in core and by the allocator."""
    pool = host_pool()
    predicted = 0
    call = InCore.call

    def noted(self: InCore, *arguments: Any, **named: Any) -> Any:
        nonlocal predicted
        predicted = max(predicted, self.peak_bytes)
        return call(self, *arguments, **named)

    run()  # compiled, and what earlier calls left has died
    pool.trim()  # a free block that is reused may be larger than what is asked
    before = pool.live
    pool.peak = before
    # Repeated calls of one segment take a shorter way, which knows of no plan.
    shorter = mock.patch.object(Direct, "call", return_value=None)
    with mock.patch.object(InCore, "call", noted), shorter:
        run()
    return Peak(predicted, pool.peak - before)


def counted(name: str) -> list[str]:
    """Allocations, copies and bytes moved, of the golden file of the program's case."""
    path = GOLDEN / f"test_golden_costs-{name}.txt"
    if not name or not path.exists():
        return ["-"] * 3
    counts = {}
    for line in path.read_text().splitlines()[1:]:
        label, *values = line.replace(",", "").split()
        counts[label] = [int(value) for value in values]
    moved = [sum(both) for both in zip(counts["read_bytes"], counts["written_bytes"], strict=True)]
    return [
        "{} of {}".format(*counts["allocations"]), "{} of {}".format(*counts["copies"]),
        f"{moved[0] / max(moved[1], 1):.0%}",
    ]  # fmt: skip


def mebibytes(count: float) -> str:
    return f"{count / 2**20:.1f}"


# ---------------------------------------------------------------- the table


def run(names: tuple[str, ...], scale: float, rounds: int) -> None:
    print(f"Memory passes, {native.thread_count()} threads; times are medians of {rounds} rounds,"
          " ratios medians over rounds.\n")  # fmt: skip
    rows = []
    for name in names or applications.NAMES:
        measure.note(name)
        program = applications.load(name)
        try:
            rows.append(row(program, scale, rounds))
        except Exception:
            measure.note(f"  failed\n{traceback.format_exc(limit=-3)}")
    print(measure.table(HEADER, rows) + "\n" + NOTES)


def agreeing(program: ModuleType, scale: float) -> set[str]:
    """The contenders whose results are Weft's: to the bit, or for C, and contracted, nearly."""
    runs = contenders(program, getattr(program, "checked", program.inputs)(scale))
    expected = runs[WEFT]()
    rounding = getattr(program, "TOLERANCE", 1e-4)
    tolerances = {name: 0.0 if name in (WEFT, PLAIN) else rounding for name in runs}
    found = {name for name, call in runs.items() if agree(call(), expected, tolerances[name])}
    for name in runs.keys() - found:
        measure.note(f"  {name}: disagrees with Weft, not timed")
    return found


def row(program: ModuleType, scale: float, rounds: int) -> list[str]:
    wanted = agreeing(program, scale)
    inputs = program.inputs(scale)
    runs = {name: call for name, call in contenders(program, inputs).items() if name in wanted}
    times = measure.alternate(runs, rounds)

    def ratio(name: str, of: str = WEFT) -> str:
        return f"{times.ratio(name, of):.2f}" if {name, of} <= times.seconds.keys() else "-"

    merged = peak(lambda: results_of(program, inputs))
    with wf.config(optimise="no-merge"):
        unmerged = peak(lambda: results_of(program, inputs))
    return [
        program.TITLE, f"{times.median(WEFT) * 1e3:.2f}", ratio(PLAIN), program.THESIS or "-",
        ratio(C), ratio(GCC, CONTRACTED), *counted(getattr(program, "CASE", "")),
        mebibytes(merged.predicted), mebibytes(merged.seen), mebibytes(unmerged.seen),
    ]  # fmt: skip
