"""`weft demo`: make the terrain, analyse it in one streamed pass, check, measure, draw."""

from __future__ import annotations

import math
import os
import shutil
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

import weft as wf
from weft.demo import analysis
from weft.demo.measure import PeakMemory, read_seconds, write_seconds
from weft.demo.picture import draw
from weft.demo.terrain import terrain_shape, write_terrain
from weft.errors import SinkError
from weft.io.publish import unwritable
from weft.plan.protocols import Box

Array = npt.NDArray[Any]
Print = Callable[[str], None]

GIB = 1 << 30
_BYTES_A_CELL = 4 + 4 + 1 + 4  # elevation, slope, hillshade, relief


def demo(gib: float, memory: str, out: str, show: Print = print, progress: bool = False) -> None:
    """Run the demonstration.

    Parameters
    ----------
    gib : float
        Size of the terrain; less is made where the disk has no room for it and its results.
    memory : str
        The limit of what Weft may allocate, such as "256 MiB".
    out : str
        The directory of the terrain, the results and the preview.
    show : callable
        Takes each line of the report.
    """
    try:
        os.makedirs(out, exist_ok=True)
    except OSError as error:
        raise unwritable(out, error) from error
    path = os.path.join(out, "elevation.npy")
    shape = terrain_shape(int(_affordable(gib, out, show) * GIB))
    size = shape[0] * shape[1] * 4
    show(f"Terrain: {shape[0]:,} x {shape[1]:,} float32 cells, {size / GIB:.2f} GiB")
    start = time.perf_counter()
    made = write_terrain(path, shape)
    seconds = time.perf_counter() - start
    show(f"  {'made' if made else 'found and checked'} in {seconds:.1f} s: {path}")

    results, seconds, peak = _run(path, memory, out, show, progress)
    _report(path, results, seconds, peak, memory, show)
    dem = np.load(path, mmap_mode="r")
    _report_check(dem, results, show)
    preview = os.path.join(out, "hillshade.png")
    try:
        draw(preview, dem, results)
    except OSError as error:
        raise unwritable(preview, error) from error
    show(f"\nPreview: {preview}")


def _affordable(gib: float, out: str, show: Print) -> float:
    """The size that the disk has room for, results included."""
    there = sum(
        os.path.getsize(os.path.join(out, name))
        for name in os.listdir(out)
        if name.endswith(".npy")
    )
    free = shutil.disk_usage(out).free + there - GIB // 2
    room = free * 4 / _BYTES_A_CELL / 2 / GIB  # twice: old results stay until new ones are whole
    if room >= gib:
        return gib
    if room < 0.001:
        raise SinkError(
            f"{out} has {free / GIB:.1f} GiB free", f"{gib * _BYTES_A_CELL / 4 + 0.5:.1f} GiB",
            "free some space, or name another directory with --out",
        )  # fmt: skip
    show(f"The disk has room for {room:.2f} GiB of terrain and its results, not for {gib:g} GiB")
    return room


def _run(
    path: str, memory: str, out: str, show: Print, progress: bool
) -> tuple[dict[str, Any], float, int | None]:
    """Analyse the terrain; results, seconds, and the peak of anonymous memory."""
    names = list(analysis.analyse(wf.open(path)))
    targets: dict[str, Any] = {name: os.path.join(out, f"{name}.npy") for name in analysis.MAPS}
    with PeakMemory() as watched, wf.config(memory_limit=memory):
        start = time.perf_counter()
        lazy = analysis.analyse(wf.open(path))
        for name in names:
            if name not in targets:
                targets[name] = np.empty(lazy[name].shape, lazy[name].dtype)
        show("\nThe plan\n")
        show(str(_explain(lazy)))
        planned = time.perf_counter() - start
        start = time.perf_counter()
        wf.store([lazy[n] for n in names], [targets[n] for n in names], mode="w", progress=progress)
        seconds = time.perf_counter() - start
    show(f"Planned and compiled in {planned:.2f} s, ran in {seconds:.2f} s")
    results = {
        name: np.load(target, mmap_mode="r") if isinstance(target, str) else target
        for name, target in targets.items()
    }
    return results, seconds, watched.peak


class _Announced:
    """A sink for a plan that will not run: where a result would go."""

    chunks: tuple[int, ...] | None = None

    def __init__(self, name: str, array: Any) -> None:
        self._name, self.shape, self.dtype = f"{name}.npy", array.shape, array.dtype

    def direct(self) -> Array | None:
        return None

    def write(self, box: Box, data: Array) -> None:
        raise SinkError(f"{self._name} is only announced")

    def done(self, box: Box) -> bool:
        return False

    def finish(self) -> None: ...

    def abort(self) -> None: ...

    def describe(self) -> str:
        return self._name


def _explain(lazy: dict[str, Any]) -> Any:
    """The plan that `wf.store` will follow."""
    from weft import execute
    from weft.plan.explain import Explanation

    sinks = [
        _Announced(name, array) if name in analysis.MAPS else None for name, array in lazy.items()
    ]
    return Explanation(execute.plan_nodes([array._node for array in lazy.values()], sinks))


def _report(
    path: str, results: dict[str, Any], seconds: float, peak: int | None, memory: str, show: Print
) -> None:  # fmt: skip
    size = os.path.getsize(path)
    written = sum(results[name].nbytes for name in analysis.MAPS)
    cells = results["slope"].size
    mean = float(results["sum"]) / cells
    deviation = math.sqrt(max(0.0, float(results["sum_of_squares"]) / cells - mean * mean))
    read = min(read_seconds(path) for _ in range(3))
    write = write_seconds(os.path.dirname(path), written)
    gib, out = size / GIB, written / GIB
    show("\nMeasured")
    show(f"  analysis       {gib / seconds:6.2f} GiB/s of terrain, {out:.2f} GiB written meanwhile")
    show(f"  a plain read   {gib / read:6.2f} GiB/s of the same file")
    show(f"  a plain write  {out / write:6.2f} GiB/s of as many bytes as the results have")
    show(f"  together       {seconds / (read + write):6.2f} times a plain read and a plain write")
    if peak is not None:
        show(f"  peak memory    {peak / 2**20:6.0f} MiB anonymous, of a limit of {memory}")
    show("\nStatistics")
    show(f"  elevation      {float(results['minimum']):.1f} to {float(results['maximum']):.1f} m")
    show(f"  mean           {mean + analysis.OFFSET:.2f} m, standard deviation {deviation:.2f} m")


def _report_check(dem: Array, results: dict[str, Any], show: Print) -> None:
    worst = analysis.check(dem, results)
    show("\nLargest differences from NumPy, on random windows and rows")
    for name, unit in (("slope", "degrees"), ("hillshade", "of 255"), ("relief", "m"),
                       ("statistics", "m")):  # fmt: skip
        show(f"  {name:<14} {worst[name]:.2g} {unit}")
