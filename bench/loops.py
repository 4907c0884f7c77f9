"""Loop nests: Weft beside NumPy, its BLAS, and Numba, and their first calls."""

from __future__ import annotations

import copy
import functools
import importlib.util
import os
import time
import traceback
import warnings
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from types import FunctionType, ModuleType
from typing import Any
from unittest import mock

import measure
import native
import numpy as np

import weft as wf
from weft.ops import blas

PROGRAMS = Path(__file__).parents[1] / "tests/loops/programs"
LOOPS = {
    "matrix_product": ("dense", (512,)), "rank_k": ("dense", (512,)),
    "rank_2k": ("dense", (512,)), "five_point": ("grids", (4000,)),
    "coulombic_potential": ("elements", (700,)), "n_body_step": ("elements", (3000,)),
    "distances": ("elements", (4000,)),
}  # fmt: skip
"""The module and the size of each loop nest, which NumPy would not run as it is."""

SINGLE = "_f32"
"""What ends the name of a loop nest in single precision."""

NAMES = (*LOOPS, *(name + SINGLE for name in LOOPS))
HEADER = [
    "program", "Weft ms", "NumPy / Weft", "BLAS / Weft", "BLAS / no-blas", "Numba / Weft",
    "serial / Weft", "first call s", "NumPy's", "Numba's", "Numba / Weft, first",
]  # fmt: skip
NUMPY = {  # what NumPy's users write for a loop nest
    "matrix_product": lambda a, b, c: np.copyto(c, a @ b),
    "rank_k": lambda a, c, alpha, beta: np.copyto(
        c, np.tril(alpha * (a @ a.T) + beta * c) + np.triu(c, 1)
    ),
    "rank_2k": lambda a, b, c, alpha, beta: np.copyto(
        c, np.triu(alpha * (a @ b.T + b @ a.T) + beta * c) + np.tril(c, -1)
    ),
}  # fmt: skip

BLAS = {  # the library's part of that alone: gemm, syrk, syr2k
    "matrix_product": lambda a, b, c: np.matmul(a, b, out=c),
    "rank_k": lambda a, c, alpha, beta: a @ a.T,
    "rank_2k": lambda a, b, c, alpha, beta: blas.update(c, a, b.T, alpha, beta, "upper", True),
}  # fmt: skip


@functools.cache
def module(name: str) -> ModuleType:
    """The programs that the tests run, from their file."""
    found = importlib.util.spec_from_file_location(f"loop_programs_{name}", PROGRAMS / f"{name}.py")
    assert found is not None
    assert found.loader is not None
    loaded = importlib.util.module_from_spec(found)
    found.loader.exec_module(loaded)
    return loaded


def case(name: str, scale: float) -> tuple[FunctionType, tuple[Any, ...]]:
    """A program and its arguments."""
    precision = {"dtype": np.float32} if name.endswith(SINGLE) else {}
    name = name.removesuffix(SINGLE)
    return program(name, *LOOPS[name], scale, **precision)


def program(
    name: str, room: str, sizes: tuple[int, ...], scale: float, **precision: Any
) -> tuple[FunctionType, tuple[Any, ...]]:
    """A function of a module of the tests, and its arguments for a size, and so many steps."""
    size, *steps = sizes
    function = getattr(module(room), name)
    make = module(room).INPUTS[function]
    return function, make(max(int(size * scale), 8), *steps, **precision)


def numba_(function: FunctionType, parallel: bool) -> Callable[..., Any]:
    """The function as Numba compiles it; what it calls likewise."""
    import numba

    names = dict(function.__globals__)
    for name in function.__code__.co_names:
        inner = names.get(name)
        if inner is wf.prange:
            names[name] = numba.prange
        elif isinstance(inner, FunctionType) and inner.__module__ == function.__module__:
            names[name] = numba_(inner, parallel)
    own = FunctionType(
        function.__code__, names, function.__name__, function.__defaults__, function.__closure__
    )
    return numba.njit(own, parallel=parallel)


class Run:
    """A contender, with arguments of its own, which it writes."""

    def __init__(self, function: Callable[..., Any], arguments: tuple[Any, ...]) -> None:
        self.function = function
        self.given = arguments
        self.used = copy.deepcopy(arguments)

    def __call__(self) -> Any:
        return self.function(*self.used)

    def restore(self) -> None:
        """Undo what calls wrote."""
        for own, given in zip(self.used, self.given, strict=True):
            if isinstance(own, np.ndarray):
                np.copyto(own, given)

    def first(self) -> tuple[float, list[Any]]:
        """Seconds of a call, and all that it gave and wrote."""
        start = time.perf_counter()
        result = self()
        seconds = time.perf_counter() - start
        parts = result if isinstance(result, tuple) else (result,)
        return seconds, [np.copy(part) for part in (*parts, *self.used) if part is not None]


def agree(found: list[Any], expected: list[Any]) -> bool:
    return all(
        np.allclose(a, b, rtol=1e-4, atol=1e-5 * max(1.0, np.abs(b).max(initial=0)), equal_nan=True)
        for a, b in zip(found, expected, strict=True)
    )


def contenders(name: str, scale: float) -> tuple[dict[str, Run], dict[str, float]]:
    """The contenders that give the same, and the seconds of their first calls."""
    function, arguments = case(name, scale)
    makers: dict[str, Callable[[], Callable[..., Any]]] = {
        "Weft": lambda: wf.kernel(function), "Numba": lambda: numba_(function, True),
        "serial": lambda: numba_(function, False),
    }  # fmt: skip
    nest = name.removesuffix(SINGLE)
    if nest in BLAS:
        makers["NumPy"] = lambda: NUMPY[nest]
        makers["no-blas"] = lambda: own_code(function)
    order = ("NumPy", "Weft", "no-blas", "Numba", "serial")
    runs, firsts = tried({label: makers[label] for label in order if label in makers}, arguments)
    if nest in BLAS:
        runs["BLAS"] = Run(BLAS[nest], arguments)
    return runs, firsts


def tried(
    makers: dict[str, Callable[[], Callable[..., Any]]], arguments: tuple[Any, ...]
) -> tuple[dict[str, Run], dict[str, float]]:
    """Those that give what the first of them gives, and the seconds of their first calls."""
    runs: dict[str, Run] = {}
    firsts: dict[str, float] = {}
    expected: list[Any] | None = None
    for label in makers:
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                run = Run(makers[label](), arguments)
                seconds, results = run.first()
        except Exception:
            measure.note(f"  {label}: failed\n{traceback.format_exc(limit=-2)}")
            continue
        if expected is None:
            expected = results
        if not agree(results, expected):
            measure.note(f"  {label}: disagrees, not timed")
            continue
        runs[label], firsts[label] = run, seconds
    return runs, firsts


def own_code(function: FunctionType) -> Callable[..., Any]:
    """The kernel without the library."""
    kernel = wf.kernel(function)

    def run(*arguments: Any) -> Any:
        with wf.config(optimise="no-blas"):
            return kernel(*arguments)

    return run


def run(names: tuple[str, ...], scale: float, rounds: int) -> None:
    print(f"Loop nests, {native.thread_count()} threads; medians of {rounds} "
          "rounds; ratios are medians over rounds. Numba: njit(parallel=True); serial: njit.\n"
          "First calls compile: nothing is in a cache.\n")  # fmt: skip
    with TemporaryDirectory() as folder, mock.patch.dict(os.environ, WEFT_CACHE_DIR=folder):
        rows = _rows(names, scale, rounds)
    print(measure.table(HEADER, rows))


def _rows(names: tuple[str, ...], scale: float, rounds: int) -> list[list[str]]:
    rows = []
    for name in names or NAMES:
        measure.note(name)
        runs, firsts = contenders(name, scale)
        rows.append(row(name, timed(runs, rounds), firsts))
        measure.note("  " + ", ".join(map(": ".join, zip(HEADER[1:], rows[-1][1:], strict=True))))
    return rows


def timed(runs: dict[str, Run], rounds: int) -> measure.Times:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return measure.alternate(runs, rounds, before=lambda label: runs[label].restore())


def row(name: str, times: measure.Times, firsts: dict[str, float]) -> list[str]:
    def over(peer: str, of: str = "Weft") -> str:
        both = peer in times.seconds and of in times.seconds
        return f"{times.ratio(peer, of):.2f}" if both else "-"

    def first(label: str) -> str:
        return f"{firsts[label]:.2f}" if label in firsts else "-"

    both = "Weft" in firsts and "Numba" in firsts
    return [
        name, f"{times.median('Weft') * 1e3:.2f}" if "Weft" in times.seconds else "-",
        over("NumPy"), over("BLAS"), over("BLAS", "no-blas"), over("Numba"), over("serial"),
        first("Weft"), first("NumPy"), first("Numba"),
        f"{firsts['Numba'] / firsts['Weft']:.1f}" if both else "-",
    ]  # fmt: skip
