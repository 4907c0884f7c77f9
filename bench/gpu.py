"""Loop nests on a GPU: Weft beside NumPy, its BLAS and Numba on the CPU, and beside CuPy.

The programs of Garg and Amaral (*A Compilation Framework to Execute Python Numerical-Intensive
Applications in a Hybrid CPU-GPU Execution Environment*, figures 9 to 11), in both precisions; their
N-body kernel is `distances`, beside which stands a step that moves the bodies. All have arrays of
the host and leave their results there, so that copies to the device and back are in all times.
NumPy, Numba and "cpu", which is Weft, have all cores of the CPU.

Then where a call of Weft spends its time, as figure 11 has it. "Compile" is what the first call,
with nothing in a cache, takes longer than a later one: compilers, and memory that is allocated
once. Copies in, copies out and kernels are each the time in which the device has any, by its own
clock; they may run beside each other. "Host" is the rest of the call, when the device has none of
them: it brings results to where they belong, and a library's product (on OpenCL devices that are
processors) is its work too. All calls have the same arrays, which Weft may have page-locked since
they came again; CuPy copies them as they are.
"""

from __future__ import annotations

import functools
import importlib
import importlib.util
import os
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from tempfile import TemporaryDirectory
from types import FunctionType
from typing import Any
from unittest import mock

import loops
import measure
import native
import numpy as np

import weft as wf
from weft.config import settings
from weft.launch.device import find
from weft.runtime.profile import Event, Profile

SIZES = {
    "matrix_product": 3000, "rank_k": 2500, "rank_2k": 2500, "five_point": 8000,
    "coulombic_potential": 2000, "distances": 40_000, "n_body_step": 40_000,
}  # fmt: skip
"""What keeps a GPU busy, and Numba's loops on 16 cores not for more than some seconds.

Rows of powers of two, or nearly, would have the columns of Numba's product share a few cache lines.
"""

NAMES = (*SIZES, *(name + loops.SINGLE for name in SIZES))
PEERS = ("NumPy", "BLAS", "Numba", "CuPy", "cpu")
HEADER = [
    "program", "Weft ms", *(f"{peer} / Weft" for peer in PEERS), "compile s", "in ms", "out ms",
    "kernels ms", "host ms",
]  # fmt: skip
BLOCK = 256 << 20
"""About how many bytes each of CuPy's intermediate arrays has: they are made for some rows."""


# ------------------------------------------------------------ what CuPy's users write


def blocks(count: int, size: int) -> Iterator[slice]:
    """So many rows in blocks; each row has intermediate arrays of so many bytes."""
    each = max(BLOCK // size, 1)
    return (slice(first, first + each) for first in range(0, count, each))


def matrix_product(cp: Any, a: Any, b: Any, c: Any) -> None:
    cp.asnumpy(cp.asarray(a) @ cp.asarray(b), out=c)


def rank_k(cp: Any, a: Any, c: Any, alpha: Any, beta: Any) -> None:
    x, old = cp.asarray(a), cp.asarray(c)
    cp.asnumpy(cp.tril(alpha * (x @ x.T) + beta * old) + cp.triu(old, 1), out=c)


def rank_2k(cp: Any, a: Any, b: Any, c: Any, alpha: Any, beta: Any) -> None:
    x, y, old = cp.asarray(a), cp.asarray(b), cp.asarray(c)
    cp.asnumpy(cp.triu(alpha * (x @ y.T + y @ x.T) + beta * old) + cp.tril(old, -1), out=c)


def five_point(cp: Any, a: Any, b: Any) -> None:
    x = cp.asarray(a)
    around = x[:-2, 1:-1] + x[2:, 1:-1] + x[1:-1, :-2] + x[1:-1, 2:]
    b[1:-1, 1:-1] = cp.asnumpy(0.2 * (x[1:-1, 1:-1] + around))


def coulombic_potential(cp: Any, atoms: Any, spacing: Any, grid: Any) -> None:
    x, y, z, charge = cp.asarray(atoms).T
    energy = cp.asarray(grid)
    down, across = (spacing * cp.arange(count, dtype=grid.dtype) for count in grid.shape)
    dx, dy = across[:, None] - x, down[:, None] - y
    for rows in blocks(len(grid), dx.nbytes):
        squared = dx * dx + (dy * dy + z * z)[rows, None]
        energy[rows] += (charge / cp.sqrt(squared)).sum(axis=-1)
    cp.asnumpy(energy, out=grid)


def distances(cp: Any, x: Any, y: Any, z: Any, total: Any) -> None:
    points = cp.stack([cp.asarray(x), cp.asarray(y), cp.asarray(z)])
    found = cp.empty(total.shape, total.dtype)
    for rows in blocks(len(x), points.nbytes):
        apart = points[:, None, :] - points[:, rows, None]
        found[rows] = cp.sqrt((apart * apart).sum(axis=0)).sum(axis=-1)
    cp.asnumpy(found, out=total)


def n_body_step(cp: Any, x: Any, v: Any, mass: Any, dt: Any, moved: Any) -> None:
    places = cp.ascontiguousarray(cp.asarray(x).T)
    speeds, masses = cp.asarray(v), cp.asarray(mass)
    for rows in blocks(len(x), places.nbytes):
        apart = places[:, None, :] - places[:, rows, None]
        squared = (apart * apart).sum(axis=0) + 0.01
        pull = masses / (squared * cp.sqrt(squared))
        speeds[rows] += (apart * pull).sum(axis=-1).T * dt
    cp.asnumpy(speeds, out=v)
    cp.asnumpy(places.T + speeds * dt, out=moved)


CUPY: dict[str, Callable[..., None]] = {
    function.__name__: function
    for function in (
        matrix_product, rank_k, rank_2k, five_point, coulombic_potential, distances, n_body_step,
    )
}  # fmt: skip
"""Each takes CuPy, then what the loop nest takes."""


# ------------------------------------------------------------ the table


def run(names: tuple[str, ...], scale: float, rounds: int, device: str) -> None:
    """Print the device, as it is measured, and the table."""
    with TemporaryDirectory() as folder:
        caches = dict.fromkeys(("WEFT_CACHE_DIR", "POCL_CACHE_DIR"), folder)  # PoCL has its own
        with mock.patch.dict(os.environ, caches):
            print(header(device, rounds), flush=True)
            rows = [noted(name, scale, rounds, device) for name in names or NAMES]
    print(measure.table(HEADER, rows))


def header(device: str, rounds: int) -> str:
    """What is measured, on what; what is set up once for a device is there then."""
    found = find(device, settings())
    rates = found.rates
    with survived(), wf.config(devices=[device]):
        wf.jit(lambda x: x + 1)(np.zeros(1 << 20, np.float32))
    return (
        f"{found.describe()}; GB/s measured: {rates.copy_in / 1e9:.1f} in, "
        f"{rates.copy_out / 1e9:.1f} out, {rates.memory / 1e9:.0f} in its memory.\n"
        f"CPU: {native.thread_count()} threads. Medians of {rounds} rounds; ratios are medians "
        "over rounds.\nFirst calls compile: nothing is in a cache.\n"
    )


def noted(name: str, scale: float, rounds: int, device: str) -> list[str]:
    """The cells of one program, which are noted at once; dashes where it fails."""
    measure.note(name)
    cells = [name, *"-" * (len(HEADER) - 1)]
    with survived():
        cells = row(name, scale, rounds, device)
    measure.note("  " + ", ".join(map(": ".join, zip(HEADER[1:], cells[1:], strict=True))))
    return cells


@contextmanager
def survived() -> Iterator[None]:
    """What fails within is noted: a program that fails is not the end of the others."""
    try:
        yield
    except Exception:
        measure.note(f"  failed\n{traceback.format_exc()}")


def row(name: str, scale: float, rounds: int, device: str) -> list[str]:
    """The cells of one program."""
    runs, firsts = contenders(name, scale, device)
    if "Weft" not in runs:
        return [name, *"-" * (len(HEADER) - 1)]
    times = loops.timed(runs, rounds)
    weft = times.median("Weft")
    return [
        name, f"{weft * 1e3:.2f}",
        *(f"{times.ratio(peer, 'Weft'):.2f}" if peer in runs else "-" for peer in PEERS),
        f"{firsts['Weft'] - weft:.2f}",
        *(f"{seconds * 1e3:.2f}" for seconds in split(runs["Weft"], rounds, device)),
    ]  # fmt: skip


def contenders(
    name: str, scale: float, device: str
) -> tuple[dict[str, loops.Run], dict[str, float]]:
    """The contenders that give the same, and the seconds of their first calls."""
    nest = name.removesuffix(loops.SINGLE)
    precision = {} if name == nest else {"dtype": np.float32}
    room, _ = loops.LOOPS[nest]
    function, arguments = loops.program(nest, room, (SIZES[nest],), scale, **precision)
    makers: dict[str, Callable[[], Callable[..., Any]]] = {}
    if nest in loops.NUMPY:
        makers["NumPy"] = lambda: loops.NUMPY[nest]
    makers["Numba"] = lambda: loops.numba_(function, True)
    makers["Weft"] = lambda: on(device, function)
    makers["cpu"] = lambda: on("cpu", function)
    if importlib.util.find_spec("cupy"):
        makers["CuPy"] = lambda: functools.partial(CUPY[nest], importlib.import_module("cupy"))
    runs, firsts = loops.tried(makers, arguments)
    if nest in loops.BLAS:
        runs["BLAS"] = loops.Run(loops.BLAS[nest], arguments)
    return runs, firsts


def on(device: str, function: FunctionType) -> Callable[..., Any]:
    """The kernel, on a device alone."""
    kernel = wf.kernel(function)

    def call(*arguments: Any) -> Any:
        with wf.config(devices=[device]):
            return kernel(*arguments)

    return call


def split(weft: loops.Run, rounds: int, device: str) -> list[float]:
    """Seconds of copies in, copies out and kernels, and of the host alone, in one call.

    All are of one call, the middle one by its time of so many in a row.
    """
    calls: list[Profile] = []
    for _ in range(rounds):
        weft.restore()
        measure.settle()
        with wf.profile() as measured:
            weft()
        calls.append(measured)
    middle = sorted(calls, key=lambda call: call.seconds)[rounds // 2]
    queues: dict[str, list[Event]] = {f"{device} {way}": [] for way in ("in", "out", "compute")}
    for event in middle.events:
        if event.queue in queues:
            queues[event.queue].append(event)
    apart = [busy(events) for events in queues.values()]
    return [*apart, middle.seconds - busy([e for events in queues.values() for e in events])]


def busy(events: list[Event]) -> float:
    """Seconds in which any of the events runs."""
    seconds, reached = 0.0, float("-inf")
    for event in sorted(events, key=lambda event: event.start):
        seconds += max(event.end - max(event.start, reached), 0.0)
        reached = max(reached, event.end)
    return seconds
