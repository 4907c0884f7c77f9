"""What Weft costs when there is little to compute."""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import time

import measure
import numpy as np

IMPORT = "import time; t = time.perf_counter(); import {module}; print(time.perf_counter() - t)"

FIRST_CALL = """
import time
import numpy as np
import weft as wf
a = np.linspace(0.1, 1, 1 << 20, dtype=np.float32).reshape(1024, 1024)
b = a[::-1].copy()

def program(x, y):
    # 20 operations, with two reductions among them
    d = x - y
    s = x + y
    q = d * d + s * s
    r = wf.sqrt(q) + wf.exp(-q)
    m = wf.mean(r, axis=1, keepdims=True)
    c = r - m
    v = wf.sum(c * c, axis=1, keepdims=True)
    n = c / wf.sqrt(v + 1e-6)
    return wf.where(n > 0, n * 2, wf.abs(n)) + wf.tanh(x) * wf.maximum(y, 0.5)

start = time.perf_counter()
wf.jit(program)(a, b)
print(time.perf_counter() - start)
"""

ANY_CALL = """
import numpy as np
import weft as wf
wf.jit(lambda x: x * 2)(np.zeros(1 << 20))
print(0)
"""


def in_process(script: str, **environment: str) -> float:
    """What a fresh Python prints."""
    result = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True,
        env={**os.environ, **environment},
    )  # fmt: skip
    if result.returncode:
        raise RuntimeError(result.stderr.strip().splitlines()[-1])
    return float(result.stdout)


def median(function, repeats: int = 7) -> float:
    return statistics.median(function() for _ in range(repeats))


def import_times() -> list[list[str]]:
    rows = []
    for module, asked in (("weft", "0.300"), ("numpy", "")):
        in_process(IMPORT.format(module=module))
        seconds = median(lambda module=module: in_process(IMPORT.format(module=module)))
        rows.append([f"import {module}", f"{seconds:.3f} s", asked and f"{asked} s"])
    return rows


def cached_calls() -> list[list[str]]:
    rows = []
    x, y = np.arange(64.0), np.arange(64.0)

    def add(function):
        for _ in range(200):
            function(x, y)
        repeats = 2000
        best = []
        for _ in range(9):
            start = time.perf_counter()
            for _ in range(repeats):
                function(x, y)
            best.append((time.perf_counter() - start) / repeats)
        return statistics.median(best) * 1e6

    import weft as wf

    rows.append(["cached call, two small arrays", f"{add(wf.jit(lambda x, y: x + y)):.1f} us",
                 "30.0 us"])  # fmt: skip
    try:
        import jax
    except ImportError:
        return rows
    jax.config.update("jax_enable_x64", True)
    rows.append(["  the same by JAX", f"{add(jax.jit(lambda x, y: x + y)):.1f} us", ""])
    return rows


def first_calls() -> list[list[str]]:
    cold, cached = [], []
    for _ in range(5):
        with tempfile.TemporaryDirectory() as directory:
            in_process(ANY_CALL, WEFT_CACHE_DIR=directory)  # what a machine pays once
            cold.append(in_process(FIRST_CALL, WEFT_CACHE_DIR=directory))
            cached += [in_process(FIRST_CALL, WEFT_CACHE_DIR=directory) for _ in range(3)]
    with tempfile.TemporaryDirectory() as directory:
        first = in_process(FIRST_CALL, WEFT_CACHE_DIR=directory)
    return [
        ["first call, 20 operations, cold", f"{statistics.median(cold):.3f} s", "0.700 s"],
        ["  the machine's very first (finds the compiler, builds the pool)", f"{first:.3f} s", ""],
        ["first call, 20 operations, disk cache", f"{statistics.median(cached) * 1e3:.1f} ms",
         "30.0 ms"],
    ]  # fmt: skip


def run() -> None:
    rows = []
    for part in (import_times, cached_calls, first_calls):
        measure.note(part.__name__.replace("_", " "))
        try:
            rows += part()
        except Exception as error:
            measure.note(f"  failed: {error}")
    print("Overheads (medians).\n")
    print(measure.table(["what", "measured", "asked"], rows))
