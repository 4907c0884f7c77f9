"""Whole NumPy programs as scientists write them: Weft beside NumPy and Numba at its best."""

from __future__ import annotations

import os
from collections.abc import Callable
from tempfile import TemporaryDirectory
from typing import Any
from unittest import mock

import experts
import loops
import measure
import native

import weft as wf

PROGRAMS = {
    "jacobi_1d": ("stencils", (2_000_000, 20)), "jacobi_2d": ("stencils", (1000, 40)),
    "heat_3d": ("stencils", (120, 20)), "fdtd_2d": ("stencils", (1000, 20)),
    "advection": ("stencils", (1_000_000, 20)), "adi": ("stencils", (300, 10)),
    "cavity_flow": ("stencils", (200, 50)), "cholesky": ("algebra", (500,)),
    "gram_schmidt": ("algebra", (300,)), "lu": ("algebra", (400,)),
    "durbin": ("algebra", (4000,)), "covariance": ("algebra", (700,)),
    "correlation": ("algebra", (700,)), "n_body": ("science", (400, 20)),
    "floyd_warshall": ("science", (400,)), "convolution_bias": ("science", (64,)),
    "softmax": ("science", (600,)), "histogram": ("science", (2_000_000,)),
    "mandelbrot": ("science", (500,)), "sparse_matrix_vector": ("science", (20_000,)),
    "contour_integral": ("science", (300,)),
}  # fmt: skip
"""The module, and the size and steps, of each NumPy program."""

NAMES = tuple(PROGRAMS)
NUMBA = ("parallel", "serial", "expert")
HEADER = [
    "program", "Weft ms", "NumPy / Weft", "Numba / Weft", "which", "first call s", "Numba's",
    "Numba / Weft, first",
]  # fmt: skip


def run(names: tuple[str, ...], scale: float, rounds: int) -> None:
    print(f"NumPy programs as they are, {native.thread_count()} threads; medians of {rounds} "
          "rounds; ratios are medians over rounds.\nNumba: the fastest of njit(parallel=True), "
          "njit, and an expert's loops. First calls compile: nothing is in a cache.\n")  # fmt: skip
    with TemporaryDirectory() as folder, mock.patch.dict(os.environ, WEFT_CACHE_DIR=folder):
        rows = []
        for name in names or NAMES:
            measure.note(name)
            runs, firsts = contenders(name, scale)
            rows.append(row(name, loops.timed(runs, rounds), firsts))
            shown = zip(HEADER[1:], rows[-1][1:], strict=True)
            measure.note("  " + ", ".join(map(": ".join, shown)))
    print(measure.table(HEADER, rows))


def contenders(name: str, scale: float) -> tuple[dict[str, loops.Run], dict[str, float]]:
    """Those that give what NumPy gives, and the seconds of their first calls."""
    function, arguments = loops.program(name, *PROGRAMS[name], scale)
    makers: dict[str, Callable[[], Callable[..., Any]]] = {
        "NumPy": lambda: function, "Weft": lambda: wf.kernel(function),
        "parallel": lambda: loops.numba_(function, True),
        "serial": lambda: loops.numba_(function, False),
    }  # fmt: skip
    if name in experts.EXPERTS:
        makers["expert"] = lambda: experts.EXPERTS[name]
    return loops.tried(makers, arguments)


def row(name: str, times: measure.Times, firsts: dict[str, float]) -> list[str]:
    if "Weft" not in times.seconds:
        return [name, *"-" * (len(HEADER) - 1)]
    cells = [name, f"{times.median('Weft') * 1e3:.2f}", f"{times.ratio('NumPy', 'Weft'):.2f}"]
    known = [label for label in NUMBA if label in times.seconds]
    if not known:
        return [*cells, "-", "-", f"{firsts['Weft']:.2f}", "-", "-"]
    best = min(known, key=times.median)
    return [
        *cells, f"{times.ratio(best, 'Weft'):.2f}", best, f"{firsts['Weft']:.2f}",
        f"{firsts[best]:.2f}", f"{firsts[best] / firsts['Weft']:.1f}",
    ]  # fmt: skip
