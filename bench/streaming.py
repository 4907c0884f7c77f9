"""Data through a device: at once, in boxes though it fits, and in boxes under a cap.

The programs of van Beurden and Scholz (*On Generating Out-Of-Core GPU Code for Multi-Dimensional
Array Operations*, figures 17 and 18), a vector addition and a 3-point stencil, repeated; and a
matrix product. Copies to the device and back are in all times. "At once" has no cap and one
slot: a copy in, the launches, a copy out. "In boxes" has no cap, and Weft chooses. "Capped" has
a part of the memory that the arrays take. Each is timed just after two calls of its own: what
memory the device keeps differs between them. A box costs the host about 0.1 ms (queueing its copies
and launches, seeing its end), which small products show: a box under 1/8 of their memory computes
for 0.05 ms where n = 512, for 2 ms where n = 2048. Ratios are of throughputs (at once is 1), the
median over rounds; those of processor time beside them are what a busy machine disturbs least.

The last two columns are of the best of "in boxes" and "at once": what the link needs for the bytes
that are copied as a part of the time, where those of the direction that takes less are copied
beside the others, at the rates that both have then; and likewise what the device's memory needs for
one reading and one writing of every array in each iteration. Rates are measured by copies of Weft's
own, before.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import measure
import numpy as np

import weft as wf
from weft.config import settings
from weft.launch.device import find
from weft.runtime.devices.protocol import Device

NAMES = ("add", "stencil", "product")
ITERATIONS = (1, 4, 16, 64, 256, 1024, 3883)
TIMES_CAP = (2, 4, 8, 16)
EXTENTS = (512, 1024, 1536, 2048, 3072)
"""Rows and columns of the matrices."""
UPDATES = 1 << 29
"""About how many elements times iterations a row has, so that none takes long."""

ASKED = """
Asked of sums and stencils: in boxes 0.97, through a part of their memory 0.95; of products 0.85.
On a GPU also 0.9 of the link for one iteration, and 0.8 of the memory from 64 on."""

_LEAST, _MOST = 1 << 22, 1 << 23  # elements: a capped device holds a few MiB, not less


def addition(iterations: int) -> Callable[..., Any]:
    """c = a + b + ... + b, a launch for each."""
    return wf.jit(lambda a, b: wf.fori_loop(0, iterations, lambda k, x: x + b, a))


def stencil(iterations: int) -> Callable[..., Any]:
    """Means of three neighbours, again and again."""
    third = np.float32(1 / 3)

    def step(k: Any, x: Any) -> Any:
        return wf.stencil(lambda s: (s[-1] + s[0] + s[1]) * third, x, boundary="edge")

    return wf.jit(lambda a: wf.fori_loop(0, iterations, step, a))


def product() -> Callable[..., Any]:
    """A matrix product that the device computes."""
    return wf.jit(lambda a, b: (a[:, None, :] * b.T[None, :, :]).sum(axis=-1))


def rows(name: str, scale: float) -> list[tuple[str, int, Callable[..., Any], list[Any]]]:
    """For each row its title, how many arrays the device has, the program and its arguments."""
    rng = np.random.default_rng(1)
    if name == "product":
        program = product()
        extents = [int(extent * scale**0.5) for extent in EXTENTS]
        return [
            (f"product {n}", 3, program, list(rng.random((2, n, n), np.float32))) for n in extents
        ]
    found = []
    for iterations in ITERATIONS:
        count = int(min(max(UPDATES // iterations, _LEAST), _MOST) * scale)
        a, b = rng.random(count, np.float32), rng.random(count, np.float32) * np.float32(1e-3)
        program = addition(iterations) if name == "add" else stencil(iterations)
        arguments = [a, b] if name == "add" else [a]
        title = f"{name} x{iterations}, {count * 4 / 2**20:.0f} MiB"
        found.append((title, len(arguments) + 1, program, arguments))
    return found


def run(names: tuple[str, ...], scale: float, rounds: int, device: str, chosen: list[str]) -> None:
    """Print for each row, when it is there, the throughputs beside that of all data at once."""
    header = ["", "at once ms", "in boxes", "(cpu)"]
    for times in TIMES_CAP:
        header += [f"1/{times}", "(cpu)"]
    header += ["of link", "of memory"]
    found = find(device, settings())
    rates = found.rates
    print(
        f"{found.describe()}; ratios of throughput, at once = 1; GB/s: {rates.copy_in / 1e9:.1f} "
        f"in, {rates.copy_out / 1e9:.1f} out, {rates.duplex:.2f} of these both at once, "
        f"{rates.memory / 1e9:.0f} of memory"
    )
    print(_line(["", *header[1:]]))
    for name in names or NAMES:
        for title, arrays, program, arguments in rows(name, scale):
            if chosen and title.split()[1].strip("x,") not in {c.removeprefix("x") for c in chosen}:
                continue
            measure.note(title)
            size = arrays * arguments[0].nbytes
            contenders = {"at once": {"slots": 1}, "in boxes": {}}
            for times in (8,) if name == "product" else TIMES_CAP:
                contenders[f"1/{times}"] = {"memory_limit": {device: size // times}}
            launches = 0 if name == "product" else int(title.split()[1].strip("x,"))
            cells = row(program, arguments, found, contenders, rounds, launches * size)
            print(_line([title, *cells]), flush=True)
    print(ASKED)


def _line(cells: list[str]) -> str:
    return cells[0].ljust(24) + "".join(cell.rjust(11) for cell in cells[1:])


def row(
    program: Callable[..., Any], arguments: list[Any], device: Device,
    contenders: dict[str, dict[str, Any]], rounds: int, touched: int,
) -> list[str]:  # fmt: skip
    """The cells of one program, whose iterations touch so many bytes together."""
    processor: dict[str, list[float]] = {name: [] for name in contenders}

    def call(name: str) -> Any:
        def one() -> Any:
            start = time.process_time()
            with wf.config(devices=[device.name], **contenders[name]):
                result = program(*arguments)
            processor[name].append(time.process_time() - start)
            return result

        return one

    expected = call("at once")()
    for name in contenders:
        if not np.array_equal(call(name)(), expected):
            raise AssertionError(f"{name} gives another result")

    times = measure.alternate({name: call(name) for name in contenders}, rounds, awake=True)
    cells = [f"{times.median('at once') * 1e3:.1f}"]
    for name in ("in boxes", *(f"1/{times_cap}" for times_cap in TIMES_CAP)):
        if name not in contenders:
            cells += ["-", "-"]
            continue
        cells.append(f"{1 / times.ratio(name, 'at once'):.2f}")
        cells.append(f"{min(processor['at once']) / min(processor[name]):.2f}")
    seconds = min(times.median("at once"), times.median("in boxes"))
    before = replace(device.statistics)
    call("in boxes")()
    into = device.statistics.bytes_in - before.bytes_in
    out = device.statistics.bytes_out - before.bytes_out
    linked = device.rates.copying(into, out)
    return [
        *cells, f"{linked / seconds:.2f}",
        f"{touched / device.rates.memory / seconds:.2f}" if touched else "-",
    ]
