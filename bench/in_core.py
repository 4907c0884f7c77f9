"""Programs whose arrays are in memory, at sizes well past the cache."""

from __future__ import annotations

import traceback
from types import ModuleType
from typing import Any

import measure
import native
import numpy as np
import programs

PEERS = ("numpy_", "numba_", "jax_", "numexpr_", "dask_")
CONTENDERS = ("weft", *PEERS, "c")


def label(builder: str) -> str:
    return "C" if builder == "c" else builder.rstrip("_")


def build(program: ModuleType, inputs: tuple[Any, ...], wanted: tuple[str, ...]) -> dict[str, Any]:
    """The contenders that are there and agree with NumPy."""
    reference = np.asarray(program.numpy_(*inputs)()).copy()
    found = {}
    for builder in wanted:
        make = getattr(program, builder, None)
        if make is None:
            continue
        try:
            run = make(*inputs)
            agrees = program.agrees(run(), reference)
        except ImportError as error:
            measure.note(f"  {label(builder)}: skipped ({error})")
            continue
        except Exception:
            measure.note(f"  {label(builder)}: failed\n{traceback.format_exc(limit=-3)}")
            continue
        if agrees:
            found[builder] = run
        else:
            measure.note(f"  {label(builder)}: disagrees with NumPy, not timed")
    return found


def limits() -> tuple[float, float]:
    """GiB/s of a copy (counting reads and writes) and of a sum, on all threads."""
    n = 32 << 20
    x, out = np.ones(n, np.float32), np.ones(n, np.float32)
    times = measure.alternate({
        "copy": lambda: native.call("copy", x, out, n),
        "sum": lambda: native.call("total", x, n, result=native.ctypes.c_double),
    })  # fmt: skip
    return 2 * x.nbytes / times.median("copy") / 2**30, x.nbytes / times.median("sum") / 2**30


def run(
    names: tuple[str, ...], scale: float, rounds: int, wanted: tuple[str, ...] = CONTENDERS
) -> None:
    copy, read = limits()
    print(f"In core, {native.thread_count()} threads. Physical limits: "
          f"copy {copy:.1f} GiB/s (read and written), sum {read:.1f} GiB/s.")  # fmt: skip
    print("Milliseconds (medians); then the median over rounds of time / Weft's time.\n")
    rows = []
    for name in names or programs.NAMES:
        measure.note(name)
        program = programs.load(name)
        inputs = program.inputs(scale)
        contenders = build(program, inputs, wanted)
        times = measure.alternate(contenders, rounds, awake=True)
        rows.append(row(program, inputs, times, wanted))
        del inputs, contenders
    header = ["program", *(label(c) for c in CONTENDERS if c in wanted), "best peer", "C", "GiB/s"]
    print(measure.table(header, rows))
    print("\nbest peer, C: their time over Weft's (0.97 and, where memory bounds, 0.9 are asked)."
          "\nGiB/s: the bytes that any implementation must move, over Weft's time"
          " (over C's where Weft is missing).")  # fmt: skip


def row(
    program: ModuleType, inputs: tuple[Any, ...], times: measure.Times, wanted: tuple[str, ...]
) -> list[str]:
    def ratio(name: str) -> str:
        both = name in times.seconds and "weft" in times.seconds
        return f"{times.ratio(name, 'weft'):.2f}" if both else "-"

    peers = [peer for peer in PEERS if peer in times.seconds]
    best = min(peers, key=times.median, default="")
    cells = [program.TITLE + ("" if program.MEMORY_BOUND else " *")]
    for name in (c for c in CONTENDERS if c in wanted):
        cells.append(f"{times.median(name) * 1e3:.2f}" if name in times.seconds else "-")
    known = "weft" if "weft" in times.seconds else "c" if "c" in times.seconds else best
    rate = program.traffic(*inputs) / times.median(known) / 2**30
    best_cell = f"{ratio(best)} {label(best)}" if best else "-"
    return [*cells, best_cell, ratio("c"), f"{rate:.1f}"]
