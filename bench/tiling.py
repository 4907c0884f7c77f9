"""Nests over several parallel axes on a device too small for them, in tiles and along one axis.

Each row has a cap under which boxes along one axis do not fit, or have wide halos. Bytes are those
copied to and from the device, counted by it; times are medians of alternated calls with all copies.
Ratios are of boxes along one axis to tiles.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from unittest import mock

import measure
import numpy as np

import weft as wf
from weft.config import settings
from weft.errors import MemoryLimitError
from weft.launch.device import find

NAMES = ("product", "distances", "tables", "cubes")


def product() -> Callable[..., Any]:
    """c[i, j] = sum_k a[i, k] b[k, j]"""
    return wf.jit(lambda a, b: (a[:, None, :] * b.T[None, :, :]).sum(axis=-1))


def distances() -> Callable[..., Any]:
    """c[b, i, j] = sum_k (x[b, i, k] - y[b, j, k])^2"""
    return wf.jit(lambda x, y: ((x[:, :, None, :] - y[:, None, :, :]) ** 2).sum(axis=-1))


def tables() -> Callable[..., Any]:
    """c[i, j, k] = a[i, j] b[j, k] + d[i, k]"""
    return wf.jit(lambda a, b, d: a[:, :, None] * b[None, :, :] + d[:, None, :])


def cubes(reach: int) -> Callable[..., Any]:
    """Sums of the elements so far away along all axes of a 3-D array."""

    def at(s: Any) -> Any:
        total = s[0, 0, 0]
        for by in (-reach, reach):
            total = total + s[by, 0, 0] + s[0, by, 0] + s[0, 0, by]
        return total

    return wf.jit(lambda x: wf.stencil(at, x, boundary="edge"))


def row(name: str, scale: float) -> tuple[str, Callable[..., Any], list[Any], int]:
    """The title of a row, its program, its arguments and the cap."""
    rng = np.random.default_rng(1)

    def arrays(*shapes: tuple[int, ...]) -> list[Any]:
        return [rng.random([max(int(n * scale), 4) for n in s], np.float32) for s in shapes]

    match name:
        case "product":
            given = arrays((1024, 1024), (1024, 1024))
            return "product, 1/8", product(), given, 3 * given[0].nbytes // 8
        case "distances":
            given = arrays((4, 1024, 64), (4, 1024, 64))
            return "distances, half a batch", distances(), given, given[0].nbytes // 8
        case "tables":
            given = arrays((192, 192), (192, 192), (192, 192))
            return "tables, an operand", tables(), given, given[0].nbytes
        case _:
            given = arrays((160, 160, 160))
            return "3-D stencil, reach 16, 1/6", cubes(16), given, 2 * given[0].nbytes // 6


def run(names: tuple[str, ...], scale: float, rounds: int, device: str) -> None:
    """Print for each row bytes and times, and their ratios."""
    print("".join(["".ljust(28), *(t.rjust(14) for t in (
        "tiles MiB", "one axis MiB", "ratio", "tiles ms", "ratio"
    ))]))  # fmt: skip
    for name in names or NAMES:
        title, program, arguments, cap = row(name, scale)
        measure.note(title)
        print(title.ljust(28) + "".join(
            cell.rjust(14) for cell in cells(program, arguments, device, cap, rounds)
        ), flush=True)  # fmt: skip


def cells(
    program: Callable[..., Any], arguments: list[Any], device: str, cap: int, rounds: int
) -> list[str]:
    """What tiles copy and take, and what boxes along one axis would, where they fit."""
    moved: dict[str, int] = {}
    statistics = find(device, settings()).statistics
    limits = {"tiles": cap, "one axis": cap + 1}  # each has a plan of its own, that is kept

    def call(way: str) -> Any:
        def one() -> Any:
            before = statistics.bytes_in + statistics.bytes_out
            with wf.config(devices=[device], memory_limit={device: limits[way]}):
                result = program(*arguments)
            moved[way] = statistics.bytes_in + statistics.bytes_out - before
            return result

        return one

    expected = call("tiles")()
    try:
        with mock.patch("weft.plan.planner.in_tiles", return_value=None):
            slabs = call("one axis")()
    except MemoryLimitError:
        slabs = None
        del limits["one axis"]
    if slabs is not None and not np.array_equal(slabs, expected):
        raise AssertionError("boxes along one axis give another result")
    times = measure.alternate({way: call(way) for way in limits}, rounds)
    found = [f"{moved['tiles'] / 2**20:.1f}"]
    if slabs is None:
        return [*found, "do not fit", "", f"{times.median('tiles') * 1e3:.1f}", ""]
    return [
        *found, f"{moved['one axis'] / 2**20:.1f}", f"{moved['one axis'] / moved['tiles']:.2f}",
        f"{times.median('tiles') * 1e3:.1f}", f"{times.ratio('tiles', 'one axis'):.2f}",
    ]  # fmt: skip
